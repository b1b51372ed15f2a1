package inventory

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// policy is a DisruptionPolicy with its compiled selectors.
type policy struct {
	object    *berthv1alpha1.DisruptionPolicy
	selects   func(*v1alpha1.Placement) bool
	readiness *changes.Readiness
}

// updatePolicy affects the Placements that the policy selects or selected before.
func (inv *Inventory) updatePolicy(object *berthv1alpha1.DisruptionPolicy, e *event) {
	key := Key{Namespace: object.Namespace, Name: object.Name}
	old := inv.policies[key.Namespace][key.Name]
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
	if inv.policies[key.Namespace] == nil {
		inv.policies[key.Namespace] = map[string]*policy{}
	}
	// The condition of a policy with an invalid selector, which selects nothing, has the error.
	selects, _ := changes.Selects(object)
	readiness, _ := changes.ReadinessOf(object)
	next := &policy{object, selects, readiness}
	inv.policies[key.Namespace][key.Name] = next
	inv.addSelected(old, e.affected)
	inv.addSelected(next, e.affected)
	e.changed = "spec"
}

func (inv *Inventory) deletePolicy(object *berthv1alpha1.DisruptionPolicy, e *event) {
	old := inv.policies[object.Namespace][object.Name]
	if old == nil {
		return
	}
	inv.addDeleted(object)
	delete(inv.policies[object.Namespace], object.Name)
	if len(inv.policies[object.Namespace]) == 0 {
		delete(inv.policies, object.Namespace)
	}
	inv.addSelected(old, e.affected)
}

func (inv *Inventory) addSelected(changed *policy, affected affectedSet) {
	if changed == nil {
		return
	}
	for key, p := range inv.byNamespace[changed.object.Namespace] {
		if changed.selects(p.object) {
			p.subject, p.policies = nil, nil
			affected.add(key)
		}
	}
}

// policiesOf returns the policies that select the Placement, sorted by name.
func (inv *Inventory) policiesOf(p *placement) []*berthv1alpha1.DisruptionPolicy {
	if p.policies != nil {
		return p.policies
	}
	p.policies = []*berthv1alpha1.DisruptionPolicy{}
	for _, policy := range inv.policies[p.key.Namespace] {
		if policy.selects(p.object) {
			p.policies = append(p.policies, policy.object)
		}
	}
	slices.SortFunc(p.policies, func(a, b *berthv1alpha1.DisruptionPolicy) int { return strings.Compare(a.Name, b.Name) })
	return p.policies
}

// replacesFirst reports whether a policy of the Placement has unavailableClusters: ReplaceFirst.
func (inv *Inventory) replacesFirst(p *placement) bool {
	return changes.PolicyOf(inv.policiesOf(p)).ReplaceFirst
}
