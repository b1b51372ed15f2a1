package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/readiness"
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
	// most is the most memory for a byte of hostile objects, in proportion to honest ones that use
	// the same feature; mostOfHonest if 0.
	most float64
	// kept is the most memory for one hostile object, with those that it needs, in KiB. event and
	// attempt are what one event and one attempt may allocate, in MiB: work that takes long on a
	// large fleet builds tables.
	kept, event, attempt float64
}

// read passes objects through the encoding and the transform of the controller's caches, or the
// reader of the readiness source argocd. It returns what is kept, and the size as JSON.
func read(tb testing.TB, objects []client.Object) (all []any, size int) {
	tb.Helper()
	transform := caches.Transform(caches.Controller)
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			tb.Fatal(err)
		}
		size += len(text)
		decoded := reflect.New(reflect.TypeOf(o).Elem()).Interface()
		if err := json.Unmarshal(text, decoded); err != nil {
			tb.Fatal(err)
		}
		switch o := decoded.(type) {
		case *unstructured.Unstructured:
			all = append(all, readyObject(tb, o))
			continue
		case *berthv1alpha1.PlacementChange:
			if packed := changes.PackRecord(o); packed != nil {
				all = append(all, packed)
				continue
			}
		}
		kept, err := transform(decoded)
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, kept)
	}
	return all, size
}

// argocd is the readiness source of Applications.
var argocd = sync.OnceValue(func() *readiness.Source {
	sources, _ := readiness.Sources(nil)
	return sources[slices.IndexFunc(sources, func(s *readiness.Source) bool { return s.Name == "argocd" })]
})

func readyObject(tb testing.TB, o *unstructured.Unstructured) inventory.ReadyObject {
	kept := inventory.ReadyObject{Key: inventory.Key{Namespace: o.GetNamespace(), Name: o.GetName()}, Labels: o.GetLabels()}
	kept.Cluster, kept.Ready = argocd().Read(tb.Context(), o.Object)
	return kept
}

// boundHub is a hub with a party's objects beside 1,000 clusters and the Placements of others.
type boundHub struct {
	*inventory.Inventory
	engine *scheduler.Scheduler
	cache  []any
	// each is the memory for one of the party's objects, in KiB, and perByte that for a byte of
	// the objects as JSON.
	each, perByte float64
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
	h.ReplaceReadiness("argocd", nil, nil)
	h.attempt(tb)
	before, written := heapInUse(), 0
	for i := range n {
		all, size := read(tb, objects(i, 0))
		for written += size; len(all) > 0; all = all[1:] {
			h.update(all[0])
		}
	}
	h.Started()
	h.attempt(tb)
	kept := max(0, heapInUse()-before)
	h.each, h.perByte = kept/float64(n)/(1<<10), kept/float64(written)
	return h
}

// update processes an event of what is kept of an object.
func (h *boundHub) update(kept any) {
	switch o := kept.(type) {
	case inventory.ReadyObject:
		h.SetReadiness("argocd", o)
		return
	case *changes.PackedRecord:
		h.UpdatePacked(o)
	case client.Object:
		h.Update(o)
	}
	h.cache = append(h.cache, kept)
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
		h.PrepareReadiness(key)
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

// measuredElsewhere are the kinds that neither the inventory nor an attempt reads, and the tests
// that measure them.
var measuredElsewhere = map[string]string{
	"ClusterProfile": "controllers/housekeeping/profile_test.go: TestLargeProfilesTakeLittleMemory",
	"ConfigMap":      "pkg/tenancy/queueconfig/bounds_test.go: TestProblemsAreBounded",
	"Secret":         "pkg/caches/table_test.go: TestObjectsAreCutToTheBound",
}

// TestEveryCachedKindHasABound: each kind in the table of caches is measured, here or elsewhere.
func TestEveryCachedKindHasABound(t *testing.T) {
	cached, measured := map[string]bool{}, map[string]bool{}
	for _, row := range caches.Table() {
		cached[row.Kind] = true
	}
	for name := range bounds() {
		kind, _, _ := strings.Cut(name, ",")
		measured[kind] = true
	}
	for kind, where := range measuredElsewhere {
		file, test, _ := strings.Cut(where, ": ")
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil || !strings.Contains(string(text), "\nfunc "+test+"(") {
			t.Errorf("%s: there is no test %s (%v)", kind, where, err)
		}
		if measured[kind] {
			t.Errorf("%s is measured twice", kind)
		}
		measured[kind] = true
	}
	if !maps.Equal(cached, measured) {
		t.Errorf("cached are %v, measured %v", slices.Sorted(maps.Keys(cached)), slices.Sorted(maps.Keys(measured)))
	}
}

// honestFleet is the number of objects of an honest fleet.
const (
	honestFleet  = 300
	mostOfHonest = 1.2
)

// TestBounds: what one party writes takes little memory beside its own size, no more than honest
// objects of the same size, and neither an event nor an attempt builds large tables, although
// another party's must wait for it.
func TestBounds(t *testing.T) {
	for name, row := range bounds() {
		t.Run(name, func(t *testing.T) {
			honest := newBoundHub(t, honestFleet, row.honest).perByte
			h := newBoundHub(t, row.n, row.hostile)
			event, attempt := 0.0, 0.0
			for version := range 3 {
				objects, _ := read(t, row.hostile(0, version+1))
				for _, o := range objects {
					event = max(event, allocated(func() { h.update(o) }))
				}
				attempt = max(attempt, allocated(func() { h.attempt(t) }))
			}
			event = max(event, allocated(func() { h.FailReadinessNamespace("source", "other", "too many objects") }))
			t.Logf("%.1f KiB kept, %.2f × honest, %.1f MiB allocated by an event, %.1f MiB by an attempt", h.each, h.perByte/honest, event, attempt)
			if h.each > row.kept || event > row.event || attempt > row.attempt {
				t.Errorf("at most %.1f KiB, %.1f MiB and %.1f MiB are allowed", row.kept, row.event, row.attempt)
			}
			if most := cmp.Or(row.most, mostOfHonest); h.perByte > most*honest {
				t.Errorf("%.2f bytes for a byte, more than %.1f times the %.2f of honest objects", h.perByte, most, honest)
			}
			runtime.KeepAlive(h)
		})
	}
}

// BenchmarkBounds reports the time of one event and of one attempt, and the memory for one object,
// also in proportion to honest objects of the same size.
func BenchmarkBounds(b *testing.B) {
	for name, row := range bounds() {
		b.Run(name, func(b *testing.B) {
			honest := newBoundHub(b, honestFleet, row.honest).perByte
			h := newBoundHub(b, row.n, row.hostile)
			var attempts []time.Duration
			events := map[string][]time.Duration{}
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				objects, _ := read(b, row.hostile(0, i+1))
				b.StartTimer()
				for _, o := range objects {
					began := time.Now()
					h.update(o)
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
			b.ReportMetric(h.perByte/honest, "×honest")
		})
	}
}

func median(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}
