package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TestSuperseded: an open record of another change is Superseded. If its target is published, and
// it was permitted or has no status, it is Published: only its last write was lost.
func TestSuperseded(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	record := func(to string, phase berthv1alpha1.ChangePhase, permitted *metav1.Time) *berthv1alpha1.PlacementChange {
		return &berthv1alpha1.PlacementChange{
			Spec:   berthv1alpha1.PlacementChangeSpec{Revision: 2, To: to},
			Status: berthv1alpha1.PlacementChangeStatus{Phase: phase, PermittedTime: permitted},
		}
	}
	const held = berthv1alpha1.PhaseHeld
	tests := map[string]struct {
		record *berthv1alpha1.PlacementChange
		last   *framework.Published
		want   []berthv1alpha1.ChangePhase
	}{
		"held, and not published":              {record: record("t", held, nil), last: &framework.Published{Digest: "other"}, want: []berthv1alpha1.ChangePhase{berthv1alpha1.PhaseSuperseded}},
		"held, and published by another one":   {record: record("t", held, nil), last: &framework.Published{Digest: "t"}, want: []berthv1alpha1.ChangePhase{berthv1alpha1.PhaseSuperseded}},
		"permitted and published":              {record: record("t", held, &now), last: &framework.Published{Digest: "t"}, want: []berthv1alpha1.ChangePhase{berthv1alpha1.PhasePublished}},
		"permitted, and not published":         {record: record("t", held, &now), last: &framework.Published{Digest: "other"}, want: []berthv1alpha1.ChangePhase{berthv1alpha1.PhaseSuperseded}},
		"without status, and published":        {record: record("t", "", nil), last: &framework.Published{Digest: "t"}, want: []berthv1alpha1.ChangePhase{berthv1alpha1.PhasePublished}},
		"without status, and not published":    {record: record("t", "", nil), last: &framework.Published{Digest: "other"}, want: []berthv1alpha1.ChangePhase{berthv1alpha1.PhaseSuperseded}},
		"without status, nothing is published": {record: record("t", "", nil), want: []berthv1alpha1.ChangePhase{berthv1alpha1.PhaseSuperseded}},
		"not open":                             {record: record("t", berthv1alpha1.PhaseRejected, nil), last: &framework.Published{Digest: "t"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := Attempt{Result: resultFor(), Verdict: Verdict{Outcome: Unchanged}}
			a.Snapshot.Subject.Records, a.Snapshot.Subject.Last = []*berthv1alpha1.PlacementChange{tc.record}, tc.last
			var got []berthv1alpha1.ChangePhase
			for _, write := range supersededBy(&a, now) {
				got = append(got, write.Status.Phase)
				if write.Status.CompletionTime == nil {
					t.Error("there is no completion time")
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("phases (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChangeNamesItsQueue: a change names the queue of the Placement, if the queue admitted it.
func TestChangeNamesItsQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		queue *framework.QueueAdmission
		want  string
	}{
		"no queues":    {},
		"admitted":     {queue: &framework.QueueAdmission{Admitted: true, Annotation: "root.a"}, want: "root.a"},
		"not admitted": {queue: &framework.QueueAdmission{Annotation: "root.a"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := Attempt{Result: resultFor()}
			a.Snapshot.Queue = tc.queue
			if got := a.changeOf(&framework.Proposal{}).Queue; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCut: the lowest total that is selected, and the highest that is not.
func TestCut(t *testing.T) {
	totals := []int64{1, 7, 3, 9, 2, 4}
	r := &Result{Totals: totals}
	for i := range totals {
		r.Feasible = append(r.Feasible, framework.NewCluster(&v1alpha1.ManagedCluster{}, i))
	}
	for name, tc := range map[string]struct {
		selected                []int
		wantLowest, wantHighest *int64
	}{
		"some": {selected: []int{1, 3}, wantLowest: new(int64(7)), wantHighest: new(int64(4))},
		"none": {wantHighest: new(int64(9))},
		"all":  {selected: []int{0, 1, 2, 3, 4, 5}, wantLowest: new(int64(1))},
	} {
		t.Run(name, func(t *testing.T) {
			var selected framework.Bitset
			for _, i := range tc.selected {
				selected = selected.Set(i)
			}
			lowest, highest := r.cut(selected)
			if diff := cmp.Diff([]*int64{tc.wantLowest, tc.wantHighest}, []*int64{lowest, highest}); diff != "" {
				t.Errorf("lowest and highest (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRepublishes: a step that wrote nothing is what was published before. If it is the target, the
// generation and the profile that decided must be the same, too.
func TestRepublishes(t *testing.T) {
	same := framework.Published{Digest: "d", Generation: 2, Profile: "default"}
	tests := map[string]struct {
		writes  []framework.PageWrite
		change  func(*framework.Published)
		partial bool
		want    bool
	}{
		"the same":                        {want: true},
		"pages were written":              {writes: []framework.PageWrite{{}}},
		"other clusters":                  {change: func(p *framework.Published) { p.Digest = "other" }},
		"another generation":              {change: func(p *framework.Published) { p.Generation = 1 }},
		"another profile":                 {change: func(p *framework.Published) { p.Profile = "other" }},
		"another generation, no target":   {change: func(p *framework.Published) { p.Generation = 1 }, partial: true, want: true},
		"other clusters, and no target":   {change: func(p *framework.Published) { p.Digest = "other" }, partial: true},
		"the same, although not a target": {partial: true, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := Attempt{Result: resultFor(), Step: &framework.Proposal{Digest: "d", Writes: tc.writes}}
			a.Snapshot.Subject.Placement.Generation = 2
			if !tc.partial {
				a.Target = a.Step
			}
			before := same
			if tc.change != nil {
				tc.change(&before)
			}
			if got := a.republishes(&before); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

// supersededBy returns the records that an attempt ends.
func supersededBy(a *Attempt, now metav1.Time) (records []*berthv1alpha1.PlacementChange) {
	for _, r := range a.superseded(now) {
		records = append(records, changed(r.record, r.change))
	}
	return records
}
