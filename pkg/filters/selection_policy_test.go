package filters

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPolicyMistakes: each mistake has the path of its field, and both the webhook and an attempt
// report it.
func TestPolicyMistakes(t *testing.T) {
	broken := v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}
	type spec = berthv1alpha1.SelectionPolicySpec
	group := func(g berthv1alpha1.SelectionGroup) spec {
		g.Name = "g"
		return spec{Groups: []berthv1alpha1.SelectionGroup{{Name: "f", Max: new(int32(1))}, g}}
	}
	many := func(n int) (tiers []berthv1alpha1.SelectionTier, groups []berthv1alpha1.SelectionGroup) {
		for i := range n {
			tiers = append(tiers, berthv1alpha1.SelectionTier{Name: fmt.Sprint("t", i)})
			groups = append(groups, berthv1alpha1.SelectionGroup{Name: fmt.Sprint("g", i), Max: new(int32(1))})
		}
		return tiers, groups
	}
	manyTiers, manyGroups := many(200)
	for name, tc := range map[string]struct {
		spec spec
		want string
	}{
		"a heavy preference": {spec{Preferences: []berthv1alpha1.Preference{{Weight: 101}}}, "spec.preferences[0].weight: Invalid value: 101: must be from -100 to 100"},
		"a heavy Preference": {spec{PreferenceWeight: new(int32(-11))}, "spec.preferenceWeight: Invalid value: -11: must be from -10 to 10"},
		"a long placementSelector": {spec{Affinity: berthv1alpha1.PlacementAffinity{With: []berthv1alpha1.PlacementReference{{
			PlacementSelector: &metav1.LabelSelector{MatchExpressions: make([]metav1.LabelSelectorRequirement, 11)}}}}}, `spec.affinity.with[0].placementSelector: Forbidden: must have at most 10 labels and 10 requirements`},
		"long placementSelectors": {spec{Affinity: berthv1alpha1.PlacementAffinity{ApartFrom: slices.Repeat([]berthv1alpha1.PlacementReference{{
			PlacementSelector: &metav1.LabelSelector{MatchExpressions: make([]metav1.LabelSelectorRequirement, 10)}}}, 11)}},
			"spec.affinity: Forbidden: all placementSelectors together must have at most 100 labels and requirements, not 110"},
		"a negative request":          {spec{Requests: map[v1alpha1.ResourceName]resource.Quantity{"cpu": resource.MustParse("-1")}}, `spec.requests[cpu]: Invalid value: "-1": must not be negative`},
		"two tiers of a name":         {spec{Tiers: []berthv1alpha1.SelectionTier{{Name: "t"}, {Name: "t"}}}, `spec.tiers[1].name: Duplicate value: "t"`},
		"too few clusters of a tier":  {spec{Tiers: []berthv1alpha1.SelectionTier{{Name: "t", MinClusters: new(int32(0))}}}, "spec.tiers[0].minClusters: Invalid value: 0: must be at least 1"},
		"a tier mode":                 {spec{TierMode: "Both"}, `spec.tierMode: Unsupported value: "Both"`},
		"a negative delay":            {spec{FailbackAfterSeconds: new(int64(-2))}, "spec.failbackAfterSeconds: Invalid value: -2: must be from -1 to 31536000"},
		"a delay without end":         {spec{FailbackAfterSeconds: new(int64(math.MaxInt64))}, "spec.failbackAfterSeconds: Invalid value: 9223372036854775807: must be from -1 to 31536000"},
		"too many tiers":              {spec{Tiers: manyTiers}, "spec.tiers: Too many: 200: must have at most 16 items"},
		"too many groups":             {spec{Groups: manyGroups}, "spec.groups: Too many: 200: must have at most 32 items"},
		"a group without bounds":      {group(berthv1alpha1.SelectionGroup{}), "spec.groups[1]: Required value: count, min or max is required"},
		"a group with all bounds":     {group(berthv1alpha1.SelectionGroup{Count: new(int32(1)), Max: new(int32(1))}), "spec.groups[1].count: Forbidden: count replaces min and max"},
		"a negative count":            {group(berthv1alpha1.SelectionGroup{Count: new(int32(-1))}), "spec.groups[1].count: Invalid value: -1: must not be negative"},
		"a negative minimum":          {group(berthv1alpha1.SelectionGroup{Min: new(int32(-1))}), "spec.groups[1].min: Invalid value: -1: must not be negative"},
		"a negative maximum":          {group(berthv1alpha1.SelectionGroup{Max: new(int32(-1))}), "spec.groups[1].max: Invalid value: -1: must not be negative"},
		"a minimum above the maximum": {group(berthv1alpha1.SelectionGroup{Min: new(int32(2)), Max: new(int32(1))}), "spec.groups[1].min: Invalid value: 2: must not be greater than max, 1"},
		"two groups of a name":        {spec{Groups: []berthv1alpha1.SelectionGroup{{Name: "g", Max: new(int32(1))}, {Name: "g", Max: new(int32(1))}}}, `spec.groups[1].name: Duplicate value: "g"`},
		"no reference":                {spec{Affinity: berthv1alpha1.PlacementAffinity{With: []berthv1alpha1.PlacementReference{{}}}}, "spec.affinity.with[0]: Required value: exactly one of placement and placementSelector is required"},
		"a broken reference": {spec{Affinity: berthv1alpha1.PlacementAffinity{ApartFrom: []berthv1alpha1.PlacementReference{{PlacementSelector: &broken.LabelSelector}}}},
			"spec.affinity.apartFrom[0].placementSelector.matchExpressions[0].operator: Unsupported value: \"Near\""},
		"a broken tier":       {spec{Tiers: []berthv1alpha1.SelectionTier{{Name: "t", ClusterSelector: broken}}}, "spec.tiers[0].clusterSelector.labelSelector.matchExpressions[0].operator: Unsupported value"},
		"a broken group":      {group(berthv1alpha1.SelectionGroup{Max: new(int32(1)), ClusterSelector: broken}), "spec.groups[1].clusterSelector.labelSelector.matchExpressions[0].operator: Unsupported value"},
		"a broken preference": {spec{Preferences: []berthv1alpha1.Preference{{ClusterSelector: broken}}}, "spec.preferences[0].clusterSelector.labelSelector.matchExpressions[0].operator: Unsupported value"},
		"a broken expression": {spec{Preferences: []berthv1alpha1.Preference{{ClusterSelector: v1alpha1.ClusterSelector{CelSelector: v1alpha1.ClusterCelSelector{CelExpressions: []string{"1 +"}}}}}},
			"spec.preferences[0].clusterSelector.celSelector.celExpressions[0]: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "slp"}, Spec: tc.spec}
			policy.Spec.Placement = "p"
			plugin, err := NewSelectionPolicy(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := plugin.(*SelectionPolicy)
			if got := p.ValidatePolicy(t.Context(), policy); len(got) != 1 || !strings.HasPrefix(got[0].Error(), tc.want) {
				t.Errorf("the webhook reports %v, want %s", got, tc.want)
			}
			inv := hub(ask(), fixture.Cluster("c"))
			inv.Update(policy)
			state := stateOf(inv)
			_, status := p.PreFilter(t.Context(), state, state.Snapshot().Subject.Placement)
			if !strings.HasPrefix(status.Reason(), "SelectionPolicy slp: "+tc.want) {
				t.Errorf("an attempt reports %q, want %s", status.Reason(), tc.want)
			}
		})
	}
}

