package controllers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// TestPlanExplanations answers the oldest, keeps ten open and deletes old ones.
func TestPlanExplanations(t *testing.T) {
	now := time.Unix(10_000, 0)
	one := func(name string, age time.Duration, conditions ...string) berthv1alpha1.PlacementExplanation {
		e := berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.Time{Time: now.Add(-age)},
		}}
		for _, c := range conditions {
			e.Status.Conditions = append(e.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
		}
		return e
	}
	answered := func(n int) (all []berthv1alpha1.PlacementExplanation) {
		for i := range n {
			all = append(all, one(fmt.Sprint("answered", i), time.Minute, "Explained"))
		}
		return all
	}
	deleting := one("deleting", time.Hour)
	deleting.DeletionTimestamp = &metav1.Time{Time: now}
	for name, tc := range map[string]struct {
		all  []berthv1alpha1.PlacementExplanation
		done map[types.UID]bool
		want string
	}{
		"none":                      {nil, nil, "next - throttled [] expired [] again 0s"},
		"the oldest":                {[]berthv1alpha1.PlacementExplanation{one("b", time.Second), one("a", time.Second), one("c", 0)}, nil, "next a throttled [] expired [] again 9m59s"},
		"an answered one":           {answered(1), nil, "next - throttled [] expired [] again 9m0s"},
		"one whose answer is new":   {[]berthv1alpha1.PlacementExplanation{one("a", 0)}, map[types.UID]bool{"a": true}, "next - throttled [] expired [] again 10m0s"},
		"ten answered":              {append(answered(10), one("late", 0)), nil, "next - throttled [late] expired [] again 9m0s"},
		"nine answered":             {append(answered(9), one("b", 0), one("a", 0)), nil, "next a throttled [b] expired [] again 9m0s"},
		"one that knows it already": {append(answered(10), one("late", 0, "Throttled")), nil, "next - throttled [] expired [] again 9m0s"},
		"an old one":                {[]berthv1alpha1.PlacementExplanation{one("old", 10*time.Minute), one("new", 0)}, nil, "next new throttled [] expired [old] again 10m0s"},
		"more than a hundred":       {append(answered(98), one("c", 0), one("b", time.Second), one("a", time.Second), one("d", 0)), nil, "next - throttled [a b] expired [c d] again 9m0s"},
		"one that is deleted":       {[]berthv1alpha1.PlacementExplanation{deleting}, nil, "next - throttled [] expired [] again 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := planExplanations(tc.all, tc.done, now)
			next := "-"
			if plan.next != nil {
				next = plan.next.Name
			}
			names := func(all []*berthv1alpha1.PlacementExplanation) string {
				var list []string
				for _, e := range all {
					list = append(list, e.Name)
				}
				return "[" + strings.Join(list, " ") + "]"
			}
			got := fmt.Sprintf("next %s throttled %s expired %s again %s", next, names(plan.throttled), names(plan.expired), plan.expires.RequeueAfter)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
