package changes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// publishedIn is the history of a Placement that published these sets one after the other.
func publishedIn(sets ...[]string) History {
	var h History
	var before []string
	for i, names := range sets {
		c := NewChange(before, names)
		h = append(h, &berthv1alpha1.PlacementChange{
			Spec: berthv1alpha1.PlacementChangeSpec{
				Revision: int64(i + 1), From: c.From, To: c.To, Added: c.Added, Removed: c.Removed, AddedCount: int32(len(c.Added)), RemovedCount: int32(len(c.Removed)),
			},
			Status: berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhasePublished},
		})
		before = names
	}
	return h
}

// TestLatest: the newest Published record is the latest, unless something was published after it.
func TestLatest(t *testing.T) {
	later := func(status berthv1alpha1.PlacementChangeStatus) History {
		return append(publishedIn([]string{"a"}), &berthv1alpha1.PlacementChange{Spec: berthv1alpha1.PlacementChangeSpec{Revision: 2}, Status: status})
	}
	for name, tc := range map[string]struct {
		history  History
		revision int64
		want     bool
	}{
		"no record":               {},
		"its own pages":           {history: publishedIn([]string{"a"}), revision: 1, want: true},
		"later pages":             {history: publishedIn([]string{"a"}), revision: 2},
		"a held change":           {history: later(berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseHeld}), revision: 1, want: true},
		"a permitted change":      {history: later(berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseHeld, PermittedTime: &metav1.Time{}}), revision: 1},
		"a record without status": {history: later(berthv1alpha1.PlacementChangeStatus{}), revision: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.history.Latest(tc.revision); (got != nil) != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestClusters: the clusters of the newest record are known from the whole history, or from the
// part of it that names all clusters that the pages lack or list in error.
func TestClusters(t *testing.T) {
	cut := publishedIn([]string{"a", "b"}, []string{"a", "b", "c"}, []string{"b", "c", "d"})[1:]
	truncated := publishedIn([]string{"a"}, []string{"b"})
	truncated[1].Spec.Truncated = true
	partly := publishedIn([]string{"a"}, []string{"a", "b"}, []string{"a", "b", "c"})
	partly[1].Status = berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseSuperseded, PermittedTime: &metav1.Time{}}
	never := publishedIn([]string{"a"}, []string{"a", "b"}, nil)
	never[1].Status = partly[1].Status
	never[1].Status.Remaining = &berthv1alpha1.RemainingClusters{Added: 1}
	never[2] = publishedIn([]string{"a", "c"}, []string{"a"})[1]
	for name, tc := range map[string]struct {
		history History
		listed  []string
		want    []string
		unknown bool
	}{
		"no record":                               {listed: []string{"a"}, unknown: true},
		"the pages list them":                     {history: cut, listed: []string{"b", "c", "d"}, want: []string{"b", "c", "d"}},
		"all pages are gone":                      {history: publishedIn([]string{"a", "b"}, []string{"b", "c"}), want: []string{"b", "c"}},
		"a stray cluster":                         {history: publishedIn([]string{"a", "b"}), listed: []string{"a", "b", "x"}, want: []string{"a", "b"}},
		"a cut history, a recent cluster gone":    {history: cut, listed: []string{"b", "c"}, want: []string{"b", "c", "d"}},
		"a cut history, a removed cluster back":   {history: cut, listed: []string{"a", "b", "c", "d"}, want: []string{"b", "c", "d"}},
		"a cut history, an old cluster gone":      {history: cut, listed: []string{"c", "d"}, unknown: true},
		"a cut history, a stray cluster":          {history: cut, listed: []string{"b", "c", "d", "x"}, unknown: true},
		"a record without its clusters":           {history: truncated, unknown: true},
		"a change published in part":              {history: partly, listed: []string{"a"}, want: []string{"a", "b", "c"}},
		"a change of which nothing was published": {history: never, want: []string{"a"}},
		"nothing was published last":              {history: publishedIn([]string{"a"}, nil), listed: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			names, ok := tc.history.Clusters(tc.listed)
			if ok == tc.unknown || ok && !cmp.Equal(names, tc.want) && len(names)+len(tc.want) > 0 {
				t.Errorf("got %v, known: %t", names, ok)
			}
		})
	}
}

// TestDisabled: the record of what other writers published leads from the last record to the pages.
func TestDisabled(t *testing.T) {
	cut := publishedIn([]string{"a", "b"}, []string{"a", "b", "c"})[1:]
	partly := publishedIn([]string{"a", "b", "c"}, []string{"c"})
	partly[1].Status = berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseSuperseded, PermittedTime: &metav1.Time{}}
	for name, tc := range map[string]struct {
		history        History
		listed, before []string
		// unrecorded is true if the pages have a later revision than the records.
		unrecorded bool
		want       Change
		none       bool
	}{
		"the pages are as recorded":    {history: cut, listed: []string{"a", "b", "c"}, none: true},
		"another cluster":              {history: publishedIn([]string{"a"}), listed: []string{"b"}, want: Change{Added: []string{"b"}, Removed: []string{"a"}, Clusters: 1}},
		"all pages were deleted":       {history: publishedIn([]string{"a"}), want: Change{Removed: []string{"a"}}},
		"nothing was recorded":         {listed: []string{"a"}, want: Change{Added: []string{"a"}, Clusters: 1}},
		"nothing at all":               {none: true},
		"known from before":            {history: cut, listed: []string{"c"}, before: []string{"a", "b", "c"}, want: Change{Removed: []string{"a", "b"}, Clusters: 1}},
		"the records do not say":       {history: cut, listed: []string{"c"}, want: Change{Incomplete: true, Clusters: 1}},
		"a change published in part":   {history: partly, listed: []string{"c", "d"}, before: []string{"b", "c"}, want: Change{From: berthv1alpha1.Digest([]string{"b", "c"}), Added: []string{"d"}, Removed: []string{"b"}, Clusters: 2}},
		"a change without a record":    {history: cut, listed: []string{"c"}, before: []string{"z"}, unrecorded: true, want: Change{From: berthv1alpha1.Digest([]string{"z"}), Added: []string{"c"}, Removed: []string{"z"}, Clusters: 1}},
		"before is not what was noted": {history: cut, listed: []string{"c"}, before: []string{"z"}, want: Change{Incomplete: true, Clusters: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			revision := int64(0)
			if tc.unrecorded {
				revision = tc.history.Last() + 1
			}
			c, ok := tc.history.Disabled(tc.listed, tc.before, revision)
			if ok == tc.none {
				t.Fatalf("a change: %t", ok)
			}
			if tc.none {
				return
			}
			from := berthv1alpha1.Digest(nil)
			if len(tc.history) > 0 {
				from = tc.history[len(tc.history)-1].Spec.To
			}
			if tc.want.From != "" {
				from = tc.want.From
			}
			tc.want.Cause, tc.want.From, tc.want.To = CauseDisabled, from, berthv1alpha1.Digest(tc.listed)
			if diff := cmp.Diff(tc.want, c); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
