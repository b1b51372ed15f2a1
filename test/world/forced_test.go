package world

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/world/server"
)

// forced has the clusters, by Placement, whose removal is forced as a record says, as long as
// nothing of it is published and what forces it is the same.
type forced map[string]map[string]bool

// onInput forgets what is not forced any more, or by something else.
func (f forced) onInput(w *server.Write) {
	switch w.Kind {
	case "ManagedCluster":
		c := decode[v1alpha1.ManagedCluster](w.Object)
		if w.Older != nil && w.Type != "DELETED" {
			older := decode[v1alpha1.ManagedCluster](w.Older)
			if equality.Semantic.DeepEqual(older.Spec.Taints, c.Spec.Taints) && older.Labels[v1alpha1.ClusterSetLabel] == c.Labels[v1alpha1.ClusterSetLabel] {
				return
			}
		}
		for _, clusters := range f {
			delete(clusters, c.Name)
		}
	case "ManagedClusterSetBinding":
		clear(f)
	case "Placement":
		pl := decode[v1alpha1.Placement](w.Object)
		if w.Older == nil || w.Type == "DELETED" || pl.IsDisabled() || !equality.Semantic.DeepEqual(decode[v1alpha1.Placement](w.Older).Spec.Tolerations, pl.Spec.Tolerations) {
			delete(f, pl.Name)
		}
	}
}

// checkForced: what forces the removal of a cluster does not become the author's own by an edit, so
// the next record says that it is forced, too.
func (l *laws) checkForced(w *server.Write, record *berthv1alpha1.PlacementChange) {
	placement, is := record.Spec.Placement, record.Spec.Forced
	if l.forced[placement] == nil {
		l.forced[placement] = map[string]bool{}
	}
	_, removed, err := changes.Lists(record)
	if err != nil || w.Late || l.froze(w.Writer) || l.w.faults["clock set"] > 0 {
		return
	}
	for name := range l.forced[placement] {
		if slices.Contains(removed, name) && !slices.Contains(is, name) {
			l.breaks("%s does not say that the removal of %s is forced, which a record before it says", record.Name, name)
		}
	}
	if l.isLate(w, placement) {
		return
	}
	for _, name := range is {
		l.forced[placement][name] = true
	}
}
