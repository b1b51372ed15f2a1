package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// TestReadinessInputs: what was read of a readiness source reaches another inventory, by each input
// and by the contents.
func TestReadinessInputs(t *testing.T) {
	var inputs []inventory.Input
	inv := inventory.New(inventory.Options{OnInput: func(in inventory.Input) { inputs = append(inputs, in) }})
	mirror := inventory.New(inventory.Options{})
	object := func(namespace, name, cluster string, ready bool) inventory.ReadyObject {
		return inventory.ReadyObject{Key: inventory.Key{Namespace: namespace, Name: name}, Cluster: cluster, Ready: ready, Labels: map[string]string{"app": name}}
	}
	for _, step := range []func(){
		func() {
			inv.ReplaceReadiness("argocd", []inventory.ReadyObject{object("ns", "a", "paris", true)}, map[string]string{"bad": "too many"})
		},
		func() { inv.SetReadiness("argocd", object("ns", "b", "rome", false)) },
		func() { inv.SetReadiness("argocd", object("ns", "b", "rome", false)) },
		func() { inv.DeleteReadiness("argocd", inventory.Key{Namespace: "ns", Name: "a"}) },
		func() { inv.FailReadinessNamespace("argocd", "ns", "forbidden") },
		func() { inv.FailReadiness("argocd", "no such kind") },
		func() { inv.ReplaceReadiness("work", nil, nil) },
		func() { inv.ForgetReadiness("argocd") },
	} {
		step()
		for _, in := range inputs {
			mirror.Apply(in)
		}
		inputs = nil
		restored := inventory.New(inventory.Options{})
		contents := func(of *inventory.Inventory) (all []inventory.Input) {
			of.Contents(func(_ int64, inputs []inventory.Input) { all = inputs })
			return all
		}
		for _, in := range contents(inv) {
			restored.Apply(in)
		}
		for name, other := range map[string]*inventory.Inventory{"inputs": mirror, "contents": restored} {
			if diff := cmp.Diff(contents(inv), contents(other), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(inventory.Input{}, "Number")); diff != "" {
				t.Fatalf("by %s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestContentsDependOnNoOrderOfEvents: caches hand out a first list in any order, and recordings of
// the same objects are equal.
func TestContentsDependOnNoOrderOfEvents(t *testing.T) {
	contents := func(order []string) (all []inventory.Input) {
		inv := inventory.New(inventory.Options{})
		inv.Update(fixture.Set("s1"))
		inv.Update(fixture.Binding("n", "s1"))
		inv.Update(fixture.Placement("n", "p").Obj())
		for _, name := range order {
			inv.Update(fixture.Cluster(name).Set("s1").Obj())
			inv.Update(fixture.Score(name, "speed").Value("iops", 1).Obj())
		}
		inv.Started()
		inv.Claim(inventory.Key{Namespace: "n", Name: "p"}, order)
		inv.Contents(func(_ int64, inputs []inventory.Input) { all = inputs })
		return all
	}
	want := contents([]string{"a", "b", "c", "d"})
	for _, order := range [][]string{{"d", "c", "b", "a"}, {"b", "d", "a", "c"}} {
		if diff := cmp.Diff(want, contents(order), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(inventory.Input{}, "Number")); diff != "" {
			t.Errorf("%v (-want +got):\n%s", order, diff)
		}
	}
}

// TestInputsOnlyForChanges: what changes nothing is no input.
func TestInputsOnlyForChanges(t *testing.T) {
	count := 0
	inv := inventory.New(inventory.Options{OnInput: func(inventory.Input) { count++ }})
	inv.FailReadinessNamespace("unknown", "ns", "why")
	inv.ForgetReadiness("unknown")
	inv.DeleteReadiness("unknown", inventory.Key{})
	inv.Claim(inventory.Key{Namespace: "ns", Name: "p"}, nil)
	if count != 0 {
		t.Errorf("%d inputs", count)
	}
}
