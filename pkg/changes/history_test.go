package changes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// rec is a record of the Placement "uid": its revision and phase, from one set to another, each a
// string of one-letter names.
func rec(t *testing.T, revision int64, phase berthv1alpha1.ChangePhase, from, to string) *berthv1alpha1.PlacementChange {
	t.Helper()
	c := NewChange(letters(from), letters(to))
	c.Generation = 1
	record := NewRecord(placement("uid"), 0, revision, c)
	record.Status.Phase = phase
	return record
}

func letters(s string) []string {
	names := make([]string, 0, len(s))
	for _, r := range s {
		names = append(names, string(r))
	}
	return names
}

func revisions(records []*berthv1alpha1.PlacementChange) []int64 {
	numbers := []int64{}
	for _, r := range records {
		numbers = append(numbers, r.Spec.Revision)
	}
	return numbers
}

func TestHistoryOf(t *testing.T) {
	other := rec(t, 3, "", "", "a")
	other.OwnerReferences[0].UID = "deleted"
	elsewhere := rec(t, 4, "", "", "a")
	elsewhere.Namespace = "other"
	ownerless := rec(t, 5, "", "", "a")
	ownerless.OwnerReferences = nil
	records := []*berthv1alpha1.PlacementChange{rec(t, 2, "", "", "a"), other, elsewhere, ownerless, rec(t, 1, "", "", "a")}
	for name, tc := range map[string]struct {
		uid  types.UID
		want []int64
	}{
		"by UID":                 {"uid", []int64{1, 2}},
		"of another UID":         {"deleted", []int64{3}},
		"without a UID, by name": {"", []int64{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, revisions(HistoryOf(placement(tc.uid), records))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLast(t *testing.T) {
	for name, tc := range map[string]struct {
		history History
		want    int64
	}{
		"none":         {},
		"one":          {history: History{rec(t, 4, "", "", "a")}, want: 4},
		"the newest":   {history: History{rec(t, 4, "", "", "a"), rec(t, 9, "", "a", "b")}, want: 9},
		"of any phase": {history: History{rec(t, 1, "Published", "", "a"), rec(t, 2, "Rejected", "a", "b")}, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.history.Last(); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestPageRevision(t *testing.T) {
	page := func(value string) *v1alpha1.PlacementDecision {
		return &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{berthv1alpha1.RevisionAnnotation: value}}}
	}
	history := History{rec(t, 4, "", "", "a")}
	for name, tc := range map[string]struct {
		history History
		pages   []*v1alpha1.PlacementDecision
		want    int64
	}{
		"no page":                    {history: history},
		"a page without one":         {history: history, pages: []*v1alpha1.PlacementDecision{{}}},
		"the highest of the pages":   {history: history, pages: []*v1alpha1.PlacementDecision{page("6"), page("2")}, want: 6},
		"below the records":          {history: history, pages: []*v1alpha1.PlacementDecision{page("2")}, want: 2},
		"not a number":               {history: history, pages: []*v1alpha1.PlacementDecision{page("x"), page("")}},
		"a number that is forged":    {history: history, pages: []*v1alpha1.PlacementDecision{page("9223372036854775807"), page("5")}, want: 5},
		"as far ahead as is allowed": {history: history, pages: []*v1alpha1.PlacementDecision{page("1000004")}, want: 1_000_004},
		"further ahead":              {history: history, pages: []*v1alpha1.PlacementDecision{page("1000005")}},
		"a negative number":          {pages: []*v1alpha1.PlacementDecision{page("-3")}},
		"pages without any record":   {pages: []*v1alpha1.PlacementDecision{page("12")}, want: 12},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.history.PageRevision(tc.pages); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		phases []berthv1alpha1.ChangePhase
		want   int64
	}{
		"none":                    {phases: []berthv1alpha1.ChangePhase{"Published", "Superseded", "Rejected", "Expired"}},
		"held":                    {phases: []berthv1alpha1.ChangePhase{"Published", "Held"}, want: 2},
		"progressing":             {phases: []berthv1alpha1.ChangePhase{"Progressing", "Rejected"}, want: 1},
		"created and not yet set": {phases: []berthv1alpha1.ChangePhase{"Published", ""}, want: 2},
		"the newer of two":        {phases: []berthv1alpha1.ChangePhase{"Held", "Held"}, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var h History
			for i, phase := range tc.phases {
				h = append(h, rec(t, int64(i+1), phase, "", "a"))
			}
			got := int64(0)
			if open := h.Open(); open != nil {
				got = open.Spec.Revision
			}
			if got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestEnded(t *testing.T) {
	h := History{rec(t, 1, "Published", "", "ab"), rec(t, 2, "Rejected", "ab", "ac"), rec(t, 3, "Expired", "ab", "ad"), rec(t, 4, "Superseded", "ab", "ae")}
	for name, tc := range map[string]struct {
		from, to   string
		generation int64
		want       bool
	}{
		"rejected":           {"ab", "ac", 1, true},
		"expired":            {"ab", "ad", 1, true},
		"superseded":         {"ab", "ae", 1, false},
		"another start":      {"a", "ac", 1, false},
		"another target":     {"ab", "af", 1, false},
		"another generation": {"ab", "ac", 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewChange(letters(tc.from), letters(tc.to))
			c.Generation = tc.generation
			if got := h.Ended(&c) != nil; got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
		})
	}
}

func TestContinues(t *testing.T) {
	record := rec(t, 1, "Progressing", "ab", "cd")
	for name, tc := range map[string]struct {
		published, to string
		generation    int64
		want          bool
	}{
		"nothing done":          {"ab", "cd", 1, true},
		"a step done":           {"abc", "cd", 1, true},
		"all but one removal":   {"bcd", "cd", 1, true},
		"another target":        {"ab", "ce", 1, false},
		"another generation":    {"ab", "cd", 2, false},
		"something from beyond": {"abx", "cd", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewChange(letters(tc.published), letters(tc.to))
			c.Generation = tc.generation
			if got := Continues(record, &c, letters(tc.published), 1); got != tc.want {
				t.Errorf("want %t, got %t", tc.want, got)
			}
			if Continues(record, &c, letters(tc.published), 2) {
				t.Error("it continues after a later change")
			}
			held := record.DeepCopy()
			held.Status.Phase = berthv1alpha1.PhaseHeld
			if got, want := Continues(held, &c, letters(tc.published), 0), tc.want && tc.published == "ab"; got != want {
				t.Errorf("held: want %t, got %t", want, got)
			}
		})
	}
}

func TestContradictoryRecordDoesNotContinue(t *testing.T) {
	record := rec(t, 1, "Progressing", "ab", "cd")
	record.Spec.From = berthv1alpha1.Digest(letters("xy"))
	c := NewChange(letters("abc"), letters("cd"))
	c.Generation = 1
	if Continues(record, &c, letters("abc"), 1) {
		t.Error("its clusters do not have the digest in spec.from")
	}
}

// TestComputableEndsAtATruncatedRecord: what was published in part before is not known.
func TestComputableEndsAtATruncatedRecord(t *testing.T) {
	truncated := rec(t, 2, "Superseded", "ab", "c")
	truncated.Spec.Truncated, truncated.Status.PermittedTime = true, &metav1.Time{}
	if got := (History{rec(t, 1, "Published", "", "ab"), truncated}).Computable(letters("abc")); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestGaps(t *testing.T) {
	permitted := rec(t, 2, "Superseded", "a", "bc")
	permitted.Status.PermittedTime = &metav1.Time{Time: time.Unix(1, 0)}
	merged := rec(t, 4, "Published", "ab", "d")
	merged.Spec.FirstRevision = 2
	for name, tc := range map[string]struct {
		h    History
		want []int64
	}{
		"none":                          {h: History{rec(t, 1, "Published", "", "a"), rec(t, 2, "Published", "a", "b")}},
		"the oldest are not kept":       {h: History{rec(t, 7, "Published", "x", "a")}},
		"a rejected one between":        {h: History{rec(t, 1, "Published", "", "a"), rec(t, 2, "Rejected", "a", "b"), rec(t, 3, "Published", "a", "c")}},
		"a merged one":                  {h: History{rec(t, 1, "Published", "", "ab"), merged}},
		"published in part":             {h: History{rec(t, 1, "Published", "", "a"), permitted, rec(t, 3, "Published", "ab", "c")}},
		"a revision is missing":         {h: History{rec(t, 1, "Published", "", "a"), rec(t, 3, "Published", "a", "b")}, want: []int64{3}},
		"a start that nobody published": {h: History{rec(t, 1, "Published", "", "a"), rec(t, 2, "Published", "b", "c")}, want: []int64{2}},
		"the oldest was rejected":       {h: History{rec(t, 1, "Rejected", "a", "b"), rec(t, 2, "Published", "b", "c")}, want: []int64{2}},
		"after a rejected one, too":     {h: History{rec(t, 1, "Published", "", "a"), rec(t, 2, "Rejected", "a", "b"), rec(t, 3, "Published", "b", "c")}, want: []int64{3}},
		"the chain goes on after a gap": {h: History{rec(t, 1, "Published", "", "a"), rec(t, 3, "Published", "c", "b"), rec(t, 4, "Published", "b", "")}, want: []int64{3}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.h.Gaps()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemovedInPart(t *testing.T) {
	permitted, remaining := &metav1.Time{}, &berthv1alpha1.RemainingClusters{Removed: 1}
	for name, tc := range map[string]struct {
		status berthv1alpha1.PlacementChangeStatus
		want   int
	}{
		"superseded after a step": {berthv1alpha1.PlacementChangeStatus{Phase: "Superseded", PermittedTime: permitted, Remaining: remaining}, 2},
		"still in progress":       {berthv1alpha1.PlacementChangeStatus{Phase: "Progressing", PermittedTime: permitted, Remaining: remaining}, 0},
		"never permitted":         {berthv1alpha1.PlacementChangeStatus{Phase: "Superseded", Remaining: remaining}, 0},
		"not known":               {berthv1alpha1.PlacementChangeStatus{Phase: "Superseded", PermittedTime: permitted}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			record := rec(t, 1, "", "abc", "")
			record.Status = tc.status
			if got := RemovedInPart(record); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}
