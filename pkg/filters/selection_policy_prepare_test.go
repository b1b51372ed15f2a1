package filters

import (
	"testing"

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
