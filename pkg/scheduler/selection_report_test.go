package scheduler_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

func resilientScheduler(t *testing.T, args string) *scheduler.Scheduler {
	t.Helper()
	c, err := config.Load([]byte(`{apiVersion: config.berth.dev/v1alpha1, kind: PlacementSchedulerConfiguration, profiles: [{pluginConfig: [{name: Resilience, args: ` + args + `}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := builtin.Profiles(context.Background(), c, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.New(profiles, nil)
}

// TestResilientCondition: an attempt replaces the condition, leaves it if nothing is decided, and
// removes it if no plugin reports it.
func TestResilientCondition(t *testing.T) {
	const was, ok = "was", "2 of 2 domains of label a can be lost; weakest is x: 1 of 1 clusters lost, 1 replaced"
	broken := ask().Predicate(fixture.MatchLabelExpression("a", "Near"))
	tests := map[string]struct {
		args      string
		placement fixture.PlacementBuilder
		want      string
	}{
		"on":            {`{key: "label:a"}`, ask().Number(1), ok},
		"off":           {`{}`, ask().Number(1), ""},
		"misconfigured": {`{key: "label:a"}`, broken, was},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fleet(tc.placement.Generation(7), fixture.Cluster("a").Label("a", "x"), fixture.Cluster("b").Label("a", "y"))
			a := resilientScheduler(t, tc.args).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			conditions := []metav1.Condition{{Type: v1alpha1.PlacementConditionResilient, Status: metav1.ConditionTrue, Message: was}}
			report.SetConditions(a, &conditions)
			got := ""
			if c := meta.FindStatusCondition(conditions, v1alpha1.PlacementConditionResilient); c != nil {
				got = c.Message
				if got != was && c.ObservedGeneration != 7 {
					t.Errorf("generation %d", c.ObservedGeneration)
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestResilienceReads: a Placement is affected by the label only while the plugin is on.
func TestResilienceReads(t *testing.T) {
	pl := ask().Obj()
	off := resilientScheduler(t, `{}`).Reads(pl)
	on := resilientScheduler(t, `{key: "label:region"}`).Reads(pl)
	if off.Everything || on.Everything {
		t.Error("the plugin reads everything")
	}
	if diff := cmp.Diff(append(off.Labels, "region"), on.Labels); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
