package selection

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// member is a candidate of a random fleet.
type member struct {
	name        int
	total       int64
	demoted     bool
	delayed     bool
	tier, group int
	labels      map[string]string
}

func candidatesOf(members []member) *Candidates {
	c := &Candidates{
		Totals:  make([]int64, len(members)),
		ByName:  func(a, b int) int { return cmp.Compare(members[a].name, members[b].name) },
		Demoted: func(i int) bool { return members[i].demoted },
		Tier:    func(i int) int { return members[i].tier },
		Group:   func(i int) int { return members[i].group },
		Topology: func(i int, term v1alpha1.SpreadConstraintsTerm) (string, bool) {
			value, ok := members[i].labels[term.TopologyKey]
			return value, ok
		},
	}
	for i, m := range members {
		c.Totals[i] = m.total
		if m.delayed {
			c.Delayed = func(i int) bool { return members[i].delayed }
		}
	}
	return c
}

// namesOf are the names of chosen candidates, in the order of selection.
func namesOf(members []member, chosen []int) []int {
	names := make([]int, len(chosen))
	for i, j := range chosen {
		names[i] = members[j].name
	}
	return names
}

// randomDemand is a demand with up to three tiers and three groups. intN returns less than n.
func randomDemand(intN func(n int) int) *Demand {
	d := &Demand{Number: intN(12) - 1, Limit: -1, Overflow: intN(3) == 0}
	if intN(4) == 0 {
		d.Limit = intN(8)
	}
	for i := range intN(4) {
		d.Tiers = append(d.Tiers, Tier{Name: fmt.Sprint("tier-", i), Min: 1 + intN(4), Usable: intN(2) == 0})
	}
	for i := range intN(4) {
		g := Group{Name: fmt.Sprint("group-", i), Min: intN(4), Max: -1}
		if intN(2) == 0 {
			g.Max = g.Min + intN(3)
		}
		d.Groups = append(d.Groups, g)
	}
	return d
}

// randomMember is a candidate for a demand. Few scores make the names decide often.
func randomMember(intN func(n int) int, d *Demand, name int) member {
	m := member{name: name, total: int64(intN(4)), demoted: intN(4) == 0, tier: intN(len(d.Tiers)+1) - 1, group: intN(len(d.Groups)+1) - 1, labels: map[string]string{}}
	m.delayed = d.Overflow && intN(3) == 0
	if m.tier < 0 && intN(3) > 0 {
		m.tier = len(d.Tiers) - 1
	}
	for _, term := range d.Spread {
		if value := intN(5); value > 0 {
			m.labels[term.TopologyKey] = fmt.Sprint(value)
		}
	}
	return m
}

// firstSet is the chosen set by its definition: of all sets that satisfy the hard rules, the first
// in the order of tiers, minima and ranks. Sets and their members are bits, in the order of rank.
type firstSet struct {
	k      int
	tiers  []uint
	groups []Group
	of     []uint
}

func newFirstSet(c *Candidates, d *Demand, ranking []int) *firstSet {
	f := &firstSet{k: len(ranking), groups: d.Groups, tiers: make([]uint, 2*max(len(d.Tiers), 1)), of: make([]uint, len(d.Groups))}
	if d.Number >= 0 {
		f.k = min(f.k, d.Number)
	}
	if d.Limit >= 0 {
		f.k = min(f.k, d.Limit)
	}
	for rank, i := range ranking {
		switch {
		case len(d.Tiers) == 0:
			f.tiers[0] |= 1 << rank
		case c.Tier(i) >= 0 && c.Delayed != nil && c.Delayed(i):
			// Delayed candidates are in tiers after all others.
			f.tiers[len(d.Tiers)+c.Tier(i)] |= 1 << rank
		case c.Tier(i) >= 0:
			f.tiers[c.Tier(i)] |= 1 << rank
		}
		if len(d.Groups) > 0 && c.Group(i) >= 0 {
			f.of[c.Group(i)] |= 1 << rank
		}
	}
	if len(d.Tiers) == 0 || d.Overflow {
		return f
	}
	sufficient := func(waits bool) int {
		return slices.IndexFunc(d.Tiers, func(t Tier) bool {
			return bits.OnesCount(f.tiers[slices.Index(d.Tiers, t)]) >= t.Min && (t.Usable || waits)
		})
	}
	only := sufficient(false)
	if only < 0 {
		only = sufficient(true)
	}
	if only >= 0 {
		f.tiers = f.tiers[only : only+1]
	}
	return f
}

