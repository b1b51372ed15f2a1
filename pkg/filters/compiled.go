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
	// mistake is why the predicates are invalid, status the Status for it; nil if they are valid.
	mistake *field.Error
	status  *framework.Status

	*selectorMatches
}

// predicate is one compiled ClusterSelector. requirements is the number of requirements in its
// selectors, and 1 for itself.
type predicate struct {
	labels, claims labels.Selector
	expressions    []*clustercel.Expression
	requirements   uint64
}

// located is a ClusterSelector with its path.
type located struct {
	*v1alpha1.ClusterSelector
	path *field.Path
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
	c := &compiled{uid: pl.UID, generation: pl.Generation, spec: pl.Spec.Predicates, selectorMatches: newSelectorMatches(nil)}
	path := field.NewPath("spec", "predicates")
	all := make([]located, len(c.spec))
	for i := range c.spec {
		all[i] = located{&c.spec[i].RequiredClusterSelector, path.Index(i).Child("requiredClusterSelector")}
	}
	predicates, err := compileSelectors(all, path, "all predicates", yield)
	switch {
	case errors.Is(err, errYielded):
		return nil
	case err != nil:
		errors.As(err, &c.mistake)
		c.status = framework.Misconfigured(c.mistake)
	default:
		c.selectorMatches = newSelectorMatches(predicates)
	}
	return c
}

// compileSelectors returns errYielded, or a *field.Error if a selector is invalid or all together,
// which what names, exceed a limit.
func compileSelectors(all []located, root *field.Path, what string, yield func() bool) ([]predicate, error) {
	total := 0
	for _, s := range all {
		if total += requirementsAndValues(s.ClusterSelector); total > maxSelectorValues {
			return nil, field.Forbidden(root, fmt.Sprintf("the selectors of %s must have at most %d requirements and values", what, maxSelectorValues))
		}
	}
	predicates := make([]predicate, 0, len(all))
	expressions, bytes, fresh := 0, 0, 0
	for _, s := range all {
		var one predicate
		var mistake *field.Error
		if one.labels, mistake = v1alpha1.CompileSelector(&s.LabelSelector, s.path.Child("labelSelector")); mistake != nil {
			return nil, mistake
		}
		if one.claims, mistake = s.ClaimSelector.Compile(s.path.Child("claimSelector")); mistake != nil {
			return nil, mistake
		}
		one.requirements = 1 + uint64(len(s.LabelSelector.MatchLabels)) + requirements(s.LabelSelector.MatchExpressions) +
			requirements(s.ClaimSelector.MatchExpressions)
		for j, text := range s.CelSelector.CelExpressions {
			expressions++
			bytes += len(text)
			if expressions > maxExpressions || bytes > maxExpressionBytes {
				return nil, field.Forbidden(root, fmt.Sprintf("%s must have at most %d CEL expressions of at most %d bytes in all", what, maxExpressions, maxExpressionBytes))
			}
			e := clustercel.Compiled(text)
			if e == nil {
				// Each call compiles at least one expression.
				if fresh++; fresh > 1 && yield() {
					return nil, errYielded
				}
				var err error
				if e, err = clustercel.Compile(text); err != nil {
					return nil, field.Invalid(s.path.Child("celSelector", "celExpressions").Index(j), clustercel.Excerpt(text), err.Error())
				}
			}
			one.expressions = append(one.expressions, e)
		}
		predicates = append(predicates, one)
	}
	return predicates, nil
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
