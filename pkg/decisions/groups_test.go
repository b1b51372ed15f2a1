package decisions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestCompileRefuses(t *testing.T) {
	bad := []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpIn}}
	byLabel := v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchExpressions: bad}}
	byClaim := v1alpha1.GroupClusterSelector{ClaimSelector: v1alpha1.ClusterClaimSelector{MatchExpressions: bad}}
	for name, tc := range map[string]struct {
		length   intstr.IntOrString
		name     string
		selector v1alpha1.GroupClusterSelector
		want     []string
	}{
		"a name that is no label value": {name: strings.Repeat("g", 64), want: []string{"decisionGroups[0].groupName", "must be no more than 63"}},
		"a string without percent sign": {
			length: intstr.FromString("5"),
			want:   []string{"clustersPerDecisionGroup", `Invalid value: "5": must be a number of clusters, or a percentage`},
		},
		"an empty string":     {length: intstr.FromString(""), want: []string{"clustersPerDecisionGroup"}},
		"no number":           {length: intstr.FromString("x%"), want: []string{"clustersPerDecisionGroup", `Invalid value: "x%"`}},
		"not a number":        {length: intstr.FromString("NaN%"), want: []string{"clustersPerDecisionGroup"}},
		"two points":          {length: intstr.FromString("1.2.3%"), want: []string{"clustersPerDecisionGroup"}},
		"a negative share":    {length: intstr.FromString("-5%"), want: []string{"clustersPerDecisionGroup"}},
		"a bad labelSelector": {selector: byLabel, want: []string{"decisionGroups[0].groupClusterSelector.labelSelector", "matchExpressions[0].values: Required value"}},
		"a bad claimSelector": {selector: byClaim, want: []string{"decisionGroups[0].groupClusterSelector.claimSelector", "matchExpressions[0].values: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			name := "g"
			if tc.name != "" {
				name = tc.name
			}
			_, err := Compile(v1alpha1.DecisionStrategy{GroupStrategy: v1alpha1.GroupStrategy{
				ClustersPerDecisionGroup: tc.length,
				DecisionGroups:           []v1alpha1.DecisionGroup{{GroupName: name, ClusterSelector: tc.selector}},
			}})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
		})
	}
}

func TestGroupLength(t *testing.T) {
	for name, tc := range map[string]struct {
		length intstr.IntOrString
		n      int
		want   int
	}{
		"a number":                  {intstr.FromInt32(7), 100, 7},
		"zero is all":               {intstr.FromInt32(0), 100, 100},
		"negative is all":           {intstr.FromInt32(-1), 100, 100},
		"more than selected is all": {intstr.FromInt32(1000), 100, 100},
		"a share rounds up":         {intstr.FromString("33%"), 10, 4},
		"in doubles: 7%":            {intstr.FromString("7%"), 100, 8},
		"in doubles: 14%":           {intstr.FromString("14%"), 100, 15},
		"in doubles: 29%":           {intstr.FromString("29%"), 100, 29},
		"in doubles: 55%":           {intstr.FromString("55%"), 100, 56},
		"a share of a point":        {intstr.FromString("0.5%"), 100, 1},
		"no share is all":           {intstr.FromString("0%"), 100, 100},
		"more than a whole is all":  {intstr.FromString("250%"), 100, 100},
		"of nothing":                {intstr.FromString("50%"), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(v1alpha1.DecisionStrategy{GroupStrategy: v1alpha1.GroupStrategy{ClustersPerDecisionGroup: tc.length}})
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Group(make([]Choice, tc.n), false).Length; got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestAnswerClaimsInOrder(t *testing.T) {
	labelled := func(key, value string) v1alpha1.GroupClusterSelector {
		return v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
	claimed := v1alpha1.GroupClusterSelector{ClaimSelector: v1alpha1.ClusterClaimSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: []string{"z1"}}},
	}}
	s, err := Compile(v1alpha1.DecisionStrategy{GroupStrategy: v1alpha1.GroupStrategy{DecisionGroups: []v1alpha1.DecisionGroup{
		{GroupName: "canary", ClusterSelector: labelled("tier", "canary")},
		{GroupName: "nobody", ClusterSelector: labelled("tier", "none")},
		{GroupName: "zone", ClusterSelector: claimed},
		{GroupName: "canary", ClusterSelector: labelled("also", "canary")},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	got := s.Group([]Choice{
		{Name: "rest"},
		{Name: "both", Labels: map[string]string{"tier": "canary"}, Claims: map[string]string{"zone": "z1"}},
		{Name: "late", Labels: map[string]string{"also": "canary"}},
		{Name: "z1", Claims: map[string]string{"zone": "z1"}},
		{Name: "z2", Claims: map[string]string{"zone": "z2"}},
	}, false)
	want := []GroupMembers{
		{GroupName: "canary", Choices: []int{1}},
		{GroupName: "zone", Choices: []int{3}},
		{GroupName: "canary", Choices: []int{2}},
		{Choices: []int{0, 4}},
	}
	if d := cmp.Diff(want, got.Groups); d != "" {
		t.Error(d)
	}
	got = s.Group([]Choice{{Name: "only", Labels: map[string]string{"tier": "canary"}}}, false)
	if d := cmp.Diff(want[:1], got.Groups, cmpopts.IgnoreFields(GroupMembers{}, "Choices")); d != "" {
		t.Error(d)
	}
}
