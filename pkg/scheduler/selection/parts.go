package selection

import (
	"math"
	"slices"
)

// parts divide the candidates of a demand by tier and group.
type parts struct {
	groups []Group
	// width is the number of parts per tier: one for each group, and the last for no group.
	width int
	// tiers are the tiers of the candidates, -1 for none; nil without tiers. Delayed ones have
	// further tiers. first and last bound the tiers that may be used; last is excluded.
	tiers       []int16
	first, last int
	// noneSufficient is true if all clusters were to be from one tier and none is sufficient.
	noneSufficient bool
	// chosen are the numbers of chosen clusters by group.
	chosen []int
	// all are the parts, tier by tier, for a selection under spread constraints. shift is the
	// number of bits below the order of a part.
	all   []part
	shift int
}

// part are the candidates of one tier and group.
type part struct {
	tier, group int
	// order is the position of the part in the selection, in the bits above the constraints. full
	// is true if no more clusters of the group may be chosen.
	order uint
	full  bool
}

// divide returns the parts; nil if the demand has neither tiers nor groups.
func divide(c *Candidates, d *Demand) *parts {
	if len(d.Tiers) == 0 && len(d.Groups) == 0 {
		return nil
	}
	p := &parts{groups: d.Groups, width: len(d.Groups) + 1, last: max(len(d.Tiers), 1), chosen: make([]int, len(d.Groups)+1)}
	if len(d.Tiers) == 0 {
		return p
	}
	p.tiers = make([]int16, len(c.Totals))
	qualifying := make([]int, len(d.Tiers))
	for i := range p.tiers {
		tier := c.Tier(i)
		if p.tiers[i] = int16(tier); tier >= 0 {
			qualifying[tier]++
		}
	}
	if d.Overflow {
		p.putLast(c.Delayed)
		return p
	}
	first, ok := firstTier(d.Tiers, qualifying)
	if p.noneSufficient = !ok; ok {
		p.first, p.last = first, first+1
	}
	return p
}

// putLast moves delayed candidates to further tiers, after all others.
func (p *parts) putLast(delayed func(i int) bool) {
	if delayed == nil {
		return
	}
	for i, tier := range p.tiers {
		if tier >= 0 && delayed(i) {
			p.tiers[i] += int16(p.last)
		}
	}
	p.last *= 2
}

// tier returns the tier of a candidate, -1 for none; 0 if there are no tiers.
func (p *parts) tier(i int) int {
	if p.tiers == nil {
		return 0
	}
	return int(p.tiers[i])
}

// usable reports whether a candidate is in a tier that may be used.
func (p *parts) usable(i int) bool { return p.tier(i) >= p.first && p.tier(i) < p.last }

// group returns the group of a candidate, the last one for none.
func (p *parts) group(c *Candidates, i int) int {
	if len(p.groups) > 0 {
		if group := c.Group(i); group >= 0 {
			return group
		}
	}
	return len(p.groups)
}

// sizes returns the numbers of candidates by group, in tiers that may be used.
func (p *parts) sizes(c *Candidates) []int {
	sizes := make([]int, p.width)
	for i := range c.Totals {
		if p.usable(i) {
			sizes[p.group(c, i)]++
		}
	}
	return sizes
}

// room returns how many more clusters of a group may be chosen.
func (p *parts) room(group int) int {
	if group == len(p.groups) || p.groups[group].Max < 0 {
		return math.MaxInt
	}
	return max(p.groups[group].Max-p.chosen[group], 0)
}

// missing returns how many clusters a group lacks to its minimum.
func (p *parts) missing(group int) int {
	if group == len(p.groups) {
		return 0
	}
	return max(p.groups[group].Min-p.chosen[group], 0)
}

// available returns the number of candidates that the tiers and the maxima permit.
func (p *parts) available(c *Candidates) int {
	n := 0
	for group, size := range p.sizes(c) {
		n += min(size, p.room(group))
	}
	return n
}

// members returns the candidates in tiers that may be used.
func (p *parts) members(n int) []int {
	members := make([]int, 0, n)
	for i := range n {
		if p.usable(i) {
			members = append(members, i)
		}
	}
	return members
}

// fill selects k candidates, tier by tier.
func (p *parts) fill(c *Candidates, k int) []int {
	var chosen []int
	for tier := p.first; tier < p.last && len(chosen) < k; tier++ {
		chosen = p.fillTier(c, tier, chosen, k)
	}
	return chosen
}