// permitted reports whether a set satisfies the hard rules.
func (f *firstSet) permitted(set uint) bool {
	inTiers := uint(0)
	for _, tier := range f.tiers {
		inTiers |= tier
	}
	for i, g := range f.groups {
		if g.Max >= 0 && bits.OnesCount(set&f.of[i]) > g.Max {
			return false
		}
	}
	return set&^inTiers == 0 && bits.OnesCount(set) <= f.k
}

// before reports whether set a is before b: by the first tier that differs in the number of
// clusters, in the minima as far as they are met so far, or in the ranks.
func (f *firstSet) before(a, b uint) bool {
	inTiers := uint(0)
	for _, tier := range f.tiers {
		if x, y := bits.OnesCount(a&tier), bits.OnesCount(b&tier); x != y {
			return x > y
		}
		inTiers |= tier
		for i, g := range f.groups {
			x, y := min(g.Min, bits.OnesCount(a&inTiers&f.of[i])), min(g.Min, bits.OnesCount(b&inTiers&f.of[i]))
			if x != y {
				return x > y
			}
		}
		if differ := (a ^ b) & tier; differ != 0 {
			return a&differ&-differ != 0
		}
	}
	return false
}

// TestFirstOfAllSets compares the selection without spread constraints with the first of all sets.
func TestFirstOfAllSets(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 10_000 {
		d := randomDemand(random.IntN)
		members := make([]member, random.IntN(11))
		for i, name := range random.Perm(len(members)) {
			members[i] = randomMember(random.IntN, d, name)
		}
		c := candidatesOf(members)
		ranking := Rank(c)
		f := newFirstSet(c, d, ranking)
		want := uint(0)
		for set := range uint(1) << len(members) {
			if f.permitted(set) && f.before(set, want) {
				want = set
			}
		}
		chosen, _, err := Select(c, d, never)
		got := uint(0)
		for _, i := range chosen {
			got |= 1 << slices.Index(ranking, i)
		}
		if got != want || bits.OnesCount(got) != len(chosen) || err != nil {
			t.Fatalf("round %d: chosen are ranks %b, want %b; %v\ndemand %+v\ncandidates %+v", round, got, want, err, d, members)
		}
	}
}

// TestSelectAsDefined compares the selection with the definition, with and without spread
// constraints, and checks that the order of candidates does not matter.
func TestSelectAsDefined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			checkSelect(t)
		}
	})
}

func checkSelect(t *rapid.T) {
	keys := []string{"region", "zone", "rack"}
	intN := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "") }
	d := randomDemand(intN)
	d.SpreadWeight = []int64{0, 0, 1, 2, -1}[intN(5)]
	for n := range intN(4) {
		one := spreadOver(intN(2) == 0, keys[n])[0]
		one.MaxSkew = int32(intN(4))
		d.Spread = append(d.Spread, one)
	}
	members := make([]member, intN(17))
	for i, name := range rapid.Permutation(sequence(len(members))).Draw(t, "names") {
		members[i] = randomMember(intN, d, name)
	}
	c := candidatesOf(members)
	if problem := compareWithDefinition(c, d); problem != "" {
		t.Fatalf("%s\ndemand %+v\ncandidates %+v", problem, d, members)
	}
	reordered := make([]member, len(members))
	for i, j := range rapid.Permutation(sequence(len(members))).Draw(t, "order") {
		reordered[i] = members[j]
	}
	chosen, short, _ := Select(c, d, never)
	again, shortAgain, _ := Select(candidatesOf(reordered), d, never)
	if diff := gocmp.Diff(namesOf(members, chosen), namesOf(reordered, again)) + gocmp.Diff(short, shortAgain); diff != "" {
		t.Fatalf("in another order (-first +second):\n%s\ndemand %+v\ncandidates %+v", diff, d, members)
	}
	if violated := Violated(c, d, chosen); (violated != "") != (len(short.Unmet) > 0) && len(d.Spread) == 0 {
		t.Fatalf("violated: %q, but %+v", violated, short)
	}
}

