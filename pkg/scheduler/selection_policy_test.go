package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

func selectionPolicy(spec berthv1alpha1.SelectionPolicySpec) *berthv1alpha1.SelectionPolicy {
	spec.Placement = key.Name
	return &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "s", UID: "s"}, Spec: spec}
}

// TestExplainLargeGroups: the time is proportional to the clusters, not to their square.
func TestExplainLargeGroups(t *testing.T) {
	var clusters []fixture.ClusterBuilder
	for i := range 5000 {
		clusters = append(clusters, fixture.Cluster(fmt.Sprintf("c%04d", i)))
	}
	inv := fleet(ask(), clusters...)
	inv.Update(selectionPolicy(berthv1alpha1.SelectionPolicySpec{Groups: []berthv1alpha1.SelectionGroup{{Name: "all", Max: new(int32(2000))}}}))
	s := newScheduler(t)
	a := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
	begin := clock.RealClock{}.Now()
	verdicts := s.Explain(context.Background(), a.Decision, "")
	if took := (clock.RealClock{}).Since(begin); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	want := "rank 5000 of 5000, group all has its maximum of 2000"
	if last := verdicts[len(verdicts)-1]; last.Reason != want {
		t.Errorf("the reason for %s is %q, want %q", last.Cluster, last.Reason, want)
	}
}

// TestTooManyTiersAndGroups: objects in files are not checked against the schema.
func TestTooManyTiersAndGroups(t *testing.T) {
	tiers, groups := berthv1alpha1.SelectionPolicySpec{}, berthv1alpha1.SelectionPolicySpec{}
	for i := range 300 {
		selector := v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"n": fmt.Sprint(i)}}}
		tiers.Tiers = append(tiers.Tiers, berthv1alpha1.SelectionTier{Name: fmt.Sprint(i), ClusterSelector: selector})
		groups.Groups = append(groups.Groups, berthv1alpha1.SelectionGroup{Name: fmt.Sprint(i), ClusterSelector: selector, Max: new(int32(0))})
	}
	tests := map[string]struct {
		spec berthv1alpha1.SelectionPolicySpec
		want string
	}{
		"tiers":  {tiers, "SelectionPolicy s: spec.tiers: Too many: 300: must have at most 16 items"},
		"groups": {groups, "SelectionPolicy s: spec.groups: Too many: 300: must have at most 32 items"},
		"seconds": {berthv1alpha1.SelectionPolicySpec{FailbackAfterSeconds: new(int64(1 << 60))},
			"SelectionPolicy s: spec.failbackAfterSeconds: Invalid value: 1152921504606846976: must be from -1 to 31536000"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fleet(ask(), fixture.Cluster("a").Label("n", "200"), fixture.Cluster("b").Label("n", "1"))
			inv.Update(selectionPolicy(tc.spec))
			s := newScheduler(t)
			a := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			s.Explain(context.Background(), a.Decision, "")
			if got := a.Failure.Reason(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPolicyMistakes: the condition Ready of a SelectionPolicy is False for its own mistakes only.
func TestPolicyMistakes(t *testing.T) {
	other := []berthv1alpha1.PlacementReference{{Placement: key.Name}}
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		spec      berthv1alpha1.SelectionPolicySpec
		want      string
	}{
		"an invalid policy": {ask(), berthv1alpha1.SelectionPolicySpec{FailbackAfterSeconds: new(int64(-2))},
			"SelectionPolicy s: spec.failbackAfterSeconds: Invalid value: -2: must be from -1 to 31536000"},
		"a cycle of affinity": {ask(), berthv1alpha1.SelectionPolicySpec{Affinity: berthv1alpha1.PlacementAffinity{
			ApartFrom: []berthv1alpha1.PlacementReference{{Placement: "q"}}}},
			"the affinity of the SelectionPolicy may never settle, because of a cycle: p apart from q, q with p"},
		"an invalid Placement": {placement: ask().Predicate(fixture.MatchLabelExpression("a", "Near"))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fleet(tc.placement, fixture.Cluster("a"))
			inv.Update(fixture.Placement(key.Namespace, "q").Obj())
			back := selectionPolicy(berthv1alpha1.SelectionPolicySpec{Affinity: berthv1alpha1.PlacementAffinity{With: other}})
			back.Name, back.Spec.Placement = "q", "q"
			inv.Update(back)
			policy := selectionPolicy(tc.spec)
			inv.Update(policy)
			a := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			if !a.Misconfigured() {
				t.Fatalf("not misconfigured: %s", a.Failure.Reason())
			}
			got := ""
			if ready := meta.FindStatusCondition(a.SelectionStatus(policy).Conditions, berthv1alpha1.SelectionReady); ready != nil && ready.Status == metav1.ConditionFalse {
				got = ready.Message
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
