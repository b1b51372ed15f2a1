package queue

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // It registers the queues' metrics.
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/lifecycle"
)

// fleet is what Lookup sees.
type fleet map[types.NamespacedName]*v1alpha1.Placement

func (f fleet) lookup(key types.NamespacedName) *v1alpha1.Placement { return f[key] }

// set makes or replaces a Placement.
func (f fleet) set(name string, priority int, created int64) reconcile.Request {
	key := types.NamespacedName{Namespace: "ns", Name: name}
	f[key] = &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0)),
		Annotations: map[string]string{v1alpha1.PriorityAnnotation: strconv.Itoa(priority)},
	}}
	return reconcile.Request{NamespacedName: key}
}

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
}

// drain pops all that wait.
func drain(h *Heap) (names []string) {
	for h.Len() > 0 {
		names = append(names, h.Pop().Name)
	}
	return names
}

// TestHeapPopsInOrder compares with a list that is sorted at each Pop, while Placements come,
// change and go.
func TestHeapPopsInOrder(t *testing.T) {
	less := lifecycle.PrioritySort{}.Less
	rapid.Check(t, func(t *rapid.T) {
		world, model := fleet{}, fleet{}
		h := NewHeap(less, world.lookup, 0)
		pop := func() {
			least := slices.MinFunc(keys(model), func(a, b types.NamespacedName) int {
				switch x, y := model[a], model[b]; {
				case x != nil && y != nil && less(x, y), x == nil && y != nil:
					return -1
				case x == nil && y == nil:
					return cmp.Compare(a.Name, b.Name)
				}
				return 1
			})
			delete(model, least)
			if got := h.Pop().NamespacedName; got != least {
				t.Fatalf("got %s, want %s", got, least)
			}
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"}).Draw(t, "name")
			one := request(name)
			switch rapid.IntRange(0, 5).Draw(t, "action") {
			case 0, 1:
				h.Push(one)
				model[one.NamespacedName] = world[one.NamespacedName]
			case 2:
				h.Touch(one)
				if _, waits := model[one.NamespacedName]; waits {
					model[one.NamespacedName] = world[one.NamespacedName]
				}
			case 3:
				// What changes unseen must not disturb the order of what waits.
				world.set(name, rapid.IntRange(-2, 2).Draw(t, "priority"), rapid.Int64Range(0, 2).Draw(t, "created"))
			case 4:
				delete(world, one.NamespacedName)
			default:
				if len(model) > 0 {
					pop()
				}
			}
			if h.Len() != len(model) {
				t.Fatalf("%d wait, want %d", h.Len(), len(model))
			}
		}
		for len(model) > 0 {
			pop()
		}
	})
}

func keys(f fleet) (all []types.NamespacedName) {
	for key := range f {
		all = append(all, key)
	}
	return all
}

