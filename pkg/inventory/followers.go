package inventory

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// followers are the Placements of one namespace that are with another one: they follow it.
type followers struct {
	// of are the followers of each Placement, leaders the Placements that each one follows.
	of, leaders map[Key][]Key
}

// updateFollowers finds which Placements of a namespace follow which. Balance counts the decisions
// of those that do not follow, so proofs about the others end.
func (inv *Inventory) updateFollowers(namespace string) {
	old, next := inv.holdings.followers[namespace], inv.findFollowers(namespace)
	if inv.holdings.followers[namespace] = next; len(next.of) == 0 {
		delete(inv.holdings.followers, namespace)
	}
	for _, leaders := range []map[Key][]Key{old.of, next.of} {
		for key := range leaders {
			if p := inv.placements[key]; p != nil && !slices.Equal(old.of[key], next.of[key]) {
				inv.unsettle(p)
			}
		}
	}
}

// findFollowers makes at most maxAffinitySteps steps; with more, nobody follows.
func (inv *Inventory) findFollowers(namespace string) followers {
	next, steps := followers{of: map[Key][]Key{}, leaders: map[Key][]Key{}}, 0
	all := sortedPlacements(inv.byNamespace[namespace])
	of := make([][]Key, len(all))
	for _, from := range sortedPlacements(inv.selections.affinities[namespace]) {
		s := inv.selections.affinityOf(from)
		if len(s.with) == 0 || inv.placements[from] == nil {
			continue
		}
		var leaders []Key
		for i, to := range all {
			if steps += costOf(s.with); steps > maxAffinitySteps {
				return followers{}
			}
			if to != from && termFor(s.with, inv.placements[to]) != "" {
				of[i], leaders = append(of[i], from), append(leaders, to)
			}
		}
		if len(leaders) > 0 {
			next.leaders[from] = leaders
		}
	}
	for i, to := range all {
		if len(of[i]) > 0 {
			next.of[to] = of[i]
		}
	}
	return next
}

// reachable returns the Placements to which edges lead from one, without that.
func reachable(from Key, edges map[Key][]Key) []Key {
	if len(edges[from]) == 0 {
		return nil
	}
	known, all := map[Key]bool{from: true}, []Key{from}
	for i := 0; i < len(all); i++ {
		for _, key := range edges[all[i]] {
			if !known[key] {
				known[key] = true
				all = append(all, key)
			}
		}
	}
	return all[1:]
}

// unsettleLeaders ends the proofs about the Placements that one follows, whose counts of decisions
// leave out its own.
func (inv *Inventory) unsettleLeaders(key Key) {
	for _, leader := range reachable(key, inv.holdings.followers[key.Namespace].leaders) {
		if p := inv.placements[leader]; p != nil {
			inv.unsettle(p)
		}
	}
}

// addFollowers adds the decisions of the Placements that follow one to its own, which Balance does
// not count: the clusters that they leave with it would look better, and each attempt would move
// all of them.
func (inv *Inventory) addFollowers(subject *framework.Subject, key Key) *framework.Subject {
	all := reachable(key, inv.holdings.followers[key.Namespace].of)
	if len(all) == 0 {
		return subject
	}
	with := *subject
	with.Entries = maps.Clone(subject.Entries)
	for _, follower := range all {
		for i, n := range inv.subject(inv.placements[follower]).Entries {
			with.Entries[i] += n
		}
	}
	with.Counted = nil
	for i := range with.Entries {
		with.Counted = with.Counted.Set(i)
	}
	return &with
}
