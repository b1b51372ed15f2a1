package framework

import "slices"

// chunkSize is how many elements are copied when one of them changes after a Freeze.
const chunkSize = 256

// Vector is a copy-on-write array for one writer. Freeze returns an immutable copy at the cost of
// one pointer per chunk; a chunk is copied on its first write after that. The zero value is empty.
type Vector[T any] struct {
	chunks []*[chunkSize]T
	// owned marks the chunks that no frozen copy shares; nil in a frozen copy.
	owned []bool
	// frozen is the last frozen copy, until something is set.
	frozen *Vector[T]
	n      int
}

// Len is one more than the highest index ever set.
func (v *Vector[T]) Len() int { return v.n }

// Get returns element i, or the zero value beyond the end and for a nil vector.
func (v *Vector[T]) Get(i int) T {
	if v == nil || uint(i) >= uint(v.n) {
		var zero T
		return zero
	}
	return v.chunks[i/chunkSize][i%chunkSize]
}

// Set writes element i and grows the vector if needed.
func (v *Vector[T]) Set(i int, x T) {
	for i/chunkSize >= len(v.chunks) {
		v.chunks = append(v.chunks, new([chunkSize]T))
		v.owned = append(v.owned, true)
	}
	c := i / chunkSize
	if !v.owned[c] {
		copied := *v.chunks[c]
		v.chunks[c], v.owned[c] = &copied, true
	}
	v.chunks[c][i%chunkSize] = x
	v.n, v.frozen = max(v.n, i+1), nil
}

// Freeze returns an immutable copy; the same one until the next Set.
func (v *Vector[T]) Freeze() *Vector[T] {
	if v.frozen == nil {
		clear(v.owned)
		v.frozen = &Vector[T]{chunks: slices.Clone(v.chunks), n: v.n}
	}
	return v.frozen
}

// Without returns a copy of a frozen vector in which some elements are the zero value.
func (v *Vector[T]) Without(indexes Bitset) *Vector[T] {
	c := v.copied()
	var zero T
	for i := range indexes.All {
		if i >= v.n {
			break
		}
		c.Set(i, zero)
	}
	return c
}

// With returns a copy of a frozen vector with another element i. i must be less than Len.
func (v *Vector[T]) With(i int, x T) *Vector[T] {
	c := v.copied()
	c.Set(i, x)
	return c
}

// copied returns a vector that shares its chunks with a frozen one.
func (v *Vector[T]) copied() *Vector[T] {
	return &Vector[T]{chunks: slices.Clone(v.chunks), owned: make([]bool, len(v.chunks)), n: v.n}
}
