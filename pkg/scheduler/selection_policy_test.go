package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

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
	verdicts := s.Explain(context.Background(), a.Result, "")
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
			s.Explain(context.Background(), a.Result, "")
			if got := a.Failure.Reason(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
