package v1alpha1

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CompileSelector compiles a selector. An error has the path of the invalid field, its value and
// what is allowed; path is the path of the selector. Nil selects nothing, an empty one all.
func CompileSelector(s *metav1.LabelSelector, path *field.Path) (labels.Selector, *field.Error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err == nil {
		return indexSelector(selector), nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if invalid := metav1validation.ValidateLabelName(key, path.Child("matchLabels")); len(invalid) > 0 {
			return nil, invalid[0]
		}
		if invalid := invalidValue(s.MatchLabels[key], path.Child("matchLabels").Key(key)); invalid != nil {
			return nil, invalid
		}
	}
	for i := range s.MatchExpressions {
		if invalid := invalidRequirement(&s.MatchExpressions[i], path.Child("matchExpressions").Index(i)); invalid != nil {
			return nil, invalid
		}
	}
	return nil, field.Invalid(path, field.OmitValueType{}, err.Error())
}

// minIndexedValues is from how many values on a requirement has an index.
const minIndexedValues = 8

// indexedSelector matches what its Selector does. The time does not depend on the number of values.
type indexedSelector struct {
	labels.Selector
	requirements []indexedRequirement
}

// indexedRequirement has no values if there are few.
type indexedRequirement struct {
	requirement labels.Requirement
	values      sets.Set[string]
}

func indexSelector(selector labels.Selector) labels.Selector {
	requirements, _ := selector.Requirements()
	indexed, found := make([]indexedRequirement, len(requirements)), false
	for i, r := range requirements {
		indexed[i].requirement = r
		switch r.Operator() {
		case selection.In, selection.NotIn:
			if len(r.ValuesUnsorted()) >= minIndexedValues {
				indexed[i].values, found = sets.New(r.ValuesUnsorted()...), true
			}
		}
	}
	if !found {
		return selector
	}
	return indexedSelector{selector, indexed}
}

// Matches implements labels.Selector.
func (s indexedSelector) Matches(of labels.Labels) bool {
	for i := range s.requirements {
		if !s.requirements[i].matches(of) {
			return false
		}
	}
	return true
}

func (r *indexedRequirement) matches(of labels.Labels) bool {
	if r.values == nil {
		return r.requirement.Matches(of)
	}
	value, has := of.Lookup(r.requirement.Key())
	return (has && r.values.Has(value)) == (r.requirement.Operator() == selection.In)
}

// CompileSelector compiles the labelSelector of a set.
func (s *ManagedClusterSet) CompileSelector() (labels.Selector, *field.Error) {
	return CompileSelector(s.Spec.ClusterSelector.LabelSelector, field.NewPath("spec", "clusterSelector", "labelSelector"))
}

// Compile compiles the claim selector like a label selector.
func (s *ClusterClaimSelector) Compile(path *field.Path) (labels.Selector, *field.Error) {
	return CompileSelector(&metav1.LabelSelector{MatchExpressions: s.MatchExpressions}, path)
}

func invalidRequirement(r *metav1.LabelSelectorRequirement, path *field.Path) *field.Error {
	if invalid := metav1validation.ValidateLabelName(r.Key, path.Child("key")); len(invalid) > 0 {
		return invalid[0]
	}
	switch r.Operator {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.Required(path.Child("values"), fmt.Sprintf("the operator %s requires at least one value", r.Operator))
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.Forbidden(path.Child("values"), fmt.Sprintf("the operator %s allows no values", r.Operator))
		}
	default:
		return field.NotSupported(path.Child("operator"), r.Operator, []metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist})
	}
	for i, value := range r.Values {
		if invalid := invalidValue(value, path.Child("values").Index(i)); invalid != nil {
			return invalid
		}
	}
	return nil
}

func invalidValue(value string, path *field.Path) *field.Error {
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return field.Invalid(path, value, problems[0])
	}
	return nil
}
