package inventory

import (
	"maps"
	"slices"
	"strings"
)

// maxAffinitySteps bounds the work of looking for cycles of affinity in one namespace: the terms
// that are compared with a Placement, and the steps along them.
const maxAffinitySteps = 50_000

// affinityEdge leads from a Placement to one that its affinity names.
type affinityEdge struct {
	to   Key
	with bool
}

func (e affinityEdge) String() string {
	if e.with {
		return "with " + e.to.Name
	}
	return "apart from " + e.to.Name
}

// affinityGraph are the Placements of a namespace that have affinity.
type affinityGraph struct {
	edges map[Key][]affinityEdge
	steps int
	// onPath is the current path of a search, from is where it began, and path are its edges.
	onPath map[Key]bool
	from   Key
	path   []affinityEdge
}

// updateCycles finds the Placements of a namespace that are in a cycle of affinity with both with
// and apartFrom, which may never settle. It adds those for which that has changed.
func (inv *Inventory) updateCycles(namespace string, affected affectedSet) {
	old, next := inv.holdings.cycles[namespace], inv.findCycles(namespace)
	for _, key := range slices.Concat(slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(next))) {
		if old[key] != next[key] {
			affected.add(key)
		}
	}
	if inv.holdings.cycles[namespace] = next; len(next) == 0 {
		delete(inv.holdings.cycles, namespace)
	}
}

func (inv *Inventory) findCycles(namespace string) map[Key]string {
	g := &affinityGraph{edges: map[Key][]affinityEdge{}, onPath: map[Key]bool{}}
	var nodes []Key
	for key := range inv.byNamespace[namespace] {
		if inv.selections.affinityOf(key) != nil {
			nodes = append(nodes, key)
		}
	}
	slices.SortFunc(nodes, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	both := 0
	for _, key := range nodes {
		s := inv.selections.affinityOf(key)
		if len(s.with) > 0 {
			both |= 1
		}
		if len(s.apartFrom) > 0 {
			both |= 2
		}
	}
	if both != 3 {
		return nil
	}
	for _, from := range nodes {
		s := inv.selections.affinityOf(from)
		for _, to := range nodes {
			if from == to {
				continue
			}
			g.steps += len(s.with) + len(s.apartFrom)
			if termFor(s.with, inv.placements[to]) != "" {
				g.edges[from] = append(g.edges[from], affinityEdge{to, true})
			}
			if termFor(s.apartFrom, inv.placements[to]) != "" {
				g.edges[from] = append(g.edges[from], affinityEdge{to, false})
			}
			if g.steps > maxAffinitySteps {
				return tooManyTerms(nodes)
			}
		}
	}
	return g.mixedCycles(nodes)
}

// tooManyTerms makes all Placements with affinity of a namespace misconfigured.
func tooManyTerms(nodes []Key) map[Key]string {
	all := map[Key]string{}
	for _, key := range nodes {
		all[key] = "too many terms of affinity in the namespace to look for cycles"
	}
	return all
}

// mixedCycles returns the members of cycles with both kinds of edges, with the cycle's text.
func (g *affinityGraph) mixedCycles(nodes []Key) map[Key]string {
	found := map[Key]string{}
	for _, key := range nodes {
		if found[key] != "" {
			continue
		}
		g.from, g.path = key, nil
		if g.returns(key, 0) {
			text := []string{}
			at := key.Name
			for _, e := range g.path {
				text = append(text, at+" "+e.String())
				at = e.to.Name
			}
			found[key] = strings.Join(text, ", ")
			for _, e := range g.path {
				if found[e.to] == "" {
					found[e.to] = found[key]
				}
			}
		}
		clear(g.onPath)
		if g.steps > maxAffinitySteps {
			return tooManyTerms(nodes)
		}
	}
	return found
}

// returns reports whether a path leads from a Placement back to the begin of the search, without
// passing a Placement twice, and has both kinds of edges. kinds are those on the path so far.
func (g *affinityGraph) returns(at Key, kinds int) bool {
	g.onPath[at] = true
	for _, e := range g.edges[at] {
		if g.steps++; g.steps > maxAffinitySteps {
			return false
		}
		with := kinds | 1
		if !e.with {
			with = kinds | 2
		}
		g.path = append(g.path, e)
		if e.to == g.from && with == 3 || !g.onPath[e.to] && g.returns(e.to, with) {
			return true
		}
		g.path = g.path[:len(g.path)-1]
	}
	g.onPath[at] = false
	return false
}
