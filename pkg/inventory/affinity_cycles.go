package inventory

import (
	"maps"
	"slices"
	"strings"
)

// maxAffinitySteps bounds the work of looking for cycles of affinity in one namespace: the
// requirements of terms that are compared with a Placement, and the steps along them.
const maxAffinitySteps = 50_000

// affinityEdge leads from a Placement to one that its affinity names.
type affinityEdge struct {
	to   Key
	kind int
	// part is the strongly connected component, then the block.
	part int
}

// The kinds of edges, as bits. If both Placements are apart from each other (apartKind), the one
// that has a cluster keeps it.
const withKind, apartKind, oneSidedKind = 1, 2, 4

// mayNotSettle reports whether a cycle with these kinds of edges may never settle: both with and
// apartFrom, or an apartFrom that is not mutual, whose Placement leaves clusters that it has.
func mayNotSettle(kinds int) bool { return kinds&oneSidedKind != 0 || kinds == withKind|apartKind }

func (e affinityEdge) String() string {
	if e.kind == withKind {
		return "with " + e.to.Name
	}
	return "apart from " + e.to.Name
}

// affinityGraph has the Placements of a namespace that have affinity.
type affinityGraph struct {
	edges map[Key][]affinityEdge
	steps int
	// kinds are those of the edges in a block.
	kinds map[int]int
	// onPath is the current path of a search in a block, from is where it began, and path are its
	// edges.
	onPath map[Key]bool
	from   Key
	block  int
	path   []affinityEdge
}

// updateAffinityCycles finds the Placements of a namespace that are in a cycle of affinity that
// may never settle. It adds those for which that has changed.
func (inv *Inventory) updateAffinityCycles(namespace string, affected affectedSet) {
	old, next := inv.holdings.affinityCycles[namespace], inv.findAffinityCycles(namespace)
	for _, key := range slices.Concat(slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(next))) {
		if old[key] != next[key] {
			affected.add(key)
		}
	}
	if inv.holdings.affinityCycles[namespace] = next; len(next) == 0 {
		delete(inv.holdings.affinityCycles, namespace)
	}
}

func (inv *Inventory) findAffinityCycles(namespace string) map[Key]string {
	nodes := sortedPlacements(inv.selections.affinities[namespace])
	nodes = slices.DeleteFunc(nodes, func(key Key) bool { return inv.placements[key] == nil })
	if !slices.ContainsFunc(nodes, func(key Key) bool { return len(inv.selections.affinityOf(key).apartFrom) > 0 }) {
		return nil // a cycle of with alone settles
	}
	g := &affinityGraph{edges: map[Key][]affinityEdge{}, onPath: map[Key]bool{}}
	for _, from := range nodes {
		s := inv.selections.affinityOf(from)
		for _, list := range [...]struct {
			terms []affinityTerm
			kind  int
		}{{s.with, withKind}, {s.apartFrom, oneSidedKind}} {
			known := map[Key]bool{from: true}
			for i := range list.terms {
				for _, to := range inv.namedBy(&list.terms[i], nodes, g) {
					if !known[to] {
						known[to] = true
						g.edges[from] = append(g.edges[from], affinityEdge{to: to, kind: list.kind})
					}
				}
			}
		}
		if g.steps > maxAffinitySteps {
			return tooManyTerms(nodes)
		}
	}
	g.markMutual()
	return g.unsettledCycles(g.keepUnsettled(nodes))
}

// markMutual sets apartKind on the edges between Placements that are apart from each other.
func (g *affinityGraph) markMutual() {
	apart := map[[2]Key]bool{}
	for from, edges := range g.edges {
		for _, e := range edges {
			if e.kind != withKind {
				apart[[2]Key{from, e.to}] = true
			}
		}
	}
	for from, edges := range g.edges {
		for i := range edges {
			if edges[i].kind != withKind && apart[[2]Key{edges[i].to, from}] {
				edges[i].kind = apartKind
			}
		}
	}
}

