package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// bound is what one party can write of a kind: an agent for its cluster, an author in the namespace
// ns. Objects of authors are limited by a ResourceQuota only, so n is a large number.
type bound struct {
	n int
	// honest and hostile return the i-th object in one of its states, after those that it needs.
	honest, hostile func(i, version int) []client.Object
	// kept is the most memory for one hostile object, with those that it needs, in KiB. event and
	// attempt are what one event and one attempt may allocate, in MiB: work that takes long on a
	// large fleet builds tables.
	kept, event, attempt float64
}

const boundClusters = 1000

func numbered(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%05d", prefix, i))
	}
	return all
}

// boundPlacement is the Placement p<i>, with a page.
func boundPlacement(i int, clusters ...string) []client.Object {
	name := fmt.Sprint("p", i)
	pl := fixture.Placement("ns", name).Obj()
	pl.Labels = map[string]string{"l": "x"}
	return []client.Object{pl, fixture.Page("ns", name+"-decision-1").Of(name).OwnedBy(name).Lists(clusters...).Obj()}
}

func editedPlacement(i, version int, set func(s *v1alpha1.PlacementSpec)) []client.Object {
	pl := fixture.Placement("ns", fmt.Sprint("p", i)).Generation(int64(version + 1)).Obj()
	set(&pl.Spec)
	return []client.Object{pl}
}

// selecting is a SelectionPolicy of p<i>.
func selecting(i, version int, set func(s *berthv1alpha1.SelectionPolicySpec)) client.Object {
	name := fmt.Sprint("p", i)
	p := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(version + 1)}}
	p.Spec.Placement = name
	set(&p.Spec)
	return p
}

// requiring is a selector with the label l and other requirements, which Placements fulfil.
func requiring(l string, others int) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{"l": l}}
	for i := range others {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	return s
}

func references(n int, s *metav1.LabelSelector) []berthv1alpha1.PlacementReference {
	return slices.Repeat([]berthv1alpha1.PlacementReference{{PlacementSelector: s}}, n)
}

func resources(n int, amount string) v1alpha1.ResourceList {
	all := v1alpha1.ResourceList{}
	for i := range n {
		all[v1alpha1.ResourceName(fmt.Sprint("r", i))] = resource.MustParse(amount)
	}
	return all
}

func honestCluster(i, version int) []client.Object {
	return []client.Object{cluster(i, version%2 == 1)}
}

func honestPlacement(i, _ int) []client.Object {
	return []client.Object{threeOf("ns", fmt.Sprint("p", i)).Obj()}
}

func honestPolicy(i, version int) []client.Object {
	return append(boundPlacement(i, "cluster-00001"), selecting(i, version, func(s *berthv1alpha1.SelectionPolicySpec) { s.ClusterNames.Exclude = []string{"cluster-00002"} }))
}

func honestPage(i, version int) []client.Object {
	return boundPlacement(i, numbered("cluster-", 3+version%2)...)
}

func selectionBounds() map[string]bound {
	type spec = berthv1alpha1.SelectionPolicySpec
	of := func(n int, kept, event, attempt float64, set func(s *spec, i, version int), clusters int) bound {
		return bound{n: n, kept: kept, event: event, attempt: attempt, honest: honestPolicy, hostile: func(i, version int) []client.Object {
			return append(boundPlacement(i, numbered("cluster-", clusters+version%2)...), selecting(i, version, func(s *spec) { set(s, i, version%2) }))
		}}
	}
	return map[string]bound{
		"SelectionPolicy, names of clusters": of(4, 2600, 1, 1, func(s *spec, i, version int) {
			s.ClusterNames.Include, s.ClusterNames.Exclude = numbered(fmt.Sprint("i", i, version), 10_000), numbered(fmt.Sprint("e", i, version), 10_000)
		}, 1),
		"SelectionPolicy, affinity": of(200, 35, 0.7, 0.5, func(s *spec, _, version int) {
			s.Affinity.With, s.Affinity.ApartFrom = references(4, requiring("y", 9)), references(5+version, requiring("y", 9))
		}, 1),
		"SelectionPolicy, with all": of(150, 35, 12, 0.5, func(s *spec, _, version int) {
			s.Affinity.With, s.Affinity.ApartFrom, s.PreferenceWeight = references(1, requiring("x", 0)), references(1, requiring("z", 0)), new(int32(version))
		}, 3),
		"SelectionPolicy, requests": of(60, 160, 5, 0.5, func(s *spec, _, version int) { s.Requests = resources(16, fmt.Sprint(1+version)) }, boundClusters),
	}
}

