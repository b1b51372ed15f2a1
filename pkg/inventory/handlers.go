package inventory

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// handler takes in the events of one kind, with the inventory locked. It adds the affected
// Placements to its last argument.
type handler struct {
	update, remove func(inv *Inventory, o client.Object, woken wakeSet)
}

// handlers are by the name of the kind in the table of kinds; every kind there has one.
var handlers = map[string]handler{
	"ManagedCluster":           handle((*Inventory).updateCluster, (*Inventory).deleteCluster),
	"ManagedClusterSet":        handle((*Inventory).updateSet, (*Inventory).deleteSet),
	"ManagedClusterSetBinding": handle((*Inventory).updateBinding, (*Inventory).deleteBinding),
	"AddOnPlacementScore":      handle((*Inventory).updateScore, (*Inventory).deleteScore),
	"DisruptionPolicy":         handle((*Inventory).updatePolicy, (*Inventory).deletePolicy),
	"Placement":                handle((*Inventory).updatePlacement, (*Inventory).placementDeleted),
	"PlacementChange":          handle((*Inventory).recordSeen, (*Inventory).recordDeleted),
	"PlacementDecision":        handle((*Inventory).pageSeen, (*Inventory).pageDeleted),
}

// handle is the handler of a Go type.
func handle[T client.Object](update, remove func(*Inventory, T, wakeSet)) handler {
	return handler{
		update: func(inv *Inventory, o client.Object, woken wakeSet) { update(inv, o.(T), woken) },
		remove: func(inv *Inventory, o client.Object, woken wakeSet) { remove(inv, o.(T), woken) },
	}
}

// placementDeleted affects the Placement itself, so that others forget what they remember of it.
func (inv *Inventory) placementDeleted(object *v1alpha1.Placement, woken wakeSet) {
	key := Key{Namespace: object.Namespace, Name: object.Name}
	inv.unreserve(key)
	inv.deletePlacement(key)
	woken[key] = true
}

// pageSeen takes in a page that the watch reports. One that was announced affects no Placement.
func (inv *Inventory) pageSeen(object *v1alpha1.PlacementDecision, woken wakeSet) {
	inv.pages.saw(object)
	news := inv.pages.isNews(nameOf(object), object)
	inv.updatePage(object, woken)
	if !news {
		clear(woken)
	}
}

// pageDeleted takes in that the watch reports a page as gone.
func (inv *Inventory) pageDeleted(object *v1alpha1.PlacementDecision, woken wakeSet) {
	inv.pages.saw(object)
	news := inv.pages.isNews(nameOf(object), nil)
	inv.deletePage(object, woken)
	if !news {
		clear(woken)
	}
}

// recordSeen takes in a record that the watch reports.
func (inv *Inventory) recordSeen(object *berthv1alpha1.PlacementChange, woken wakeSet) {
	inv.records.saw(object)
	inv.updateRecord(object, woken)
}

// recordDeleted takes in that the watch reports a record as gone.
func (inv *Inventory) recordDeleted(object *berthv1alpha1.PlacementChange, woken wakeSet) {
	inv.records.saw(object)
	inv.deleteRecord(object, woken)
}
