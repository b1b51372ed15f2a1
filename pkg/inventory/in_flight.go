package inventory

import (
	"maps"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// inFlight are the decisions that are being published: by Placement, the name indexes of clusters
// that none of its pages lists yet. Each counts as one decision.
type inFlight map[Key]map[int]bool

// Claim counts a decision on each of the clusters that no page of the Placement lists yet. It
// replaces the Placement's earlier claim. The claim to a cluster ends when a page lists it.
func (inv *Inventory) Claim(placement Key, clusters []string) {
	inv.processOwn(func(*event) { inv.claim(placement, clusters) })
}

func (inv *Inventory) claim(placement Key, clusters []string) {
	listed := map[string]bool{}
	for _, p := range inv.pages.byPlacement[placement] {
		for _, d := range p.object.Status.Decisions {
			listed[d.ClusterName] = listed[d.ClusterName] || !p.deleting
		}
	}
	var reserved, landed []string
	for _, name := range clusters {
		if !listed[name] {
			reserved = append(reserved, name)
		} else if inv.keepsLanded(placement) { // listed by another writer
			inv.addLanded(placement, inv.names.index[name])
			landed = append(landed, name)
		}
	}
	if len(landed) > 0 {
		inv.addInput(Input{Kind: InputLanded, Placement: placement, Clusters: landed})
	}
	if inv.isReserved(placement, reserved) {
		return
	}
	if len(reserved)+len(inv.inFlight[placement]) > 0 {
		inv.addInput(Input{Kind: InputReserved, Placement: placement, Clusters: reserved})
	}
	inv.reserve(placement, reserved)
}

// isReserved reports whether exactly these clusters are reserved for a Placement.
func (inv *Inventory) isReserved(placement Key, clusters []string) bool {
	reserved := inv.inFlight[placement]
	for _, name := range clusters {
		if i, known := inv.names.index[name]; !known || !reserved[i] {
			return false
		}
	}
	return len(clusters) == len(reserved)
}

// reserve replaces the reservation of a Placement by clusters that none of its pages lists.
func (inv *Inventory) reserve(placement Key, clusters []string) {
	inv.unreserve(placement)
	reserved := map[int]bool{}
	for _, name := range clusters {
		if i := inv.names.acquire(name); reserved[i] {
			inv.names.release(i)
		} else {
			reserved[i] = true
			inv.count(i, 1)
		}
	}
	if len(reserved) > 0 {
		inv.inFlight[placement] = reserved
	}
	inv.holdingChanged(placement)
}

// withReserved returns the subject with the Placement's own reservations among its Entries, because
// the decision counts include them, too.
func (inv *Inventory) withReserved(s *framework.Subject) *framework.Subject {
	reserved := inv.inFlight[s.Key()]
	if len(reserved) == 0 {
		return s
	}
	with := *s
	with.Entries, with.Counted = maps.Clone(s.Entries), s.Counted.Clone()
	for i := range reserved {
		with.Entries[i]++
		with.Counted = with.Counted.Set(i)
	}
	return &with
}

// unreserve ends all reservations of a Placement.
func (inv *Inventory) unreserve(placement Key) {
	for i := range inv.inFlight[placement] {
		inv.endReservation(placement, i)
	}
}

// endReservation ends the reservation of one cluster, if there is one.
func (inv *Inventory) endReservation(placement Key, i int) {
	reserved := inv.inFlight[placement]
	if !reserved[i] {
		return
	}
	delete(reserved, i)
	inv.holdingChanged(placement)
	if len(reserved) == 0 {
		delete(inv.inFlight, placement)
	}
	inv.count(i, -1)
	inv.names.release(i)
}

// count changes the number of decisions on a cluster.
func (inv *Inventory) count(i int, n int32) {
	inv.pages.counts.add(i, n)
	inv.fleet = nil
}