// fillTier appends candidates of a tier until k are chosen: first the minima, then by rank.
func (p *parts) fillTier(c *Candidates, tier int, chosen []int, k int) []int {
	best := p.bestOfTier(c, tier, k-len(chosen))
	take := func(at int) {
		i := best[at].all[0]
		best[at].all = best[at].all[1:]
		chosen = append(chosen, i)
		p.chosen[p.group(c, i)]++
	}
	for group := range p.groups {
		for n := min(p.missing(group), len(best[group].all), k-len(chosen)); n > 0; n-- {
			take(group)
		}
	}
	for len(chosen) < k {
		next := -1
		for at, of := range best {
			if len(of.all) > 0 && (next < 0 || c.before(of.all[0], best[next].all[0])) {
				next = at
			}
		}
		if next < 0 {
			break
		}
		take(next)
	}
	return chosen
}

// bestOfTier returns the best candidates of each group of a tier: as many as its maximum permits
// if that is less than k, otherwise as many as its minimum lacks. The last heap has the best k of
// all others.
func (p *parts) bestOfTier(c *Candidates, tier, k int) []bestHeap {
	best := make([]bestHeap, p.width)
	for group := range p.groups {
		best[group].size = p.missing(group)
		if room := p.room(group); room < k {
			best[group].size, best[group].bounded = room, true
		}
	}
	others := &best[len(p.groups)]
	others.size = k
	// Most candidates are worse than the worst of all heaps they could be in. Those without a group
	// are at 0.
	cuts := make([]int64, p.width)
	c.setCuts(cuts, best)
	for i, total := range c.Totals {
		if p.tier(i) != tier {
			continue
		}
		group := -1
		if len(p.groups) > 0 {
			group = c.Group(i)
		}
		if total < cuts[group+1] {
			continue
		}
		rest := i
		if group >= 0 {
			rest = c.offer(&best[group], i)
		}
		if rest >= 0 && (group < 0 || !best[group].bounded) {
			c.offer(others, rest)
		}
		c.setCuts(cuts, best)
	}
	for _, of := range best {
		slices.SortFunc(of.all, c.compare)
	}
	return best
}

// setCuts sets the totals below which the candidates of a group are in no heap, at the position of
// the group plus one.
func (c *Candidates) setCuts(cuts []int64, best []bestHeap) {
	groups := len(best) - 1
	cuts[0] = c.cut(&best[groups])
	for group := range groups {
		cuts[group+1] = c.cut(&best[group])
		if !best[group].bounded {
			cuts[group+1] = min(cuts[group+1], cuts[0])
		}
	}
}

// of returns the part of a candidate.
func (p *parts) of(c *Candidates, i int) *part { return &p.all[p.tier(i)*p.width+p.group(c, i)] }

// setOrders creates the parts, with their order in the bits above shift.
func (p *parts) setOrders(shift int) {
	p.all, p.shift = make([]part, p.last*p.width), shift
	for i := range p.all {
		p.all[i].tier, p.all[i].group = i/p.width, i%p.width
		p.setOrder(&p.all[i])
	}
}

func (p *parts) setOrder(of *part) {
	group := len(p.groups)
	if p.missing(of.group) > 0 {
		group = of.group
	}
	of.order = uint(of.tier*p.width+group) << p.shift
	of.full = p.room(of.group) == 0
}

// count counts a chosen cluster of a group. It reports whether the group's parts changed.
func (p *parts) count(group int) (changed bool) {
	missing := p.missing(group)
	p.chosen[group]++
	if changed = missing == 1 || p.room(group) == 0; changed {
		for i := group; i < len(p.all); i += p.width {
			p.setOrder(&p.all[i])
		}
	}
	return changed
}

// describe sets the parts of a Shortfall that tiers and groups define. few is true if the demand
// would permit more clusters without them.
func (p *parts) describe(c *Candidates, short *Shortfall, few bool) {
	short.NoTierSufficient = p.noneSufficient
	for i := range p.groups {
		if missing := p.missing(i); missing > 0 {
			short.Unmet = append(short.Unmet, Unmet{i, missing})
		}
	}
	none := !slices.ContainsFunc(p.chosen, func(n int) bool { return n > 0 })
	if !few || len(p.groups) == 0 || short.Missing == 0 && !none {
		return
	}
	sizes := p.sizes(c)
	for i := range p.groups {
		if p.room(i) == 0 && sizes[i] > p.chosen[i] {
			short.Full = append(short.Full, i)
		}
	}
}