// TestAddedCluster: without spread constraints, an added cluster breaks no minimum that is met,
// unless another tier is used because of it, or the demand is for fewer clusters than the minima.
func TestAddedCluster(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for round := range 5_000 {
		d := randomDemand(random.IntN)
		d.Limit = -1
		if d.Number >= 0 {
			for _, g := range d.Groups {
				d.Number += g.Min
			}
		}
		members := make([]member, random.IntN(14))
		for i, name := range random.Perm(len(members)) {
			members[i] = randomMember(random.IntN, d, 2*name)
		}
		chosen, short, _ := Select(candidatesOf(members), d, never)
		added := randomMember(random.IntN, d, 2*random.IntN(len(members)+1)-1)
		after := append(slices.Clone(members), added)
		with, shortWith, _ := Select(candidatesOf(after), d, never)
		if len(d.Tiers) > 0 && (short.NoTierSufficient || d.Overflow || usedTier(members, chosen) != usedTier(after, with)) {
			continue
		}
		for i := range d.Groups {
			unmet := func(s Shortfall) int {
				at := slices.IndexFunc(s.Unmet, func(u Unmet) bool { return u.Group == i })
				if at < 0 {
					return 0
				}
				return s.Unmet[at].Missing
			}
			if unmet(shortWith) > unmet(short) {
				t.Fatalf("round %d: group %d lacks %d and then %d\ndemand %+v\ncandidates %+v", round, i, unmet(short), unmet(shortWith), d, after)
			}
		}
		if len(with) < len(chosen) {
			t.Fatalf("round %d: %d are chosen, then %d", round, len(chosen), len(with))
		}
	}
}

// usedTier is the tier of chosen candidates that are all from one; -1 if there are none.
func usedTier(members []member, chosen []int) int {
	if len(chosen) == 0 {
		return -1
	}
	return members[chosen[0]].tier
}

