package simulator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NotRead is what Load left out.
type NotRead struct {
	// kinds counts the objects of kinds on which no decision depends.
	kinds map[string]int
	// folders and files are names in folders.
	folders, files []string
}

// add counts an object.
func (n *NotRead) add(item object) {
	if n.kinds == nil {
		n.kinds = map[string]int{}
	}
	gv, _ := schema.ParseGroupVersion(item.apiVersion) // admit has parsed it
	kind := item.kind
	if gv.Group != "" {
		kind += "." + gv.Group
	}
	n.kinds[kind]++
}

// listed is how many kinds, and how many names, String lists.
const listed = 5

// String summarizes it in one short line; empty if all was read.
func (n *NotRead) String() string {
	var parts []string
	kinds := slices.SortedFunc(maps.Keys(n.kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(n.kinds[b], n.kinds[a]), cmp.Compare(a, b))
	})
	for _, kind := range kinds[:min(listed, len(kinds))] {
		parts = append(parts, fmt.Sprintf("%d %s", n.kinds[kind], cut(kind)))
	}
	if len(kinds) > listed {
		rest := 0
		for _, kind := range kinds[listed:] {
			rest += n.kinds[kind]
		}
		parts = append(parts, fmt.Sprintf("%d of %d more kinds", rest, len(kinds)-listed))
	}
	for _, group := range []struct {
		noun  string
		names []string
	}{{"subfolder", n.folders}, {"file", n.files}} {
		if len(group.names) == 0 {
			continue
		}
		names := make([]string, 0, listed)
		for _, name := range group.names[:min(listed, len(group.names))] {
			names = append(names, cut(name))
		}
		if len(group.names) > listed {
			names = append(names, "…")
		}
		noun := group.noun
		if len(group.names) > 1 {
			noun += "s"
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", len(group.names), noun, strings.Join(names, ", ")))
	}
	return strings.Join(parts, ", ")
}

// cut shortens a long name.
func cut(name string) string {
	const longest = 60
	if text := []rune(name); len(text) > longest {
		return string(text[:longest-1]) + "…"
	}
	return name
}
