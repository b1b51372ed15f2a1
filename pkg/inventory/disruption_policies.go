package inventory

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// disruptionPolicy is a DisruptionPolicy with its compiled selectors.
type disruptionPolicy struct {
	object    *berthv1alpha1.DisruptionPolicy
	selects   func(*v1alpha1.Placement) bool
	readiness *changes.Readiness
	windows   *changes.WindowSet
}

// disruption are the DisruptionPolicies of a Placement.
type disruption struct {
	// policies are the oldest that select it, at most MaxPoliciesPerPlacement, sorted by name. more
	// is the number of the others.
	policies []*berthv1alpha1.DisruptionPolicy
	more     int
	// windows are those of the policies; nil if none has windows.
	windows *changes.Windows
}

// updateDisruptionPolicy affects the Placements that the policy selects or selected before.
func (inv *Inventory) updateDisruptionPolicy(object *berthv1alpha1.DisruptionPolicy, e *event) {
	key := nameOf(object)
	old := inv.disruptionPolicies[key.Namespace][key.Name]
	if old != nil && older(object, old.object) {
		return
	}
	if old != nil && equality.Semantic.DeepEqual(old.object.Spec, object.Spec) {
		// Only the status changed: the Placements get the new object and are not affected.
		old.object = object
		inv.addSelected(old, affectedSet{})
		return
	}
	inv.addObject(object)
	// The condition of a policy with an invalid selector, which selects nothing, has the error.
	selects, _ := changes.Selects(object)
	readiness, _ := changes.ReadinessOf(object)
	next := &disruptionPolicy{object, selects, readiness, changes.WindowsOfPolicy(object)}
	inv.disruptionPolicies.set(key.Namespace, key.Name, next)
	inv.addSelected(old, e.affected)
	inv.addSelected(next, e.affected)
	e.changed = "spec"
}

func (inv *Inventory) deleteDisruptionPolicy(object *berthv1alpha1.DisruptionPolicy, e *event) {
	old := inv.disruptionPolicies[object.Namespace][object.Name]
	if old == nil {
		return
	}
	inv.addDeleted(object)
	inv.disruptionPolicies.remove(object.Namespace, object.Name)
	inv.addSelected(old, e.affected)
}

func (inv *Inventory) addSelected(changed *disruptionPolicy, affected affectedSet) {
	if changed == nil {
		return
	}
	for key, p := range inv.byNamespace[changed.object.Namespace] {
		if changed.selects(p.object) {
			p.subject, p.disruption = nil, nil
			affected.add(key)
		}
	}
}

func (inv *Inventory) disruptionOf(p *placement) *disruption {
	if p.disruption != nil {
		return p.disruption
	}
	var all []*disruptionPolicy
	for _, policy := range inv.disruptionPolicies[p.key.Namespace] {
		if policy.selects(p.object) {
			all = append(all, policy)
		}
	}
	slices.SortFunc(all, func(a, b *disruptionPolicy) int { return changes.ComparePolicies(a.object, b.object) })
	applied := all[:min(len(all), berthv1alpha1.MaxPoliciesPerPlacement)]
	slices.SortFunc(applied, func(a, b *disruptionPolicy) int { return strings.Compare(a.object.Name, b.object.Name) })
	g := &disruption{policies: []*berthv1alpha1.DisruptionPolicy{}, more: len(all) - len(applied)}
	windows := make([]*changes.WindowSet, len(applied))
	for i, policy := range applied {
		g.policies, windows[i] = append(g.policies, policy.object), policy.windows
	}
	g.windows = changes.CombineWindows(windows...)
	p.disruption = g
	return g
}

// addPolicies adds the policies of a Placement to its Subject.
func (inv *Inventory) addPolicies(s *framework.Subject, p *placement) {
	g := inv.disruptionOf(p)
	s.DisruptionPolicies, s.MorePolicies, s.ReplaceFirst = g.policies, g.more, changes.PolicyOf(g.policies).ReplaceFirst
	s.SelectionPolicies = inv.selections.objects(p.key)
	if g.windows != nil {
		s.Windows = g.windows
	}
}

// PrepareWindows computes when the windows of a Placement's policies are open, outside attempts.
func (inv *Inventory) PrepareWindows(key Key, now time.Time) {
	windows := read(inv, key, func(p *placement) *changes.Windows { return inv.disruptionOf(p).windows })
	if windows != nil {
		windows.Prepare(now)
	}
}

// ExcessPolicy returns the first Placement, by name, that a policy selects and does not apply to,
// because older policies select it, and how many select it; empty if there is none. It locks the
// inventory for one Placement at a time, because each may need all policies of the namespace.
func (inv *Inventory) ExcessPolicy(key Key) (placement string, selecting int) {
	for _, name := range inv.selectedByMany(key) {
		if selecting := inv.excess(key, Key{Namespace: key.Namespace, Name: name}); selecting > 0 {
			return name, selecting
		}
	}
	return "", 0
}

// selectedByMany returns the Placements that a policy selects, sorted; none if its namespace has no
// more policies than may select one Placement.
func (inv *Inventory) selectedByMany(key Key) (names []string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	policy := inv.disruptionPolicies[key.Namespace][key.Name]
	if policy == nil || len(inv.disruptionPolicies[key.Namespace]) <= berthv1alpha1.MaxPoliciesPerPlacement {
		return nil
	}
	for key, p := range inv.byNamespace[key.Namespace] {
		if policy.selects(p.object) {
			names = append(names, key.Name)
		}
	}
	slices.Sort(names)
	return names
}

// excess returns how many policies select a Placement if one of them does not apply, otherwise 0.
func (inv *Inventory) excess(key, selected Key) int {
	return read(inv, selected, func(p *placement) int {
		policy, g := inv.disruptionPolicies[key.Namespace][key.Name], inv.disruptionOf(p)
		if policy == nil || g.more == 0 || !policy.selects(p.object) || slices.Contains(g.policies, policy.object) {
			return 0
		}
		return len(g.policies) + g.more
	})
}
