package filters

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// compiled holds the compiled predicates of one Placement and the results for its candidates.
type compiled struct {
	uid        types.UID
	generation int64
	spec       []v1alpha1.ClusterPredicate
	predicates []predicate
	// mistake is why the predicates are invalid, status the Status for it; nil if they are valid.
	mistake *field.Error
	status  *framework.Status
	// charged is true if the cost of evaluations counts against the budget. requirements is their
	// number in all selectors.
	charged      bool
	requirements uint64

	// cache is used if evaluations are not charged, evaluationState otherwise.
	cache *matchCache
	evaluationState
}

type predicate struct {
	labels, claims labels.Selector
	expressions    []*clustercel.Expression
}

// isExpensive reports whether compiling may take longer than a cycle should.
func isExpensive(specs []v1alpha1.ClusterPredicate) bool {
	n := 0
	for i := range specs {
		s := &specs[i].RequiredClusterSelector
		n += 1 + requirementsAndValues(s)
		if n > freeRequirements || len(s.CelSelector.CelExpressions) > 0 {
			return true
		}
	}
	return false
}

// isCompiledFrom reports whether c was compiled from the Placement's current predicates.
func (c *compiled) isCompiledFrom(pl *v1alpha1.Placement) bool {
	return c != nil && c.uid == pl.UID && c.generation == pl.Generation && samePredicates(c.spec, pl.Spec.Predicates)
}

// samePredicates compares pointers first: after a write of the status the predicates are often the
// same object.
func samePredicates(a, b []v1alpha1.ClusterPredicate) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || equality.Semantic.DeepEqual(a, b))
}

func compile(pl *v1alpha1.Placement) *compiled {
	return compileUntil(pl, func() bool { return false })
}

var errYielded = errors.New("yielded")

// compileUntil returns nil if yield returns true before all is compiled.
func compileUntil(pl *v1alpha1.Placement, yield func() bool) *compiled {
	c := &compiled{uid: pl.UID, generation: pl.Generation, spec: pl.Spec.Predicates, cache: &matchCache{}}
	switch err := c.compile(yield); {
	case errors.Is(err, errYielded):
		return nil
	case err != nil:
		errors.As(err, &c.mistake)
		c.status = framework.Misconfigured(c.mistake)
	}
	return c
}

// compile returns errYielded, or a *field.Error if the predicates are invalid.
func (c *compiled) compile(yield func() bool) error {
	path, total := field.NewPath("spec", "predicates"), 0
	for i := range c.spec {
		if total += requirementsAndValues(&c.spec[i].RequiredClusterSelector); total > maxSelectorValues {
			return field.Forbidden(path, fmt.Sprintf("the selectors of all predicates must have at most %d requirements and values", maxSelectorValues))
		}
	}
	expressions, bytes, fresh := 0, 0, 0
	for i, spec := range c.spec {
		s, at := spec.RequiredClusterSelector, path.Index(i).Child("requiredClusterSelector")
		var one predicate
		var mistake *field.Error
		if one.labels, mistake = v1alpha1.CompileSelector(&s.LabelSelector, at.Child("labelSelector")); mistake != nil {
			return mistake
		}
		if one.claims, mistake = s.ClaimSelector.Compile(at.Child("claimSelector")); mistake != nil {
			return mistake
		}
		c.requirements += 1 + uint64(len(s.LabelSelector.MatchLabels)) + requirements(s.LabelSelector.MatchExpressions) +
			requirements(s.ClaimSelector.MatchExpressions)
		for j, text := range s.CelSelector.CelExpressions {
			expressions++
			bytes += len(text)
			if expressions > maxExpressions || bytes > maxExpressionBytes {
				return field.Forbidden(path, fmt.Sprintf("all predicates must have at most %d CEL expressions of at most %d bytes in all", maxExpressions, maxExpressionBytes))
			}
			e := clustercel.Compiled(text)
			if e == nil {
				// Each call compiles at least one expression.
				if fresh++; fresh > 1 && yield() {
					return errYielded
				}
				var err error
				if e, err = clustercel.Compile(text); err != nil {
					return field.Invalid(at.Child("celSelector", "celExpressions").Index(j), clustercel.Excerpt(text), err.Error())
				}
			}
			one.expressions = append(one.expressions, e)
		}
		c.predicates = append(c.predicates, one)
	}
	c.charged = expressions > 0 || c.requirements > freeRequirements
	if !c.charged {
		c.cache.text = textOf(c.predicates)
	}
	return nil
}

// requirementsAndValues returns the number of requirements and values of a predicate. Compiling
// validates each value.
func requirementsAndValues(s *v1alpha1.ClusterSelector) int {
	n := len(s.LabelSelector.MatchLabels)
	for _, all := range [...][]metav1.LabelSelectorRequirement{s.LabelSelector.MatchExpressions, s.ClaimSelector.MatchExpressions} {
		n += len(all)
		for i := range all {
			n += len(all[i].Values)
		}
	}
	return n
}

// requirements returns the cost of matching, in requirements. Ten values count as one requirement.
func requirements(all []metav1.LabelSelectorRequirement) uint64 {
	n := uint64(len(all))
	for i := range all {
		n += uint64(len(all[i].Values)) / 10
	}
	return n
}

// textOf returns a text that is equal for equal selectors.
func textOf(predicates []predicate) string {
	var text strings.Builder
	for _, one := range predicates {
		text.WriteString(one.labels.String() + ";" + one.claims.String() + "|")
	}
	return text.String()
}
