package selection

import "math"

// parts are the candidates of a demand by tier and group.
type parts struct {
	groups []Group
	// width is the number of parts per tier: one for each group, and the last for no group.
	width int
	// all are the parts, tier by tier. slots are the positions of the candidates' parts in it; -1
	// for candidates in no tier.
	all   []part
	slots []int32
	// first and last bound the tiers that may be used; last is excluded.
	first, last int
	// noneSufficient is true if all clusters were to be from one tier and none is sufficient.
	noneSufficient bool
	// chosen are the numbers of chosen clusters by group.
	chosen []int
	// shift is the number of bits below the order of a part.
	shift int
}

// part are the candidates of one tier and group.
type part struct {
	tier, group, size int
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
	p := &parts{groups: d.Groups, width: len(d.Groups) + 1, last: max(len(d.Tiers), 1)}
	p.all, p.slots, p.chosen = make([]part, p.last*p.width), make([]int32, len(c.Totals)), make([]int, p.width)
	for i := range p.all {
		p.all[i].tier, p.all[i].group = i/p.width, i%p.width
	}
	for i := range p.slots {
		tier, group := 0, -1
		if len(d.Tiers) > 0 {
			tier = c.Tier(i)
		}
		if len(d.Groups) > 0 {
			group = c.Group(i)
		}
		if group < 0 {
			group = len(d.Groups)
		}
		slot := -1
		if tier >= 0 {
			slot = tier*p.width + group
			p.all[slot].size++
		}
		p.slots[i] = int32(slot)
	}
	if len(d.Tiers) > 0 && !d.Overflow {
		p.chooseTier(d.Tiers)
	}
	return p
}

// chooseTier restricts the tiers to the one from which all clusters are chosen, if there is one.
func (p *parts) chooseTier(tiers []Tier) {
	qualifying := make([]int, len(tiers))
	for _, part := range p.all {
		qualifying[part.tier] += part.size
	}
	first, ok := firstTier(tiers, qualifying)
	if p.noneSufficient = !ok; ok {
		p.first, p.last = first, first+1
	}
}

// of returns the part of a candidate.
func (p *parts) of(i int) *part { return &p.all[p.slots[i]] }

// usable returns the parts of the tiers that may be used.
func (p *parts) usable() []part { return p.all[p.first*p.width : p.last*p.width] }

// usableInGroup returns the number of candidates of a group in tiers that may be used.
func (p *parts) usableInGroup(group int) int {
	n := 0
	for _, part := range p.usable() {
		if part.group == group {
			n += part.size
		}
	}
	return n
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
func (p *parts) available() int {
	n := 0
	for group := range p.width {
		n += min(p.usableInGroup(group), p.room(group))
	}
	return n
}

// members returns the candidates of the tiers from first to before last, by part.
func (p *parts) members(first, last int) []int {
	from, to := first*p.width, last*p.width
	next, n := make([]int, to-from), 0
	for i, part := range p.all[from:to] {
		next[i] = n
		n += part.size
	}
	members := make([]int, n)
	for i, slot := range p.slots {
		if at := int(slot) - from; at >= 0 && int(slot) < to {
			members[next[at]] = i
			next[at]++
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
	members := p.members(tier, tier+1)
	best := make([][]int, p.width)
	for group := range best {
		n := p.all[tier*p.width+group].size
		best[group] = c.bestOf(members[:n], min(n, p.room(group), k-len(chosen)))
		members = members[n:]
	}
	take := func(group int) {
		chosen = append(chosen, best[group][0])
		best[group] = best[group][1:]
		p.chosen[group]++
	}
	for group := range best {
		for n := min(p.missing(group), len(best[group]), k-len(chosen)); n > 0; n-- {
			take(group)
		}
	}
	for len(chosen) < k {
		next := -1
		for group, of := range best {
			if len(of) > 0 && (next < 0 || c.before(of[0], best[next][0])) {
				next = group
			}
		}
		if next < 0 {
			break
		}
		take(next)
	}
	return chosen
}

// setOrders sets the order of all parts, in the bits above shift.
func (p *parts) setOrders(shift int) {
	p.shift = shift
	for i := range p.all {
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

// describe sets the parts of a Shortfall that tiers and groups define.
func (p *parts) describe(short *Shortfall) {
	short.NoTierSufficient = p.noneSufficient
	for i, group := range p.groups {
		if missing := p.missing(i); missing > 0 {
			short.Unmet = append(short.Unmet, Unmet{Group: group.Name, Missing: missing})
		}
		if short.Missing > 0 && p.room(i) == 0 && p.usableInGroup(i) > p.chosen[i] {
			short.Full = append(short.Full, group.Name)
		}
	}
}
