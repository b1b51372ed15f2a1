package changes

import (
	"slices"
	"strings"
)

// Sorted returns the names sorted, without duplicates. It does not change its argument.
func Sorted(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Between returns the names to add and to remove to get from one set to another, sorted.
func Between(from, to []string) (added, removed []string) {
	from, to = Sorted(from), Sorted(to)
	return Minus(to, from), Minus(from, to)
}

// Minus returns the names of a that are not in b; both are sorted. The result may share the memory
// of a.
func Minus(a, b []string) []string {
	if len(a) > 0 && len(b) == 0 {
		return a
	}
	var left []string
	for _, name := range a {
		for len(b) > 0 && strings.Compare(b[0], name) < 0 {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != name {
			left = append(left, name)
		}
	}
	return left
}

// apply returns (set − removed) + added, sorted.
func apply(set, added, removed []string) []string {
	return Sorted(slices.Concat(Minus(Sorted(set), Sorted(removed)), added))
}

// Contains reports whether a sorted list of names contains one.
func Contains(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// Both returns the names that are in both sorted lists. The result may share the memory of a.
func Both(a, b []string) []string { return Minus(a, Minus(a, b)) }
