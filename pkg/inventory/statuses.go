package inventory

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// ofStatus is event.changed of a status that Berth corrects.
const ofStatus = "status"

// maxCorrections bounds the attempts that correct a status before an event of another kind, so that
// two writers who correct each other come to rest.
const maxCorrections = 3

// statusKey names the status of an object.
type statusKey struct {
	kind string
	name Key
}

func statusKeyOf(o client.Object) statusKey {
	kind, _ := kinds.Of(o)
	return statusKey{kind.Name, nameOf(o)}
}

// AnnounceStatus records that Berth is writing the status of a Placement or SelectionPolicy. Until
// the write is assumed or ends, no watch event of only that status affects a Placement. After a
// write that failed, the attempt must be repeated.
func (inv *Inventory) AnnounceStatus(o client.Object) (end func()) {
	key := statusKeyOf(o)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.announced[key] = struct{}{}
	return func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		delete(inv.announced, key)
	}
}

// statusUpdated processes the new status of an object that the watch reports. One that Berth is not
// writing affects the Placement, which corrects it: another client wrote it, or a request of Berth
// was late.
func (inv *Inventory) statusUpdated(o client.Object, placement Key, e *event, old, status any) {
	if equality.Semantic.DeepEqual(old, status) {
		return
	}
	p := inv.placements[placement]
	if p == nil {
		return
	}
	inv.unsettle(p)
	if _, announced := inv.announced[statusKeyOf(o)]; !announced {
		inv.correct(p, e)
	}
}

// correct affects a Placement whose status is to be corrected, unless another process does that.
func (inv *Inventory) correct(p *placement, e *event) {
	if p.corrections < maxCorrections && !inv.options.Follows {
		p.corrections++
		e.changed, e.unseen, e.keepsStart = ofStatus, true, true
		e.affected.add(p.key)
	}
}

// statusAssumed ends the announcement of a status that was written. If another client has written
// it since, the Placement is affected, because that watch event did not affect it.
func (inv *Inventory) statusAssumed(o client.Object, placement Key, e *event, written, newer any) {
	delete(inv.announced, statusKeyOf(o))
	if p := inv.placements[placement]; p != nil && !equality.Semantic.DeepEqual(written, newer) {
		inv.correct(p, e)
	}
}

// AssumePlacement processes a Placement whose status was just written, before or after its watch
// event. It ignores a deleted Placement, and one whose spec was edited: the watch event of the edit
// must affect it.
func (inv *Inventory) AssumePlacement(object *v1alpha1.Placement) {
	inv.processOwn(func(e *event) {
		p := inv.placements[nameOf(object)]
		if p == nil || p.object.UID != object.UID || !sameForDecisions(p.object, object) {
			return
		}
		if !earlier(object, p.object) {
			inv.setStatus(p, object)
		}
		inv.statusAssumed(object, p.key, e, object.Status, p.object.Status)
	})
}

// setStatus stores a Placement of which only the status changed.
func (inv *Inventory) setStatus(p *placement, object *v1alpha1.Placement) {
	if !equality.Semantic.DeepEqual(p.object.Status, object.Status) {
		inv.addObject(object)
	}
	delegated := delegates(p, object)
	p.object, p.subject = object, nil
	inv.setDelegated(p, delegated)
}

// AssumeSelectionPolicy is AssumePlacement for a SelectionPolicy.
func (inv *Inventory) AssumeSelectionPolicy(object *berthv1alpha1.SelectionPolicy) {
	inv.processOwn(func(e *event) {
		s := inv.selections.byName[nameOf(object)]
		if s == nil || !sameSelection(s.object, object) {
			return
		}
		inv.updateSelection(object, e)
		_, placement := selectionKeys(object)
		inv.statusAssumed(object, placement, e, object.Status, s.object.Status)
	})
}
