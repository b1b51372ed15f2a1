package inventory

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// difference lists the parts in which two states of a cluster differ.
type difference struct {
	labels, claims     map[string]bool
	taints, membership bool
	cpu, memory        bool
	resources          map[string]bool
	anything           bool
}

// changed names the first part in which a cluster differs from its old state, which is nil for a
// new one.
func (d *difference) changed(old *framework.Cluster, object *v1alpha1.ManagedCluster) string {
	switch {
	case old == nil:
		return "added"
	case d.membership:
		return "being deleted"
	case len(d.labels) > 0:
		return "labels"
	case len(d.claims) > 0:
		return "claims"
	case d.taints:
		return taintsText(old.ManagedCluster, object)
	case d.cpu || d.memory || len(d.resources) > 0:
		return "allocatable"
	}
	return "changed"
}

// taintsText says what became of the taints of a cluster. An old comment belongs to an earlier
// edit.
func taintsText(old, object *v1alpha1.ManagedCluster) string {
	text := "taints"
	switch {
	case object.Drained() && !old.Drained():
		text = "drained"
	case old.Drained() && !object.Drained():
		text = "undrained"
	case object.Unavailable() && !old.Unavailable():
		return "unavailable"
	case old.Unavailable() && !object.Unavailable():
		return "available again"
	default:
		return text
	}
	comment := object.Annotations[berthv1alpha1.CommentAnnotation]
	if comment != "" && comment != old.Annotations[berthv1alpha1.CommentAnnotation] {
		text += " (" + comment + ")"
	}
	return text
}

func (inv *Inventory) updateCluster(object *v1alpha1.ManagedCluster, e *event) {
	i, known := inv.names.index[object.Name]
	var old *framework.Cluster
	if known {
		old = inv.clusters.Get(i)
	}
	if old == nil {
		i = inv.names.acquire(object.Name)
		inv.order.insert(i)
	}
	cluster := inv.newCluster(i, object, old, e.taintTimes)
	d := compare(old, cluster)
	inv.clusters.Set(i, cluster)
	inv.updateCapacities(i, old, object)
	inv.fleet = nil
	inv.addWaitingForCluster(old, cluster, e)
	if !d.anything {
		return
	}
	inv.addInput(inv.clusterInput(cluster))
	e.changed = d.changed(old, object)
	inv.logChange(i, old == nil || len(d.labels) > 0 || len(d.claims) > 0)
	removed := false
	for name, set := range inv.sets {
		was, is := set.members.Has(i), set.set.Matches(cluster)
		if was != is {
			set.setMember(i, is)
		}
		switch {
		case was != is:
			inv.addReaders(name, nil, e.affected)
			inv.addNaming(object.Name, name, e.affected)
			removed = removed || was
		case is:
			inv.addUnsettled(name, func(r *reads) bool { return r.dependsOn(d) }, old, cluster, e)
		}
	}
	if removed || old == nil || old.DeletionTimestamp.IsZero() != object.DeletionTimestamp.IsZero() {
		inv.addPublishers(i, e.affected)
	}
	inv.skipSurvivors(e)
}

// MaxClusters returns an upper bound of the number of clusters.
func (inv *Inventory) MaxClusters() int {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.clusters.Len()
}

// addPublishers adds the Placements whose pages list cluster i, which left a set, is being deleted,
// was deleted or was created again. They may have to remove it, whether they use its set or not.
func (inv *Inventory) addPublishers(i int, affected affectedSet) {
	for page := range inv.pages.byIndex[i].all {
		if inv.placements[page.owner] != nil {
			affected.add(page.owner)
		}
	}
}

func (inv *Inventory) deleteCluster(object *v1alpha1.ManagedCluster, e *event) {
	i, ok := inv.names.index[object.Name]
	if !ok || inv.clusters.Get(i) == nil {
		return
	}
	old := inv.clusters.Get(i)
	inv.addDeleted(old.ManagedCluster)
	inv.clusters.Set(i, nil)
	inv.updateCapacities(i, old, nil)
	inv.order.remove(i, &inv.names)
	inv.logChange(i, true)
	for name, set := range inv.sets {
		if set.members.Has(i) {
			set.setMember(i, false)
			inv.addReaders(name, nil, e.affected)
			inv.addNaming(object.Name, name, e.affected)
		}
	}
	inv.addPublishers(i, e.affected)
	inv.names.release(i)
}

