package changes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

func policy(name string, spec berthv1alpha1.DisruptionPolicySpec) *berthv1alpha1.DisruptionPolicy {
	return &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
}

func TestPolicyOf(t *testing.T) {
	everything := &metav1.LabelSelector{}
	elsewhere := policy("elsewhere", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, Approval: berthv1alpha1.ApprovalRequired})
	elsewhere.Namespace = "other"
	tests := map[string]struct {
		policies []*berthv1alpha1.DisruptionPolicy
		want     Policy
	}{
		"none": {want: Policy{HistoryLimit: 10}},
		"of another namespace": {
			policies: []*berthv1alpha1.DisruptionPolicy{elsewhere}, want: Policy{HistoryLimit: 10},
		},
		"by name": {
			policies: []*berthv1alpha1.DisruptionPolicy{
				policy("a", berthv1alpha1.DisruptionPolicySpec{Placements: []string{"web"}, HistoryLimit: 3}),
				policy("b", berthv1alpha1.DisruptionPolicySpec{Placements: []string{"db"}, HistoryLimit: 5}),
			},
			want: Policy{Names: []string{"a"}, HistoryLimit: 3},
		},
		"by label": {
			policies: []*berthv1alpha1.DisruptionPolicy{
				policy("a", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}, Approval: berthv1alpha1.ApprovalRequired}),
				policy("b", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "back"}}}),
			},
			want: Policy{Names: []string{"a"}, ApprovalRequired: true, ApprovalBy: "a", ApprovalTimeout: 7 * 24 * time.Hour, HistoryLimit: 10},
		},
		"the strictest of several": {
			policies: []*berthv1alpha1.DisruptionPolicy{
				policy("c", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, HistoryLimit: 2, ApprovalTimeoutSeconds: 1}),
				policy("b", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, HistoryLimit: 4, ApprovalTimeoutSeconds: 90, Approval: berthv1alpha1.ApprovalRequired}),
				policy("a", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, HistoryLimit: 3, ApprovalTimeoutSeconds: 60, Approval: berthv1alpha1.ApprovalRequired}),
			},
			want: Policy{Names: []string{"a", "b", "c"}, ApprovalRequired: true, ApprovalBy: "a", ApprovalTimeout: time.Minute, HistoryLimit: 4},
		},
		"an invalid selector selects nothing": {
			policies: []*berthv1alpha1.DisruptionPolicy{
				policy("a", berthv1alpha1.DisruptionPolicySpec{
					PlacementSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Near"}}},
					Approval:          berthv1alpha1.ApprovalRequired,
				}),
			},
			want: Policy{HistoryLimit: 10},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl := placement("uid")
			pl.Labels = map[string]string{"tier": "front"}
			if diff := cmp.Diff(tc.want, PolicyOf(pl, tc.policies)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
