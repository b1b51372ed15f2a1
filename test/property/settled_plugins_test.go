package property

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// schedulerWith has the default profile with one more plugin.
func schedulerWith(t *testing.T, plugin framework.Plugin) *scheduler.Scheduler {
	registry, defaults := builtin.Registry(), builtin.DefaultProfile()
	registry[plugin.Name()] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return plugin, nil
	}
	defaults.Plugins.MultiPoint.Enabled = append(defaults.Plugins.MultiPoint.Enabled, config.Plugin{Name: plugin.Name(), Weight: new(int32(0))})
	profiles, err := plugins.NewProfiles(context.Background(), nil, defaults, registry, &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.New(profiles, nil)
}

// meter is a prioritizer that is no Rescorer. It asks a meter about clusters with the label meter.
type meter struct{}

func (meter) Name() string { return "Meter" }

func (meter) Reads(*v1alpha1.Placement) framework.Reads {
	return framework.Reads{Labels: []string{"meter"}}
}

func (meter) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, c *framework.Cluster) (int64, *framework.Status) {
	switch c.Labels["meter"] {
	case "broken":
		return 0, framework.AsStatus(fmt.Errorf("the meter of %s is broken", c.Name))
	case "slow":
		state.RequeueAt(state.Snapshot().Now.Add(time.Minute))
	case "old":
		state.Warn("Meter", "the meter of "+c.Name+" is old")
	}
	return 1, nil
}

// TestOtherPrioritizersAreDecidedAgain: a Placement selects all clusters, and weighs a prioritizer
// that is no Rescorer.
func TestOtherPrioritizersAreDecidedAgain(t *testing.T) {
	for _, value := range []string{"broken", "slow", "old"} {
		t.Run(value, func(t *testing.T) {
			c := newSettledCase(t, schedulerWith(t, meter{}), inventory.Options{})
			pl := fixture.Placement("ns", "p").Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer("Meter", 1).Generation(2).Obj()
			pl.ResourceVersion = "10"
			c.inv.Update(pl)
			c.attempt()
			c.attempt()
			changed := clusterOf(1, 30)
			changed.Labels["meter"] = value
			if len(c.inv.Update(changed)) > 0 {
				return
			}
			a := c.engine.Decide(context.Background(), c.inv.Snapshot(c.key, fixture.Now, nil))
			t.Errorf("skipped, although the attempt has failure %v, next attempt %s, warnings %v", a.Failure.Err(), a.State.NextAttempt(), a.State.Warnings())
		})
	}
}

// trustedMeter promises that its scores stay, which is wrong.
type trustedMeter struct{ meter }

func (trustedMeter) Rescore(*framework.CycleState) (framework.SettledScore, bool) {
	return settledRack{}, true
}

// TestCheckFindsFailures: with --check-skips, a skipped attempt that fails is an error.
func TestCheckFindsFailures(t *testing.T) {
	c := newSettledCase(t, schedulerWith(t, trustedMeter{}), inventory.Options{CheckSettled: true})
	pl := fixture.Placement("ns", "p").Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer("Meter", 1).Generation(2).Obj()
	pl.ResourceVersion = "10"
	c.inv.Update(pl)
	c.attempt()
	c.attempt()
	changed := clusterOf(1, 30)
	changed.Labels["meter"] = "broken"
	c.inv.Update(changed)
	a := c.engine.Decide(context.Background(), c.inv.Snapshot(c.key, fixture.Now, nil))
	if !a.Snapshot.Skippable || a.Failure == nil || !a.WronglySkipped() {
		t.Errorf("settled %t, failure %v, wrongly skipped %t", a.Snapshot.Skippable, a.Failure.Err(), a.WronglySkipped())
	}
}

// rack is a Rescorer with fixed scores; most clusters have none.
type rack struct{}

func (rack) Name() string { return "Rack" }

func (rack) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

func (rack) of(c *framework.Cluster) int64 {
	if c.Name == "c3" {
		return 20
	}
	return framework.NoScore
}

func (r rack) Score(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, c *framework.Cluster) (int64, *framework.Status) {
	if x := r.of(c); x != framework.NoScore {
		return x, nil
	}
	return 0, framework.NewStatus(framework.Skip, "no rack")
}

func (r rack) Rescore(*framework.CycleState) (framework.SettledScore, bool) {
	return settledRack{}, true
}

type settledRack struct{ rack }

func (r settledRack) Score(c *framework.Cluster, _ *framework.DecisionCounts) int64 { return r.of(c) }

func (settledRack) Keeps(_, _ *framework.Cluster, _ *framework.DecisionCounts) bool { return true }

func (settledRack) DependsOn() framework.ScoreDependency { return framework.OnNothing }

// TestFixedScoresMayBeMissing: a cluster without a fixed score is selected because of its memory.
func TestFixedScoresMayBeMissing(t *testing.T) {
	for _, weight := range []int32{1, 2, 3} {
		c := newSettledCase(t, schedulerWith(t, rack{}), inventory.Options{})
		pl := fixture.Placement("ns", "p").Number(1).Mode(v1alpha1.PrioritizerPolicyModeExact).
			Prioritizer("Rack", weight).Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 4).Generation(2).Obj()
		pl.ResourceVersion = "10"
		c.inv.Update(pl)
		before := c.attempt().Target.Clusters
		if c.attempt().Proof() == nil {
			t.Fatal("not settled")
		}
		affected := c.inv.Update(clusterOf(3, 89))
		a := c.engine.Decide(context.Background(), c.inv.Snapshot(c.key, fixture.Now, nil))
		if len(affected) == 0 && !slices.Equal(before, a.Target.Clusters) {
			t.Errorf("weight %d: skipped, but %v becomes %v", weight, before, a.Target.Clusters)
		}
	}
}
