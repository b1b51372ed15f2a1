package inventory

import "github.com/berth-dev/berth/pkg/scheduler/framework"

// CannotWait reports whether the last published decision of a Placement has clusters that are in no
// set bound to its namespace, or its pages are not as they were published: edited, deleted or
// written in part. Deleted clusters do not count, as in an attempt.
func (inv *Inventory) CannotWait(key Key) bool {
	return read(inv, key, func(p *placement) bool {
		return inv.hasRevoked(p) || p.last != nil && !p.delegated && p.last.Damaged(inv.subject(p))
	})
}

func (inv *Inventory) hasRevoked(p *placement) bool {
	inv.loadLast(p)
	var usable framework.Bitset
	for name := range inv.bindings[p.key.Namespace] {
		if set := inv.sets[name]; set != nil {
			usable = usable.Or(set.members)
		}
	}
	for i := range p.claim.listed.Without(usable).All {
		if c := inv.clusters.Get(i); c != nil && c.DeletionTimestamp.IsZero() {
			return true
		}
	}
	return false
}