// namedBy returns the Placements with affinity that a term names.
func (inv *Inventory) namedBy(t *affinityTerm, nodes []Key, g *affinityGraph) []Key {
	if t.selector == nil {
		g.steps++
		if i, found := slices.BinarySearchFunc(nodes, t.placement, func(key Key, name string) int { return strings.Compare(key.Name, name) }); found {
			return nodes[i : i+1]
		}
		return nil
	}
	var named []Key
	for _, to := range nodes {
		if g.steps += t.cost; g.steps > maxAffinitySteps {
			return nil
		}
		if t.names(inv.placements[to]) {
			named = append(named, to)
		}
	}
	return named
}

// keepUnsettled drops all edges that cannot be in a cycle that may never settle, and returns the
// Placements that still have edges. A cycle is within one block of one strongly connected
// component.
func (g *affinityGraph) keepUnsettled(nodes []Key) []Key {
	of := g.components(nodes)
	nodes = g.keepEdges(nodes, func(from Key, e affinityEdge) (part int, inPart bool) { return of[from], of[e.to] == of[from] })
	blockOf := g.blocks(nodes)
	return g.keepEdges(nodes, func(from Key, e affinityEdge) (part int, inPart bool) { return blockOf(from, e.to), true })
}

// keepEdges drops the edges outside of the parts of a graph, and all of the parts that settle. It
// sets the part of the others, and returns the Placements that still have edges.
func (g *affinityGraph) keepEdges(nodes []Key, partOf func(from Key, e affinityEdge) (part int, inPart bool)) []Key {
	g.kinds = map[int]int{}
	for _, from := range nodes {
		for i, e := range g.edges[from] {
			part, inPart := partOf(from, e)
			if g.edges[from][i].part = part; inPart {
				g.kinds[part] |= e.kind
			}
		}
	}
	for _, from := range nodes {
		g.edges[from] = slices.DeleteFunc(g.edges[from], func(e affinityEdge) bool {
			_, inPart := partOf(from, e)
			return !inPart || !mayNotSettle(g.kinds[e.part])
		})
	}
	return slices.DeleteFunc(nodes, func(key Key) bool { return len(g.edges[key]) == 0 })
}

// blocks numbers the blocks of the graph, without the direction of its edges: parts that stay
// connected without any one Placement (Hopcroft and Tarjan's algorithm). An edge is in one block,
// which is that of the end that was visited later.
func (g *affinityGraph) blocks(nodes []Key) (blockOf func(a, b Key) int) {
	index := make(map[Key]int, len(nodes))
	for i, key := range nodes {
		index[key] = i
	}
	neighbors := make([][]int, len(nodes))
	for from, key := range nodes {
		for _, e := range g.edges[key] {
			to := index[e.to]
			neighbors[from], neighbors[to] = append(neighbors[from], to), append(neighbors[to], from)
		}
	}
	order, low, block := make([]int, len(nodes)), make([]int, len(nodes)), make([]int, len(nodes))
	var stack []int
	visited, number := 0, 0
	var visit func(at, from int)
	visit = func(at, from int) {
		visited++
		order[at], low[at] = visited, visited
		for _, to := range neighbors[at] {
			if to == from {
				continue
			}
			if order[to] > 0 {
				low[at] = min(low[at], order[to])
				continue
			}
			stack = append(stack, to)
			visit(to, at)
			low[at] = min(low[at], low[to])
			if low[to] < order[at] {
				continue
			}
			for number++; block[to] == 0; stack = stack[:len(stack)-1] {
				block[stack[len(stack)-1]] = number
			}
		}
	}
	for at := range nodes {
		if order[at] == 0 {
			visit(at, -1)
		}
	}
	return func(a, b Key) int {
		if order[index[a]] > order[index[b]] {
			return block[index[a]]
		}
		return block[index[b]]
	}
}

