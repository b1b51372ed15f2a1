package changes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

func TestPinnedRevision(t *testing.T) {
	for text, want := range map[string]int64{"16": 16, "1": 1, "0": -1, "-1": -1, "": -1, "sixteen": -1, "1.5": -1, "99999999999999999999": -1} {
		got, err := changes.PinnedRevision(fixture.Placement("ns", "p").Annotation(berthv1alpha1.PinnedRevisionAnnotation, text).Obj())
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	if got, err := changes.PinnedRevision(fixture.Placement("ns", "p").Obj()); got != 0 || err != nil {
		t.Errorf("without the annotation: %d, %v", got, err)
	}
}

// change is the record of a change between two sets, names separated by spaces.
func change(revision int64, from, to string, phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
	record := changes.NewRecord(fixture.Placement("ns", "p").Obj(), 0, revision, changes.NewChange(strings.Fields(from), strings.Fields(to)))
	if record.Status.Phase = phase; phase == berthv1alpha1.PhaseProgressing || phase == berthv1alpha1.PhaseSuperseded {
		record.Status.PermittedTime = &metav1.Time{Time: fixture.Now}
	}
	return record
}

func TestAt(t *testing.T) {
	const (
		published   = berthv1alpha1.PhasePublished
		superseded  = berthv1alpha1.PhaseSuperseded
		progressing = berthv1alpha1.PhaseProgressing
	)
	merged := change(5, "a b", "c", published)
	merged.Spec.FirstRevision = 3
	unpermitted := change(3, "a b", "x y", superseded)
	unpermitted.Status.PermittedTime = nil
	unpermitted.Spec.Truncated = true
	truncated := change(3, "a b", "c", published)
	truncated.Spec.Truncated = true
	first := []*berthv1alpha1.PlacementChange{change(1, "", "a", published), change(2, "a", "a b", published)}
	with := func(more ...*berthv1alpha1.PlacementChange) changes.History {
		return append(slices.Clone(first), more...)
	}
	for name, tc := range map[string]struct {
		history  changes.History
		now      string
		revision int64
		want     string
		wantErr  string
		// wantComputable are all revisions that can be computed.
		wantComputable string
	}{
		"the last one":                   {with(), "a b", 2, "a b", "", "2, 1"},
		"the one before":                 {with(), "a b", 1, "a", "", "2, 1"},
		"the present clusters, any way":  {changes.History{change(2, "a", "a b", published), change(9, "x", "y", published)}, "a b", 2, "a b", "", "2"},
		"a lost record after a part":     {with(change(3, "a b", "c d", superseded)), "z", 2, "", "records of later changes are missing", "none"},
		"a lost record, the first one":   {with(change(3, "a b", "c d", superseded)), "z", 1, "", "records of later changes are missing", "none"},
		"edited pages in a change":       {with(change(3, "a b", "c d", progressing)), "b z", 2, "", "records of later changes are missing", "none"},
		"one without a phase":            {with(change(3, "a b", "c", "")), "a b", 3, "", "it is not published yet", "2, 1"},
		"past a held change":             {with(change(3, "a b", "x", berthv1alpha1.PhaseHeld)), "a b", 1, "a", "", "2, 1"},
		"past a rejected change":         {with(change(3, "a b", "x", berthv1alpha1.PhaseRejected)), "a b", 2, "a b", "", "2, 1"},
		"past an unpublished change":     {with(unpermitted), "a b", 1, "a", "", "2, 1"},
		"in the middle of a change":      {with(change(3, "a b", "c d", progressing)), "b c", 2, "a b", "", "2, 1"},
		"past a half published one":      {with(change(3, "a b", "c d", superseded), change(4, "b c", "e", published)), "e", 1, "a", "", "4, 2, 1"},
		"without status, before it":      {with(change(3, "a b", "c", "")), "a b", 1, "a", "", "2, 1"},
		"of several changes, the last":   {with(merged, change(6, "c", "d", published)), "d", 5, "c", "", "6, 5, 2, 1"},
		"of several changes, another":    {with(merged), "c", 4, "", "one record covers the revisions 3 to 5", "5, 2, 1"},
		"none":                           {with(), "a b", 7, "", "it has no record", "2, 1"},
		"a held one":                     {with(change(3, "a b", "x", berthv1alpha1.PhaseHeld)), "a b", 3, "", "it is Held, not Published", "2, 1"},
		"a deleted record in between":    {with(change(4, "c", "d", published)), "d", 2, "", "records of later changes are missing", "4"},
		"the record is missing":          {with(), "a b c", 1, "", "records of later changes are missing", "none"},
		"lists that are not complete":    {with(truncated), "c", 2, "", "PlacementChange ns/p-3: the record does not list all its clusters", "3"},
		"the one of incomplete lists":    {with(truncated), "c", 3, "c", "", "3"},
		"no record at all":               {nil, "a", 1, "", "it has no record", "none"},
		"a set that was published twice": {with(change(3, "a b", "a", published)), "a", 1, "a", "", "3, 2, 1"},
	} {
		t.Run(name, func(t *testing.T) {
			now := strings.Fields(tc.now)
			got, err := tc.history.At(tc.revision, now)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if strings.Join(got, " ") != tc.want || text != tc.wantErr {
				t.Errorf("got %q, error %q; want %q, %q", got, text, tc.want, tc.wantErr)
			}
			computable := tc.history.Computable(now)
			if text := changes.RevisionList(computable); text != tc.wantComputable {
				t.Errorf("computable are %s, want %s", text, tc.wantComputable)
			}
			for _, record := range tc.history {
				_, err := tc.history.At(record.Spec.Revision, now)
				if listed := slices.Contains(computable, record.Spec.Revision); listed != (err == nil) {
					t.Errorf("revision %d: listed as possible is %t, but the error is %v", record.Spec.Revision, listed, err)
				}
			}
		})
	}
}

// TestAtRandom: in a history of random changes, published whole, in part or not at all, every
// Published revision has exactly the clusters that were published then.
func TestAtRandom(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(t *rapid.T) {
		subset := func(of []string) []string {
			return rapid.SliceOfDistinct(rapid.SampledFrom(of), rapid.ID).Draw(t, "set")
		}
		now := []string{}
		sets := map[int64][]string{}
		var history changes.History
		for revision := int64(1); revision <= rapid.Int64Range(1, 12).Draw(t, "changes"); revision++ {
			to := changes.Sorted(subset(names))
			record := change(revision, strings.Join(now, " "), strings.Join(to, " "), berthv1alpha1.PhasePublished)
			switch rapid.SampledFrom([]string{"whole", "whole", "part", "not", "progressing"}).Draw(t, "how") {
			case "whole":
				now = to
				sets[revision] = to
			case "not":
				record.Status.Phase = rapid.SampledFrom([]berthv1alpha1.ChangePhase{
					berthv1alpha1.PhaseRejected, berthv1alpha1.PhaseExpired, berthv1alpha1.PhaseSuperseded, berthv1alpha1.PhaseHeld,
				}).Draw(t, "phase")
			default:
				record.Status.Phase, record.Status.PermittedTime = berthv1alpha1.PhaseSuperseded, &metav1.Time{Time: fixture.Now}
				added, removed := changes.Between(now, to)
				if len(added) > 0 {
					now = changes.Sorted(append(slices.Clone(now), subset(added)...))
				}
				if len(removed) > 0 {
					now = changes.Minus(now, changes.Sorted(subset(removed)))
				}
			}
			record.UID, record.ResourceVersion = "0e6f3e0b-32a7-4f7c-8f0b-6f6a1b8f2a10", "1"
			if packed := changes.PackRecord(record); packed != nil {
				record = packed.Record()
			}
			history = append(history, record)
		}
		for revision, want := range sets {
			got, err := history.At(revision, now)
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); err != nil || diff != "" {
				t.Fatalf("revision %d: %v (-want +got):\n%s", revision, err, diff)
			}
		}
		if got := history.Computable(now); len(got) != len(sets) {
			t.Fatalf("computable are %v of %v", got, sets)
		}
	})
}
