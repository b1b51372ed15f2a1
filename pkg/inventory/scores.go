package inventory

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func (inv *Inventory) updateScore(object *v1alpha1.AddOnPlacementScore, woken wakeSet) {
	vector := inv.scores[object.Name]
	if vector == nil {
		vector = &framework.Vector[*v1alpha1.AddOnPlacementScore]{}
		inv.scores[object.Name] = vector
	}
	if i, ok := inv.names.index[object.Namespace]; ok && vector.Get(i) != nil {
		old := vector.Get(i)
		vector.Set(i, object)
		inv.fleet = nil
		if equality.Semantic.DeepEqual(old.Status.Scores, object.Status.Scores) &&
			old.Status.ValidUntil.Equal(object.Status.ValidUntil) {
			return
		}
		inv.wakeScored(i, object.Name, woken)
		return
	}
	i := inv.names.hold(object.Namespace)
	vector.Set(i, object)
	inv.wakeScored(i, object.Name, woken)
}

func (inv *Inventory) deleteScore(object *v1alpha1.AddOnPlacementScore, woken wakeSet) {
	vector := inv.scores[object.Name]
	i, ok := inv.names.index[object.Namespace]
	if vector == nil || !ok || vector.Get(i) == nil {
		return
	}
	vector.Set(i, nil)
	inv.wakeScored(i, object.Name, woken)
	inv.names.release(i)
}

// wakeScored wakes the Placements that see cluster i and read its score.
func (inv *Inventory) wakeScored(i int, resource string, woken wakeSet) {
	inv.changed(i, false)
	for name, set := range inv.sets {
		if set.members.Has(i) {
			inv.viewers[name].wakeWhere(func(r *reads) bool { return r.everything || r.scores[resource] }, woken)
		}
	}
}
