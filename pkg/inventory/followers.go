package inventory

import (
	"iter"
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// followers are the Placements of one namespace that are with another one: they follow it. Sets of
// positions need little memory where all Placements follow all.
type followers struct {
	// all are the Placements of the namespace, following those that follow others, both sorted.
	all, following []Key
	// of has the followers of each Placement, as positions in following, leaders the Placements
	// that each one follows, as positions in all.
	of, leaders map[Key]framework.Bitset
}

// followersOf iterates over the followers of a Placement, leadersOf over those that it follows.
func (f *followers) followersOf(key Key) iter.Seq[Key] { return keysAt(f.following, f.of[key]) }
func (f *followers) leadersOf(key Key) iter.Seq[Key]   { return keysAt(f.all, f.leaders[key]) }

func keysAt(keys []Key, positions framework.Bitset) iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for i := range positions.All {
			if !yield(keys[i]) {
				return
			}
		}
	}
}

// updateFollowers finds which Placements of a namespace follow which. Balance counts the decisions
// of those that do not follow, so proofs about the others end.
func (inv *Inventory) updateFollowers(namespace string) {
	old, next := inv.holdings.followers[namespace], inv.findFollowers(namespace)
	if inv.holdings.followers[namespace] = next; len(next.of) == 0 {
		delete(inv.holdings.followers, namespace)
	}
	for _, led := range []map[Key]framework.Bitset{old.of, next.of} {
		for key := range led {
			if p := inv.placements[key]; p != nil && !sameFollowers(&old, &next, key) {
				inv.unsettle(p)
			}
		}
	}
}

// sameFollowers reports whether a Placement has the same followers in both.
func sameFollowers(a, b *followers, key Key) bool {
	if slices.Equal(a.following, b.following) {
		return slices.Equal(a.of[key], b.of[key])
	}
	return slices.Equal(slices.Collect(a.followersOf(key)), slices.Collect(b.followersOf(key)))
}

// findFollowers makes at most maxAffinitySteps steps; with more, nobody follows.
func (inv *Inventory) findFollowers(namespace string) followers {
	next, steps := followers{all: sortedPlacements(inv.byNamespace[namespace]), of: map[Key]framework.Bitset{}, leaders: map[Key]framework.Bitset{}}, 0
	for _, from := range sortedPlacements(inv.selections.affinities[namespace]) {
		s := inv.selections.affinityOf(from)
		if len(s.with) == 0 || inv.placements[from] == nil {
			continue
		}
		cost := 0
		for _, term := range s.with {
			cost += term.cost
		}
		var leaders framework.Bitset
		for i, to := range next.all {
			if steps += cost; steps > maxAffinitySteps {
				return followers{}
			}
			if to != from && termFor(s.with, inv.placements[to]) != "" {
				leaders = leaders.Set(i)
				next.of[to] = next.of[to].Set(len(next.following))
			}
		}
		if leaders.Len() > 0 {
			next.leaders[from], next.following = leaders, append(next.following, from)
		}
	}
	return next
}

// reachable returns the Placements to which edges lead from one, without that.
func reachable(from Key, edges func(Key) iter.Seq[Key]) []Key {
	known, all := map[Key]bool{from: true}, []Key{from}
	for i := 0; i < len(all); i++ {
		for key := range edges(all[i]) {
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
	f := inv.holdings.followers[key.Namespace]
	if len(f.leaders[key]) == 0 {
		return
	}
	for _, leader := range reachable(key, f.leadersOf) {
		if p := inv.placements[leader]; p != nil {
			inv.unsettle(p)
		}
	}
}

// addFollowers adds the decisions of the Placements that follow one to its own, which Balance does
// not count: the clusters that they leave with it would look better, and each attempt would move
// all of them.
func (inv *Inventory) addFollowers(subject *framework.Subject, key Key) *framework.Subject {
	f := inv.holdings.followers[key.Namespace]
	if len(f.of[key]) == 0 {
		return subject
	}
	with, more := *subject, map[int]int32{}
	all := subject.Entries.Clusters.Clone()
	for _, follower := range reachable(key, f.followersOf) {
		own := inv.subject(inv.placements[follower]).Entries.Clusters
		for i := range own.All {
			if all.Has(i) {
				more[i]++
			}
		}
		all = all.Or(own)
	}
	with.Entries = framework.Entries{Clusters: all, More: more}
	return &with
}
