package golden

import (
	"errors"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// errMisconfigured is any mistake in a Placement, or in a set.
var errMisconfigured = errors.New("misconfigured")

var (
	labelValue = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// selector are requirements that all must hold.
type selector []metav1.LabelSelectorRequirement

func newSelector(equal map[string]string, expressions []metav1.LabelSelectorRequirement) (selector, error) {
	var s selector
	for k, v := range equal {
		s = append(s, metav1.LabelSelectorRequirement{Key: k, Operator: metav1.LabelSelectorOpIn, Values: []string{v}})
	}
	s = append(s, expressions...)
	for _, r := range s {
		wantsValues := false
		switch r.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			wantsValues = true
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		default:
			return nil, errMisconfigured
		}
		bad := func(v string) bool { return len(v) > 63 || !labelValue.MatchString(v) }
		if !labelKey.MatchString(r.Key) || wantsValues != (len(r.Values) > 0) || slices.ContainsFunc(r.Values, bad) {
			return nil, errMisconfigured
		}
	}
	return s, nil
}

// matches treats an absent key as one with no value at all: NotIn and DoesNotExist match it.
func (s selector) matches(have map[string]string) bool {
	for _, r := range s {
		value, has := have[r.Key]
		var ok bool
		switch r.Operator {
		case metav1.LabelSelectorOpIn:
			ok = has && slices.Contains(r.Values, value)
		case metav1.LabelSelectorOpNotIn:
			ok = !has || !slices.Contains(r.Values, value)
		case metav1.LabelSelectorOpExists:
			ok = has
		case metav1.LabelSelectorOpDoesNotExist:
			ok = !has
		}
		if !ok {
			return false
		}
	}
	return true
}

// clusterSelector is one label selector and one claim selector; both must match.
type clusterSelector struct{ labels, claims selector }

func newClusterSelector(labels metav1.LabelSelector, claims v1alpha1.ClusterClaimSelector) (s clusterSelector, err error) {
	if s.labels, err = newSelector(labels.MatchLabels, labels.MatchExpressions); err != nil {
		return s, err
	}
	s.claims, err = newSelector(nil, claims.MatchExpressions)
	return s, err
}

func (s clusterSelector) matches(c *v1alpha1.ManagedCluster) bool {
	return s.labels.matches(c.Labels) && s.claims.matches(claimsOf(c))
}

// claimsOf takes the last of claims with the same name.
func claimsOf(c *v1alpha1.ManagedCluster) map[string]string {
	claims := map[string]string{}
	for _, claim := range c.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	return claims
}

// predicatesOf are ORed; none selects all.
func predicatesOf(spec *v1alpha1.PlacementSpec) (all []clusterSelector, cel bool, err error) {
	for _, p := range spec.Predicates {
		required := p.RequiredClusterSelector
		one, err := newClusterSelector(required.LabelSelector, required.ClaimSelector)
		if err != nil {
			return nil, false, err
		}
		all = append(all, one)
		cel = cel || len(required.CelSelector.CelExpressions) > 0
	}
	return all, cel, nil
}

// memberOf is how a set chooses its members. An invalid selector chooses none.
func memberOf(set *v1alpha1.ManagedClusterSet) func(*v1alpha1.ManagedCluster) bool {
	none := func(*v1alpha1.ManagedCluster) bool { return false }
	by := set.Spec.ClusterSelector
	switch {
	case by.SelectorType == "" || by.SelectorType == v1alpha1.ExclusiveClusterSetLabel:
		return func(c *v1alpha1.ManagedCluster) bool { return c.Labels[v1alpha1.ClusterSetLabel] == set.Name }
	case by.SelectorType != v1alpha1.LabelSelector || by.LabelSelector == nil:
		return none
	}
	s, err := newSelector(by.LabelSelector.MatchLabels, by.LabelSelector.MatchExpressions)
	if err != nil {
		return none
	}
	return func(c *v1alpha1.ManagedCluster) bool { return s.matches(c.Labels) }
}
