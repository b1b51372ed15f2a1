package scheduler_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"weak"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestMissingProfileDropsCostlyWork: after an edit to a profile that does not exist, nothing is
// evaluated, so that nothing keeps the Snapshot of the attempt before it.
func TestMissingProfileDropsCostlyWork(t *testing.T) {
	ctx := context.Background()
	pages := &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}}
	inv := inventory.New(inventory.Options{})
	profiles, err := builtin.Profiles(ctx, nil, builtin.Registry(), &framework.Handle{
		Client: fake.NewFakeClient(), Pages: pages, Assume: inv.AssumePage,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := scheduler.New(profiles, scheduler.NewMemory())
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	inv.Update(fixture.Cluster("c").Set("s1").Obj())
	loops := strings.Repeat("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ", 4) + "true" + strings.Repeat(")", 4)
	inv.Update(ask().Predicate(fixture.MatchCEL(loops)).Obj())
	attempt := func() (weak.Pointer[framework.Snapshot], *framework.Status) {
		s.Prepare(inv.Placement(key))
		a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
		s.Release(a.Decision)
		return weak.Make(a.Snapshot), a.Failure
	}
	old, status := attempt()
	if !status.IsUnfinished() {
		t.Fatal(status)
	}
	pl := ask().Predicate(fixture.MatchCEL(loops)).Obj()
	pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "none"}
	inv.Update(pl)
	for range 3 {
		if _, status := attempt(); status.Code() != framework.UnschedulableAndUnresolvable {
			t.Fatal(status)
		}
		inv.Update(fixture.Cluster("c").Set("s1").Label("l", "x").Obj())
	}
	runtime.GC()
	runtime.GC()
	if old.Value() != nil {
		t.Error("the Snapshot of the first attempt is kept")
	}
	runtime.KeepAlive(s)
}

// TestExplainSomeAfterForget: another explanation of the same Placement, such as the debugger's,
// ends between the decision and its explanation, and drops what is compiled.
func TestExplainSomeAfterForget(t *testing.T) {
	ctx := context.Background()
	pages := &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}}
	inv := fleet(ask().Predicate(fixture.MatchCEL(`managedCluster.metadata.name == "a"`)), fixture.Cluster("a"), fixture.Cluster("b"))
	profiles, err := builtin.Profiles(ctx, nil, builtin.Registry(), &framework.Handle{
		Client: fake.NewFakeClient(), Pages: pages, Assume: inv.AssumePage,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := scheduler.New(profiles, scheduler.NewMemory())
	s.Prepare(inv.Placement(key))
	a := s.DecideInTime(ctx, inv.Snapshot(key, fixture.Now, nil))
	if a.Failure != nil {
		t.Fatal(a.Failure.Err())
	}
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("panic: %v", r)
		}
	}()
	s.Forget(key)
	s.ExplainSome(ctx, a.Decision, []string{"b"})
}
