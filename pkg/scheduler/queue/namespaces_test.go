package queue

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/lifecycle"
)

// byGeneration orders Placements.
func byGeneration(a, b *v1alpha1.Placement) bool { return a.Generation < b.Generation }

func in(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func (f fleet) put(r reconcile.Request, generation int64) {
	f[r.NamespacedName] = &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, Generation: generation}}
}

// TestHeapOverNamespaces: the least request of all namespaces comes first, wherever it is, and
// after one changed its place.
func TestHeapOverNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		touched    string
		generation int64
		want       []string
	}{
		"the last becomes the first": {"e", 0, []string{"e", "a", "b", "c", "d"}},
		"the first becomes the last": {"a", 9, []string{"b", "c", "d", "e", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			world := fleet{}
			h := NewHeap(byGeneration, world.lookup, 0)
			for i, name := range []string{"d", "b", "e", "a", "c"} {
				r := in("ns-"+name, name)
				world.put(r, int64([]int{4, 2, 5, 1, 3}[i]))
				h.Push(r)
			}
			touched := in("ns-"+tc.touched, tc.touched)
			world.put(touched, tc.generation)
			h.Touch(touched)
			if diff := gocmp.Diff(tc.want, drain(h)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeapLimit compares with a list of all requests: of those whose namespaces are below the
// limit, the least is popped.
func TestHeapLimit(t *testing.T) {
	namespaces, names := []string{"x", "y", "z"}, []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		world := fleet{}
		for _, ns := range namespaces {
			for _, name := range names {
				world.put(in(ns, name), rapid.Int64Range(0, 5).Draw(t, "generation"))
			}
		}
		limit := rapid.IntRange(0, 2).Draw(t, "limit")
		h := NewHeap(byGeneration, world.lookup, limit)
		var waiting []reconcile.Request // in the order they came
		running := map[string]int{}
		ready := func() (list []reconcile.Request) {
			for _, r := range waiting {
				if limit == 0 || running[r.Namespace] < limit {
					list = append(list, r)
				}
			}
			slices.SortStableFunc(list, func(a, b reconcile.Request) int {
				return cmp.Compare(world[a.NamespacedName].Generation, world[b.NamespacedName].Generation)
			})
			return list
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r := in(rapid.SampledFrom(namespaces).Draw(t, "namespace"), rapid.SampledFrom(names).Draw(t, "name"))
			switch action := rapid.IntRange(0, 3).Draw(t, "action"); {
			case action == 0:
				h.Done(r)
				running[r.Namespace] = max(0, running[r.Namespace]-1)
			case action == 1 && len(ready()) > 0:
				want := ready()[0]
				if got := h.Pop(); got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
				waiting = slices.DeleteFunc(waiting, func(r reconcile.Request) bool { return r == want })
				running[want.Namespace]++
			default:
				h.Push(r)
				if !slices.Contains(waiting, r) {
					waiting = append(waiting, r)
				}
			}
			if got, want := h.Len(), len(ready()); got != want {
				t.Fatalf("%d wait, want %d", got, want)
			}
		}
	})
}

// TestHeapForgetsNamespaces: one without requests takes no memory, and Done of what nobody popped
// changes nothing.
func TestHeapForgetsNamespaces(t *testing.T) {
	world := fleet{}
	h := NewHeap(byGeneration, world.lookup, 1)
	h.Done(in("never", "a"))
	h.Push(in("x", "a"))
	h.Push(in("x", "b"))
	h.Done(in("x", "a"))
	if h.Len() != 2 || len(h.namespaces) != 1 {
		t.Errorf("%d wait in %d namespaces, want 2 in 1", h.Len(), len(h.namespaces))
	}
	first := h.Pop()
	if h.Len() != 0 {
		t.Errorf("%d wait beside one in progress, want 0", h.Len())
	}
	h.Done(first)
	if h.Len() != 1 || len(h.namespaces) != 1 {
		t.Errorf("%d wait in %d namespaces, want 1 in 1", h.Len(), len(h.namespaces))
	}
	h.Done(h.Pop())
	if h.Len() != 0 || len(h.namespaces) != 0 || len(h.byKey) != 0 {
		t.Errorf("%d wait in %d namespaces, %d known", h.Len(), len(h.namespaces), len(h.byKey))
	}
}

// TestLimitOfWorkers: how many of the workers one namespace may occupy.
func TestLimitOfWorkers(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 7: 6, 8: 6, 12: 9} {
		q := New(lifecycle.PrioritySort{}, fleet{}.lookup, workers)("", RateLimiter())
		if got := q.(*fair).requests.limit; got != want {
			t.Errorf("%d of %d workers, want %d", got, workers, want)
		}
		q.ShutDown()
	}
}
