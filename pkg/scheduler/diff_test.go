package scheduler_test

import (
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// TestPagesEditedWhileNoControllerRan: pages are restored without a change if the newest Published
// record leads to the clusters that are selected now.
func TestPagesEditedWhileNoControllerRan(t *testing.T) {
	tests := map[string]struct {
		// pageRevision is what the edited page carries, if not what was written.
		pageRevision string
		cluster      string
		phase        berthv1alpha1.ChangePhase

		wantOutcome plan.Outcome
		want        string
		wantRecords int
	}{
		"the record leads to the selected clusters": {
			phase: berthv1alpha1.PhasePublished, wantOutcome: plan.Unchanged, want: "p-decision-1: c1 c2", wantRecords: 1,
		},
		"a page was published after the record": {
			pageRevision: "2", phase: berthv1alpha1.PhasePublished, wantOutcome: plan.Held, want: "p-decision-1: c1", wantRecords: 2,
		},
		"other clusters are selected": {
			cluster: "c3", phase: berthv1alpha1.PhasePublished, wantOutcome: plan.Held, want: "p-decision-1: c1 c2", wantRecords: 2,
		},
		"the record was not published": {
			phase: berthv1alpha1.PhaseSuperseded, wantOutcome: plan.Held, want: "p-decision-1: c1", wantRecords: 2,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.attemptUntilStable()
			page := d.pages.pages[pageKey("p-decision-1")]
			page.Status.Decisions = page.Status.Decisions[:1]
			if tc.pageRevision != "" {
				page.Annotations[berthv1alpha1.RevisionAnnotation] = tc.pageRevision
			}
			d.records["p-1"].Status.Phase = tc.phase
			d.restart()
			d.require()
			if tc.cluster != "" {
				d.add(tc.cluster)
			}
			if a := d.attemptUntilStable(); a.Outcome != tc.wantOutcome {
				t.Errorf("the outcome is %s, want %s", a.Outcome, tc.wantOutcome)
			}
			if d.published() != tc.want || len(d.records) != tc.wantRecords {
				t.Errorf("published are %q with %d records, want %q with %d", d.published(), len(d.records), tc.want, tc.wantRecords)
			}
		})
	}
}
