package plan_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// TestEmptyPage: a Placement for which nothing can be decided gets one, unless clusters were or may
// be published.
func TestEmptyPage(t *testing.T) {
	for name, tc := range map[string]struct {
		placement string
		last      *framework.Published
		pages     []*v1alpha1.PlacementDecision
		want      bool
	}{
		"nothing is published":           {placement: "p", want: true},
		"a decision was published":       {placement: "p", last: &framework.Published{Digest: framework.DigestOf(nil)}},
		"a page has its label":           {placement: "p", pages: []*v1alpha1.PlacementDecision{fixture.Page("ns", "x").Of("p").Obj()}},
		"its name is as long as a label": {placement: strings.Repeat("p", v1alpha1.MaxLabelValueLength), want: true},
		"its name is longer":             {placement: strings.Repeat("p", v1alpha1.MaxLabelValueLength+1)},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(fixture.Placement("ns", tc.placement).Obj())
			snapshot := inv.Snapshot(inventory.Key{Namespace: "ns", Name: tc.placement}, fixture.Now, nil)
			snapshot.Subject.Last, snapshot.Subject.Pages = tc.last, tc.pages
			d := &decide.Decision{
				Snapshot: snapshot, State: framework.NewCycleState(snapshot), Profile: &plugins.Profile{}, Failure: framework.NewStatus(framework.Pending, ""),
			}
			p := plan.Make(t.Context(), d, plan.Input{Limits: &limits.Limits{}})
			if (p.Target != nil) != tc.want {
				t.Errorf("the target is %+v", p.Target)
			}
		})
	}
}

// TestMessageNamesTenClusters at most.
func TestMessageNamesTenClusters(t *testing.T) {
	names := strings.Fields("a b c d e f g h i j k l")
	for n, want := range map[int]string{0: "0 added", 2: "2 added: a b", 10: "10 added: a b c d e f g h i j", 12: "12 added: a b c d e f g h i j and 2 more"} {
		p := &plan.Plan{
			Change:  &plan.Move{Proposal: &framework.Proposal{Revision: 7, Added: names[:n]}},
			Outcome: plan.Denied, Verdict: plan.Verdict{Reason: "x: no"},
		}
		if got := p.Message(); got != "Change 7 ("+want+", 0 removed) is denied by x: no" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
