package inventory

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// event is one change of the inventory while it is processed.
type event struct {
	// number counts the events of an inventory.
	number int64
	// affected are the Placements whose decision may differ.
	affected affectedSet
	// changed names the part of the object that changed, in the cause of attempts.
	changed string
	// taintTimes are those of the changed cluster if another inventory gave them; else nil.
	taintTimes []time.Time
	// survivors are Placements whose attempt the event does not start, checked those whose attempt
	// runs all the same.
	survivors, checked []*placement
}

// process is the way of every event into the inventory: a change of an object, a write of Berth's
// own or an input of another inventory. by is the object that attempts name as their cause; nil if
// they have another one. It returns the affected Placements, sorted.
func (inv *Inventory) process(by client.Object, changed string, handle func(e *event)) []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.events++
	e := &event{number: inv.events, affected: affectedSet{}, changed: changed, survivors: inv.survivors[:0]}
	handle(e)
	if by != nil {
		inv.setCause(e, by)
	}
	inv.addHoldings(e.affected)
	inv.addChecked(e)
	clear(e.survivors)
	inv.survivors = e.survivors[:0]
	return e.affected.keys()
}

// processOwn processes a change made by Berth itself, of which its Placement need not be told. It
// calls OnAffected with the others.
func (inv *Inventory) processOwn(handle func(e *event)) {
	affected := inv.process(nil, "", func(e *event) {
		handle(e)
		clear(e.affected)
	})
	if len(affected) > 0 && inv.options.OnAffected != nil {
		inv.options.OnAffected(affected)
	}
}
