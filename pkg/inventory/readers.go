package inventory

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// readerGroup are Placements that can use a set and read the same properties of a cluster. The cost
// of an event that affects none of them, such as a heartbeat, is proportional to the number of
// groups.
type readerGroup struct {
	reads      *reads
	placements map[Key]*placement
}

// readsKey is equal for equal reads only. It is a digest, because one Placement can name labels of
// a megabyte.
type readsKey [sha256.Size]byte

func (r *reads) key() readsKey {
	text := fmt.Append(nil, r.cpu, r.memory, r.everything)
	for _, names := range []map[string]bool{r.labels, r.claims, r.scores, r.resources} {
		text = binary.AppendUvarint(text, uint64(len(names)))
		for _, name := range slices.Sorted(maps.Keys(names)) {
			text = append(binary.AppendUvarint(text, uint64(len(name))), name...)
		}
	}
	return sha256.Sum256(text)
}

// readersAwaitStart is true during an initial listing at whose end all Placements are decided: to
// add each reader of each listed object would cost clusters × Placements.
func (inv *Inventory) readersAwaitStart() bool { return inv.options.AwaitsStart && !inv.started }

// addReaders adds the Placements that may use a set and whose reads are concerned; nil means all.
func (inv *Inventory) addReaders(set string, concerned func(*reads) bool, affected affectedSet) {
	if inv.readersAwaitStart() {
		return
	}
	for _, group := range inv.readers[set] {
		if concerned == nil || concerned(group.reads) {
			affected.all(group.placements)
		}
	}
}

// setReaders adds a Placement to the readers of all sets that it uses, or removes it.
func (inv *Inventory) setReaders(p *placement, reads bool) {
	for set := range inv.bindings[p.key.Namespace] {
		inv.setReader(set, p, reads)
	}
}

// setReader adds a Placement to the readers of a set, if it uses that, or removes it.
func (inv *Inventory) setReader(set string, p *placement, reads bool) {
	group := inv.readers[set][p.readsKey]
	switch {
	case !p.wants(set):
	case reads && group != nil:
		group.placements[p.key] = p
	case reads:
		// A copy: updateReads changes those of the Placement, which then leaves the group.
		same := p.reads
		inv.readers.set(set, p.readsKey, &readerGroup{reads: &same, placements: map[Key]*placement{p.key: p}})
	case group != nil:
		if delete(group.placements, p.key); len(group.placements) == 0 {
			inv.readers.remove(set, p.readsKey)
		}
	}
}
