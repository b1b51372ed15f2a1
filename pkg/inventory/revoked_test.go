package inventory_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

func TestCannotWait(t *testing.T) {
	terminating := fixture.Cluster("a").Set("other").Obj()
	now := fixture.At(0)
	terminating.DeletionTimestamp = &now
	narrow := fixture.Placement("n", "p").Obj()
	narrow.Generation, narrow.Spec.ClusterSets = 2, []string{"s2"}
	tests := map[string]struct {
		updated, deleted client.Object
		placement        string
		want             bool
	}{
		"nothing changed":                  {},
		"no Placement":                     {placement: "none", deleted: fixture.Binding("n", "s1")},
		"the binding is deleted":           {deleted: fixture.Binding("n", "s1"), want: true},
		"the binding of another namespace": {deleted: fixture.Binding("other", "s1")},
		"the set is deleted":               {deleted: fixture.Set("s1"), want: true},
		"a cluster leaves the set":         {updated: fixture.Cluster("a").Set("other").Obj(), want: true},
		"a cluster moves to a bound set":   {updated: fixture.Cluster("a").Set("s2").Obj()},
		"another cluster leaves the set":   {updated: fixture.Cluster("c").Set("other").Obj()},
		"a cluster is deleted":             {deleted: fixture.Cluster("a").Obj()},
		"a cluster is terminating":         {updated: terminating},
		"the Placement wants other sets":   {updated: narrow},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			objects := []client.Object{
				fixture.Set("s1"), fixture.Set("s2"), fixture.Binding("n", "s1"), fixture.Binding("n", "s2"), fixture.Binding("other", "s1"),
				fixture.Cluster("a").Set("s1").Obj(), fixture.Cluster("b").Set("s2").Obj(), fixture.Cluster("c").Set("s1").Obj(),
				fixture.Placement("n", "p").Obj(), fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists("a", "b").Obj(),
			}
			for _, object := range objects {
				inv.Update(object)
			}
			if tc.updated != nil {
				inv.Update(tc.updated)
			}
			if tc.deleted != nil {
				inv.Delete(tc.deleted)
			}
			key := inventory.Key{Namespace: "n", Name: "p"}
			if tc.placement != "" {
				key.Name = tc.placement
			}
			if got := inv.CannotWait(key); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
	t.Run("nothing is published", func(t *testing.T) {
		inv := inventory.New(inventory.Options{})
		inv.Update(fixture.Cluster("a").Obj())
		inv.Update(fixture.Placement("n", "p").Obj())
		if inv.CannotWait(inventory.Key{Namespace: "n", Name: "p"}) {
			t.Error("a cluster is revoked")
		}
	})
}
