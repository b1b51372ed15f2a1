package decisions

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPagesThatWaitForEachOther: pages that keep their indexes, or have to exchange them or close
// up, without a gap or a second name at any time.
func TestPagesThatWaitForEachOther(t *testing.T) {
	tests := map[string]struct {
		published pages
		grouping  Grouping
		want      []string
	}{
		"two free pages keep their indexes": {
			published: pages{page("p-decision-1", "x", "1", "X"), page("p-decision-2", "y", "0", "Y"), page("p-decision-3", "a", "2", "A")},
			grouping:  grouping(0, "b:B", "c:C", "a:A"),
			want: []string{
				"Update p-decision-2 b/0: B Y", "Update p-decision-1 c/1: C", "Update p-decision-2 b/0: B",
			},
		},
		"three free pages do": {
			published: pages{
				page("p-decision-1", "x", "1", "X"), page("p-decision-2", "y", "2", "Y"), page("p-decision-3", "z", "0", "Z"), page("p-decision-4", "a", "3", "A"),
			},
			grouping: grouping(0, "b:B", "c:C", "d:D", "a:A"),
			want: []string{
				"Update p-decision-3 b/0: B Z", "Update p-decision-1 c/1: C X", "Update p-decision-2 d/2: D", "Update p-decision-1 c/1: C",
				"Update p-decision-3 b/0: B",
			},
		},
		"three groups exchange their indexes": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "b", "1", "2"), page("p-decision-3", "c", "2", "3")},
			grouping:  grouping(0, "c:3", "a:1", "b:2"),
			want: []string{
				"Create p-decision-4 a/0:", "Update p-decision-1 a/3: 1 (silent)", "Update p-decision-4 c/0: (silent)",
				"Create p-decision-5 c/2:", "Update p-decision-3 c/0: 3 (silent)", "Update p-decision-5 b/2: (silent)",
				"Update p-decision-4 b/1: (silent)", "Update p-decision-2 b/2: 2 (silent)", "Update p-decision-4 a/1: (silent)",
				"Update p-decision-1 a/1: 1 (silent)", "Delete p-decision-5", "Delete p-decision-4",
			},
		},
		"pages of other names come last, by name": {
			published: pages{page("odd-b", "", "0", "a"), page("odd-a", "", "0", "a b"), page("p-decision-7", "", "0", "b c")},
			grouping:  grouping(0, ":a b c"),
			want:      []string{"Update odd-a /0: a", "Delete odd-b"},
		},
		"a page whose clusters are on others already is used again": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "x", "1", "1")},
			grouping:  grouping(0, "a:1", "b:2"),
			want:      []string{"Update p-decision-2 b/1: 2"},
		},
		"groups close up": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "b", "1", "2"), page("p-decision-3", "c", "2", "3"), page("p-decision-4", "d", "3", "4")},
			grouping:  grouping(0, "c:3", "d:4"),
			want: []string{
				"Update p-decision-2 d/1: 2 (silent)", "Update p-decision-1 c/0: 1 (silent)", "Update p-decision-4 d/1: 4 (silent)",
				"Update p-decision-3 c/0: 3 (silent)", "Delete p-decision-2", "Delete p-decision-1",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for _, p := range tc.published {
				w.pages[p.Name] = p
			}
			writes := w.plan(tc.grouping).Writes
			if diff := cmp.Diff(tc.want, showWrites(writes)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			for _, write := range writes {
				if err := w.apply(write); err != nil {
					t.Fatal(err)
				}
			}
			if again := w.plan(tc.grouping).Writes; len(again) > 0 {
				t.Errorf("more to write: %v", showWrites(again))
			}
		})
	}
}

