package inventory

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// difference says in which respects two states of a cluster differ.
type difference struct {
	labels, claims     map[string]bool
	taints, membership bool
	cpu, memory        bool
	anything, added    bool
}

// String names the first part in which both states differ.
func (d *difference) String() string {
	switch {
	case d.added:
		return "added"
	case d.membership:
		return "being deleted"
	case len(d.labels) > 0:
		return "labels"
	case len(d.claims) > 0:
		return "claims"
	case d.taints:
		return "taints"
	case d.cpu || d.memory:
		return "allocatable"
	}
	return "changed"
}

func (inv *Inventory) updateCluster(object *v1alpha1.ManagedCluster, woken wakeSet) {
	var i int
	var old *framework.Cluster
	if known, ok := inv.names.index[object.Name]; ok {
		old = inv.clusters.Get(known)
	}
	if old == nil {
		i = inv.names.hold(object.Name)
		inv.order.join(i)
	} else {
		i = old.Index
	}
	cluster := inv.newCluster(i, object, old)
	d := compare(old, cluster)
	inv.clusters.Set(i, cluster)
	inv.fleet = nil
	if !d.anything {
		return
	}
	inv.what = d.String()
	inv.changed(i, old == nil || len(d.labels) > 0 || len(d.claims) > 0)
	left := false
	for name, set := range inv.sets {
		was, is := set.members.Has(i), set.matches(cluster)
		if was != is {
			set.put(i, is)
		}
		switch {
		case was != is:
			inv.viewers[name].wake(woken)
			left = left || was
		case is:
			inv.viewers[name].wakeWhere(func(r *reads) bool { return r.touchedBy(d) }, woken)
		}
	}
	if left || old == nil || old.DeletionTimestamp.IsZero() != object.DeletionTimestamp.IsZero() {
		inv.wakePublishers(i, woken)
	}
}

// wakePublishers wakes the Placements whose pages list a cluster that left a set, is being deleted,
// is gone or came back: they may have to give it up, whether they want its set or not.
func (inv *Inventory) wakePublishers(i int, woken wakeSet) {
	for _, page := range inv.pages.listing(i) {
		if inv.placements[page.owner] != nil {
			woken[page.owner] = true
		}
	}
}

func (inv *Inventory) deleteCluster(object *v1alpha1.ManagedCluster, woken wakeSet) {
	i, ok := inv.names.index[object.Name]
	if !ok || inv.clusters.Get(i) == nil {
		return
	}
	inv.clusters.Set(i, nil)
	inv.order.leave(i, &inv.names)
	inv.changed(i, true)
	for name, set := range inv.sets {
		if set.members.Has(i) {
			set.put(i, false)
			inv.viewers[name].wake(woken)
		}
	}
	for _, page := range inv.pages.listing(i) {
		inv.restate(page.owner)
	}
	inv.wakePublishers(i, woken)
	inv.names.release(i)
}

// newCluster reads a cluster once, for all cycles to come.
func (inv *Inventory) newCluster(i int, object *v1alpha1.ManagedCluster, old *framework.Cluster) *framework.Cluster {
	c := framework.NewCluster(object, i)
	if claims := object.Status.ClusterClaims; len(claims) > 0 {
		c.Claims = make(map[string]string, len(claims))
		for _, claim := range claims {
			c.Claims[claim.Name] = claim.Value
		}
	}
	c.CPU = amount(object, corev1.ResourceCPU)
	c.Memory = amount(object, corev1.ResourceMemory)
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

// maxAmount bounds the amounts that are known, either way: the difference of two such amounts is a
// finite number.
const maxAmount = math.MaxFloat64 / 2

// amount returns an allocatable amount. It is not known where the capacity is missing, or where the
// number is not finite, such as 0e309 and 1e309: one such amount would change the scores of all
// other clusters.
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

// compare says what is different; old is nil for a newcomer. Most updates are heartbeats, so the
// cheap looks come first and nothing is allocated for equal maps.
func compare(old, cluster *framework.Cluster) difference {
	if old == nil {
		return difference{anything: true, membership: true, added: true}
	}
	d := difference{
		labels: changedKeys(old.Labels, cluster.Labels),
		claims: changedKeys(old.Claims, cluster.Claims),
		cpu:    old.CPU != cluster.CPU,
		memory: old.Memory != cluster.Memory,
		taints: !equality.Semantic.DeepEqual(old.Spec.Taints, cluster.Spec.Taints),
	}
	d.membership = old.DeletionTimestamp.IsZero() != cluster.DeletionTimestamp.IsZero()
	d.anything = d.membership || d.taints || d.cpu || d.memory || len(d.labels) > 0 || len(d.claims) > 0 ||
		!sameMetadata(old.ManagedCluster, cluster.ManagedCluster) ||
		!equality.Semantic.DeepEqual(old.Spec, cluster.Spec) || !sameStatus(&old.Status, &cluster.Status)
	return d
}

// sameMetadata leaves out the resource version, the generation and the managed fields: they change
// with every write, and say nothing of the cluster.
func sameMetadata(a, b *v1alpha1.ManagedCluster) bool {
	return a.UID == b.UID && a.CreationTimestamp.Equal(&b.CreationTimestamp) && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// sameStatus leaves nothing out that a CEL expression could read: quantities have one form in each
// notation.
func sameStatus(a, b *v1alpha1.ManagedClusterStatus) bool {
	return sameQuantities(a.Allocatable, b.Allocatable) && sameQuantities(a.Capacity, b.Capacity) &&
		(a.Conditions == nil) == (b.Conditions == nil) && equality.Semantic.DeepEqual(a, b)
}

func sameQuantities(a, b map[v1alpha1.ResourceName]resource.Quantity) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v.Format != w.Format || v.Cmp(w) != 0 {
			return false
		}
	}
	return true
}

func changedKeys(a, b map[string]string) map[string]bool {
	var changed map[string]bool
	note := func(k string) {
		if changed == nil {
			changed = map[string]bool{}
		}
		changed[k] = true
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			note(k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			note(k)
		}
	}
	return changed
}
