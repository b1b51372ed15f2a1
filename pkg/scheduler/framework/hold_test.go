package framework

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

var holder = &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}

// drawHold is a hold of up to 350 clusters, whose names have a prefix; it began some seconds after the epoch.
func drawHold(t *rapid.T, prefix string, since int64) *Hold {
	h := &Hold{}
	for i := range rapid.IntRange(0, 350).Draw(t, "clusters "+prefix) {
		h.Clusters = append(h.Clusters, fmt.Sprintf("%s%03d", prefix, i))
	}
	h.Token = TokenFor(DigestOf(h.Clusters), time.Unix(since, 0))
	h.Deadlines = rapid.MapOfN(rapid.StringMatching("[A-Z][a-z]{1,8}"), rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(since, since+1<<27).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).UTC()
	}), 1, 3).Draw(t, "deadlines")
	return h
}

func pagesOf(t *rapid.T, h *Hold, taken func(string) bool) []*v1alpha1.PlacementDecision {
	pages, err := h.Pages(holder, taken)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestHoldRoundTrip: what pages say is what was held, in whatever order they are read.
func TestHoldRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHold(t, "c", 1)
		pages := pagesOf(t, h, nil)
		if want := max(1, (len(h.Clusters)+99)/100); len(pages) != want {
			t.Fatalf("%d pages for %d clusters, want %d", len(pages), len(h.Clusters), want)
		}
		for n, page := range pages {
			if want := fmt.Sprintf("p-held-%d", n+1); page.Name != want || page.Namespace != "ns" || !IsHeldPage(page) || page.Labels[v1alpha1.HeldLabel] != "p" {
				t.Fatalf("page %s/%s with labels %v", page.Namespace, page.Name, page.Labels)
			}
			if ref := metav1.GetControllerOf(page); ref == nil || ref.Kind != "Placement" || ref.UID != "u" {
				t.Fatalf("the controller is %v", ref)
			}
			if len(page.Status.Decisions) > v1alpha1.MaxDecisionsPerPage {
				t.Fatalf("%d decisions on one page", len(page.Status.Decisions))
			}
		}
		if diff := cmp.Diff(h, HoldOf(rapid.Permutation(pages).Draw(t, "read"))); diff != "" {
			t.Fatalf("hold (-want +got):\n%s", diff)
		}
	})
}

// TestHoldInterrupted: while pages of one hold are replaced by those of the next, what is there is one of the two, whole, or none.
func TestHoldInterrupted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawHold(t, "c", 1), drawHold(t, rapid.SampledFrom([]string{"c", "d"}).Draw(t, "names"), 2)
		hub := map[string]*v1alpha1.PlacementDecision{}
		if rapid.Bool().Draw(t, "something held before") {
			for _, page := range pagesOf(t, before, nil) {
				hub[page.Name] = page
			}
		}
		old := len(hub)
		wanted := pagesOf(t, after, nil)
		done := rapid.IntRange(0, len(wanted)).Draw(t, "pages written")
		for _, page := range wanted[:done] {
			hub[page.Name] = page
		}
		var there []*v1alpha1.PlacementDecision
		for _, page := range hub {
			there = append(there, page)
		}
		// With nothing written it is what was before; with all written, and nothing left of before, it is what is to be.
		var want *Hold
		switch {
		case done == 0 && old > 0:
			want = before
		case done == len(wanted) && old <= done:
			want = after
		}
		if diff := cmp.Diff(want, HoldOf(there)); diff != "" {
			t.Fatalf("hold after %d of %d pages over %d (-want +got):\n%s", done, len(wanted), old, diff)
		}
	})
}

