package decisions

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// fleet draws answers: which clusters are selected, in which group each of them is, and how groups
// are cut.
type fleet struct {
	rnd      *rand.Rand
	selected []bool
	tier     []string
	score    []int64
	strategy v1alpha1.DecisionStrategy
	byScore  bool
	hold     bool
	edited   bool // the strategy was edited since the last answer
}

var tiers = []string{"", "a1", "b2", "c3"}

func newFleet(t *rapid.T) *fleet {
	n := rapid.SampledFrom([]int{3, 12, 90, 230, 420}).Draw(t, "fleet")
	f := &fleet{
		rnd:      rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
		selected: make([]bool, n), tier: make([]string, n), score: make([]int64, n),
	}
	block := rapid.SampledFrom([]int{1, 50, 100, 120, 500}).Draw(t, "block")
	for i := range n {
		f.selected[i], f.tier[i] = true, tiers[i/block%len(tiers)]
	}
	f.entries(tiers[1:])
	return f
}

func (f *fleet) entries(order []string) {
	f.strategy.GroupStrategy.DecisionGroups = nil
	for _, tier := range order {
		g := v1alpha1.DecisionGroup{GroupName: tier}
		g.ClusterSelector.LabelSelector.MatchLabels = map[string]string{"tier": tier}
		f.strategy.GroupStrategy.DecisionGroups = append(f.strategy.GroupStrategy.DecisionGroups, g)
	}
}

// change alters something about the next answer.
func (f *fleet) change(t *rapid.T) {
	rate := rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.5, 1}).Draw(t, "rate")
	switch rapid.SampledFrom([]string{"select", "select", "all", "none", "tier", "swap", "swap", "length", "entries", "sort", "score"}).Draw(t, "change") {
	case "select":
		f.each(rate, func(i int) { f.selected[i] = !f.selected[i] })
	case "all":
		f.each(1, func(i int) { f.selected[i] = true })
	case "none":
		f.each(1, func(i int) { f.selected[i] = false })
	case "tier":
		f.each(rate, func(i int) { f.tier[i] = tiers[f.rnd.IntN(len(tiers))] })
	case "swap":
		other := map[string]string{"": "c3", "c3": "", "a1": "b2", "b2": "a1"}
		f.each(rate, func(i int) { f.tier[i] = other[f.tier[i]] })
	case "length":
		f.edited = true
		f.strategy.GroupStrategy.ClustersPerDecisionGroup = rapid.SampledFrom([]intstr.IntOrString{
			intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(7), intstr.FromInt32(60), intstr.FromInt32(100),
			intstr.FromInt32(130), intstr.FromString("14%"), intstr.FromString("50%"), intstr.FromString("100%"),
		}).Draw(t, "length")
	case "entries":
		f.edited = true
		f.entries(rapid.Permutation(tiers[1:]).Draw(t, "order")[:rapid.IntRange(0, 3).Draw(t, "entries")])
		for i := range f.strategy.GroupStrategy.DecisionGroups {
			if rapid.IntRange(0, 3).Draw(t, "renamed") == 0 {
				f.strategy.GroupStrategy.DecisionGroups[i].GroupName = "x9"
			}
		}
	case "sort":
		f.byScore, f.hold = !f.byScore, rapid.Bool().Draw(t, "hold")
	case "score":
		f.each(rate, func(i int) { f.score[i] = f.rnd.Int64N(400) - 200 })
	}
}

func (f *fleet) each(rate float64, do func(int)) {
	for i := range f.selected {
		if f.rnd.Float64() < rate {
			do(i)
		}
	}
}

func (f *fleet) grouping(t *rapid.T) Grouping {
	s, err := Compile(f.strategy)
	if err != nil {
		t.Fatal(err)
	}
	var choices []Choice
	for i := range f.selected {
		if f.selected[i] {
			choices = append(choices, Choice{Name: fmt.Sprintf("c%03d", i), Labels: map[string]string{"tier": f.tier[i]}, Score: f.score[i]})
		}
	}
	slices.SortStableFunc(choices, func(a, b Choice) int { return int(b.Score - a.Score) })
	a := s.Group(choices, f.byScore)
	a.DeferScores, a.Compact = f.hold, f.edited
	return a
}

