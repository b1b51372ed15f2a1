package inventory

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

func TestSameQuantities(t *testing.T) {
	type quantities = map[v1alpha1.ResourceName]resource.Quantity
	of := func(text string) resource.Quantity { return resource.MustParse(text) }
	tests := map[string]struct {
		a, b quantities
		want bool
	}{
		"none":              {want: true},
		"the same":          {a: quantities{"cpu": of("1")}, b: quantities{"cpu": of("1")}, want: true},
		"in another form":   {a: quantities{"cpu": of("1")}, b: quantities{"cpu": of("1000m")}, want: true},
		"another notation":  {a: quantities{"memory": of("1Gi")}, b: quantities{"memory": of("1073741824")}},
		"another amount":    {a: quantities{"cpu": of("1")}, b: quantities{"cpu": of("2")}},
		"one more":          {a: quantities{"cpu": of("1")}, b: quantities{"cpu": of("1"), "memory": of("1")}},
		"one less":          {a: quantities{"cpu": of("1"), "memory": of("1")}, b: quantities{"cpu": of("1")}},
		"of another name":   {a: quantities{"cpu": of("0")}, b: quantities{"memory": of("0")}},
		"one other of many": {a: quantities{"cpu": of("1"), "memory": of("1")}, b: quantities{"cpu": of("1"), "memory": of("2")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := sameQuantities(tc.a, tc.b); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestSameLists: an edit of any list of a record is seen.
func TestSameLists(t *testing.T) {
	for name, edit := range map[string]func(*berthv1alpha1.PlacementChangeSpec){
		"truncated":          func(spec *berthv1alpha1.PlacementChangeSpec) { spec.Truncated = true },
		"the count of added": func(spec *berthv1alpha1.PlacementChangeSpec) { spec.AddedCount++ },
		"that of removed":    func(spec *berthv1alpha1.PlacementChangeSpec) { spec.RemovedCount++ },
		"both, packed":       func(spec *berthv1alpha1.PlacementChangeSpec) { spec.Delta = []byte{1} },
		"added":              func(spec *berthv1alpha1.PlacementChangeSpec) { spec.Added = []string{"b"} },
		"removed":            func(spec *berthv1alpha1.PlacementChangeSpec) { spec.Removed = []string{"b"} },
	} {
		t.Run(name, func(t *testing.T) {
			a := &berthv1alpha1.PlacementChange{Spec: berthv1alpha1.PlacementChangeSpec{Added: []string{"a"}}}
			b := a.DeepCopy()
			if !sameLists(a, b) {
				t.Error("a copy differs")
			}
			if edit(&b.Spec); sameLists(a, b) {
				t.Error("not seen")
			}
		})
	}
}

// TestCostOfTerms: the work of a term grows with its requirements, as far as they are valid.
func TestCostOfTerms(t *testing.T) {
	selecting := func(keys ...string) berthv1alpha1.PlacementReference {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for _, key := range keys {
			s.MatchLabels[key] = "x"
		}
		return berthv1alpha1.PlacementReference{PlacementSelector: s}
	}
	for name, tc := range map[string]struct {
		term berthv1alpha1.PlacementReference
		want int
	}{
		"a name":            {term: berthv1alpha1.PlacementReference{Placement: "p"}, want: 1},
		"none":              {term: selecting(), want: 1},
		"three":             {term: selecting("a", "b", "c"), want: 3},
		"three, of no kind": {term: selecting("a", "b", "c d"), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &berthv1alpha1.SelectionPolicy{Spec: berthv1alpha1.SelectionPolicySpec{Affinity: berthv1alpha1.PlacementAffinity{With: []berthv1alpha1.PlacementReference{tc.term}}}}
			if got := newSelectionPolicy(policy).with[0].cost; got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// TestEdited: edited names the first part in which two states of a Placement differ.
func TestEdited(t *testing.T) {
	changed := func(changes ...func(*v1alpha1.Placement)) *v1alpha1.Placement {
		pl := fixture.Placement("n", "p").Obj()
		for _, change := range changes {
			change(pl)
		}
		return pl
	}
	annotated := func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{"a": "b"} }
	labelled := func(pl *v1alpha1.Placement) { pl.Labels = map[string]string{"a": "b"} }
	deleted := func(pl *v1alpha1.Placement) { pl.DeletionTimestamp = new(fixture.At(0)) }
	respecified := func(pl *v1alpha1.Placement) { pl.Spec.ClusterSets = []string{"s"} }
	recreated := func(pl *v1alpha1.Placement) { pl.UID = "second" }
	tests := map[string]struct {
		changes []func(*v1alpha1.Placement)
		want    string
	}{
		"annotations": {changes: []func(*v1alpha1.Placement){annotated}, want: "annotations"},
		"labels":      {changes: []func(*v1alpha1.Placement){annotated, labelled}, want: "labels"},
		"a deletion":  {changes: []func(*v1alpha1.Placement){annotated, labelled, deleted}, want: "deleted"},
		"the spec":    {changes: []func(*v1alpha1.Placement){annotated, labelled, deleted, respecified}, want: "spec"},
		"the object":  {changes: []func(*v1alpha1.Placement){annotated, labelled, deleted, respecified, recreated}, want: "created"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := edited(changed(), changed(tc.changes...)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			inv := New(Options{})
			inv.Started()
			inv.Update(changed())
			inv.Update(changed(tc.changes...))
			if got := inv.placements[Key{Namespace: "n", Name: "p"}].cause; got != "Placement: "+tc.want {
				t.Errorf("the cause is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestReadsOf has a case for each part of a spec that names labels, claims or scores.
func TestReadsOf(t *testing.T) {
	group := v1alpha1.DecisionGroup{ClusterSelector: v1alpha1.GroupClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"x": "1"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "y", Operator: metav1.LabelSelectorOpExists}}},
		ClaimSelector: v1alpha1.ClusterClaimSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "z", Operator: metav1.LabelSelectorOpExists}}},
	}}
	grouped := fixture.Placement("n", "p").Obj()
	grouped.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []v1alpha1.DecisionGroup{group}
	byClaim := fixture.Placement("n", "p").Spread("zone", 1, v1alpha1.DoNotSchedule).Obj()
	byClaim.Spec.SpreadPolicy.SpreadConstraints[0].TopologyKeyType = v1alpha1.TopologyKeyTypeClaim
	bare := fixture.Placement("n", "p").Prioritizer(v1alpha1.PrioritizerResourceAllocatableCPU, 1).Obj()
	bare.Spec.PrioritizerPolicy.Configurations = append([]v1alpha1.PrioritizerConfig{{}}, bare.Spec.PrioritizerPolicy.Configurations...)
	tests := map[string]struct {
		placement              *v1alpha1.Placement
		labels, claims, scores []string
		cpu, memory            bool
		everything             bool
	}{
		"nothing":               {placement: fixture.Placement("n", "p").Obj()},
		"groups":                {placement: grouped, labels: []string{"x", "y"}, claims: []string{"z"}},
		"a spread over labels":  {placement: fixture.Placement("n", "p").Spread("zone", 1, v1alpha1.DoNotSchedule).Obj(), labels: []string{"zone"}},
		"a spread over claims":  {placement: byClaim, claims: []string{"zone"}},
		"a prioritizer of none": {placement: bare, cpu: true},
		"memory":                {placement: fixture.Placement("n", "p").Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1).Obj(), memory: true},
		"a score":               {placement: fixture.Placement("n", "p").AddOn("r", "s", 1).Obj(), scores: []string{"r"}},
		"CEL": {placement: fixture.Placement("n", "p").Predicate(fixture.MatchCEL("true")).
			Predicate(fixture.MatchLabel("a", "b")).Obj(), everything: true, labels: []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := readsOf(&tc.placement.Spec)
			for what, both := range map[string][2][]string{
				"labels": {tc.labels, readOf(r.labels)},
				"claims": {tc.claims, readOf(r.claims)},
				"scores": {tc.scores, readOf(r.scores)},
			} {
				if diff := cmp.Diff(both[0], both[1]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			if r.cpu != tc.cpu || r.memory != tc.memory || r.everything != tc.everything {
				t.Errorf("cpu %t, memory %t, everything %t", r.cpu, r.memory, r.everything)
			}
		})
	}
}

// readOf returns the keys that are read.
func readOf(keys map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(keys)), func(key string) bool { return !keys[key] })
}

// TestLogIsCut: the log of changed clusters drops its older half when it is much longer than the
// fleet is large.
func TestLogIsCut(t *testing.T) {
	inv := New(Options{})
	inv.Update(fixture.Cluster("c").Obj())
	inv.logChange(1, true)
	limit := 4096 + 4*inv.clusters.Len()
	for len(inv.log.Entries) < limit {
		inv.logChange(0, false)
	}
	if _, known := inv.log.Since(0); !known || inv.log.First != 0 {
		t.Errorf("the log begins at %d", inv.log.First)
	}
	inv.fleet = nil
	inv.freeze()
	last := inv.log.Next()
	inv.logChange(2, true)
	if inv.fleet != nil {
		t.Error("the next snapshot is of the old fleet")
	}
	dropped := (limit + 1) / 2
	if inv.log.First != uint64(dropped) || len(inv.log.Entries) != limit+1-dropped {
		t.Errorf("the log begins at %d and has %d entries, want %d and %d", inv.log.First, len(inv.log.Entries), dropped, limit+1-dropped)
	}
	changes, known := inv.log.Since(last)
	if !known || len(changes) != 1 || changes[0].Index != 2 || !changes[0].Selectable {
		t.Errorf("the last entry: %v", changes)
	}
	if _, known := inv.log.Since(0); known {
		t.Error("what was dropped is known")
	}
}

// TestNameTable: a name keeps its index until its last reference is released; then another name may
// reuse the index.
func TestNameTable(t *testing.T) {
	names := nameTable{index: map[string]int{}}
	for step, want := range []int{0, 0, 1} {
		if got := names.acquire([]string{"a", "a", "b"}[step]); got != want {
			t.Errorf("step %d: index %d, want %d", step, got, want)
		}
	}
	names.release(0)
	if got := names.acquire("c"); got != 2 {
		t.Errorf("index %d is given out while a name uses it", got)
	}
	names.release(0)
	if got := names.acquire("d"); got != 0 {
		t.Errorf("a new name has index %d, want the free one", got)
	}
}

// TestAffectedSetKeys: keys are in order of namespace, then name.
func TestAffectedSetKeys(t *testing.T) {
	set := affectedSet{}
	if keys := sortedPlacements(set); keys != nil {
		t.Errorf("got %v", keys)
	}
	set.all(map[Key]*placement{{Namespace: "b", Name: "a"}: nil, {Namespace: "a", Name: "z"}: nil, {Namespace: "a", Name: "b"}: nil})
	if got := fmt.Sprint(sortedPlacements(set)); got != "[a/b a/z b/a]" {
		t.Errorf("got %s", got)
	}
}
