package v1alpha1

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestCompileSelector(t *testing.T) {
	requirement := func(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "ok", Operator: "Exists"}, {Key: key, Operator: operator, Values: values}}}
	}
	tests := map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"a value of matchLabels": {&metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c!"}},
			`spec.labelSelector.matchLabels[a]: Invalid value: "b c!": a valid label must be`},
		"a key of matchLabels": {&metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}},
			`spec.labelSelector.matchLabels: Invalid value: "a b": name part must consist of`},
		"an operator": {requirement("a", "Equals", "b"),
			`spec.labelSelector.matchExpressions[1].operator: Unsupported value: "Equals": supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		"no values": {requirement("a", "In"),
			`spec.labelSelector.matchExpressions[1].values: Required value: the operator In requires at least one value`},
		"values with Exists": {requirement("a", "Exists", "b"),
			`spec.labelSelector.matchExpressions[1].values: Forbidden: the operator Exists allows no values`},
		"an empty key": {requirement("", "Exists"),
			`spec.labelSelector.matchExpressions[1].key: Invalid value: "": name part must be non-empty`},
		"a value": {requirement("a", "In", "b", "c/d"),
			`spec.labelSelector.matchExpressions[1].values[1]: Invalid value: "c/d": a valid label must be`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := CompileSelector(tc.selector, field.NewPath("spec", "labelSelector"))
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("want %s, got %v", tc.want, err)
			}
		})
	}
	selector, err := CompileSelector(requirement("a", "In", "b"), nil)
	if err != nil || !selector.Matches(labels.Set{"ok": "", "a": "b"}) {
		t.Errorf("a valid selector: %v, %v", selector, err)
	}
}

// TestIndexedSelector: an index of values does not change what a selector matches.
func TestIndexedSelector(t *testing.T) {
	for _, operator := range []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn} {
		for _, size := range []int{1, minIndexedValues - 1, minIndexedValues, 1000} {
			long := metav1.LabelSelectorRequirement{Key: "l", Operator: operator}
			for i := range size {
				long.Values = append(long.Values, fmt.Sprint("v", i))
			}
			s := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{long, {Key: "c", Operator: "DoesNotExist"}}}
			want, err := metav1.LabelSelectorAsSelector(s)
			if err != nil {
				t.Fatal(err)
			}
			got, invalid := CompileSelector(s, nil)
			if invalid != nil || got.String() != want.String() {
				t.Fatalf("%v %v, want %v", invalid, got, want)
			}
			if _, indexed := got.(indexedSelector); indexed != (size >= minIndexedValues) {
				t.Errorf("%d values are indexed: %t", size, indexed)
			}
			last := fmt.Sprint("v", size-1)
			for _, of := range []labels.Set{{}, {"a": "b"}, {"a": "b", "l": last}, {"a": "b", "l": ""}, {"a": "x", "l": last}, {"a": "b", "l": last, "c": ""}, {"a": "b", "l": "x"}} {
				if got.Matches(of) != want.Matches(of) {
					t.Errorf("%s with %d values matches %v: %t", operator, size, of, got.Matches(of))
				}
			}
		}
	}
}
