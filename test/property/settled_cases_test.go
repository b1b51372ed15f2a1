package property

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// settledCase is a fleet of five clusters with 10, 30, 50, 70 and 90 MB of memory, of which the
// Placement ns/p selects the two with the most.
type settledCase struct {
	t      *testing.T
	inv    *inventory.Inventory
	engine *scheduler.Scheduler
	key    inventory.Key
}

func newSettledCase(t *testing.T, engine *scheduler.Scheduler, options inventory.Options) *settledCase {
	options.Reads = engine.Reads
	c := &settledCase{t: t, inv: inventory.New(options), engine: engine, key: inventory.Key{Namespace: "ns", Name: "p"}}
	c.inv.Update(fixture.Set("s"))
	c.inv.Update(fixture.Binding("ns", "s"))
	for i := range 5 {
		c.inv.Update(clusterOf(i, 10+20*i))
	}
	pl := fixture.Placement("ns", "p").Number(2).Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1).Obj()
	pl.ResourceVersion = "10"
	c.inv.Update(pl)
	return c
}

// clusterOf returns cluster c<i> with an amount of memory in MB.
func clusterOf(i, memory int) *v1alpha1.ManagedCluster {
	return fixture.Cluster(fmt.Sprint("c", i)).Set("s").Allocatable("memory", fmt.Sprint(memory, "M")).Obj()
}

// attempt decides and publishes the Placement, and writes its status.
func (c *settledCase) attempt() *scheduler.Attempt {
	snapshot := c.inv.Snapshot(c.key, fixture.Now, nil)
	a := c.engine.Decide(context.Background(), snapshot)
	plan, err := lifecycle.Plan(a.State, a.Target)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, w := range plan.Writes {
		write := lifecycle.PageWriteOf(snapshot.Subject.Placement, w)
		write.Page.UID = types.UID(write.Page.Name)
		c.inv.AssumePage(write.Page, write.Deleted)
	}
	if len(plan.Writes) > 0 {
		c.inv.SetPublished(snapshot.Subject, &framework.Published{Names: a.Target.Clusters, Digest: a.Target.Digest})
	}
	pl := snapshot.Subject.Placement.DeepCopy()
	report.SetConditions(a, &pl.Status.Conditions)
	pl.ResourceVersion = "11"
	c.inv.AssumePlacement(pl)
	if len(plan.Writes) == 0 {
		c.inv.Settle(snapshot, a.Proof())
	}
	return a
}

func TestAttemptCorrectsStatusOfOthers(t *testing.T) {
	c := newSettledCase(t, newScheduler(t, true), inventory.Options{})
	c.attempt()
	if a := c.attempt(); a.Proof() == nil {
		t.Fatal("the Placement is not settled")
	}
	if affected := c.inv.Update(clusterOf(1, 31)); len(affected) > 0 {
		t.Fatalf("a change that moves no cluster affects %v", affected)
	}
	edited := c.inv.Placement(c.key).DeepCopy()
	edited.Status, edited.ResourceVersion = v1alpha1.PlacementStatus{}, "12"
	c.inv.Update(edited)
	if affected := c.inv.Update(clusterOf(1, 32)); len(affected) == 0 {
		t.Error("the attempt that would correct the status is skipped")
	}
}

// TestFilterSwitchedOffIsNotRechecked has a profile in which TaintToleration does not filter, so
// that a tainted cluster qualifies.
func TestFilterSwitchedOffIsNotRechecked(t *testing.T) {
	c, err := config.Load([]byte(`apiVersion: ` + config.APIVersion + `
kind: PlacementSchedulerConfiguration
profiles:
- name: default
  plugins: {filter: {disabled: [{name: TaintToleration}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := builtin.Profiles(context.Background(), c, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSettledCase(t, scheduler.New(profiles, nil), inventory.Options{CheckSettled: true})
	tainted := clusterOf(0, 10)
	tainted.Spec.Taints = []v1alpha1.Taint{{Key: "k", Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: fixture.At(-100)}}
	s.inv.Update(tainted)
	s.attempt()
	s.attempt()
	tainted = tainted.DeepCopy()
	tainted.Status.Allocatable = clusterOf(0, 95).Status.Allocatable
	s.inv.Update(tainted)
	if a := s.attempt(); a.WronglySkipped() {
		t.Errorf("the attempt was skipped, but decides %v", a.Target.Clusters)
	}
}
