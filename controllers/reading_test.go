package controllers

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestReadingDisabledWhileProgressing: scheduling is disabled and enabled again in the middle of a
// change, or after one that was published in part. Nobody edits a page.
//
// Violates architecture.md: the record "stays that of the change while target, generation and
// published clusters, apart from its own steps, are the same"; and history says that pages were
// edited (law "each published change has one record").
func TestReadingDisabledWhileProgressing(t *testing.T) {
	for _, superseded := range []bool{false, true} {
		for _, disabled := range []bool{false, true} {
			h := startSetUpHub(t, hubOptions{})
			inv := h.reconciler.Inventory
			pool := func(value string, names ...string) {
				for _, name := range names {
					inv.Update(fixture.Cluster(name).Set("s1").Label("pool", value).Obj())
				}
			}
			policy := func(spec berthv1alpha1.DisruptionPolicySpec, version string) {
				spec.PlacementSelector = &metav1.LabelSelector{}
				inv.Update(&berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "careful", ResourceVersion: version}, Spec: spec})
			}
			pool("in", "q1", "q2")
			h.place(fixture.Placement("n", "p").Predicate(fixture.MatchLabel("pool", "in")).Obj())
			h.succeed()
			inv.Started()
			policy(berthv1alpha1.DisruptionPolicySpec{MinReadySeconds: 600}, "1")
			pool("out", "q1")
			pool("in", "q3")
			for range 3 {
				h.succeed()
			}
			if superseded {
				policy(berthv1alpha1.DisruptionPolicySpec{MinReadySeconds: 600, Approval: berthv1alpha1.ApprovalRequired}, "2")
				pool("in", "q1", "q4")
				for range 2 {
					h.succeed()
				}
			}
			before := h.recordLines()
			if disabled {
				h.annotate("true")
				h.succeed()
				h.annotate("false")
			}
			for range 3 {
				h.succeed()
			}
			if got := h.recordLines(); strings.Join(got, "\n") != strings.Join(before, "\n") {
				t.Errorf("superseded %t, disabled %t: published is %v, and the records are\n%s\nbefore they were\n%s", superseded, disabled, h.published(), strings.Join(got, "\n"), strings.Join(before, "\n"))
			}
		}
	}
}

// TestReadingPagesWhileAttemptsWait: a user deletes the page of a Placement whose attempts wait.
//
// Violates architecture.md: "While attempts of a Placement must wait, RemoveRevoked only removes
// clusters of lost sets and restores edited pages", guarantees.md: "pages are deleted, edited,
// relabelled: they are restored".
func TestReadingPagesWhileAttemptsWait(t *testing.T) {
	for name, tc := range whyAttemptsWait {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{}, "a", "b")
			h.place(fixture.Placement("n", "p").Obj())
			h.succeed()
			h.checkPublished("a", "b")
			h.reconciler.Inventory.Started()
			tc.begin(h)
			h.reconciler.Inventory.Delete(h.meddle(nil))
			for range 5 {
				h.succeed()
				h.now = h.now.Add(time.Second)
			}
			if got := h.published(); len(got) != 2 {
				t.Errorf("after five seconds %v are published", got)
			}
		})
	}
}
