package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// TestMessagesAreBounded: whatever an author, a keeper of sets or a plugin makes a message of, the
// status stays one that the API server takes.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("ß", 1<<19)
	many := func(n int) (sets []string) {
		for i := range n {
			sets = append(sets, fmt.Sprintf("%s-%d", strings.Repeat("s", 200), i))
		}
		return sets
	}
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		// bound are sets without a member that are bound beside s1.
		bound []string
		edit  func(*scheduler.Attempt)
		// wantCut is the type of the condition that is cut.
		wantCut string
	}{
		"spec.clusterSets":    {placement: ask().Sets(many(1000)...), wantCut: v1alpha1.PlacementConditionSatisfied},
		"many empty sets":     {placement: ask().Sets(many(1000)...), bound: many(1000), wantCut: v1alpha1.PlacementConditionSatisfied},
		"the profile's name":  {placement: ask().Annotation(v1alpha1.ProfileAnnotation, long), wantCut: v1alpha1.PlacementConditionMisconfigured},
		"a selector's values": {placement: ask().Predicate(fixture.MatchLabel("a", long)), wantCut: v1alpha1.PlacementConditionMisconfigured},
		"a prioritizer":       {placement: ask().Prioritizer(long, 1), wantCut: v1alpha1.PlacementConditionMisconfigured},
		"a mode":              {placement: ask().Mode(v1alpha1.PrioritizerPolicyModeType(long)), wantCut: v1alpha1.PlacementConditionMisconfigured},
		"an expression":       {placement: ask().Predicate(fixture.MatchCEL("'" + strings.Repeat("x", 10_000) + "' + y")), wantCut: ""},
		"a change": {placement: ask(), wantCut: v1alpha1.PlacementConditionDecisionPending, edit: func(a *scheduler.Attempt) {
			a.Outcome, a.Verdict, a.Change = plan.Denied, plan.Verdict{Reason: long}, &plan.Move{Proposal: a.Target}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fleet(tc.placement, fixture.Cluster("c1"))
			for _, set := range tc.bound {
				inv.Update(fixture.Set(set))
				inv.Update(fixture.Binding("ns", set))
			}
			a := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			if tc.edit != nil {
				tc.edit(a)
			}
			var stored []metav1.Condition
			report.SetConditions(a, &stored)
			cut := false
			for _, c := range append(a.Conditions(), stored...) {
				if len(c.Message) > v1alpha1.MaxMessageLength || !utf8.ValidString(c.Message) {
					t.Errorf("%s has a message of %d bytes", c.Type, len(c.Message))
				}
				cut = cut || c.Type == tc.wantCut && strings.HasSuffix(c.Message, " bytes in all)")
			}
			if tc.wantCut != "" && !cut {
				t.Errorf("%s is not cut: the case makes no long message", tc.wantCut)
			}
		})
	}
}
