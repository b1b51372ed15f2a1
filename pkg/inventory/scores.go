package inventory

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// scores are the objects of one name, by cluster.
type scores struct {
	framework.Vector[*v1alpha1.AddOnPlacementScore]
	// objects is how many there are.
	objects int
}

func (inv *Inventory) updateScore(object *v1alpha1.AddOnPlacementScore, e *event) {
	vector := inv.scores[object.Name]
	if vector == nil {
		vector = &scores{}
		inv.scores[object.Name] = vector
	}
	i := inv.names.acquire(object.Namespace)
	old := vector.Get(i)
	vector.Set(i, object)
	inv.fleet = nil
	if old != nil {
		inv.names.release(i)
		if equality.Semantic.DeepEqual(old.Status.Scores, object.Status.Scores) && old.Status.ValidUntil.Equal(object.Status.ValidUntil) {
			return
		}
	} else {
		vector.objects++
	}
	inv.addObject(object)
	inv.addScored(i, object.Name, e.affected)
}

func (inv *Inventory) deleteScore(object *v1alpha1.AddOnPlacementScore, e *event) {
	vector := inv.scores[object.Name]
	i, ok := inv.names.index[object.Namespace]
	if vector == nil || !ok || vector.Get(i) == nil {
		return
	}
	inv.addDeleted(object)
	vector.Set(i, nil)
	if vector.objects--; vector.objects == 0 {
		delete(inv.scores, object.Name)
	}
	inv.addScored(i, object.Name, e.affected)
	inv.names.release(i)
}

// addScored adds the Placements that may use cluster i and read its score.
func (inv *Inventory) addScored(i int, resource string, affected affectedSet) {
	inv.logChange(i, false)
	for name, set := range inv.sets {
		if set.members.Has(i) {
			inv.addReaders(name, func(r *reads) bool { return r.everything || r.scores[resource] }, affected)
		}
	}
}
