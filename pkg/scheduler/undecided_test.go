package scheduler_test

import (
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
)

// TestPagesAreRepairedWhileNothingCanBeDecided: while an attempt fails, the last decision stays published, also where somebody else
// changes or deletes its pages.
func TestPagesAreRepairedWhileNothingCanBeDecided(t *testing.T) {
	damages := map[string]func(*v1alpha1.PlacementDecision) bool{
		"a page is deleted": func(*v1alpha1.PlacementDecision) bool { return false },
		"a page is emptied": func(page *v1alpha1.PlacementDecision) bool { page.Status.Decisions = nil; return true },
		"a name is added": func(page *v1alpha1.PlacementDecision) bool {
			page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "c9"})
			return true
		},
	}
	failures := map[string]func(d *desk){
		"misconfigured": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
		},
		"its profile does not exist": func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "none"} })
		},
	}
	for damaged, damage := range damages {
		for failed, fail := range failures {
			t.Run(damaged+", "+failed, func(t *testing.T) {
				d := newDesk(t, ask(), "c1", "c2")
				d.settle()
				fail(d)
				d.attempt()
				d.expect("p-decision-1: c1 c2 |  | ")
				d.meddle("p-decision-1", damage)
				d.attempt()
				d.expect("p-decision-1: c1 c2 |  | ")
				d.pages.writes = nil
				d.attempt()
				if len(d.pages.writes) > 0 {
					t.Errorf("repaired pages were written again: %q", d.pages.writes)
				}
			})
		}
	}
}

// TestNoEmptyPageReplacesAForgottenAnswer: the status says that clusters were published, the pages are gone, and nothing can be decided:
// consumers see no page rather than an empty answer.
func TestNoEmptyPageReplacesAForgottenAnswer(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.settle()
	d.placement.Status.NumberOfSelectedClusters = 1
	d.placement.Status.DecisionGroups = []v1alpha1.DecisionGroupStatus{{Decisions: []string{"p-decision-1"}, ClusterCount: 1}}
	d.placement.Spec.PrioritizerPolicy.Mode = "Fuzzy"
	delete(d.pages.pages, inventory.Key{Namespace: "ns", Name: "p-decision-1"})
	d.restart()
	d.settle()
	d.expect(" |  | ")
}