// TestPolicyMistakesOfThePlacement: mistakes that depend on the Placement or on other policies.
func TestPolicyMistakesOfThePlacement(t *testing.T) {
	policy := func(name string, groups ...berthv1alpha1.SelectionGroup) *berthv1alpha1.SelectionPolicy {
		return &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: berthv1alpha1.SelectionPolicySpec{Placement: "p", Groups: groups}}
	}
	two := []berthv1alpha1.SelectionGroup{{Name: "f", Count: new(int32(2))}, {Name: "g", Min: new(int32(1))}}
	for name, tc := range map[string]struct {
		placement fixture.PlacementBuilder
		policies  []*berthv1alpha1.SelectionPolicy
		want      string
	}{
		"too many minima": {ask().Number(2), []*berthv1alpha1.SelectionPolicy{policy("a", two...)},
			"SelectionPolicy a: spec.groups: Invalid value: 3: the minima must not add up to more than numberOfClusters of the Placement, 2"},
		"as many minima as clusters": {ask().Number(3), []*berthv1alpha1.SelectionPolicy{policy("a", two...)}, ""},
		"any number of clusters":     {ask(), []*berthv1alpha1.SelectionPolicy{policy("a", two...)}, ""},
		"two policies":               {ask(), []*berthv1alpha1.SelectionPolicy{policy("b"), policy("a")}, "the SelectionPolicies a, b name the Placement: it can have one"},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewSelectionPolicy(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			inv := hub(tc.placement, fixture.Cluster("c"))
			for _, p := range tc.policies {
				inv.Update(p)
			}
			state := stateOf(inv)
			_, status := plugin.(*SelectionPolicy).PreFilter(t.Context(), state, state.Snapshot().Subject.Placement)
			if got := status.Reason(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFailbackAnnotation(t *testing.T) {
	for requested, want := range map[string]int{"2026-01-31T15:04:05Z": 0, "2026-01-31T15:04:05+02:00": 0, "now": 1, "": 1} {
		policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{berthv1alpha1.FailbackRequestedAnnotation: requested}}}
		got := (&SelectionPolicy{}).ValidatePolicy(t.Context(), policy)
		if len(got) != want {
			t.Errorf("%q: %v", requested, got)
		}
		if want == 1 && got[0].Field != "metadata.annotations[berth.dev/failback-requested-at]" {
			t.Errorf("%q: the field is %s", requested, got[0].Field)
		}
	}
}
