package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestLogMarksSelectableChanges: plugins that cache matches evaluate only these clusters again.
func TestLogMarksSelectableChanges(t *testing.T) {
	before := func() fixture.ClusterBuilder {
		return fixture.Cluster("c1").Label("tier", "gold").Claim("region", "eu")
	}
	for name, tc := range map[string]struct {
		cluster fixture.ClusterBuilder
		want    []framework.ClusterChange
	}{
		"nothing":     {before(), nil},
		"a label":     {fixture.Cluster("c1").Label("tier", "silver").Claim("region", "eu"), []framework.ClusterChange{{Selectable: true}}},
		"a claim":     {fixture.Cluster("c1").Label("tier", "gold").Claim("region", "us"), []framework.ClusterChange{{Selectable: true}}},
		"no claim":    {fixture.Cluster("c1").Label("tier", "gold"), []framework.ClusterChange{{Selectable: true}}},
		"an amount":   {before().Allocatable("cpu", "3"), []framework.ClusterChange{{}}},
		"a condition": {before().Condition("x", metav1.ConditionTrue, metav1.NewTime(fixture.Now)), []framework.ClusterChange{{}}},
		"another":     {fixture.Cluster("c2"), []framework.ClusterChange{{Index: 1, Selectable: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			inv := New(Options{})
			inv.Update(before().Obj())
			key := Key{Namespace: "n", Name: "p"}
			inv.Update(fixture.Placement("n", "p").Obj())
			next := inv.Snapshot(key, fixture.Now, nil).Log.Next()
			inv.Update(tc.cluster.Obj())
			got, known := inv.Snapshot(key, fixture.Now, nil).Log.Since(next)
			if diff := cmp.Diff(tc.want, append([]framework.ClusterChange(nil), got...)); diff != "" || !known {
				t.Errorf("known %t (-want +got):\n%s", known, diff)
			}
		})
	}
}