// components numbers the strongly connected components of the graph (Tarjan's algorithm).
func (g *affinityGraph) components(nodes []Key) map[Key]int {
	of, order, low := map[Key]int{}, map[Key]int{}, map[Key]int{}
	var stack []Key
	var visit func(at Key)
	visit = func(at Key) {
		order[at] = len(order) + 1
		low[at] = order[at]
		stack = append(stack, at)
		for _, e := range g.edges[at] {
			if order[e.to] == 0 {
				visit(e.to)
			}
			if of[e.to] == 0 {
				low[at] = min(low[at], low[e.to])
			}
		}
		if low[at] != order[at] {
			return
		}
		for of[at] == 0 {
			of[stack[len(stack)-1]] = order[at]
			stack = stack[:len(stack)-1]
		}
	}
	for _, key := range nodes {
		if order[key] == 0 {
			visit(key)
		}
	}
	return of
}

// tooManyTerms makes Placements misconfigured.
func tooManyTerms(nodes []Key) map[Key]string {
	all := map[Key]string{}
	for _, key := range nodes {
		all[key] = "too many terms of affinity in the namespace to look for cycles"
	}
	return all
}

// unsettledCycles returns the members of cycles that may never settle, with the cycle's text.
func (g *affinityGraph) unsettledCycles(nodes []Key) map[Key]string {
	found := map[Key]string{}
	for _, key := range nodes {
		if found[key] != "" {
			continue
		}
		for _, e := range g.edges[key] {
			if e.kind == oneSidedKind && found[e.to] == "" {
				addCycle(found, key, g.shortestCycle(key, e))
				break
			}
		}
		if found[key] == "" && g.returnsInBlock(key) {
			addCycle(found, key, g.path)
		}
		if g.steps > maxAffinitySteps {
			return tooManyTerms(nodes)
		}
	}
	return found
}

// returnsInBlock begins a search in each block of a Placement that has edges of several kinds.
func (g *affinityGraph) returnsInBlock(from Key) bool {
	searched := map[int]bool{}
	for _, e := range g.edges[from] {
		if searched[e.part] || g.kinds[e.part]&withKind == 0 {
			continue
		}
		searched[e.part] = true
		g.from, g.block, g.path = from, e.part, nil
		clear(g.onPath)
		if g.returns(from, 0) {
			return true
		}
	}
	return false
}

// addCycle adds the members of a cycle that begins at a Placement, with the cycle's text.
func addCycle(found map[Key]string, from Key, path []affinityEdge) {
	text, at := []string{}, from.Name
	for _, e := range path {
		text = append(text, at+" "+e.String())
		at = e.to.Name
	}
	for _, e := range path {
		if found[e.to] == "" {
			found[e.to] = strings.Join(text, ", ")
		}
	}
}

// shortestCycle returns the shortest cycle that begins with an edge, whose ends are in one strongly
// connected component.
func (g *affinityGraph) shortestCycle(from Key, first affinityEdge) []affinityEdge {
	type step struct {
		at   Key
		edge affinityEdge
	}
	came := map[Key]step{first.to: {from, first}}
	for queue := []Key{first.to}; len(queue) > 0; queue = queue[1:] {
		for _, e := range g.edges[queue[0]] {
			if e.to == from {
				path := []affinityEdge{e}
				for at := queue[0]; at != from; at = came[at].at {
					path = append(path, came[at].edge)
				}
				slices.Reverse(path)
				return path
			}
			if _, known := came[e.to]; !known {
				came[e.to] = step{queue[0], e}
				queue = append(queue, e.to)
			}
		}
	}
	return nil
}

// returns reports whether a path in the block leads from a Placement back to the begin of the
// search, without passing a Placement twice, and may never settle. kinds are those on the path so
// far.
func (g *affinityGraph) returns(at Key, kinds int) bool {
	g.onPath[at] = true
	for _, e := range g.edges[at] {
		if g.steps++; g.steps > maxAffinitySteps {
			return false
		}
		if e.part != g.block {
			continue
		}
		both := kinds | e.kind
		g.path = append(g.path, e)
		if e.to == g.from && both&withKind != 0 && both != withKind || !g.onPath[e.to] && g.returns(e.to, both) {
			return true
		}
		g.path = g.path[:len(g.path)-1]
	}
	g.onPath[at] = false
	return false
}