func TestHoldOf(t *testing.T) {
	token := TokenFor(DigestOf([]string{"a", "b"}), time.Unix(1, 0))
	page := func(name, record string, clusters ...string) *v1alpha1.PlacementDecision {
		p := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.HoldAnnotation: record}}}
		for _, c := range clusters {
			p.Status.Decisions = append(p.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: c})
		}
		return p
	}
	record := fmt.Sprintf(`{"token":%q}`, token)
	until := func(deadline string) string {
		return fmt.Sprintf(`{"token":%q,"deadlines":{"Approval":%q}}`, token, deadline)
	}
	digest := DigestOf([]string{"a", "b"})
	tests := map[string]struct {
		pages []*v1alpha1.PlacementDecision
		want  []string
	}{
		"no page":                     {},
		"one":                         {pages: []*v1alpha1.PlacementDecision{page("1", record, "b", "a")}, want: []string{"a", "b"}},
		"two":                         {pages: []*v1alpha1.PlacementDecision{page("1", record, "b"), page("2", record, "a")}, want: []string{"a", "b"}},
		"one is missing":              {pages: []*v1alpha1.PlacementDecision{page("1", record, "b")}},
		"one too many":                {pages: []*v1alpha1.PlacementDecision{page("1", record, "a", "b"), page("2", record, "c")}},
		"one of another hold":         {pages: []*v1alpha1.PlacementDecision{page("1", record, "a"), page("2", `{"token":"x-1"}`, "b")}},
		"deadlines differ":            {pages: []*v1alpha1.PlacementDecision{page("1", record, "a"), page("2", record+" ", "b")}},
		"edited by hand":              {pages: []*v1alpha1.PlacementDecision{page("1", record, "a", "evil")}},
		"no record":                   {pages: []*v1alpha1.PlacementDecision{page("1", "", "a", "b")}},
		"no JSON":                     {pages: []*v1alpha1.PlacementDecision{page("1", "{", "a", "b")}},
		"no token":                    {pages: []*v1alpha1.PlacementDecision{page("1", "{}", "a", "b")}},
		"with a deadline":             {pages: []*v1alpha1.PlacementDecision{page("1", until("1970-01-08T00:00:00Z"), "a", "b")}, want: []string{"a", "b"}},
		"a deadline before it began":  {pages: []*v1alpha1.PlacementDecision{page("1", until("1960-01-01T00:00:00Z"), "a", "b")}},
		"a deadline after many years": {pages: []*v1alpha1.PlacementDecision{page("1", until("9999-01-01T00:00:00Z"), "a", "b")}},
		"a deadline of no plugin": {pages: []*v1alpha1.PlacementDecision{
			page("1", fmt.Sprintf(`{"token":%q,"deadlines":{"":"1970-01-08T00:00:00Z"}}`, token), "a", "b")}},
		"a token without a time":                {pages: []*v1alpha1.PlacementDecision{page("1", fmt.Sprintf(`{"token":%q}`, digest), "a", "b")}},
		"a token with other words":              {pages: []*v1alpha1.PlacementDecision{page("1", fmt.Sprintf(`{"token":%q}`, digest+"-1 (0 added"), "a", "b")}},
		"a token of a time that no clock shows": {pages: []*v1alpha1.PlacementDecision{page("1", fmt.Sprintf(`{"token":%q}`, digest+"-zzzzzzzzzzzzzzzz"), "a", "b")}},
		"a digest that was cut":                 {pages: []*v1alpha1.PlacementDecision{page("1", fmt.Sprintf(`{"token":%q}`, digest[:16]+"-1"), "a", "b")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := HoldOf(tc.pages)
			if (got != nil) != (tc.want != nil) || got != nil && (!slices.Equal(got.Clusters, tc.want) || got.Token != token) {
				t.Errorf("got %+v, want %v", got, tc.want)
			}
		})
	}
}

func TestHoldLeavesTakenNames(t *testing.T) {
	h := &Hold{}
	for i := range 250 {
		h.Clusters = append(h.Clusters, fmt.Sprintf("c%03d", i))
	}
	tests := map[string]struct {
		taken, want []string
	}{
		"none":         {want: []string{"p-held-1", "p-held-2", "p-held-3"}},
		"the first":    {taken: []string{"p-held-1"}, want: []string{"p-held-2", "p-held-3", "p-held-4"}},
		"some between": {taken: []string{"p-held-2", "p-held-4"}, want: []string{"p-held-1", "p-held-3", "p-held-5"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pages, err := h.Pages(holder, func(name string) bool { return slices.Contains(tc.taken, name) })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, page := range pages {
				got = append(got, page.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIsHeldPage(t *testing.T) {
	tests := map[string]struct {
		labels map[string]string
		want   bool
	}{
		"held":                {map[string]string{v1alpha1.HeldLabel: "p"}, true},
		"published":           {map[string]string{v1alpha1.PlacementLabel: "p"}, false},
		"both: it is read":    {map[string]string{v1alpha1.HeldLabel: "p", v1alpha1.PlacementLabel: "p"}, false},
		"neither: unfinished": {nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsHeldPage(&v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestToken(t *testing.T) {
	digest := DigestOf([]string{"a"})
	first, second := TokenFor(digest, time.Unix(1000, 0)), TokenFor(digest, time.Unix(1001, 0))
	if first == second || first != TokenFor(digest, time.Unix(1000, 999)) {
		t.Errorf("tokens %s and %s: a hold is named by when it began, to the second", first, second)
	}
	if DigestIn(first) != digest || DigestIn(digest) != digest || DigestIn("") != "" {
		t.Errorf("the digest in %s is %s", first, DigestIn(first))
	}
}
