package decide

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// maxGroupRequirements bounds the requirements of all decision groups, which are matched with every
// chosen cluster. A value counts as much as a requirement.
const maxGroupRequirements = 5_000

// bounds keeps the error of the first list that is too long.
type bounds struct{ failure *field.Error }

// checkBounds rejects lists that are longer than Berth's schema allows. The installed CRD may be
// another one without these limits.
func checkBounds(pl *v1alpha1.Placement) *field.Error {
	var b bounds
	spec := &pl.Spec
	b.atMost(fieldPath{list: "spec.clusterSets"}, len(spec.ClusterSets), v1alpha1.MaxClusterSets)
	b.atMost(fieldPath{list: "spec.predicates"}, len(spec.Predicates), v1alpha1.MaxPredicates)
	for i := range spec.Predicates {
		s := &spec.Predicates[i].RequiredClusterSelector
		b.requirements(fieldPath{"spec.predicates", i, ".requiredClusterSelector.labelSelector.matchExpressions"}, s.LabelSelector.MatchExpressions)
		b.requirements(fieldPath{"spec.predicates", i, ".requiredClusterSelector.claimSelector.matchExpressions"}, s.ClaimSelector.MatchExpressions)
		b.atMost(fieldPath{"spec.predicates", i, ".requiredClusterSelector.celSelector.celExpressions"}, len(s.CelSelector.CelExpressions), v1alpha1.MaxCelExpressions)
	}
	b.atMost(fieldPath{list: "spec.prioritizerPolicy.configurations"}, len(spec.PrioritizerPolicy.Configurations), v1alpha1.MaxPrioritizers)
	b.atMost(fieldPath{list: "spec.spreadPolicy.spreadConstraints"}, len(spec.SpreadPolicy.SpreadConstraints), v1alpha1.MaxSpreadConstraints)
	b.atMost(fieldPath{list: "spec.tolerations"}, len(spec.Tolerations), v1alpha1.MaxTolerations)
	b.groups("spec.decisionStrategy.groupStrategy.decisionGroups", spec.DecisionStrategy.GroupStrategy.DecisionGroups)
	return b.failure
}

func (b *bounds) groups(path string, groups []v1alpha1.DecisionGroup) {
	b.atMost(fieldPath{list: path}, len(groups), v1alpha1.MaxDecisionGroups)
	n := 0
	for i := range groups {
		s := &groups[i].ClusterSelector
		n += len(s.LabelSelector.MatchLabels) +
			b.requirements(fieldPath{path, i, ".groupClusterSelector.labelSelector.matchExpressions"}, s.LabelSelector.MatchExpressions) +
			b.requirements(fieldPath{path, i, ".groupClusterSelector.claimSelector.matchExpressions"}, s.ClaimSelector.MatchExpressions)
	}
	if b.failure == nil && n > maxGroupRequirements {
		b.failure = &field.Error{
			Type: field.ErrorTypeTooMany, Field: path, BadValue: n,
			Detail: fmt.Sprintf("all groups together must have at most %d requirements and values", maxGroupRequirements),
		}
	}
}

// requirements checks a list of requirements and returns the number of requirements and values.
func (b *bounds) requirements(path fieldPath, all []metav1.LabelSelectorRequirement) int {
	b.atMost(path, len(all), v1alpha1.MaxRequirements)
	n := len(all)
	for i := range all {
		if len(all[i].Values) > v1alpha1.MaxRequirementValues {
			b.atMost(fieldPath{path.String(), i, ".values"}, len(all[i].Values), v1alpha1.MaxRequirementValues)
		}
		n += len(all[i].Values)
	}
	return n
}

func (b *bounds) atMost(path fieldPath, items, most int) {
	if items > most && b.failure == nil {
		b.failure = &field.Error{Type: field.ErrorTypeTooMany, Field: path.String(), BadValue: items, Detail: fmt.Sprintf("must have at most %d items", most)}
	}
}

// fieldPath is the path of a list, or of a field of one of its items. Its text is built only for
// messages, because every cycle checks many paths.
type fieldPath struct {
	list  string
	index int
	field string
}

func (p fieldPath) String() string {
	if p.field == "" {
		return p.list
	}
	return fmt.Sprintf("%s[%d]%s", p.list, p.index, p.field)
}
