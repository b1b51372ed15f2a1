package inventory

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// handler processes the events of one kind, with the inventory locked.
type handler struct {
	update, remove func(inv *Inventory, o client.Object, e *event)
}

// handlers has one handler for each kind in the table of kinds, by the kind's name.
var handlers = map[string]handler{
	"ManagedCluster":           handle((*Inventory).updateCluster, (*Inventory).deleteCluster),
	"ManagedClusterSet":        handle((*Inventory).updateSet, (*Inventory).deleteSet),
	"ManagedClusterSetBinding": handle((*Inventory).updateBinding, (*Inventory).deleteBinding),
	"AddOnPlacementScore":      handle((*Inventory).updateScore, (*Inventory).deleteScore),
	"DisruptionPolicy":         handle((*Inventory).updateDisruptionPolicy, (*Inventory).deleteDisruptionPolicy),
	"SelectionPolicy":          handle((*Inventory).updateSelection, (*Inventory).deleteSelection),
	"Placement":                handle((*Inventory).updatePlacement, (*Inventory).placementDeleted),
	"PlacementChange":          handle((*Inventory).recordUpdated, (*Inventory).deleteRecord),
	"PlacementEviction":        handle((*Inventory).updateEviction, (*Inventory).deleteEviction),
	"PlacementDecision":        handle((*Inventory).pageUpdated, (*Inventory).pageDeleted),
}

// handle returns the handler of a Go type.
func handle[T client.Object](update, remove func(*Inventory, T, *event)) handler {
	return handler{
		update: func(inv *Inventory, o client.Object, e *event) { update(inv, o.(T), e) },
		remove: func(inv *Inventory, o client.Object, e *event) { remove(inv, o.(T), e) },
	}
}

// placementDeleted adds the deleted Placement itself, so that its reconciliation drops the state
// kept for it.
func (inv *Inventory) placementDeleted(object *v1alpha1.Placement, e *event) {
	key := nameOf(object)
	if p := inv.placements[key]; p != nil {
		inv.addDeleted(object)
		inv.forgetPublished(p)
		inv.setReserved(p, nil, false)
		inv.countPages(key, -1)
		inv.removePlacement(p)
		inv.countPages(key, 1)
		delete(inv.unread, key)
	}
	e.affected.add(key)
	inv.placementChanged(key)
}

// pageUpdated processes a page that the watch reports. An announced write affects no Placement.
func (inv *Inventory) pageUpdated(object *v1alpha1.PlacementDecision, e *event) {
	e.keepsStart = true
	inv.pages.observe(object)
	inv.updatePage(object, e)
	if !inv.pages.isExternal(nameOf(object), object) {
		clear(e.affected)
	}
}

// pageDeleted processes a deletion of a page that the watch reports.
func (inv *Inventory) pageDeleted(object *v1alpha1.PlacementDecision, e *event) {
	e.keepsStart = true
	inv.pages.observe(object)
	name := nameOf(object)
	if a := inv.pages.announced[name]; a != nil {
		a.gone = object.UID
	}
	switch {
	case inv.pages.deleted[object.UID]:
		delete(inv.pages.deleted, object.UID)
	case inv.pages.has(object):
		inv.addDeleted(object)
		inv.removePage(inv.pages.byName[name], e)
	}
	if !inv.pages.isExternal(name, nil) {
		clear(e.affected)
	}
}

// recordUpdated processes a record that the watch reports.
func (inv *Inventory) recordUpdated(object *berthv1alpha1.PlacementChange, e *event) {
	inv.records.observe(object)
	inv.updateRecord(object, nil, e)
}