func bounds() map[string]bound {
	all := map[string]bound{
		"ManagedCluster, labels": {n: 1, kept: 150, event: 0.5, attempt: 0.5, honest: honestCluster, hostile: func(i, version int) []client.Object {
			c := cluster(i, false)
			for _, name := range numbered("", 100_000) {
				c.Labels[name] = fmt.Sprint(version)
			}
			return []client.Object{c}
		}},
		"ManagedCluster, all else": {n: 1, kept: 3000, event: 0.5, attempt: 0.5, honest: honestCluster, hostile: func(i, version int) []client.Object {
			c := cluster(i, false)
			c.Annotations = map[string]string{}
			for _, name := range numbered("", 20_000) {
				c.Annotations[name] = fmt.Sprint(version)
			}
			for _, name := range numbered("", 10_000) {
				c.Status.ManagedNamespaces = append(c.Status.ManagedNamespaces, v1alpha1.ClusterSetManagedNamespaceConfig{ManagedNamespaceConfig: v1alpha1.ManagedNamespaceConfig{Name: name}})
			}
			for _, name := range numbered("", 1000) {
				c.Status.ClusterClaims = append(c.Status.ClusterClaims, v1alpha1.ManagedClusterClaim{Name: name, Value: fmt.Sprint(version)})
			}
			c.Status.Allocatable, c.Status.Capacity = resources(1000, fmt.Sprint(version)), resources(1000, fmt.Sprint(version))
			return []client.Object{c}
		}},
		"AddOnPlacementScore": {n: caches.MaxScores, kept: 120, event: 0.5, attempt: 0.5, honest: func(i, version int) []client.Object {
			return []client.Object{fixture.Score("cluster-00001", fmt.Sprint("s", i)).Value("a", 1).Value("b", int32(version%2)).Obj()}
		}, hostile: func(i, version int) []client.Object {
			s := fixture.Score("cluster-00001", fmt.Sprint("s", i))
			for k := range 2000 {
				s = s.Value(fmt.Sprintf("%064d", k), int32(version%2))
			}
			return []client.Object{s.Obj()}
		}},
		"Placement, values": {n: 4, kept: 2600, event: 0.5, attempt: 0.5, honest: honestPlacement, hostile: func(i, version int) []client.Object {
			return editedPlacement(i, version, func(s *v1alpha1.PlacementSpec) {
				s.Predicates = slices.Repeat([]v1alpha1.ClusterPredicate{{}}, 100)
				for k := range s.Predicates {
					s.Predicates[k] = selectorPredicate(metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", version), Operator: metav1.LabelSelectorOpNotIn, Values: numbered("", 1000)})
				}
			})
		}},
		"Placement, requirements": {n: 4, kept: 2500, event: 7, attempt: 5, honest: honestPlacement, hostile: func(i, version int) []client.Object {
			return editedPlacement(i, version, func(s *v1alpha1.PlacementSpec) {
				for k := range 99 {
					var all []metav1.LabelSelectorRequirement
					for _, name := range numbered(fmt.Sprintf("%045d.%d.%d.", 0, k, version%2), 99) {
						all = append(all, metav1.LabelSelectorRequirement{Key: name, Operator: metav1.LabelSelectorOpDoesNotExist})
					}
					s.Predicates = append(s.Predicates, selectorPredicate(all...))
				}
			})
		}},
		"Placement, number": {n: 1000, kept: 50, event: 0.5, attempt: 0.5, honest: honestPlacement, hostile: func(i, version int) []client.Object {
			return editedPlacement(i, version, func(s *v1alpha1.PlacementSpec) {
				s.ClusterSets = append(numbered("none", v1alpha1.MaxClusterSets-1), "s1")
				s.Predicates = []v1alpha1.ClusterPredicate{selectorPredicate(metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i, version), Operator: metav1.LabelSelectorOpDoesNotExist})}
			})
		}},
		"PlacementDecision, of another controller": {n: 200, kept: 450, event: 0.5, attempt: 2, honest: honestPage, hostile: func(i, version int) []client.Object {
			p := fixture.Page("ns", fmt.Sprint("page", i)).Of("p0").ControlledBy("Other", "o").Lists(numbered(fmt.Sprint(i, ".", version%2, "."), 1000)...)
			return []client.Object{p.Obj()}
		}},
		"PlacementEviction": {n: 2000, kept: 2, event: 0.5, attempt: 2, honest: func(i, version int) []client.Object {
			return []client.Object{fixture.Eviction("ns", fmt.Sprint("e", i), fmt.Sprint("p", i), "cluster-00001").Created(fixture.Now.Add(time.Duration(version) * time.Second)).Valid(metav1.ConditionTrue).Obj()}
		}, hostile: func(i, version int) []client.Object {
			return []client.Object{fixture.Eviction("ns", fmt.Sprint("e", i), "p0", fmt.Sprint("c", i, version)).Created(fixture.Now).Valid(metav1.ConditionTrue).Obj()}
		}},
		"DisruptionPolicy": {n: 500, kept: 12, event: 0.5, attempt: 0.5, honest: func(i, _ int) []client.Object {
			return append(boundPlacement(i, "cluster-00001"), fixture.ApprovalPolicy("ns", fmt.Sprint("d", i), fmt.Sprint("p", i)))
		}, hostile: func(i, version int) []client.Object {
			p := fixture.ApprovalPolicy("ns", fmt.Sprint("d", i))
			p.Spec.PlacementSelector, p.Spec.Approval, p.Spec.HistoryLimit = requiring("x", 10), "", int32(1+version%2)
			p.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "source", Selector: requiring("x", 10)}
			return append(boundPlacement(i, "cluster-00001"), p)
		}},
		"PlacementExplanation": {n: berthv1alpha1.MaxKeptExplanations, kept: 2, event: 0.5, attempt: 0.5, honest: func(i, _ int) []client.Object {
			return []client.Object{&berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("e", i)}}}
		}, hostile: func(i, _ int) []client.Object {
			e := &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("e", i), Annotations: map[string]string{}}}
			for _, name := range numbered("", 1000) {
				e.Annotations[name], e.Spec.Clusters = "", append(e.Spec.Clusters, name)
			}
			return []client.Object{e}
		}},
	}
	maps.Copy(all, selectionBounds())
	return all
}

