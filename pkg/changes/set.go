package changes

import "slices"

// Sorted returns the names sorted, each once. The argument stays as it is.
func Sorted(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// Between returns the names that lead from one set to another, sorted.
func Between(from, to []string) (added, removed []string) {
	from, to = Sorted(from), Sorted(to)
	return minus(to, from), minus(from, to)
}

// minus returns the names of a that are not in b; both are sorted.
func minus(a, b []string) []string {
	var left []string
	for _, name := range a {
		if _, found := slices.BinarySearch(b, name); !found {
			left = append(left, name)
		}
	}
	return left
}

// apply returns (set − removed) + added, sorted.
func apply(set, added, removed []string) []string {
	return Sorted(append(minus(Sorted(set), Sorted(removed)), added...))
}
