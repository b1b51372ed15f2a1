package framework

import "math/bits"

// Bitset is a set of cluster indexes, 64 per word. The zero value is empty. Reading beyond the end
// is allowed.
type Bitset []uint64

// Has reports whether i is a member.
func (b Bitset) Has(i int) bool {
	w := i >> 6
	return w < len(b) && b[w]&(1<<(uint(i)&63)) != 0
}

// Set adds i and returns the set, which may have been reallocated.
func (b Bitset) Set(i int) Bitset {
	for i>>6 >= len(b) {
		b = append(b, 0)
	}
	b[i>>6] |= 1 << (uint(i) & 63)
	return b
}

// Unset removes i.
func (b Bitset) Unset(i int) {
	if i>>6 < len(b) {
		b[i>>6] &^= 1 << (uint(i) & 63)
	}
}

// Or adds the members of o to b and returns b, which may have been reallocated.
func (b Bitset) Or(o Bitset) Bitset {
	for len(b) < len(o) {
		b = append(b, 0)
	}
	for i, w := range o {
		b[i] |= w
	}
	return b
}

// And removes from b the members that are not in o.
func (b Bitset) And(o Bitset) {
	for i := range b {
		if i < len(o) {
			b[i] &= o[i]
		} else {
			b[i] = 0
		}
	}
}

// Covers reports whether all members of o are members of b.
func (b Bitset) Covers(o Bitset) bool {
	for i, w := range o {
		if i >= len(b) && w != 0 || i < len(b) && w&^b[i] != 0 {
			return false
		}
	}
	return true
}

// Equal reports whether two sets have the same members.
func (b Bitset) Equal(o Bitset) bool { return b.Covers(o) && o.Covers(b) }

// Without returns the members of b that are not in o, in new memory; nil if both share memory or
// are empty.
func (b Bitset) Without(o Bitset) Bitset {
	if len(b) == len(o) && (len(b) == 0 || &b[0] == &o[0]) {
		return nil
	}
	rest := b.Clone()
	for i := range min(len(b), len(o)) {
		rest[i] &^= o[i]
	}
	return rest
}

// Intersects reports whether b and o have a member in common.
func (b Bitset) Intersects(o Bitset) bool {
	for i := range min(len(b), len(o)) {
		if b[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// Clone returns a copy that shares no memory.
func (b Bitset) Clone() Bitset { return append(Bitset(nil), b...) }

// Len counts the members.
func (b Bitset) Len() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// All yields the members in ascending order.
func (b Bitset) All(yield func(int) bool) {
	for i, w := range b {
		for w != 0 {
			if !yield(i<<6 + bits.TrailingZeros64(w)) {
				return
			}
			w &= w - 1
		}
	}
}