func selectorPredicate(all ...metav1.LabelSelectorRequirement) (p v1alpha1.ClusterPredicate) {
	p.RequiredClusterSelector.LabelSelector.MatchExpressions = all
	return p
}

// read passes objects through the encoding and the transform of the controller's caches.
func read(tb testing.TB, objects []client.Object) (all []client.Object) {
	tb.Helper()
	transform := caches.Transform(caches.Controller)
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			tb.Fatal(err)
		}
		decoded := reflect.New(reflect.TypeOf(o).Elem()).Interface()
		if err := json.Unmarshal(text, decoded); err != nil {
			tb.Fatal(err)
		}
		kept, err := transform(decoded)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, kept.(client.Object))
	}
	return all
}

// boundHub is a hub with a party's objects beside 1,000 clusters and the Placements of others.
type boundHub struct {
	*inventory.Inventory
	engine *scheduler.Scheduler
	cache  []client.Object
	// each is the memory for one of the party's objects, in KiB.
	each float64
}

func newBoundHub(tb testing.TB, n int, objects func(i, version int) []client.Object) *boundHub {
	tb.Helper()
	profiles, err := builtin.Profiles(tb.Context(), nil, builtin.Registry(), &framework.Handle{Client: fake.NewFakeClient()})
	if err != nil {
		tb.Fatal(err)
	}
	h := &boundHub{Inventory: newHub(boundClusters, fixture.Placement("ns", "p0")), engine: scheduler.New(profiles, nil)}
	h.engine.CycleTimeout = config.DefaultCycleTimeout
	for i := range boundClusters {
		c := cluster(i, false)
		maps.Copy(c.Status.Allocatable, resources(16, "250"))
		h.Update(c)
	}
	h.ReplaceReadiness("source", nil, nil)
	h.Started()
	h.attempt(tb)
	before := heapInUse()
	for i := range n {
		for _, o := range read(tb, objects(i, 0)) {
			h.Update(o)
			h.cache = append(h.cache, o)
		}
	}
	h.attempt(tb)
	h.each = max(0, heapInUse()-before) / float64(n) / (1 << 10)
	return h
}

func heapInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// attempt decides the party's first Placement, and returns the longest time for which the cycle
// lock is held.
func (h *boundHub) attempt(tb testing.TB) (longest time.Duration) {
	tb.Helper()
	key := inventory.Key{Namespace: "ns", Name: "p0"}
	for range 1000 {
		for !h.engine.Prepare(h.Placement(key), h.SelectionPolicies(key)...) {
		}
		h.PrepareWindows(key, fixture.Now)
		began := time.Now()
		a := h.engine.DecideInTime(tb.Context(), h.Snapshot(key, fixture.Now, nil))
		longest = max(longest, time.Since(began))
		h.engine.Release(a.Decision)
		if !a.Failure.IsUnfinished() {
			return longest
		}
	}
	tb.Fatal("the attempt does not end")
	return 0
}

// allocated returns what a function allocates, in MiB.
func allocated(do func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
}

// TestBounds: what one party writes takes little memory beside its own size, and neither an event
// nor an attempt builds large tables, although another party's must wait for it.
func TestBounds(t *testing.T) {
	for name, row := range bounds() {
		t.Run(name, func(t *testing.T) {
			h := newBoundHub(t, row.n, row.hostile)
			event, attempt := 0.0, 0.0
			for version := range 3 {
				for _, o := range read(t, row.hostile(0, version+1)) {
					event = max(event, allocated(func() { h.Update(o) }))
				}
				attempt = max(attempt, allocated(func() { h.attempt(t) }))
			}
			event = max(event, allocated(func() { h.FailReadinessNamespace("source", "other", "too many objects") }))
			t.Logf("%.0f KiB kept, %.1f MiB allocated by an event, %.1f MiB by an attempt", h.each, event, attempt)
			if h.each > row.kept || event > row.event || attempt > row.attempt {
				t.Errorf("at most %.0f KiB, %.1f MiB and %.1f MiB are allowed", row.kept, row.event, row.attempt)
			}
			runtime.KeepAlive(h)
		})
	}
}

// BenchmarkBounds reports the time of one event and of one attempt, and the memory for one object,
// also in proportion to an honest one.
func BenchmarkBounds(b *testing.B) {
	for name, row := range bounds() {
		b.Run(name, func(b *testing.B) {
			honest := newBoundHub(b, row.n, row.honest).each
			h := newBoundHub(b, row.n, row.hostile)
			var attempts []time.Duration
			events := map[string][]time.Duration{}
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				objects := read(b, row.hostile(i%row.n, i+1))
				b.StartTimer()
				for _, o := range objects {
					began := time.Now()
					h.Update(o)
					events[fmt.Sprintf("%T", o)] = append(events[fmt.Sprintf("%T", o)], time.Since(began))
				}
				attempts = append(attempts, h.attempt(b))
			}
			longest := 0.0
			for _, all := range events {
				longest = max(longest, median(all))
			}
			b.ReportMetric(longest, "ms/event")
			b.ReportMetric(median(attempts), "ms/attempt")
			b.ReportMetric(h.each, "KiB/object")
			b.ReportMetric(h.each/max(honest, 0.1), "×honest")
		})
	}
}

func median(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}
