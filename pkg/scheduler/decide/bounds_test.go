package decide

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestCheckBounds(t *testing.T) {
	requirement := metav1.LabelSelectorRequirement{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{"v"}}
	wide := requirement
	wide.Values = slices.Repeat([]string{"v"}, 1_001)
	group := v1alpha1.DecisionGroup{}
	group.ClusterSelector.ClaimSelector.MatchExpressions = slices.Repeat([]metav1.LabelSelectorRequirement{requirement}, 100)
	labelled := v1alpha1.DecisionGroup{}
	labelled.ClusterSelector.LabelSelector.MatchLabels = map[string]string{"k": "v"}
	labelled.ClusterSelector.LabelSelector.MatchExpressions = group.ClusterSelector.ClaimSelector.MatchExpressions
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PlacementSpec)
		want   string
	}{
		"nothing": {change: func(*v1alpha1.PlacementSpec) {}},
		"as many as there may be": {change: func(s *v1alpha1.PlacementSpec) {
			s.Tolerations = make([]v1alpha1.Toleration, v1alpha1.MaxTolerations)
			s.PrioritizerPolicy.Configurations = make([]v1alpha1.PrioritizerConfig, v1alpha1.MaxPrioritizers)
			s.Predicates = make([]v1alpha1.ClusterPredicate, v1alpha1.MaxPredicates)
			s.DecisionStrategy.GroupStrategy.DecisionGroups = slices.Repeat([]v1alpha1.DecisionGroup{group}, 25)
		}},
		"requirements of labels": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.Predicates = make([]v1alpha1.ClusterPredicate, 1)
				s.Predicates[0].RequiredClusterSelector.LabelSelector.MatchExpressions = slices.Repeat([]metav1.LabelSelectorRequirement{requirement}, 101)
			},
			want: "spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions: Too many: 101: must have at most 100 items",
		},
		"requirements of claims": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.Predicates = make([]v1alpha1.ClusterPredicate, 1)
				s.Predicates[0].RequiredClusterSelector.ClaimSelector.MatchExpressions = slices.Repeat([]metav1.LabelSelectorRequirement{requirement}, 101)
			},
			want: "spec.predicates[0].requiredClusterSelector.claimSelector.matchExpressions: Too many: 101: must have at most 100 items",
		},
		"CEL expressions": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.Predicates = make([]v1alpha1.ClusterPredicate, 1)
				s.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions = slices.Repeat([]string{"true"}, 1_001)
			},
			want: fmt.Sprintf("spec.predicates[0].requiredClusterSelector.celSelector.celExpressions: Too many: 1001: must have at most %d items", v1alpha1.MaxCelExpressions),
		},
		"decision groups": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.DecisionStrategy.GroupStrategy.DecisionGroups = make([]v1alpha1.DecisionGroup, 10_001)
			},
			want: fmt.Sprintf("spec.decisionStrategy.groupStrategy.decisionGroups: Too many: 10001: must have at most %d items", v1alpha1.MaxDecisionGroups),
		},
		"tolerations": {
			change: func(s *v1alpha1.PlacementSpec) { s.Tolerations = make([]v1alpha1.Toleration, 40_000) },
			want:   "spec.tolerations: Too many: 40000: must have at most 256 items",
		},
		"AddOn coordinates": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.PrioritizerPolicy.Configurations = make([]v1alpha1.PrioritizerConfig, 12_000)
			},
			want: "spec.prioritizerPolicy.configurations: Too many: 12000: must have at most 64 items",
		},
		"cluster sets": {
			change: func(s *v1alpha1.PlacementSpec) { s.ClusterSets = make([]string, 1_001) },
			want:   "spec.clusterSets: Too many: 1001: must have at most 1000 items",
		},
		"predicates": {
			change: func(s *v1alpha1.PlacementSpec) { s.Predicates = make([]v1alpha1.ClusterPredicate, 101) },
			want:   "spec.predicates: Too many: 101: must have at most 100 items",
		},
		"spread constraints": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.SpreadPolicy.SpreadConstraints = make([]v1alpha1.SpreadConstraintsTerm, 9)
			},
			want: "spec.spreadPolicy.spreadConstraints: Too many: 9: must have at most 8 items",
		},
		"values of a requirement": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.Predicates = make([]v1alpha1.ClusterPredicate, 2)
				s.Predicates[1].RequiredClusterSelector.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{requirement, wide}
			},
			want: "spec.predicates[1].requiredClusterSelector.labelSelector.matchExpressions[1].values: Too many: 1001: must have at most 1000 items",
		},
		"decision groups, each within bounds": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.DecisionStrategy.GroupStrategy.DecisionGroups = slices.Repeat([]v1alpha1.DecisionGroup{group}, 26)
			},
			want: "spec.decisionStrategy.groupStrategy.decisionGroups: Too many: 5200: all groups together must have at most 5000 requirements and values",
		},
		"decision groups with labels": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.DecisionStrategy.GroupStrategy.DecisionGroups = slices.Repeat([]v1alpha1.DecisionGroup{labelled}, 25)
			},
			want: "spec.decisionStrategy.groupStrategy.decisionGroups: Too many: 5025: all groups together must have at most 5000 requirements and values",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pl := &v1alpha1.Placement{}
			tc.change(&pl.Spec)
			got := ""
			if err := checkBounds(pl); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
