package decisions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// grouping reads "name: clusters" lines, one per group; a cluster may be "name=score". Rank is the
// order written.
func grouping(length int, groups ...string) Grouping {
	a := Grouping{}
	for _, line := range groups {
		name, clusters, _ := strings.Cut(line, ":")
		c := GroupMembers{GroupName: name}
		for text := range strings.FieldsSeq(clusters) {
			choice := Choice{}
			cluster, score, scored := strings.Cut(text, "=")
			if scored {
				if _, err := fmt.Sscan(score, &choice.Score); err != nil {
					panic(err)
				}
				a.SortByScore = true
			}
			choice.Name = cluster
			c.Choices = append(c.Choices, len(a.Choices))
			a.Choices = append(a.Choices, choice)
		}
		a.Groups = append(a.Groups, c)
	}
	a.Length = length
	if length == 0 {
		a.Length = len(a.Choices)
	}
	return a
}

func held(a Grouping) Grouping {
	a.DeferScores = true
	return a
}

func compact(a Grouping) Grouping {
	a.Compact = true
	return a
}

// span lists clusters c<from> to c<to>.
func span(from, to int) string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf("c%03d", i))
	}
	return strings.Join(out, " ")
}

type pages = []*v1alpha1.PlacementDecision

func TestNewPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		published   pages
		taken       string
		grouping    Grouping
		want        []string // writes
		wantForeign []string
		wantQuiet   bool // the same clusters are selected
	}{
		"first: nothing": {
			grouping: grouping(0), want: []string{"Create p-decision-1 /0:"},
		},
		"first: by name whatever the rank": {
			grouping: grouping(0, ":c b a"), want: []string{"Create p-decision-1 /0: a b c"},
		},
		"first: groups in the order written, cut by length": {
			grouping: grouping(2, "b:1 2 3", "a:4", ":5 6 7"),
			want: []string{
				"Create p-decision-1 b/0: 1 2", "Create p-decision-2 b/1: 3", "Create p-decision-3 a/2: 4",
				"Create p-decision-4 /3: 5 6", "Create p-decision-5 /4: 7",
			},
		},
		"first: groups are cut in the order of names": {
			grouping: grouping(2, ":c b a"), want: []string{"Create p-decision-1 /0: a b", "Create p-decision-2 /1: c"},
		},
		"first: two groups of one name are split separately": {
			grouping: grouping(0, "a:1 3", "b:9", "a:2"),
			want:     []string{"Create p-decision-1 a/0: 1 3", "Create p-decision-2 b/1: 9", "Create p-decision-3 a/2: 2"},
		},
		"first: pages of a hundred, names in use left out": {
			taken: "p-decision-1 p-decision-3", grouping: grouping(0, "a:"+span(1, 101), ":x"),
			want: []string{"Create p-decision-2 a/0: " + span(1, 100), "Create p-decision-4 a/0: c101", "Create p-decision-5 /1: x"},
		},
		"first: by score, rank orders within a page": {
			grouping: grouping(0, "b:n=9", ":m=9 a=5 b=5"),
			want:     []string{"Create p-decision-1 b/0: n=9", "Create p-decision-2 /1: m=9 a=5 b=5"},
		},
		"the same": {
			published: pages{page("p-decision-1", "", "0", "a b")}, grouping: grouping(0, ":b a"), wantQuiet: true,
		},
		"an empty page fills, in any group": {
			published: pages{page("p-decision-1", "", "0", "")}, grouping: grouping(0, "a:1 2"),
			want: []string{"Update p-decision-1 a/0: 1 2"},
		},
		"the last cluster goes": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "", "1", "2")}, grouping: grouping(0),
			want: []string{"Delete p-decision-2", "Update p-decision-1 /0:"},
		},
		"one comes, one goes: one write": {
			published: pages{page("p-decision-1", "", "0", "a b")}, grouping: grouping(0, ":b c"),
			want: []string{"Update p-decision-1 /0: b c"},
		},
		"a free place on the first page is filled, pages are not merged": {
			published: pages{page("p-decision-1", "", "0", span(1, 99)), page("p-decision-2", "", "0", "x")},
			grouping:  grouping(0, ":"+span(1, 99)+" a b x"),
			want:      []string{"Update p-decision-1 /0: a " + span(1, 99), "Update p-decision-2 /0: b x"},
		},
		"a page that empties is removed, the rest stays": {
			published: pages{page("p-decision-1", "", "0", "a"), page("p-decision-2", "", "0", "b")}, grouping: grouping(0, ":b"),
			want: []string{"Delete p-decision-1"},
		},
		"a moving cluster comes before it goes": {
			published: pages{page("p-decision-1", "a", "0", "1 2"), page("p-decision-2", "b", "1", "3")},
			grouping:  grouping(0, "a:1", "b:2 3"),
			want:      []string{"Update p-decision-2 b/1: 2 3", "Update p-decision-1 a/0: 1"}, wantQuiet: true,
		},
		"a cluster in the middle of a page moves to a new page": {
			published: pages{page("p-decision-1", "a", "0", "1 2 3")}, grouping: grouping(0, "a:1 3", "b:2"),
			want: []string{"Create p-decision-2 b/1: 2", "Update p-decision-1 a/0: 1 3"}, wantQuiet: true,
		},
		"a new page comes before one that loses clusters": {
			published: pages{page("p-decision-1", "a", "0", "1 2")}, grouping: grouping(0, "a:1 3", "b:2"),
			want: []string{"Create p-decision-2 b/1: 2", "Update p-decision-1 a/0: 1 3"},
		},
		"the page that needs less space comes first": {
			published: pages{page("p-decision-1", "a", "0", "1 x y z"), page("p-decision-2", "b", "1", "2 3 w")},
			grouping:  grouping(0, "a:1 4", "b:2 3 5"),
			want:      []string{"Update p-decision-2 b/1: 2 3 5 w", "Update p-decision-1 a/0: 1 4", "Update p-decision-2 b/1: 2 3 5"},
		},
		"full pages lose a cluster after its new page is there": {
			published: pages{page("p-decision-1", "a", "0", span(1, 99)+" x"), page("p-decision-2", "b", "1", span(101, 199)+" x")},
			grouping:  grouping(0, "a:"+span(1, 100), "b:"+span(101, 200), "c:x"),
			want:      []string{"Create p-decision-3 c/2: x", "Update p-decision-1 a/0: " + span(1, 100), "Update p-decision-2 b/1: " + span(101, 200)},
		},
		"a page with room for one more keeps what leaves": {
			published: pages{page("p-decision-1", "a", "0", span(1, 98)+" x"), page("p-decision-2", "b", "1", span(101, 199)+" y")},
			grouping:  grouping(0, "a:"+span(1, 99), "b:"+span(101, 200)),
			want: []string{
				"Update p-decision-1 a/0: " + span(1, 99) + " x", "Update p-decision-2 b/1: " + span(101, 200), "Update p-decision-1 a/0: " + span(1, 99),
			},
		},
		"full pages that list the same cluster do not both lose it": {
			published: pages{
				page("p-decision-1", "a", "0", span(1, 99)+" x"), page("p-decision-2", "b", "1", span(101, 199)+" x"),
				page("p-decision-3", "c", "2", span(201, 300)),
			},
			grouping: grouping(0, "a:"+span(1, 100), "b:"+span(101, 200), "c:"+span(201, 299)+" x"),
			want: []string{
				"Update p-decision-1 a/0: " + span(1, 100), "Update p-decision-3 c/2: " + span(201, 299) + " x",
				"Update p-decision-2 b/1: " + span(101, 200),
			},
		},
		"an exchange: what goes stays until all has come": {
			published: pages{page("p-decision-1", "a", "0", "1 2"), page("p-decision-2", "b", "1", "3 4")},
			grouping:  grouping(0, "a:1 3", "b:2 4"),
			want:      []string{"Update p-decision-1 a/0: 1 2 3", "Update p-decision-2 b/1: 2 4", "Update p-decision-1 a/0: 1 3"}, wantQuiet: true,
		},
		"an exchange: a repeated entry stays once": {
			published: pages{page("p-decision-1", "a", "0", "1 2 2"), page("p-decision-2", "b", "1", "3 4")},
			grouping:  grouping(0, "a:1 3", "b:2 4"),
			want:      []string{"Update p-decision-1 a/0: 1 2 3", "Update p-decision-2 b/1: 2 4", "Update p-decision-1 a/0: 1 3"},
		},
		"selectors of one group name share no group": {
			published: pages{page("p-decision-1", "a", "0", "1 2")}, grouping: grouping(2, "a:1 2 3", "a:4"),
			want: []string{"Create p-decision-2 a/1: 3", "Create p-decision-3 a/2: 4"},
		},
		"a group of two selectors is of the one with most of its clusters": {
			published: pages{page("p-decision-1", "a", "0", "1 2 3")}, grouping: grouping(0, "a:1", "b:9", "a:2 3"),
			want: []string{
				"Create p-decision-3 b/1:", "Create p-decision-2 a/0:", "Update p-decision-1 a/2: 1 2 3 (silent)", "Update p-decision-2 a/0: 1",
				"Update p-decision-3 b/1: 9", "Update p-decision-1 a/2: 2 3",
			},
		},
		"the group of the lowest index fills first": {
			published: pages{page("p-decision-1", "a", "1", "3 4"), page("p-decision-2", "a", "0", "1 2")}, grouping: grouping(3, "a:1 2 3 4 5"),
			want: []string{"Update p-decision-2 a/0: 1 2 5"},
		},
		"newcomers fill the group's page, then a new one": {
			published: pages{page("p-decision-1", "a", "0", span(1, 98))}, grouping: grouping(0, "a:"+span(1, 98)+" x y z"),
			want: []string{"Update p-decision-1 a/0: " + span(1, 98) + " x y", "Create p-decision-2 a/0: z"},
		},
		"a free page keeps its index": {
			published: pages{page("p-decision-5", "old", "0", "x")}, grouping: grouping(2, "a:1 2 3"),
			want: []string{"Create p-decision-1 a/1: 3", "Update p-decision-5 a/0: 1 2"},
		},
		"an adopted page of a lower number fills first": {
			published: pages{page("p-decision-1", "old", "0", "1"), page("p-decision-2", "a", "1", "2")}, grouping: grouping(0, "a:1 2 3"),
			want: []string{"Update p-decision-1 a/0: 1 (silent)", "Update p-decision-2 a/0: 2 (silent)", "Update p-decision-1 a/0: 1 3"},
		},
		"an exchange between full pages takes a bridge": {
			published: pages{page("p-decision-1", "a", "0", span(1, 100)), page("p-decision-2", "b", "1", span(101, 200))},
			grouping:  grouping(0, "a:"+span(2, 101), "b:c001 "+span(102, 200)),
			want: []string{
				"Create p-decision-3 a/0: c001", "Update p-decision-1 a/0: " + span(2, 101),
				"Update p-decision-2 b/1: c001 " + span(102, 200), "Delete p-decision-3",
			}, wantQuiet: true,
		},
		"a repeated entry on a full page takes a bridge, too": {
			published: pages{page("p-decision-1", "a", "0", "c001 "+span(1, 99)), page("p-decision-2", "b", "1", span(101, 200))},
			grouping:  grouping(0, "a:"+span(2, 99)+" c101 c201", "b:c001 "+span(102, 200)),
			want: []string{
				"Create p-decision-3 a/0: c001", "Update p-decision-1 a/0: " + span(2, 99) + " c101 c201",
				"Update p-decision-2 b/1: c001 " + span(102, 200), "Delete p-decision-3",
			},
		},
		"on a full page a newcomer takes the place of one that leaves": {
			published: pages{page("p-decision-1", "", "0", span(1, 100)), page("p-decision-2", "", "0", span(101, 200))},
			grouping:  grouping(0, ":a "+span(2, 100)+" b "+span(102, 200)),
			want:      []string{"Update p-decision-1 /0: a " + span(2, 100), "Update p-decision-2 /0: b " + span(102, 200)},
		},
		"a group renamed is a label": {
			published: pages{page("p-decision-1", "a", "0", "1 2"), page("p-decision-2", "", "1", "3")},
			grouping:  grouping(0, "early:1 2", ":3"),
			want:      []string{"Update p-decision-1 early/0: 1 2 (silent)"}, wantQuiet: true,
		},
		"a group renamed after a page that goes": {
			published: pages{page("p-decision-1", "old", "0", "x"), page("p-decision-2", "old", "1", "1 2")},
			grouping:  grouping(0, "new:1 2"),
			want:      []string{"Update p-decision-1 new/0: x (silent)", "Update p-decision-2 new/0: 1 2 (silent)", "Delete p-decision-1"},
		},
		"a group renamed that grows": {
			published: pages{page("p-decision-1", "old", "0", "1")}, grouping: grouping(0, "new:1 2"),
			want: []string{"Update p-decision-1 new/0: 1 2"},
		},
		"a page divided evenly becomes the first group": {
			published: pages{page("p-decision-1", "old", "0", "1 2")}, grouping: grouping(0, "b:1", "a:2"),
			want: []string{"Create p-decision-2 a/1: 2", "Update p-decision-1 b/0: 1"}, wantQuiet: true,
		},
		"a group in the middle goes: the next one takes its index": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "b", "1", "2"), page("p-decision-3", "c", "2", "3")},
			grouping:  grouping(0, "a:1", "c:3"),
			want:      []string{"Update p-decision-2 c/1: 2 (silent)", "Update p-decision-3 c/1: 3 (silent)", "Delete p-decision-2"},
		},
		"the groups around one go: the higher page is deleted first": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "b", "1", "2"), page("p-decision-3", "c", "2", "3")},
			grouping:  grouping(0, "b:2"),
			want: []string{
				"Delete p-decision-3", "Update p-decision-1 b/0: 1 (silent)", "Update p-decision-2 b/0: 2 (silent)", "Delete p-decision-1",
			},
		},
		"a new group comes first, under its name and with its clusters at once": {
			published: pages{page("p-decision-1", "", "0", "1 2"), page("p-decision-2", "", "0", "3 4")}, grouping: grouping(0, "new:1", ":2 3 4"),
			want: []string{
				"Update p-decision-2 /1: 3 4 (silent)", "Create p-decision-3 /0:", "Update p-decision-1 /1: 1 2 (silent)", "Update p-decision-3 new/0: 1",
				"Update p-decision-1 /1: 2",
			}, wantQuiet: true,
		},
		"a new group comes first: only one of many groups moves": {
			published: pages{page("p-decision-1", "", "0", "1 2"), page("p-decision-2", "", "1", "3 4"), page("p-decision-3", "", "2", "5 6")},
			grouping:  grouping(2, "new:9", ":1 2 3 4 5 6"),
			want:      []string{"Create p-decision-4 /0:", "Update p-decision-1 /3: 1 2 (silent)", "Update p-decision-4 new/0: 9"},
		},
		"the first group goes: only one of many groups moves": {
			published: pages{page("p-decision-1", "new", "0", "9"), page("p-decision-2", "", "1", "1 2"), page("p-decision-3", "", "2", "3 4")},
			grouping:  grouping(2, ":1 2 3 4"),
			want:      []string{"Update p-decision-1 /0: 9 (silent)", "Update p-decision-3 /0: 3 4 (silent)", "Delete p-decision-1"},
		},
		"the order of entries changes": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "b", "1", "2")},
			grouping:  grouping(0, "b:2", "a:1"),
			want: []string{
				"Create p-decision-3 a/0:", "Update p-decision-1 a/2: 1 (silent)", "Update p-decision-3 b/0: (silent)", "Create p-decision-4 b/1:",
				"Update p-decision-2 b/0: 2 (silent)", "Update p-decision-4 a/1: (silent)", "Update p-decision-1 a/1: 1 (silent)", "Delete p-decision-4",
				"Delete p-decision-3",
			}, wantQuiet: true,
		},
		"a group of three pages is renamed behind the others": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "a", "0", "2"), page("p-decision-3", "a", "0", "3"), page("p-decision-4", "b", "1", "4")},
			grouping:  grouping(0, "x:1 2 3", "b:4"),
			want: []string{
				"Update p-decision-2 a/2: 2 (silent)", "Update p-decision-3 a/2: 3 (silent)", "Update p-decision-1 x/0: 1 (silent)",
				"Update p-decision-3 x/0: 3 (silent)", "Update p-decision-2 x/0: 2 (silent)",
			}, wantQuiet: true,
		},
		"shorter groups: a page becomes a group": {
			published: pages{page("p-decision-1", "", "0", "1 2"), page("p-decision-2", "", "0", "3 4")}, grouping: grouping(2, ":1 2 3 4"),
			want: []string{"Update p-decision-2 /1: 3 4 (silent)"}, wantQuiet: true,
		},
		"shorter groups: the end of a page moves": {
			published: pages{page("p-decision-1", "", "0", "1 2 3")}, grouping: grouping(2, ":1 2 3"),
			want: []string{"Create p-decision-2 /1: 3", "Update p-decision-1 /0: 1 2"}, wantQuiet: true,
		},
		"longer groups stay apart, and newcomers fill the first": {
			published: pages{page("p-decision-1", "", "0", "1 2"), page("p-decision-2", "", "1", "3 4")}, grouping: grouping(0, ":1 2 3 4 5"),
			want: []string{"Update p-decision-1 /0: 1 2 5"},
		},
		"longer groups after an edit: pages become one group": {
			published: pages{page("p-decision-1", "", "0", "1 2"), page("p-decision-2", "", "1", "3 4"), page("p-decision-3", "", "2", "5")},
			grouping:  compact(grouping(0, ":1 2 3 4 5")),
			want:      []string{"Update p-decision-3 /0: 5 (silent)", "Update p-decision-2 /0: 3 4 (silent)"}, wantQuiet: true,
		},
		"slightly longer groups after an edit: the clusters of the last group move": {
			published: pages{page("p-decision-1", "", "0", "1 2"), page("p-decision-2", "", "1", "3 4"), page("p-decision-3", "", "2", "5 6")},
			grouping:  compact(grouping(3, ":1 2 3 4 5 6")),
			want:      []string{"Update p-decision-1 /0: 1 2 5", "Update p-decision-2 /1: 3 4 6", "Delete p-decision-3"}, wantQuiet: true,
		},
		"listed twice: the lower page keeps it": {
			published: pages{page("p-decision-10", "", "0", "a b"), page("p-decision-9", "", "0", "a c")}, grouping: grouping(0, ":a b c"),
			want: []string{"Update p-decision-10 /0: b"},
		},
		"the name of another Placement's page comes last": {
			published: pages{page("q-decision-1", "", "0", "a"), page("p-decision-7", "", "0", "a b")}, grouping: grouping(0, ":a b"),
			want: []string{"Delete q-decision-1"},
		},
		"a page with a valid index keeps a cluster": {
			published: pages{page("p-decision-1", "", "x", "a"), page("p-decision-2", "", "0", "a b")}, grouping: grouping(0, ":a b"),
			want: []string{"Delete p-decision-1"},
		},
		"an odd name is kept": {
			published: pages{page("odd", "", "0", "a")}, grouping: grouping(0, ":a b"),
			want: []string{"Update odd /0: a b"},
		},
		"labels are repaired": {
			published: pages{
				page("p-decision-1", "", "0", "a"), page("p-decision-2", "", "x", "b"),
				page("p-decision-3", "", "0", "c", withoutLabel(v1alpha1.DecisionGroupNameLabel)),
			},
			grouping:  grouping(0, ":a b c"),
			want:      []string{"Update p-decision-2 /0: b (silent)", "Update p-decision-3 /0: c (silent)"},
			wantQuiet: true,
		},
		"an ownerless page is adopted": {
			published: pages{page("p-decision-1", "", "0", "a", withoutOwner)}, grouping: grouping(0, ":a"),
			want: []string{"Update p-decision-1 /0: a (silent)"}, wantQuiet: true,
		},
		"another controller's page is left alone, and relied on for nothing": {
			published: pages{page("p-decision-1", "", "0", "a b", controlledBy("other"))}, grouping: grouping(0, ":a"),
			want: []string{"Create p-decision-2 /0: a"}, wantForeign: []string{"p-decision-1"},
		},
		"pages of others are listed by name": {
			published: pages{page("p-decision-9", "", "0", "", controlledBy("other")), page("p-decision-1", "", "0", "", controlledBy("other"))},
			grouping:  grouping(0, ":a"), want: []string{"Create p-decision-2 /0: a"}, wantForeign: []string{"p-decision-1", "p-decision-9"},
		},
		"an unfinished page is completed": {
			published: pages{page("p-decision-1", "", "", "z", withoutLabel(v1alpha1.PlacementLabel))}, grouping: grouping(0, ":a"),
			want: []string{"Update p-decision-1 /0: a"},
		},
		"an unfinished page before another is deleted": {
			published: pages{page("p-decision-1", "", "0", "b", withoutLabel(v1alpha1.PlacementLabel)), page("p-decision-2", "", "0", "a")},
			grouping:  grouping(0, ":a"), want: []string{"Delete p-decision-1 (silent)"}, wantQuiet: true,
		},
		"an unfinished page too many is deleted": {
			published: pages{page("p-decision-1", "", "0", "a"), page("p-decision-2", "", "0", "b", withoutLabel(v1alpha1.PlacementLabel))},
			grouping:  grouping(0, ":a"), want: []string{"Delete p-decision-2 (silent)"}, wantQuiet: true,
		},
		"a page for another Placement is none of ours": {
			published: pages{page("p-decision-1", "", "0", "a", func(pd *v1alpha1.PlacementDecision) { pd.Labels[v1alpha1.PlacementLabel] = "q" })},
			grouping:  grouping(0, ":a"), want: []string{"Create p-decision-2 /0: a"},
		},
		"a page being deleted counts as gone": {
			published: pages{page("p-decision-1", "", "0", "a", func(pd *v1alpha1.PlacementDecision) { pd.DeletionTimestamp = &metav1.Time{} })},
			grouping:  grouping(0, ":a"), want: []string{"Create p-decision-2 /0: a"},
		},
		"a page without status, as of Open Cluster Management's, publishes an empty decision": {
			published: pages{page("p-decision-1", "", "0", "", func(pd *v1alpha1.PlacementDecision) { pd.Status.Decisions = nil })},
			grouping:  grouping(0), wantQuiet: true,
		},
		"a page without status gets its clusters": {
			published: pages{page("p-decision-1", "", "0", "", func(pd *v1alpha1.PlacementDecision) { pd.Status.Decisions = nil })},
			grouping:  grouping(0, ":a"), want: []string{"Update p-decision-1 /0: a"},
		},
		"another order is restored without an event": {
			published: pages{page("p-decision-1", "", "0", "b a")}, grouping: grouping(0, ":a b"),
			want: []string{"Update p-decision-1 /0: a b (silent)"}, wantQuiet: true,
		},
		"scores come with sortBy Score, held or not": {
			published: pages{page("p-decision-1", "", "0", "a b")}, grouping: held(grouping(0, ":b=2 a=1")),
			want: []string{"Update p-decision-1 /0: b=2 a=1 (silent)"}, wantQuiet: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			taken := func(name string) bool { return slices.Contains(strings.Fields(tc.taken), name) }
			got := NewPlan(testPlacement(), tc.published, taken, tc.grouping)
			if d := cmp.Diff(tc.want, showWrites(got.Writes)); d != "" {
				t.Errorf("writes (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.wantForeign, got.Foreign); d != "" {
				t.Errorf("foreign (-want +got):\n%s", d)
			}
			if got.Changed == tc.wantQuiet {
				t.Errorf("Changed is %t", got.Changed)
			}
		})
	}
}

func BenchmarkOneJoinsFiveThousand(b *testing.B) {
	s, err := Compile(v1alpha1.DecisionStrategy{})
	if err != nil {
		b.Fatal(err)
	}
	var choices []Choice
	for i := range 5001 {
		choices = append(choices, Choice{Name: fmt.Sprintf("cluster-%04d", i*7%5001)})
	}
	w := newWorld()
	for _, write := range w.plan(s.Group(choices[:5000], false)).Writes {
		if err := w.apply(write); err != nil {
			b.Fatal(err)
		}
	}
	published := w.published()
	b.ReportAllocs()
	for b.Loop() {
		if p := NewPlan(w.placement, published, nil, s.Group(choices, false)); len(p.Writes) != 1 {
			b.Fatal(len(p.Writes))
		}
	}
}
