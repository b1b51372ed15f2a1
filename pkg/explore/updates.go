package explore

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"
)

// flush sends an Update if something changed.
func (h *Hub) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	if !h.state.Synced && !h.dirty.hub {
		return
	}
	now := time.Now()
	h.simulator.SetNow(now)
	u := Update{At: now, Hub: h.state}
	if h.state.Synced {
		h.collect(&u)
	}
	changed := h.dirty.hub || len(u.Clusters)+len(u.GoneClusters)+len(u.Placements)+len(u.GonePlacements)+len(u.Columns) > 0 || u.AllColumns || u.Changes != nil
	h.dirty = newDirty()
	if !changed {
		return
	}
	h.version++
	u.Version, u.Rows = h.version, h.rows
	if h.updates = append(h.updates, u); len(h.updates) > maxUpdates {
		h.updates = slices.Clone(h.updates[len(h.updates)-maxUpdates:])
	}
	close(h.wake)
	h.wake = make(chan struct{})
}

// collect adds what changed to an Update, and keeps it.
func (h *Hub) collect(u *Update) {
	for key := range h.dirty.placements {
		for _, name := range h.world.countPublished(key) {
			h.dirty.clusters[name], h.dirty.names = true, true
		}
	}
	if h.dirty.names && h.world.setNames() {
		h.rows++
		u.AllColumns = true
		h.dirtyNames()
	}
	h.collectClusters(u)
	h.collectPlacements(u)
	if u.AllColumns = u.AllColumns || len(h.dirty.columns) > maxColumns; !u.AllColumns {
		for key := range h.dirty.columns {
			u.Columns = append(u.Columns, key.String())
		}
		slices.Sort(u.Columns)
	}
	if h.dirty.changes {
		if changes := h.world.changeRows(); !reflect.DeepEqual(changes, h.changes) {
			h.changes, u.Changes = changes, changes
		}
	}
}

// dirtyNames has all clusters sent whose row the page lacks, or must not have any more: the cells
// are in the order of its rows.
func (h *Hub) dirtyNames() {
	for name := range h.clusters {
		if _, exists := slices.BinarySearch(h.world.names, name); !exists {
			h.dirty.clusters[name] = true
		}
	}
	for _, name := range h.world.names {
		if _, known := h.clusters[name]; !known {
			h.dirty.clusters[name] = true
		}
	}
}

func (h *Hub) collectPlacements(u *Update) {
	if h.dirty.allPlacements {
		for _, key := range h.world.inventory.Placements() {
			h.dirty.placements[key] = true
		}
	}
	for key := range h.dirty.placements {
		row, exists := h.world.placementRow(key)
		old, known := h.placements[key]
		switch {
		case !exists && known:
			delete(h.placements, key)
			u.GonePlacements = append(u.GonePlacements, key.String())
		case exists && (!known || !reflect.DeepEqual(old, row)):
			h.placements[key] = row
			u.Placements = append(u.Placements, row)
		}
	}
	slices.Sort(u.GonePlacements)
	slices.SortFunc(u.Placements, func(a, b PlacementRow) int { return cmp.Compare(a.Placement, b.Placement) })
}

func (h *Hub) collectClusters(u *Update) {
	if h.dirty.allRows {
		for _, name := range h.world.names {
			h.dirty.clusters[name] = true
		}
	}
	fleet, sets := h.world.inventory.View()
	for _, name := range slices.Sorted(maps.Keys(h.dirty.clusters)) {
		_, exists := slices.BinarySearch(h.world.names, name)
		old, known := h.clusters[name]
		if !exists {
			if known {
				delete(h.clusters, name)
				u.GoneClusters = append(u.GoneClusters, name)
			}
			continue
		}
		if row := h.world.clusterRow(fleet, sets, name); !known || !reflect.DeepEqual(old, row) {
			h.clusters[name] = row
			u.Clusters = append(u.Clusters, row)
		}
	}
}
