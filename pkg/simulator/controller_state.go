package simulator

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
)

// failReadiness says that only the controller reads the readiness sources of policies. The
// inventory reads the built-in source cluster itself.
func failReadiness(policies Objects, inv *inventory.Inventory) {
	for _, p := range List[*berthv1alpha1.DisruptionPolicy](policies) {
		if r := p.Spec.Readiness; r != nil {
			inv.FailReadiness(r.Source, "only the controller reads it; kubectl placement status shows the state")
		}
	}
}

// checkEvictions sets the condition Valid of PlacementEvictions that do not have it, as the
// controller does. It returns the affected Placements.
func checkEvictions(evictions Objects, inv *inventory.Inventory, now time.Time) (affected []types.NamespacedName) {
	for _, e := range List[*berthv1alpha1.PlacementEviction](evictions) {
		if meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.EvictionValid) != nil {
			continue
		}
		var pl *v1alpha1.Placement
		var published []string
		if subject := inv.Subject(types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Placement}); subject != nil {
			pl, published = subject.Placement, subject.LastNames()
		}
		valid := changes.CheckEviction(e, pl, published)
		valid.LastTransitionTime = metav1.NewTime(now)
		checked := e.DeepCopy()
		v1alpha1.SetCondition(&checked.Status.Conditions, valid)
		affected = append(affected, inv.Update(checked)...)
	}
	return affected
}
