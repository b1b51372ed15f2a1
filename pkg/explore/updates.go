package explore

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"
)

// flush sends an Update if something changed.
func (l *LiveWorld) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if !l.state.Synced && !l.dirty.hub {
		return
	}
	now := time.Now()
	l.simulator.SetNow(now)
	u := Update{At: now, Hub: l.state}
	if l.state.Synced {
		l.collect(&u)
	}
	changed := l.dirty.hub || len(u.Clusters)+len(u.GoneClusters)+len(u.Placements)+len(u.GonePlacements)+len(u.Columns) > 0 || u.AllColumns || u.Changes != nil
	l.dirty = newDirty()
	if !changed {
		return
	}
	l.version++
	u.Version, u.Rows = l.version, l.rows
	if l.updates = append(l.updates, u); len(l.updates) > maxUpdates {
		l.updates = slices.Clone(l.updates[len(l.updates)-maxUpdates:])
	}
	close(l.wake)
	l.wake = make(chan struct{})
}

// collect adds what changed to an Update, and keeps it.
func (l *LiveWorld) collect(u *Update) {
	for key := range l.dirty.placements {
		for _, name := range l.world.countPublished(key) {
			l.dirty.clusters[name], l.dirty.names = true, true
		}
	}
	if l.dirty.names && l.world.setNames() {
		l.rows++
		u.AllColumns = true
		l.markNames()
	}
	l.collectClusters(u)
	l.collectPlacements(u)
	if u.AllColumns = u.AllColumns || len(l.dirty.columns) > maxColumns; !u.AllColumns {
		for key := range l.dirty.columns {
			u.Columns = append(u.Columns, key.String())
		}
		slices.Sort(u.Columns)
	}
	if l.dirty.changes {
		if changes := l.world.changeRows(); !reflect.DeepEqual(changes, l.changes) {
			l.changes, u.Changes = changes, changes
		}
	}
}

// markNames marks the clusters that the page does not have yet and those that no longer exist. The
// cells of a column are in the order of the rows.
func (l *LiveWorld) markNames() {
	for name := range l.clusters {
		if _, exists := slices.BinarySearch(l.world.names, name); !exists {
			l.dirty.clusters[name] = true
		}
	}
	for _, name := range l.world.names {
		if _, known := l.clusters[name]; !known {
			l.dirty.clusters[name] = true
		}
	}
}

func (l *LiveWorld) collectPlacements(u *Update) {
	if l.dirty.allPlacements {
		for _, key := range l.world.inventory.Placements() {
			l.dirty.placements[key] = true
		}
	}
	for key := range l.dirty.placements {
		row, exists := l.world.placementRow(key)
		old, known := l.placements[key]
		switch {
		case !exists && known:
			delete(l.placements, key)
			u.GonePlacements = append(u.GonePlacements, key.String())
		case exists && (!known || !reflect.DeepEqual(old, row)):
			l.placements[key] = row
			u.Placements = append(u.Placements, row)
		}
	}
	slices.Sort(u.GonePlacements)
	slices.SortFunc(u.Placements, func(a, b PlacementRow) int { return cmp.Compare(a.Placement, b.Placement) })
}

func (l *LiveWorld) collectClusters(u *Update) {
	if l.dirty.allRows {
		for _, name := range l.world.names {
			l.dirty.clusters[name] = true
		}
	}
	fleet, sets := l.world.inventory.View()
	for _, name := range slices.Sorted(maps.Keys(l.dirty.clusters)) {
		_, exists := slices.BinarySearch(l.world.names, name)
		old, known := l.clusters[name]
		if !exists {
			if known {
				delete(l.clusters, name)
				u.GoneClusters = append(u.GoneClusters, name)
			}
			continue
		}
		if row := l.world.clusterRow(fleet, sets, name); !known || !reflect.DeepEqual(old, row) {
			l.clusters[name] = row
			u.Clusters = append(u.Clusters, row)
		}
	}
}