// disturb does to a page what people and other programs do.
func (f *fleet) disturb(t *rapid.T, w *world) {
	pages := w.published()
	if len(pages) == 0 {
		return
	}
	pd := w.pages[rapid.SampledFrom(pages).Draw(t, "page").Name]
	index := rapid.SampledFrom([]string{"", "-1", "01", "0", "1", "2", "40", "x", "999999999999999999999"}).Draw(t, "index")
	name := rapid.SampledFrom(append([]string{"x9", "gone"}, tiers...)).Draw(t, "name")
	switch rapid.SampledFrom([]string{"delete", "index", "name", "labels", "owner", "taken", "edit", "long", "rename", "null", "unfinished", "leaving", "other"}).Draw(t, "disturb") {
	case "delete":
		delete(w.pages, pd.Name)
	case "index":
		pd.Labels[v1alpha1.DecisionGroupIndexLabel] = index
	case "name":
		pd.Labels[v1alpha1.DecisionGroupNameLabel] = name
	case "labels":
		delete(pd.Labels, v1alpha1.DecisionGroupIndexLabel)
		delete(pd.Labels, v1alpha1.DecisionGroupNameLabel)
	case "owner":
		pd.OwnerReferences = nil
	case "taken":
		controlledBy("someone")(pd)
	case "edit":
		pd.Status.Decisions = nil
		for range f.rnd.IntN(100) {
			pd.Status.Decisions = append(pd.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: fmt.Sprintf("c%03d", f.rnd.IntN(500))})
		}
	case "long":
		for range 120 {
			pd.Status.Decisions = append(pd.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: fmt.Sprintf("c%03d", f.rnd.IntN(500))})
		}
	case "rename":
		delete(w.pages, pd.Name)
		pd.Name = "odd-" + pd.Name
		w.pages[pd.Name] = pd
	case "null":
		pd.Status.Decisions = nil
	case "unfinished":
		delete(pd.Labels, v1alpha1.PlacementLabel)
	case "leaving":
		pd.DeletionTimestamp = &metav1.Time{}
	case "other":
		pd.Labels[v1alpha1.PlacementLabel] = "q"
	}
}

// run carries out the first writes of a plan, checking what readers see after each.
func run(t *rapid.T, w *world, a Grouping, writes []Write) {
	wanted := map[string]bool{}
	for _, c := range a.Choices {
		wanted[c.Name] = true
	}
	before, byGroups, broken := w.visible()
	for k, write := range writes {
		old := w.pages[write.Page.Name].DeepCopy()
		if err := w.apply(write); err != nil {
			t.Fatal(err)
		}
		after, nowByGroups, nowBroken := w.visible()
		fail := func(what string) {
			t.Fatalf("%s after write %d of\n%s", what, k+1, strings.Join(showWrites(writes), "\n"))
		}
		if nowBroken != "" && broken == "" {
			fail(nowBroken)
		}
		complete := true
		for c := range wanted {
			complete = complete && after[c]
			if before[c] && !after[c] {
				fail(c + " is missing")
			}
			if broken == "" && byGroups[c] && !nowByGroups[c] {
				fail(c + " is missing for a reader of groups")
			}
		}
		for c := range before {
			if full := old != nil && len(old.Status.Decisions)+len(write.Page.Decisions) > v1alpha1.MaxDecisionsPerPage; !after[c] && !complete && (!full || write.Op == Delete) {
				fail(c + " left before all had come")
			}
		}
		for c := range after {
			if !before[c] && !wanted[c] {
				fail(c + " came uncalled for")
			}
		}
		if a.Revision != 0 && !slices.ContainsFunc(slices.Collect(maps.Values(w.pages)), func(page *v1alpha1.PlacementDecision) bool {
			return w.placement.Publishes(page) && page.Annotations[berthv1alpha1.RevisionAnnotation] == strconv.FormatInt(a.Revision, 10)
		}) {
			fail("no page has the revision")
		}
		before, byGroups, broken = after, nowByGroups, nowBroken
	}
}

