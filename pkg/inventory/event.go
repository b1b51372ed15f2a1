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
	// changed names the part of the object that changed, in the cause of attempts. unseen is true
	// if what another client wrote has affected no Placement yet.
	changed string
	unseen  bool
	// keepsStart is true if the event follows from what Berth wrote, or is undone: it is no reason
	// to weigh again what has drifted before the start.
	keepsStart bool
	// taintTimes are those of the changed cluster if another inventory gave them; else nil.
	taintTimes []time.Time
	// survivors are Placements whose attempt the event does not start, checked those whose attempt
	// runs all the same.
	survivors, checked []*placement
}

// process is the door of the inventory: every change passes it, from a watch, of Berth's own or of
// another inventory. It dispatches the event, which logs its inputs, tells other Placements of what
// differs then in what each has, and returns the affected Placements, sorted. by is the object that
// attempts name as their cause; nil if they have another one.
func (inv *Inventory) process(by client.Object, dispatch func(e *event)) []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.events++
	e := &event{number: inv.events, affected: affectedSet{}, survivors: inv.survivors[:0]}
	dispatch(e)
	if by != nil {
		inv.setCause(e, by)
	}
	inv.addHoldings(e.affected)
	for _, p := range e.checked {
		e.affected.add(p.key)
	}
	clear(e.survivors)
	inv.survivors = e.survivors[:0]
	return sortedPlacements(e.affected)
}

// processOwn processes a change made by Berth itself, of which its Placement need not be told,
// unless the object also has what another client wrote. It calls OnAffected with the others.
func (inv *Inventory) processOwn(handle func(e *event)) {
	affected := inv.process(nil, func(e *event) {
		if handle(e); !e.unseen {
			clear(e.affected)
		}
	})
	if len(affected) > 0 && inv.options.OnAffected != nil {
		inv.options.OnAffected(affected)
	}
}