func TestHeap(t *testing.T) {
	tests := map[string]struct {
		steps func(h *Heap, world fleet)
		want  []string
	}{
		"a priority that changes is seen by Touch": {
			steps: func(h *Heap, world fleet) {
				h.Push(world.set("a", 5, 0))
				h.Push(world.set("b", 1, 0))
				h.Touch(world.set("b", 9, 0))
			},
			want: []string{"b", "a"},
		},
		"without Touch it is not": {
			steps: func(h *Heap, world fleet) {
				h.Push(world.set("a", 5, 0))
				h.Push(world.set("b", 1, 0))
				world.set("b", 9, 0)
			},
			want: []string{"a", "b"},
		},
		"pushed twice, there once": {
			steps: func(h *Heap, world fleet) {
				h.Push(world.set("a", 5, 0))
				h.Push(world.set("b", 6, 0))
				h.Push(world.set("a", 7, 0))
			},
			want: []string{"a", "b"},
		},
		"Touch adds nothing": {
			steps: func(h *Heap, world fleet) { h.Touch(world.set("a", 5, 0)) },
		},
		"what is gone comes first, by key": {
			steps: func(h *Heap, world fleet) {
				h.Push(world.set("high", 100, 0))
				h.Push(request("y"))
				h.Push(request("x"))
			},
			want: []string{"x", "y", "high"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			world := fleet{}
			h := NewHeap(lifecycle.PrioritySort{}.Less, world.lookup, 0)
			tc.steps(h, world)
			if diff := gocmp.Diff(tc.want, drain(h)); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeapKeepsTheOrderOfArrivalAmongEquals(t *testing.T) {
	world := fleet{}
	h := NewHeap(func(_, _ *v1alpha1.Placement) bool { return false }, world.lookup, 0)
	var want []string
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(50) {
		name := fmt.Sprint("p", i)
		h.Push(world.set(name, 0, 0))
		want = append(want, name)
	}
	h.Touch(request(want[0]))
	if diff := gocmp.Diff(want, drain(h)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestNew goes through all layers, as the controller does.
func TestNew(t *testing.T) {
	world := fleet{}
	q := New(lifecycle.PrioritySort{}, world.lookup, 16)("queue-test", RateLimiter())
	defer q.ShutDown()
	q.Add(world.set("low", 1, 0))
	q.Add(world.set("middle", 5, 0))
	q.Add(world.set("high", 9, 0))
	q.Add(world.set("low", 7, 0))
	if got := depth(t, "queue-test"); got != 3 {
		t.Errorf("the metric says that %v wait, want 3", got)
	}
	for _, want := range []string{"high", "low", "middle"} {
		got, shutdown := q.Get()
		if shutdown || got.Name != want {
			t.Errorf("got %s, want %s", got.Name, want)
		}
		q.Done(got)
	}
	// What failed comes back after its delay.
	q.AddRateLimited(request("low"))
	if got, _ := q.Get(); got.Name != "low" || q.NumRequeues(got) != 1 {
		t.Errorf("got %s after %d failures, want low after 1", got.Name, q.NumRequeues(got))
	}
}

// depth is the metric workqueue_depth of a queue.
func depth(t *testing.T, name string) float64 {
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "workqueue_depth" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "name" && l.GetValue() == name {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	return -1
}

func TestRateLimiter(t *testing.T) {
	limiter := RateLimiter()
	one, other := request("one"), request("other")
	last := time.Duration(0)
	for i := range 20 {
		delay := limiter.When(one)
		if want := min(MinBackoff<<i, MaxBackoff); delay != want {
			t.Errorf("failure %d is repeated after %s, want %s", i+1, delay, want)
		}
		last = delay
	}
	if last != MaxBackoff {
		t.Errorf("the longest delay is %s, want %s", last, MaxBackoff)
	}
	if got := limiter.When(other); got != MinBackoff {
		t.Errorf("another Placement waits %s: delays are each Placement's own", got)
	}
	limiter.Forget(one)
	if got := limiter.When(one); got != MinBackoff {
		t.Errorf("after a success the first delay is %s", got)
	}
}

// BenchmarkHeap pushes 10,000 Placements of random priority and pops them all; the time is for one.
func BenchmarkHeap(b *testing.B) {
	const n = 10_000
	world := fleet{}
	random := rand.New(rand.NewPCG(1, 2))
	requests := make([]reconcile.Request, n)
	for i := range requests {
		requests[i] = world.set(fmt.Sprintf("p%05d", i), random.IntN(100), random.Int64N(1e6))
	}
	h := NewHeap(lifecycle.PrioritySort{}.Less, world.lookup, 0)
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range requests {
			h.Push(r)
		}
		for h.Len() > 0 {
			h.Pop()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/placement")
}

// TestNamespaceLeavesWorkersToOthers: whatever the order says, requests of one namespace are not
// all that is in progress.
func TestNamespaceLeavesWorkersToOthers(t *testing.T) {
	world := fleet{}
	h := NewHeap(lifecycle.PrioritySort{}.Less, world.lookup, 2)
	for i := range 4 {
		h.Push(world.set(fmt.Sprint("hostile-", i), 1_000, int64(i)))
	}
	other := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "other", Name: "ordinary"}}
	var got []string
	pop := func() {
		if h.Len() == 0 {
			got = append(got, "nothing")
			return
		}
		got = append(got, fmt.Sprintf("%s of %d", h.Pop().Name, h.Len()+1))
	}
	pop()
	pop()
	pop()
	h.Push(other)
	pop()
	h.Touch(request("hostile-3"))
	h.Done(request("hostile-0"))
	pop()
	pop()
	h.Push(request("hostile-0"))
	h.Done(request("hostile-1"))
	h.Done(request("hostile-2"))
	pop()
	pop()
	want := []string{
		"hostile-0 of 4", "hostile-1 of 1", "nothing", "ordinary of 1", "hostile-2 of 1", "nothing", "hostile-0 of 2", "hostile-3 of 1",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("popped, of so many (-want +got):\n%s", diff)
	}
	h.Done(request("hostile-0"))
	h.Done(request("hostile-3"))
	h.Done(other)
	if len(h.namespaces) != 0 {
		t.Errorf("%d namespaces are left", len(h.namespaces))
	}
}