// TestAsPublished: clusters keep the groups of their pages, in the order of these; others form a
// group without a name.
func TestAsPublished(t *testing.T) {
	choices := []Choice{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	tests := map[string]struct {
		published pages
		choices   []Choice
		want      []GroupMembers
		length    int
	}{
		"nothing published":  {choices: choices, want: []GroupMembers{{Choices: []int{0, 1, 2, 3}}}, length: 1},
		"no page any more":   {published: pages{page("p-decision-1", "x", "0", "a"), page("p-decision-3", "", "2", "d")}, choices: choices, length: 1, want: []GroupMembers{{GroupName: "x", Choices: []int{0}}, {Choices: []int{1, 2, 3}}}},
		"nothing chosen":     {published: pages{page("p-decision-1", "x", "0", "a")}},
		"groups":             {published: pages{page("p-decision-1", "y", "1", "a b z"), page("p-decision-2", "x", "0", "c")}, choices: choices, length: 3, want: []GroupMembers{{GroupName: "x", Choices: []int{2}}, {GroupName: "y", Choices: []int{0, 1}}, {Choices: []int{3}}}},
		"groups in order":    {published: pages{page("p-decision-1", "y", "0", "a b"), page("p-decision-2", "x", "1", "c d")}, choices: choices, length: 2, want: []GroupMembers{{GroupName: "y", Choices: []int{0, 1}}, {GroupName: "x", Choices: []int{2, 3}}}},
		"the lowest index":   {published: pages{page("p-decision-1", "y", "2", "a"), page("p-decision-2", "x", "1", "b"), page("p-decision-3", "y", "0", "c d")}, choices: choices, length: 2, want: []GroupMembers{{GroupName: "y", Choices: []int{0, 2, 3}}, {GroupName: "x", Choices: []int{1}}}},
		"the first page":     {published: pages{page("p-decision-1", "y", "0", "a b"), page("p-decision-2", "x", "1", "a c d")}, choices: choices, length: 2, want: []GroupMembers{{GroupName: "y", Choices: []int{0, 1}}, {GroupName: "x", Choices: []int{2, 3}}}},
		"a page of others":   {published: pages{page("p-decision-1", "y", "0", "a b", controlledBy("other"))}, choices: choices[:2], length: 1, want: []GroupMembers{{Choices: []int{0, 1}}}},
		"others, then ours":  {published: pages{page("p-decision-1", "y", "0", "a b", controlledBy("other")), page("p-decision-2", "x", "0", "a b")}, choices: choices[:2], length: 2, want: []GroupMembers{{GroupName: "x", Choices: []int{0, 1}}}},
		"longer than chosen": {published: pages{page("p-decision-1", "y", "0", "a b c d")}, choices: choices[:2], length: 2, want: []GroupMembers{{GroupName: "y", Choices: []int{0, 1}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, byScore := range []bool{false, true} {
				got := AsPublished(testPlacement(), tc.published, tc.choices, byScore)
				if diff := cmp.Diff(tc.want, got.Groups); diff != "" {
					t.Errorf("groups (-want +got):\n%s", diff)
				}
				if got.Length != tc.length || got.SortByScore != byScore || len(got.Choices) != len(tc.choices) {
					t.Errorf("length %d, by score %t, %d choices", got.Length, got.SortByScore, len(got.Choices))
				}
			}
		})
	}
}

// TestScoreRateLimits: units, and what the schema would have refused.
func TestScoreRateLimits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2h": 2 * time.Hour, "3m": 3 * time.Minute, "4s": 4 * time.Second, "0s": 0, "": time.Minute, "1d": time.Minute,
		"99999999999s": time.Minute, "2147483647s": 1 << 20 * time.Second, "1048575s": (1<<20 - 1) * time.Second,
	} {
		if got := scoreRateLimit(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// TestObjectKeepsQueue: a page of no queue and no change keeps what is recorded.
func TestObjectKeepsQueue(t *testing.T) {
	current := fixture.Page("ns", "p-decision-1").Of("p").Obj()
	current.Annotations = map[string]string{v1alpha1.QueueAnnotation: "root.a"}
	tests := map[string]struct {
		page Page
		want map[string]string
	}{
		"no annotation":    {page: Page{Name: "p-decision-1"}},
		"a new one":        {page: Page{Name: "p-decision-1", Queue: "root.b"}, want: map[string]string{v1alpha1.QueueAnnotation: "root.b"}},
		"one that is kept": {page: Page{Name: "p-decision-1", Current: current}, want: current.Annotations},
		"another queue":    {page: Page{Name: "p-decision-1", Queue: "root.b", Current: current, Revision: 12}, want: map[string]string{v1alpha1.QueueAnnotation: "root.b", "berth.dev/revision": "12"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.page.Object(testPlacement()).Annotations); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
