package inventory

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nested is a map of maps, of which none is empty. Its zero value is empty.
type nested[A, B comparable, V any] map[A]map[B]V

func (n *nested[A, B, V]) set(a A, b B, value V) {
	if *n == nil {
		*n = nested[A, B, V]{}
	}
	if (*n)[a] == nil {
		(*n)[a] = map[B]V{}
	}
	(*n)[a][b] = value
}

func (n nested[A, B, V]) remove(a A, b B) {
	if delete(n[a], b); len(n[a]) == 0 {
		delete(n, a)
	}
}

// few is a set that mostly has one element, which needs no map: one page can list 1,000 clusters,
// and one policy name 20,000, that no other does.
type few[T comparable] struct {
	first T
	more  map[T]struct{}
}

func (f few[T]) all(yield func(T) bool) {
	var none T
	if f.first != none && !yield(f.first) {
		return
	}
	maps.Keys(f.more)(yield)
}

func addTo[K, T comparable](sets map[K]few[T], key K, element T) {
	var none T
	f := sets[key]
	switch {
	case f.first == none:
		f.first = element
	case f.first != element:
		if f.more == nil {
			f.more = map[T]struct{}{}
		}
		f.more[element] = struct{}{}
	}
	sets[key] = f
}

func removeFrom[K, T comparable](sets map[K]few[T], key K, element T) {
	f := sets[key]
	if delete(f.more, element); f.first != element {
		return
	}
	for next := range f.more {
		f.first = next
		delete(f.more, next)
		sets[key] = f
		return
	}
	delete(sets, key)
}

// byOwner has objects by name, and by the Placement that they name or belong to, which need not
// exist. Its zero value is empty.
type byOwner[T any] struct {
	byName      map[Key]T
	byPlacement nested[Key, string, T]
}

func (t *byOwner[T]) set(name, placement Key, object T) {
	if t.byName == nil {
		t.byName = map[Key]T{}
	}
	t.byName[name] = object
	t.byPlacement.set(placement, name.Name, object)
}

func (t *byOwner[T]) remove(name, placement Key) {
	delete(t.byName, name)
	t.byPlacement.remove(placement, name.Name)
}

// watched is what a watch has reported of a kind of objects.
type watched struct {
	// seen is the latest resource version.
	seen uint64
}

func (w *watched) observe(object metav1.Object) {
	if version, ok := versionOf(object); ok {
		w.seen = max(w.seen, version)
	}
}
