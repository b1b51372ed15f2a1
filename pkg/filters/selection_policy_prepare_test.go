package filters

import (
	"runtime"
	"testing"
	"weak"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// Compiling one expression can take seconds, so no cycle does it.
func TestExpressionsOfPoliciesAreCompiledOutsideOfCycles(t *testing.T) {
	plugin, err := NewSelectionPolicy(t.Context(), nil, &framework.Handle{Client: fake.NewFakeClient()})
	if err != nil {
		t.Fatal(err)
	}
	p := plugin.(*SelectionPolicy)
	pl := fixture.Placement("n", "p").Obj()
	policy := &berthv1alpha1.SelectionPolicy{}
	policy.Namespace, policy.Name, policy.UID, policy.Generation = "n", "s", "s", 1
	policy.Spec.Placement = "p"
	attempt := func(cel string, generation int64) *framework.Status {
		policy = policy.DeepCopy()
		policy.Generation = generation
		policy.Spec.Tiers = []berthv1alpha1.SelectionTier{{Name: "t", ClusterSelector: v1alpha1.ClusterSelector{
			CelSelector: v1alpha1.ClusterCelSelector{CelExpressions: []string{cel}},
		}}}
		inv := inventory.New(inventory.Options{})
		inv.Update(pl)
		inv.Update(policy)
		snapshot := inv.Snapshot(types.NamespacedName{Namespace: "n", Name: "p"}, fixture.Now, nil)
		_, status := p.PreFilter(t.Context(), framework.NewCycleState(snapshot), pl)
		return status
	}
	for generation, cel := range []string{"true", "nonsense("} {
		if got := attempt(cel, int64(generation)); !got.IsUnfinished() || p.PolicyPrepared(policy) {
			t.Errorf("%s before it is compiled: %v", cel, got)
		}
		if !p.PreparePolicy(policy, func() bool { return true }) || !p.PolicyPrepared(policy) {
			t.Errorf("%s is not prepared", cel)
		}
		if got := attempt(cel, int64(generation)); got.IsUnfinished() || (got.Code() == framework.UnschedulableAndUnresolvable) != (cel != "true") {
			t.Errorf("%s after it was compiled: %v", cel, got)
		}
	}
	p.Forget(nameOf(pl))
	if p.PolicyPrepared(policy) {
		t.Error("a deleted Placement is still prepared")
	}
}

// TestSecondPolicyDropsCostlyWork: with two SelectionPolicies nothing is evaluated, so that nothing
// keeps the Snapshot for an evaluation.
func TestSecondPolicyDropsCostlyWork(t *testing.T) {
	plugin, err := NewSelectionPolicy(t.Context(), nil, &framework.Handle{Client: fake.NewFakeClient()})
	if err != nil {
		t.Fatal(err)
	}
	p := plugin.(*SelectionPolicy)
	inv := hub(ask(), fixture.Cluster("c"))
	add := func(name string) *berthv1alpha1.SelectionPolicy {
		policy := &berthv1alpha1.SelectionPolicy{}
		policy.Namespace, policy.Name, policy.UID, policy.Generation = "n", name, types.UID(name), 1
		policy.Spec.Placement = "p"
		policy.Spec.Tiers = []berthv1alpha1.SelectionTier{{Name: "t", ClusterSelector: v1alpha1.ClusterSelector{
			CelSelector: v1alpha1.ClusterCelSelector{CelExpressions: []string{loops(4)}},
		}}}
		inv.Update(policy)
		return policy
	}
	policy := add("one")
	p.PreparePolicy(policy, never)
	attempt := func() (weak.Pointer[framework.Snapshot], *framework.Status) {
		snapshot := inv.Snapshot(preparedKey, fixture.Now, nil)
		_, status := p.PreFilter(t.Context(), framework.NewCycleState(snapshot), snapshot.Subject.Placement)
		return weak.Make(snapshot), status
	}
	old, status := attempt()
	if !status.IsUnfinished() {
		t.Fatal(status)
	}
	add("two") // Scheduler.Prepare evaluates nothing for two policies.
	for range 3 {
		if _, status := attempt(); status.Code() != framework.UnschedulableAndUnresolvable {
			t.Fatal(status)
		}
	}
	runtime.GC()
	runtime.GC()
	if old.Value() != nil {
		t.Errorf("the Snapshot of the first attempt, with its %d clusters, is kept: %d pieces of work", old.Value().Clusters.Len(), len(p.costly))
	}
}
