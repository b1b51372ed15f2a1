package inventory

import (
	"cmp"
	"maps"
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func evictionKeys(object *berthv1alpha1.PlacementEviction) (own, placement Key) {
	return nameOf(object), Key{Namespace: object.Namespace, Name: object.Spec.Placement}
}

// updateEviction affects the Placement that the eviction names, unless the cluster is excluded as
// before.
func (inv *Inventory) updateEviction(object *berthv1alpha1.PlacementEviction, e *event) {
	key, placement := evictionKeys(object)
	old := inv.evictions.byName[key]
	if old != nil && older(object, old) {
		return
	}
	if old == nil || !sameVersion(old, object) {
		inv.addObject(object)
	}
	if old != nil {
		inv.evictions.remove(evictionKeys(old))
		if old.Spec != object.Spec {
			// Another eviction of the same name: the watch did not report the deletion.
			inv.evictionChanged(old, nil, e)
			old = nil
		}
	}
	inv.evictions.set(key, placement, object)
	inv.evictionChanged(old, object, e)
	e.keepsStart = old != nil // Berth has accepted it, or it has ended.
	e.changed = "eviction of " + object.Spec.Cluster + berthv1alpha1.EditText(object)
}

func (inv *Inventory) deleteEviction(object *berthv1alpha1.PlacementEviction, e *event) {
	old := inv.evictions.byName[nameOf(object)]
	if old == nil || old.UID != object.UID {
		return
	}
	inv.addDeleted(old)
	inv.evictions.remove(evictionKeys(old))
	inv.evictionChanged(old, nil, e)
}

// evictionChanged adds the Placement to the affected ones if the eviction excludes its cluster
// differently. Either state may be nil.
func (inv *Inventory) evictionChanged(old, object *berthv1alpha1.PlacementEviction, e *event) {
	before, after := evictionOf(old), evictionOf(object)
	if before == nil && after == nil || before != nil && after != nil && before.Until.Equal(after.Until) {
		return
	}
	_, placement := evictionKeys(cmp.Or(object, old))
	if inv.dropSubject(placement) {
		e.affected.add(placement)
	}
}

// evictionOf returns how an eviction excludes its cluster; nil if it does not.
func evictionOf(object *berthv1alpha1.PlacementEviction) *framework.Eviction {
	if object == nil {
		return nil
	}
	until, excludes := changes.EvictionEnd(object)
	if !excludes {
		return nil
	}
	return &framework.Eviction{Cluster: object.Spec.Cluster, Name: object.Name, Until: until}
}

// evictionsOf returns the evictions of a Placement, sorted by cluster: of each cluster the one that
// ends last.
func (inv *Inventory) evictionsOf(p *placement) []framework.Eviction {
	byCluster := map[string]framework.Eviction{}
	for _, object := range inv.evictions.byPlacement[p.key] {
		e := evictionOf(object)
		if e == nil || !changes.EvictsFrom(object, p.object) {
			continue
		}
		if known, ok := byCluster[e.Cluster]; !ok || e.EndsAfter(known) {
			byCluster[e.Cluster] = *e
		}
	}
	return slices.SortedFunc(maps.Values(byCluster), func(a, b framework.Eviction) int { return cmp.Compare(a.Cluster, b.Cluster) })
}
