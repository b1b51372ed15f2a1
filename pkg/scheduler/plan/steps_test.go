package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRecordsInSteps: a change in steps goes on over records that superseded each other, and over
// forced removals beside it, until one is completed or the target came back to what is published.
func TestRecordsInSteps(t *testing.T) {
	const published = "a"
	at := func(minutes time.Duration) *metav1.Time {
		return new(metav1.NewTime(fixture.Now.Add(minutes * time.Minute)))
	}
	with := func(phase berthv1alpha1.ChangePhase, permitted *metav1.Time, to string) func(int64) *berthv1alpha1.PlacementChange {
		return func(revision int64) *berthv1alpha1.PlacementChange {
			record := recordOf(revision, phase, to)
			record.Status.PermittedTime, record.Spec.AddedCount, record.Spec.RemovedCount = permitted, 1, 1
			return record
		}
	}
	forced := func(revision int64) *berthv1alpha1.PlacementChange {
		record := with(berthv1alpha1.PhasePublished, at(0), "x")(revision)
		record.Spec.AddedCount, record.Spec.Forced = 0, []string{"lost"}
		return record
	}
	progressing, superseded := with(berthv1alpha1.PhaseProgressing, at(0), "x"), with(berthv1alpha1.PhaseSuperseded, at(0), "x")
	completed, held := with(berthv1alpha1.PhasePublished, at(0), "x"), with(berthv1alpha1.PhaseHeld, nil, "x")
	type records = []func(int64) *berthv1alpha1.PlacementChange
	for name, tc := range map[string]struct {
		// records have revisions from 1.
		records   records
		open      int64
		unchanged *metav1.Time
		want      []int64
	}{
		"no change":                       {},
		"one in progress":                 {records: records{completed, progressing}, want: []int64{2}},
		"that superseded two":             {records: records{completed, superseded, superseded, progressing}, want: []int64{4, 3, 2}},
		"one before was not permitted":    {records: records{superseded, with(berthv1alpha1.PhaseSuperseded, nil, "x"), progressing}, want: []int64{3, 1}},
		"held":                            {records: records{completed, held}},
		"held, and it is this change":     {records: records{completed, held}, open: 2, want: []int64{2}},
		"completed":                       {records: records{superseded, completed}},
		"completed before the last one":   {records: records{superseded, completed, progressing}, want: []int64{3}},
		"a forced removal beside it":      {records: records{completed, progressing, forced}, want: []int64{3, 2}},
		"two of them":                     {records: records{completed, superseded, forced, forced, progressing}, want: []int64{5, 4, 3, 2}},
		"one between others":              {records: records{superseded, superseded, forced, progressing}, want: []int64{4, 3, 2, 1}},
		"a forced removal alone":          {records: records{completed, forced}},
		"a forced removal before it":      {records: records{completed, forced, progressing}, want: []int64{3}},
		"its last write was lost":         {records: records{superseded, with(berthv1alpha1.PhaseHeld, at(0), published)}},
		"a held one leads there":          {records: records{superseded, with(berthv1alpha1.PhaseHeld, nil, published)}, want: []int64{1}},
		"it came back in between":         {records: records{superseded, progressing}, unchanged: at(1)},
		"it came back before":             {records: records{with(berthv1alpha1.PhaseSuperseded, at(-2), "x"), progressing}, unchanged: at(-1), want: []int64{2}},
		"it came back in the same second": {records: records{progressing}, unchanged: new(metav1.NewTime(fixture.Now.Add(time.Millisecond))), want: []int64{1}},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(lastOf(published)))
			for i, record := range tc.records {
				a.Snapshot.Subject.Records = append(a.Snapshot.Subject.Records, record(int64(i+1)))
			}
			if tc.open > 0 {
				a.Change = &Move{Open: a.Snapshot.Subject.Records[tc.open-1]}
			}
			if tc.unchanged != nil {
				a.Timers.Unchanged = tc.unchanged.Time
			}
			var got []int64
			for _, record := range a.recordsInSteps() {
				got = append(got, record.Spec.Revision)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOriginalOfAFirstChange: there were no clusters before it, which is not unknown.
func TestOriginalOfAFirstChange(t *testing.T) {
	record := recordOf(1, berthv1alpha1.PhaseProgressing, "x")
	record.Spec.Added, record.Spec.AddedCount = []string{"c1"}, 1
	a := planOf(decisionOn(lastOf("c1")))
	a.Snapshot.Subject.Records = []*berthv1alpha1.PlacementChange{record}
	if got := a.original(); got == nil || len(got) > 0 {
		t.Errorf("got %#v", got)
	}
}
