package inventory

// inFlight are the decisions on their way to the API server: by Placement, the name indexes that no
// page of it shows yet. Each counts as one decision.
type inFlight map[Key]map[int]bool

// Reserve counts a decision on each of the clusters, unless a page of the Placement lists it
// already; instead of what was reserved for the Placement before. A reservation ends when a page
// shows it.
func (inv *Inventory) Reserve(placement Key, clusters []string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.unreserve(placement)
	shown := map[int]bool{}
	for _, p := range inv.pages.byPlacement[placement] {
		for _, i := range p.indexes {
			shown[i] = shown[i] || !p.leaving
		}
	}
	reserved := map[int]bool{}
	for _, name := range clusters {
		i := inv.names.hold(name)
		if shown[i] || reserved[i] {
			inv.names.release(i)
			continue
		}
		reserved[i] = true
		inv.count(i, 1)
	}
	if len(reserved) > 0 {
		inv.inFlight[placement] = reserved
	}
}

// Unreserve ends what Reserve began.
func (inv *Inventory) Unreserve(placement Key) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.unreserve(placement)
}

// unreserve drops what is reserved for a Placement.
func (inv *Inventory) unreserve(placement Key) {
	for i := range inv.inFlight[placement] {
		inv.arrived(placement, i)
	}
}

// arrived ends one reservation.
func (inv *Inventory) arrived(placement Key, i int) {
	reserved := inv.inFlight[placement]
	if !reserved[i] {
		return
	}
	delete(reserved, i)
	if len(reserved) == 0 {
		delete(inv.inFlight, placement)
	}
	inv.count(i, -1)
	inv.names.release(i)
}

// count changes how many decisions there are on a name.
func (inv *Inventory) count(i int, n int32) {
	inv.pages.counts.add(i, n)
	inv.fleet = nil
}
