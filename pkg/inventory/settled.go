package inventory

import "github.com/berth-dev/berth/pkg/scheduler/framework"

// Settle stores what is needed to skip attempts that cannot change the answer, after the attempt on
// a Snapshot; nil if there is nothing. It does nothing if the Placement was affected meanwhile: the
// attempt has not seen that.
func (inv *Inventory) Settle(snapshot *framework.Snapshot, settled *framework.Settled) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if p := inv.placementOf(snapshot.Subject); p != nil && p.affectedAt <= snapshot.Sequence {
		p.settled, p.settledCheck = settled, false
	}
}

// unsettle makes the next change of a cluster that a Placement reads start an attempt.
func (inv *Inventory) unsettle(p *placement) {
	inv.sequence++
	p.affectedAt, p.settled, p.settledCheck = inv.sequence, nil, false
}

// addUnsettled adds the Placements that may use a set, whose reads are concerned and whose answer
// may change because a cluster changed from before to after. It adds the others to the survivors,
// once for each event.
func (inv *Inventory) addUnsettled(set string, concerned func(*reads) bool, before, after *framework.Cluster, e *event) {
	if inv.readersAwaitStart() {
		return
	}
	var fleet *framework.SettledFleet
	for _, group := range inv.readers[set] {
		if !concerned(group.reads) {
			continue
		}
		for key, p := range group.placements {
			switch {
			case p.survived == e.number:
				continue
			case p.settled == nil:
				e.affected.add(key)
				continue
			}
			if fleet == nil {
				fleet = inv.settledFleet()
			}
			if p.settled.Survives(fleet, before, after) {
				p.survived = e.number
				e.survivors = append(e.survivors, p)
			} else {
				inv.unsettle(p)
				e.affected.add(key)
			}
		}
	}
}

// skipSurvivors skips the attempts of the survivors of an event that nothing else affects.
func (inv *Inventory) skipSurvivors(e *event) {
	skipped := 0
	for _, p := range e.survivors {
		if _, starts := e.affected[p.key]; !starts {
			skipped++
			if inv.options.CheckSettled {
				p.settledCheck = true
				e.checked = append(e.checked, p)
			}
		}
	}
	if skipped > 0 && inv.options.OnSettled != nil {
		inv.options.OnSettled(skipped)
	}
}

// settledFleet is valid until the next change of a cluster or a count.
func (inv *Inventory) settledFleet() *framework.SettledFleet {
	inv.readUnread()
	c := &inv.counts
	counts := &framework.DecisionCounts{ByIndex: &c.byIndex, Histogram: c.histogram, Changes: c.log.Next()}
	return &framework.SettledFleet{Clusters: &inv.clusters, Counts: counts, Changed: c.log.Since}
}
