package v1alpha1

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CompileSelector compiles a selector. An error has the path of the invalid field, its value and
// what is allowed; path is the path of the selector. Nil selects nothing, an empty one all.
func CompileSelector(s *metav1.LabelSelector, path *field.Path) (labels.Selector, *field.Error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err == nil {
		return selector, nil
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
