package scheduler_test

import (
	"context"
	"strings"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestValidateReportsWhatAnAttemptReports: the admission webhook and the condition have the same
// words.
func TestValidateReportsWhatAnAttemptReports(t *testing.T) {
	tests := map[string]struct {
		placement fixture.PlacementBuilder
		want      string
	}{
		"valid":         {placement: ask().Predicate(fixture.MatchCEL(`managedCluster.metadata.name == "a"`))},
		"profile":       {ask().Annotation(v1alpha1.ProfileAnnotation, "none"), `metadata.annotations[berth.dev/profile]: Unsupported value: "none": supported values: "default"`},
		"count":         {ask().Number(-1), "spec.numberOfClusters: Invalid value: -1"},
		"pin":           {ask().Annotation(berthv1alpha1.PinnedRevisionAnnotation, "-1"), `metadata.annotations[berth.dev/pinned-revision]: Invalid value: "-1": must be the number of a revision`},
		"selector":      {ask().Predicate(fixture.MatchLabelExpression("a", "Near")), `spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator`},
		"expression":    {ask().Predicate(fixture.MatchCEL(`managedCluster.nam`)), `spec.predicates[0].requiredClusterSelector.celSelector.celExpressions[0]: Invalid value: "managedCluster.nam": `},
		"toleration":    {ask().Toleration("", "", "v", ""), `spec.tolerations[0].operator: Invalid value: ""`},
		"prioritizer":   {ask().Prioritizer("Beauty", 1), `spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn: Unsupported value: "Beauty"`},
		"too many sets": {ask().Sets(strings.Split(strings.Repeat("s,", v1alpha1.MaxClusterSets), ",")...), "spec.clusterSets: Too many: 1001: must have at most 1000 items"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScheduler(t)
			mistakes := s.Validate(context.Background(), tc.placement.Obj())
			inv := fleet(tc.placement, fixture.Cluster("c1"))
			reason := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil)).Failure.Reason()
			if tc.want == "" {
				if len(mistakes) > 0 || reason != "" {
					t.Errorf("mistakes %v, the attempt says %q", mistakes, reason)
				}
				return
			}
			if len(mistakes) != 1 || mistakes[0].Error() != reason || !strings.HasPrefix(reason, tc.want) {
				t.Errorf("mistakes %v, the attempt says %q, want %q", mistakes, reason, tc.want)
			}
		})
	}
}