func TestTiersAndGroups(t *testing.T) {
	// 0 to 3 are in zone a and 4 to 7 in zone b, in the order of rank.
	zones := make([]map[string]string, 8)
	for i := range zones {
		zones[i] = map[string]string{"zone": []string{"a", "b"}[i/4]}
	}
	in := func(first ...int) func(i int) int {
		return func(i int) int {
			for class, from := range slices.Backward(first) {
				if i >= from {
					return class
				}
			}
			return -1
		}
	}
	const zone = "spec.spreadPolicy.spreadConstraints[0] (Label zone, maxSkew 1)"
	for name, tc := range map[string]struct {
		demand      Demand
		tier, group func(i int) int
		want        []int
		wantShort   Shortfall
	}{
		"minima first, in order, then by rank": {
			demand: Demand{Number: 4, Groups: []Group{{"x", 1, -1}, {"y", 2, -1}}}, group: in(2, 5), want: []int{2, 5, 6, 0},
		},
		"at most the maximum": {
			demand: Demand{Number: 3, Groups: []Group{{"x", 0, 2}}}, group: in(0), want: []int{0, 1}, wantShort: Shortfall{Missing: 1, Full: []int{0}},
		},
		"all that the maxima permit": {
			demand: Demand{Number: -1, Groups: []Group{{"x", 0, 1}, {"y", 1, 2}}}, group: in(1, 4), want: []int{4, 0, 1, 5},
		},
		"a minimum that cannot be met": {
			demand: Demand{Number: 5, Groups: []Group{{"x", 3, -1}}}, group: in(6), want: []int{6, 7, 0, 1, 2}, wantShort: Shortfall{Unmet: []Unmet{{0, 1}}},
		},
		"a limit below the minima": {
			demand: Demand{Number: 5, Limit: 2, Groups: []Group{{"x", 1, -1}, {"y", 2, -1}}}, group: in(2, 6), want: []int{2, 6},
			wantShort: Shortfall{Missing: 3, Unmet: []Unmet{{1, 1}}},
		},
		"all from the first sufficient tier": {
			demand: Demand{Number: 4, Tiers: []Tier{{Name: "a", Min: 3}, {Name: "b", Min: 3}}}, tier: in(0, 2), want: []int{2, 3, 4, 5},
		},
		"a tier that is usable before one that waits": {
			demand: Demand{Number: 2, Tiers: []Tier{{Name: "a", Min: 2}, {Name: "b", Min: 2, Usable: true}}}, tier: in(0, 2), want: []int{2, 3},
		},
		"fewer than wanted, from the only sufficient tier": {
			demand: Demand{Number: 4, Tiers: []Tier{{Name: "a", Min: 3}, {Name: "b", Min: 2}}}, tier: in(4, 6), want: []int{6, 7}, wantShort: Shortfall{Missing: 2},
		},
		"no tier is sufficient: in order": {
			demand: Demand{Number: 4, Tiers: []Tier{{Name: "a", Min: 4}, {Name: "b", Min: 4}}}, tier: in(2, 5), want: []int{2, 3, 4, 5}, wantShort: Shortfall{NoTierSufficient: true},
		},
		"overflow uses up a tier before the minima of the next": {
			demand: Demand{Number: 4, Overflow: true, Tiers: []Tier{{Name: "a", Min: 1}, {Name: "b", Min: 1}}, Groups: []Group{{"x", 1, -1}}},
			tier:   in(0, 3), group: in(7), want: []int{0, 1, 2, 7},
		},
		"a pick of a minimum that violates a constraint comes later": {
			demand: Demand{Number: 3, Groups: []Group{{"x", 2, -1}}, Spread: spreadOver(true, "zone")}, group: in(6), want: []int{6, 0, 7},
		},
		"a minimum that a constraint blocks": {
			demand: Demand{Number: 2, Groups: []Group{{"x", 2, -1}}, Spread: spreadOver(true, "zone")}, group: in(6), want: []int{6, 0},
			wantShort: Shortfall{Unmet: []Unmet{{0, 1}}},
		},
		"domains of the used tier only": {
			demand: Demand{Number: 3, Tiers: []Tier{{Name: "a", Min: 1}, {Name: "b", Min: 1}}, Spread: spreadOver(true, "zone")}, tier: in(0, 4), want: []int{0, 1, 2},
		},
		"domains of all tiers with overflow, in turns": {
			demand: Demand{Number: 4, Overflow: true, Tiers: []Tier{{Name: "a", Min: 1}, {Name: "b", Min: 1}}, Spread: spreadOver(true, "zone")},
			tier:   in(0, 4), want: []int{0, 4, 1, 5},
		},
		"a maximum and a constraint": {
			demand: Demand{Number: 4, Groups: []Group{{"x", 0, 1}}, Spread: spreadOver(true, "zone")}, group: in(4), want: []int{0, 4, 1},
			wantShort: Shortfall{Missing: 1, BlockedBy: zone, Full: []int{0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := labelled(zones...)
			c.Tier, c.Group = tc.tier, tc.group
			if tc.demand.Limit == 0 {
				tc.demand.Limit = -1
			}
			got, short, err := Select(c, &tc.demand, never)
			if diff := gocmp.Diff(tc.want, got) + gocmp.Diff(tc.wantShort, short); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
