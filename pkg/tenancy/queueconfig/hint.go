package queueconfig

import (
	"maps"
	"slices"
	"strings"
)

// elsewhere has keys, in lower case, that users may expect in a mapping, and where they are.
var elsewhere = map[string]string{
	"clustersets": "write properties: {clustersets: …}",
	"clusters":    "write resources: {max: {clusters: …}}",
}

// maxTypos is how many characters an unknown key differs at most from the legal one that a hint
// names.
const maxTypos = 2

// hint says what to write instead of an unknown key: the nearest legal key, else all of them.
func (f fields) hint(key string) string {
	key = strings.ToLower(key)
	legal := slices.Sorted(maps.Keys(f))
	nearest, typos := "", maxTypos+1
	for _, name := range legal {
		if n := distance(key, name); n < typos && 2*n < len(name) {
			nearest, typos = name, n
		}
	}
	switch {
	case nearest != "":
		return ": write " + nearest
	case f["properties"] != nil && elsewhere[key] != "":
		return ": " + elsewhere[key]
	}
	return "; the fields are " + strings.Join(legal, ", ")
}

// distance is the number of characters to insert, delete or replace in a to get b. It is more than
// maxTypos for texts of very different length.
func distance(a, b string) int {
	if len(a)-len(b) > maxTypos || len(b)-len(a) > maxTypos {
		return maxTypos + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