// newCluster converts a ManagedCluster once, so that cycles need not do so.
// taintTimes are those of another inventory; nil otherwise.
func (inv *Inventory) newCluster(i int, object *v1alpha1.ManagedCluster, old *framework.Cluster, taintTimes []time.Time) *framework.Cluster {
	c := framework.NewCluster(object, i)
	if claims := object.Status.ClusterClaims; len(claims) > 0 {
		c.Claims = make(map[string]string, len(claims))
		for _, claim := range claims {
			c.Claims[claim.Name] = claim.Value
		}
	}
	c.CPU = amount(object, corev1.ResourceCPU)
	c.Memory = amount(object, corev1.ResourceMemory)
	if taintTimes != nil {
		c.TaintTimes = taintTimes
		return c
	}
	for _, taint := range object.Spec.Taints {
		c.TaintTimes = append(c.TaintTimes, inv.taintTime(taint, old))
	}
	return c
}

func (inv *Inventory) taintTime(taint v1alpha1.Taint, old *framework.Cluster) time.Time {
	switch {
	case !taint.TimeAdded.IsZero():
		return taint.TimeAdded.Time
	case inv.options.FirstSeen == nil:
		return time.Time{}
	case old != nil:
		for j, t := range old.Spec.Taints {
			if t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect {
				return old.TaintTimes[j]
			}
		}
	}
	return inv.options.FirstSeen()
}

// maxAmount is the largest absolute value of a known amount, so that the difference of two amounts
// is finite.
const maxAmount = math.MaxFloat64 / 2

// amount returns an allocatable amount. It is unknown if the capacity is missing, or if the number
// is not finite, such as 0e309 and 1e309, because it would change the scores of all other clusters.
func amount(object *v1alpha1.ManagedCluster, name corev1.ResourceName) framework.Amount {
	key := v1alpha1.ResourceName(name)
	allocatable, ok := object.Status.Allocatable[key]
	if _, capacity := object.Status.Capacity[key]; !ok || !capacity {
		return framework.Amount{}
	}
	value := allocatable.AsApproximateFloat64()
	if math.IsNaN(value) || math.Abs(value) > maxAmount {
		return framework.Amount{}
	}
	return framework.Amount{Value: value, Known: true}
}

// compare returns the difference of two states; old is nil for a new cluster. Most updates are
// heartbeats, so cheap comparisons come first and equal maps need no allocation.
func compare(old, cluster *framework.Cluster) difference {
	if old == nil {
		return difference{anything: true, membership: true}
	}
	d := difference{
		labels: changedKeys(old.Labels, cluster.Labels, equalTexts),
		claims: changedKeys(old.Claims, cluster.Claims, equalTexts),
		cpu:    old.CPU != cluster.CPU,
		memory: old.Memory != cluster.Memory,
		taints: !equality.Semantic.DeepEqual(old.Spec.Taints, cluster.Spec.Taints),
	}
	if !sameQuantities(old.Status.Allocatable, cluster.Status.Allocatable) {
		d.resources = changedKeys(old.Status.Allocatable, cluster.Status.Allocatable, resource.Quantity.Equal)
	}
	d.membership = old.DeletionTimestamp.IsZero() != cluster.DeletionTimestamp.IsZero()
	d.anything = d.membership || d.taints || d.cpu || d.memory || len(d.labels) > 0 || len(d.claims) > 0 ||
		!sameMetadata(old.ManagedCluster, cluster.ManagedCluster) ||
		!equality.Semantic.DeepEqual(old.Spec, cluster.Spec) || !sameStatus(&old.Status, &cluster.Status)
	return d
}

// sameMetadata ignores the resource version, the generation and the managed fields, which change
// with every write and do not describe the cluster.
func sameMetadata(a, b *v1alpha1.ManagedCluster) bool {
	return a.UID == b.UID && a.CreationTimestamp.Equal(&b.CreationTimestamp) && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// sameStatus compares everything that a CEL expression can read.
func sameStatus(a, b *v1alpha1.ManagedClusterStatus) bool {
	return sameQuantities(a.Allocatable, b.Allocatable) && sameQuantities(a.Capacity, b.Capacity) &&
		(a.Conditions == nil) == (b.Conditions == nil) && equality.Semantic.DeepEqual(a, b)
}

func sameQuantities(a, b map[v1alpha1.ResourceName]resource.Quantity) bool {
	return maps.EqualFunc(a, b, v1alpha1.IdenticalQuantities)
}

// changedKeys returns the keys with different values; nil if there are none.
func changedKeys[K ~string, V any](a, b map[K]V, equal func(a, b V) bool) (changed map[string]bool) {
	add := func(k K) {
		if changed == nil {
			changed = map[string]bool{}
		}
		changed[string(k)] = true
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || !equal(v, w) {
			add(k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			add(k)
		}
	}
	return changed
}

func equalTexts(a, b string) bool { return a == b }
