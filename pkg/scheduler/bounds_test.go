package scheduler

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func TestCheckBounds(t *testing.T) {
	requirement := metav1.LabelSelectorRequirement{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{"v"}}
	wide := requirement
	wide.Values = slices.Repeat([]string{"v"}, 1_001)
	group := v1alpha1.DecisionGroup{}
	group.ClusterSelector.ClaimSelector.MatchExpressions = slices.Repeat([]metav1.LabelSelectorRequirement{requirement}, 100)
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PlacementSpec)
		want   string
	}{
		"nothing": {change: func(*v1alpha1.PlacementSpec) {}},
		"as many as there may be": {change: func(s *v1alpha1.PlacementSpec) {
			s.Tolerations = make([]v1alpha1.Toleration, v1alpha1.MaxTolerations)
			s.PrioritizerPolicy.Configurations = make([]v1alpha1.PrioritizerConfig, v1alpha1.MaxPrioritizers)
			s.Predicates = make([]v1alpha1.ClusterPredicate, v1alpha1.MaxPredicates)
		}},
		"tolerations": {
			change: func(s *v1alpha1.PlacementSpec) { s.Tolerations = make([]v1alpha1.Toleration, 40_000) },
			want:   "spec.tolerations: 40000 items, at most 256 are allowed",
		},
		"AddOn coordinates": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.PrioritizerPolicy.Configurations = make([]v1alpha1.PrioritizerConfig, 12_000)
			},
			want: "spec.prioritizerPolicy.configurations: 12000 items, at most 64 are allowed",
		},
		"cluster sets": {
			change: func(s *v1alpha1.PlacementSpec) { s.ClusterSets = make([]string, 1_001) },
			want:   "spec.clusterSets: 1001 items, at most 1000 are allowed",
		},
		"predicates": {
			change: func(s *v1alpha1.PlacementSpec) { s.Predicates = make([]v1alpha1.ClusterPredicate, 101) },
			want:   "spec.predicates: 101 items, at most 100 are allowed",
		},
		"spread constraints": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.SpreadPolicy.SpreadConstraints = make([]v1alpha1.SpreadConstraintsTerm, 9)
			},
			want: "spec.spreadPolicy.spreadConstraints: 9 items, at most 8 are allowed",
		},
		"values of a requirement": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.Predicates = make([]v1alpha1.ClusterPredicate, 2)
				s.Predicates[1].RequiredClusterSelector.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{requirement, wide}
			},
			want: "spec.predicates[1].requiredClusterSelector.labelSelector.matchExpressions[1].values: 1001 items, at most 1000 are allowed",
		},
		"decision groups, each within bounds": {
			change: func(s *v1alpha1.PlacementSpec) {
				s.DecisionStrategy.GroupStrategy.DecisionGroups = slices.Repeat([]v1alpha1.DecisionGroup{group}, 26)
			},
			want: "spec.decisionStrategy.groupStrategy.decisionGroups: 5200 requirements and values in all, at most 5000 are allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pl := &v1alpha1.Placement{}
			tc.change(&pl.Spec)
			status := checkBounds(pl)
			if diff := cmp.Diff(tc.want, status.Reason()); diff != "" {
				t.Error(diff)
			}
			if tc.want != "" && status.Code() != framework.UnschedulableAndUnresolvable {
				t.Errorf("the code is %s", status.Code())
			}
		})
	}
}