// checkResult checks the end of a plan.
func checkResult(t *rapid.T, w *world, a Grouping) {
	p := w.plan(a)
	if len(p.Writes) != 0 {
		t.Fatalf("not at rest:\n%s", strings.Join(showWrites(p.Writes), "\n"))
	}
	if _, _, broken := w.visible(); broken != "" {
		t.Fatal(broken)
	}
	got, want := map[string][]string{}, map[string][]string{}
	for _, c := range a.Groups {
		for _, i := range c.Choices {
			want[c.GroupName] = append(want[c.GroupName], a.Choices[i].Name)
		}
	}
	for _, page := range p.Pages {
		if page.Current == nil {
			t.Fatalf("page %s is not there", page.Name)
		}
		if d := cmp.Diff(page.Object(w.placement), page.Current, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		if !a.SortByScore && !slices.IsSortedFunc(page.Decisions, func(x, y v1alpha1.ClusterDecision) int { return strings.Compare(x.ClusterName, y.ClusterName) }) {
			t.Fatalf("page %s is not sorted", page.Name)
		}
		for _, d := range page.Decisions {
			got[page.GroupName] = append(got[page.GroupName], d.ClusterName)
			if (d.Score != nil) != a.SortByScore {
				t.Fatalf("page %s: score", page.Name)
			}
		}
	}
	for _, m := range []map[string][]string{got, want} {
		for _, clusters := range m {
			slices.Sort(clusters)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	names := map[int]string{}
	var order []string
	for i, g := range p.GroupStatus() {
		if int(g.DecisionGroupIndex) != i || int(g.ClusterCount) > a.Length {
			t.Fatalf("group %d of %d, at most %d: %+v", i, len(p.Pages), a.Length, g)
		}
		order = append(order, g.DecisionGroupName)
	}
	checkOrder(t, a, order)
	for _, page := range p.Pages {
		if name, ok := names[page.GroupIndex]; ok && name != page.GroupName {
			t.Fatalf("two names for group %d", page.GroupIndex)
		}
		names[page.GroupIndex] = page.GroupName
	}
	if len(a.Choices) == 0 && (len(p.Pages) != 1 || p.Pages[0].GroupName != "") {
		t.Fatalf("nothing selected: %v", showPages(p.Pages))
	}
}

// checkOrder demands that the groups are in the order of the entries, each entry with as many as it
// needs, or more if they were not made for this strategy.
func checkOrder(t *rapid.T, a Grouping, names []string) {
	left := names
	for k := 0; k < len(a.Groups); k++ {
		name, needed := a.Groups[k].GroupName, 0
		for ; k < len(a.Groups) && a.Groups[k].GroupName == name; k++ {
			needed += (len(a.Groups[k].Choices) + a.Length - 1) / a.Length
		}
		k--
		got := 0
		for got < len(left) && left[got] == name {
			got++
		}
		if got < needed || a.Compact && got > needed {
			t.Fatalf("groups %q for %v", names, a.Groups)
		}
		left = left[got:]
	}
	if len(left) > 0 && len(a.Groups) > 0 {
		t.Fatalf("groups %q for %v", names, a.Groups)
	}
}

// Whatever is published, and wherever a plan is interrupted, readers never miss a cluster that
// stays, and the end is right.
func TestPlanIsSafeAndConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, f := newWorld(), newFleet(t)
		for step := range rapid.Int64Range(1, 12).Draw(t, "steps") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				f.change(t)
			}
			if rapid.IntRange(0, 3).Draw(t, "calm") == 0 {
				f.disturb(t, w)
			}
			a := f.grouping(t)
			a.Revision = step + 1
			crashes := rapid.SampledFrom([]int{0, 0, 1, 3, 1000}).Draw(t, "crashes")
			for round := 0; ; round++ {
				writes := w.plan(a).Writes
				if round > 1000 {
					t.Fatal("no end")
				}
				if len(writes) == 0 {
					break
				}
				n := len(writes)
				if round < crashes {
					n = 1 + f.rnd.IntN(min(n, 3))
				}
				run(t, w, a, writes[:n])
				if n == len(writes) {
					break
				}
			}
			a.Revision = 0
			checkResult(t, w, a)
			f.edited = false
		}
	})
}

// One cluster more or less touches one page.
func TestPlanIsMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, f := newWorld(), newFleet(t)
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			f.change(t)
		}
		f.strategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("100%")
		a := f.grouping(t)
		run(t, w, a, w.plan(a).Writes)
		i := f.rnd.IntN(len(f.selected))
		f.selected[i] = !f.selected[i]
		next := f.grouping(t)
		if writes := w.plan(next).Writes; len(next.Choices) > 0 && len(a.Choices) > 0 && len(next.Groups) == len(a.Groups) && len(writes) != 1 {
			t.Fatalf("more than one write:\n%s", strings.Join(showWrites(writes), "\n"))
		}
	})
}
