package changes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// noon is when changes of these tests end, unless it is said.
var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// ended is a record whose change ended after noon.
func ended(t *testing.T, revision int64, phase berthv1alpha1.ChangePhase, from, to string, minute int) *berthv1alpha1.PlacementChange {
	record := rec(t, revision, phase, from, to)
	at := metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute))
	record.Status.PermittedTime, record.Status.CompletionTime = &at, &at
	return record
}

// inPart is a Superseded record that left so many of two removals.
func inPart(t *testing.T, revision int64, left int32) *berthv1alpha1.PlacementChange {
	record := ended(t, revision, "Superseded", "ab", "", 0)
	record.Status.Remaining = &berthv1alpha1.RemainingClusters{Removed: left}
	return record
}

func surplusOf(h History, n Needs) []int64 {
	n.Published, n.Generation = berthv1alpha1.Digest(letters("ab")), 1
	return revisions(h.Surplus(&n))
}

func TestSurplus(t *testing.T) {
	var published History
	for i := range int64(5) {
		published = append(published, rec(t, i+1, "Published", "", "a"))
	}
	var many History
	for i := range int64(150) {
		many = append(many, rec(t, i+1, "Held", "", "a"))
	}
	for name, tc := range map[string]struct {
		h      History
		limit  int
		pinned int64
		want   []int64
	}{
		"within the limit":      {h: published, limit: 5, want: []int64{}},
		"the oldest go":         {h: published, limit: 2, want: []int64{1, 2, 3}},
		"a pinned one stays":    {h: published, limit: 2, pinned: 2, want: []int64{1}},
		"others count apart":    {h: History{rec(t, 1, "Superseded", "", "a"), rec(t, 2, "Published", "", "a"), rec(t, 3, "Superseded", "", "a"), rec(t, 4, "Published", "", "a")}, limit: 1, want: []int64{1, 2}},
		"an open one stays":     {h: History{rec(t, 1, "Held", "", "a"), rec(t, 2, "Superseded", "", "a"), rec(t, 3, "Superseded", "", "a")}, limit: 1, want: []int64{2}},
		"rejected that applies": {h: History{rec(t, 1, "Rejected", "ab", "a"), rec(t, 2, "Superseded", "", "a"), rec(t, 3, "Superseded", "", "a")}, limit: 1, want: []int64{2}},
		"rejected from another": {h: History{rec(t, 1, "Rejected", "b", "a"), rec(t, 2, "Superseded", "", "a"), rec(t, 3, "Superseded", "", "a")}, limit: 1, want: []int64{1, 2}},
		"those that were published in part stay until a change is completed": {
			h: History{inPart(t, 1, 1), rec(t, 2, "Published", "", "a"), inPart(t, 3, 1), inPart(t, 4, 2), inPart(t, 5, 2)}, limit: 1, want: []int64{1},
		},
		"undo needs the last one with other clusters": {
			h: History{
				rec(t, 1, "Published", "", "b"), rec(t, 2, "Published", "b", "c"), rec(t, 3, "Superseded", "c", "d"), inPart(t, 4, 1),
				rec(t, 5, "Published", "c", "a"), rec(t, 6, "Published", "a", "a"),
			}, limit: 1, want: []int64{1, 3},
		},
		"the newest Published one stays behind many others": {
			h: append(History{rec(t, 1, "Published", "", "a")}, many[1:90]...), limit: 1, want: []int64{},
		},
		"100 at most": {h: many, limit: 1, want: revisions(many[:50])},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, surplusOf(tc.h, Needs{HistoryLimit: tc.limit, Pinned: tc.pinned})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordsThatAreMeasured: plugins that count removals, and minReadySeconds, need the records of
// a time, whatever the limit; and those between, so that the history has no gaps.
func TestRecordsThatAreMeasured(t *testing.T) {
	h := History{
		ended(t, 1, "Published", "", "ab", 0), ended(t, 2, "Published", "ab", "a", 1), ended(t, 3, "Published", "a", "ac", 2),
		ended(t, 4, "Published", "ac", "c", 3), ended(t, 5, "Published", "c", "cd", 4), ended(t, 6, "Published", "cd", "cde", 5), ended(t, 7, "Published", "cde", "cdef", 6),
	}
	merged := ended(t, 5, "Published", "c", "c", 4)
	merged.Spec.FirstRevision = 5
	merged.Spec.Removals = []berthv1alpha1.MergedRemoval{{Time: *h[4].Status.CompletionTime, Clusters: 1}}
	returned := ended(t, 5, "Published", "c", "c", 4)
	returned.Spec.Returned = []string{"c"}
	superseded := ended(t, 5, "Superseded", "c", "cx", 4)
	disabled := ended(t, 5, "Published", "cx", "c", 4)
	disabled.Spec.Cause = CauseDisabled
	with := func(record *berthv1alpha1.PlacementChange) History { return History{h[0], record, h[5], h[6]} }
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for name, tc := range map[string]struct {
		h     History
		needs Needs
		want  []int64
	}{
		"nothing":                              {h: h, want: []int64{1, 2, 3, 4, 5}},
		"removals of the last minutes":         {h: h, needs: Needs{RemovedSince: minute(3)}, want: []int64{1, 2, 3}},
		"all removals":                         {h: h, needs: Needs{RemovedSince: minute(-9)}, want: []int64{1}},
		"no removals":                          {h: h, needs: Needs{RemovedSince: minute(4)}, want: []int64{1, 2, 3, 4, 5}},
		"additions of the last minutes":        {h: h, needs: Needs{AddedSince: minute(2)}, want: []int64{1, 2}},
		"no additions":                         {h: h, needs: Needs{AddedSince: minute(7)}, want: []int64{1, 2, 3, 4, 5}},
		"the second of a record has not ended": {h: h, needs: Needs{RemovedSince: minute(3).Add(999 * time.Millisecond)}, want: []int64{1, 2, 3}},
		"removals of merged changes":           {h: with(merged), needs: Needs{RemovedSince: minute(3)}, want: []int64{1}},
		"merged changes, without removals":     {h: with(returned), needs: Needs{RemovedSince: minute(3)}, want: []int64{1, 5}},
		"clusters that left and came back":     {h: with(returned), needs: Needs{AddedSince: minute(3)}, want: []int64{1}},
		"additions of a superseded change":     {h: with(superseded), needs: Needs{AddedSince: minute(3)}, want: []int64{1}},
		"what other writers removed":           {h: with(disabled), needs: Needs{RemovedSince: minute(3)}, want: []int64{1, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.needs.HistoryLimit = 1
			if diff := cmp.Diff(tc.want, surplusOf(tc.h, tc.needs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNeedsAtTheBound: records that are needed stay before others. If too many are needed, the
// newest stay, and it is known until when some are missing.
func TestNeedsAtTheBound(t *testing.T) {
	var h History
	for i := range int64(130) {
		from, to := "a", "ab"
		if i%2 == 1 {
			from, to = to, from
		}
		h = append(h, ended(t, i+1, "Published", from, to, int(i)))
	}
	kept := func(h History, n Needs) (left History) {
		surplus := map[int64]bool{}
		for _, revision := range surplusOf(h, n) {
			surplus[revision] = true
		}
		for _, record := range h {
			if !surplus[record.Spec.Revision] {
				left = append(left, record)
			}
		}
		return left
	}
	few := kept(h, Needs{HistoryLimit: 100, RemovedSince: noon.Add(-time.Hour)})
	removals := 0
	for _, record := range few {
		removals += len(RemovalsOf(record))
	}
	if len(few) != berthv1alpha1.MaxHistoryLimit || removals != 65 {
		t.Errorf("%d records are kept with %d of 65 removals", len(few), removals)
	}
	all := kept(h, Needs{HistoryLimit: 1, RemovedSince: noon.Add(-time.Hour), AddedSince: noon.Add(-time.Hour)})
	if len(all) != berthv1alpha1.MaxHistoryLimit || all[0].Spec.Revision != 31 {
		t.Errorf("%d records are kept, from revision %d on", len(all), all[0].Spec.Revision)
	}
	if want := noon.Add(30*time.Minute + time.Second); !all.IncompleteUntil().Equal(want) {
		t.Errorf("incomplete until %s, want %s", all.IncompleteUntil(), want)
	}
	for name, h := range map[string]History{"few": h[5:20], "all since the first": h[:100], "without times": many(t)} {
		if until := h.IncompleteUntil(); !until.IsZero() {
			t.Errorf("%s: incomplete until %s", name, until)
		}
	}
}

func many(t *testing.T) (h History) {
	for i := range int64(berthv1alpha1.MaxHistoryLimit) {
		h = append(h, rec(t, i+2, "Held", "", "a"))
	}
	return h
}

// TestMergeKeepsWhatPassed: what left and came back, and what each change removed.
func TestMergeKeepsWhatPassed(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(minute) * time.Minute)) }
	merged, minute := Change{}, 0
	for i, set := range []string{"abc", "c", "ac", "abcx", "bc", "bcx"} {
		if i == 0 {
			continue
		}
		c := NewChange(letters([]string{"abc", "c", "ac", "abcx", "bc", "bcx"}[i-1]), letters(set))
		if n := len(c.Removed); n > 0 {
			c.Removals = []berthv1alpha1.MergedRemoval{{Time: at(minute), Clusters: int32(n), Edited: i == 1}}
		}
		if minute++; i == 1 {
			merged = c
		} else {
			merged = Merge(merged, c)
		}
	}
	record := NewRecord(placement("uid"), 1, 5, merged)
	want := berthv1alpha1.PlacementChangeSpec{
		Added: []string{"x"}, Removed: []string{"a"}, Returned: []string{"b"},
		Removals: []berthv1alpha1.MergedRemoval{{Time: at(0), Clusters: 2, Edited: true}, {Time: at(3), Clusters: 2}},
	}
	got := record.Spec
	if diff := cmp.Diff(want, berthv1alpha1.PlacementChangeSpec{Added: got.Added, Removed: got.Removed, Returned: got.Returned, Removals: got.Removals}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	joined, err := Joined(record)
	if diff := cmp.Diff([]string{"b", "x"}, joined); diff != "" || err != nil {
		t.Errorf("joined: %v (-want +got):\n%s", err, diff)
	}
}

// TestMergedRemovalsAreAddedUp: the oldest count at a later time, and edited only if both are.
func TestMergedRemovalsAreAddedUp(t *testing.T) {
	var all []berthv1alpha1.MergedRemoval
	for i := range 103 {
		all = append(all, berthv1alpha1.MergedRemoval{Time: metav1.NewTime(noon.Add(time.Duration(i) * time.Minute)), Clusters: 1, Edited: i != 2})
	}
	got := addUp(all)
	want := berthv1alpha1.MergedRemoval{Time: metav1.NewTime(noon.Add(3 * time.Minute)), Clusters: 4}
	if diff := cmp.Diff(want, got[0]); diff != "" || len(got) != maxMergedRemovals {
		t.Errorf("%d are left (-want +got):\n%s", len(got), diff)
	}
}
