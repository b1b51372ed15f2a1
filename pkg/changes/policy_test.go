package changes

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

func policy(name string, spec berthv1alpha1.DisruptionPolicySpec) *berthv1alpha1.DisruptionPolicy {
	return &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: spec}
}

// selecting returns the policies that select the Placement.
func selecting(pl *v1alpha1.Placement, policies []*berthv1alpha1.DisruptionPolicy) []*berthv1alpha1.DisruptionPolicy {
	return slices.DeleteFunc(slices.Clone(policies), func(policy *berthv1alpha1.DisruptionPolicy) bool {
		selects, _ := Selects(policy)
		return !selects(pl)
	})
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
			want: Policy{Names: []string{"a"}, HistoryLimit: 3, ProgressDeadline: 10 * time.Minute},
		},
		"by label": {
			policies: []*berthv1alpha1.DisruptionPolicy{
				policy("a", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}, Approval: berthv1alpha1.ApprovalRequired}),
				policy("b", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "back"}}}),
			},
			want: Policy{Names: []string{"a"}, ApprovalRequired: true, ApprovalBy: "a", ApprovalTimeout: 7 * 24 * time.Hour, HistoryLimit: 10, ProgressDeadline: 10 * time.Minute},
		},
		"the strictest of several": {
			policies: []*berthv1alpha1.DisruptionPolicy{
				policy("c", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, HistoryLimit: 2, ApprovalTimeoutSeconds: 1, ProgressDeadlineSeconds: 30, StabilizationWindowSeconds: 20, Suspend: true}),
				policy("b", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, HistoryLimit: 4, ApprovalTimeoutSeconds: 90, Approval: berthv1alpha1.ApprovalRequired, Suspend: true}),
				policy("a", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, HistoryLimit: 3, ApprovalTimeoutSeconds: 60, Approval: berthv1alpha1.ApprovalRequired}),
			},
			want: Policy{Names: []string{"a", "b", "c"}, ApprovalRequired: true, ApprovalBy: "a", ApprovalTimeout: time.Minute, Stabilization: 20 * time.Second, SuspendedBy: "b", HistoryLimit: 4, ProgressDeadline: 30 * time.Second},
		},
		"one policy replaces first": {
			policies: []*berthv1alpha1.DisruptionPolicy{
				policy("a", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, UnavailableClusters: berthv1alpha1.UnavailableReplaceFirst}),
				policy("b", berthv1alpha1.DisruptionPolicySpec{PlacementSelector: everything, UnavailableClusters: berthv1alpha1.UnavailableRemove}),
			},
			want: Policy{Names: []string{"a", "b"}, ReplaceFirst: true, HistoryLimit: 10, ProgressDeadline: 10 * time.Minute},
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
			if diff := cmp.Diff(tc.want, PolicyOf(selecting(pl, tc.policies)), cmpopts.IgnoreUnexported(Policy{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBudget: percentages are rounded as in a Deployment, and the lowest of all policies counts.
func TestBudget(t *testing.T) {
	of := func(unavailable, surge string) *berthv1alpha1.DisruptionPolicy {
		spec := berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}}
		for text, field := range map[string]**intstr.IntOrString{unavailable: &spec.MaxUnavailable, surge: &spec.MaxSurge} {
			if text != "" {
				*field = new(intstr.Parse(text))
			}
		}
		return policy(unavailable+surge, spec)
	}
	for name, tc := range map[string]struct {
		policies    []*berthv1alpha1.DisruptionPolicy
		desired     int
		unavailable int
		surge       int
	}{
		"the defaults":                    {[]*berthv1alpha1.DisruptionPolicy{of("", "")}, 10, 0, 3},
		"25% of 3 is one":                 {[]*berthv1alpha1.DisruptionPolicy{of("", "25%")}, 3, 0, 1},
		"unavailable is rounded down":     {[]*berthv1alpha1.DisruptionPolicy{of("25%", "1")}, 7, 1, 1},
		"numbers":                         {[]*berthv1alpha1.DisruptionPolicy{of("2", "5")}, 3, 2, 5},
		"no surge":                        {[]*berthv1alpha1.DisruptionPolicy{of("1", "0")}, 10, 1, 0},
		"the lowest of both":              {[]*berthv1alpha1.DisruptionPolicy{of("2", "5"), of("50%", "1")}, 2, 1, 1},
		"nothing by rounding":             {[]*berthv1alpha1.DisruptionPolicy{of("25%", "0")}, 3, 0, 1},
		"nothing by several policies":     {[]*berthv1alpha1.DisruptionPolicy{of("1", "0"), of("0", "1")}, 3, 0, 1},
		"no clusters are desired":         {[]*berthv1alpha1.DisruptionPolicy{of("", "")}, 0, 0, 1},
		"an invalid value is the default": {[]*berthv1alpha1.DisruptionPolicy{of("many", "-3")}, 4, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := PolicyOf(tc.policies)
			if unavailable, surge := p.Budget(tc.desired); unavailable != tc.unavailable || surge != tc.surge {
				t.Errorf("maxUnavailable %d, maxSurge %d, want %d and %d", unavailable, surge, tc.unavailable, tc.surge)
			}
		})
	}
}

// TestMinAvailable: percentages are rounded up, and the highest of all policies counts.
func TestMinAvailable(t *testing.T) {
	of := func(name, available string) *berthv1alpha1.DisruptionPolicy {
		spec := berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}}
		if available != "" {
			spec.MinAvailable = new(intstr.Parse(available))
		}
		return policy(name, spec)
	}
	for name, tc := range map[string]struct {
		policies []*berthv1alpha1.DisruptionPolicy
		original int
		want     int
		wantBy   string
	}{
		"no policy":                       {nil, 10, 0, ""},
		"no limit":                        {[]*berthv1alpha1.DisruptionPolicy{of("a", "")}, 10, 0, ""},
		"a number":                        {[]*berthv1alpha1.DisruptionPolicy{of("a", "3")}, 2, 3, "a"},
		"a percentage is rounded up":      {[]*berthv1alpha1.DisruptionPolicy{of("a", "50%")}, 7, 4, "a"},
		"all":                             {[]*berthv1alpha1.DisruptionPolicy{of("a", "100%")}, 7, 7, "a"},
		"none was published":              {[]*berthv1alpha1.DisruptionPolicy{of("a", "50%")}, 0, 0, ""},
		"the highest of both":             {[]*berthv1alpha1.DisruptionPolicy{of("a", "3"), of("b", "50%"), of("c", "")}, 8, 4, "b"},
		"the first by name":               {[]*berthv1alpha1.DisruptionPolicy{of("b", "4"), of("a", "50%")}, 8, 4, "a"},
		"an invalid value is the default": {[]*berthv1alpha1.DisruptionPolicy{of("a", "many"), of("b", "-3")}, 8, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := PolicyOf(tc.policies)
			if got, by := p.MinAvailable(tc.original); got != tc.want || by != tc.wantBy {
				t.Errorf("%d by %q, want %d by %q", got, by, tc.want, tc.wantBy)
			}
		})
	}
}
