package inventory_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

func TestClustersCompareAsTheirNamesDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv := inventory.New(inventory.Options{})
		placement := fixture.Placement("n", "p").Obj()
		inv.Update(placement)
		there := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				name := rapid.StringMatching(`[a-c][0-9]{0,2}`).Draw(t, "name")
				inv.Update(fixture.Cluster(name).Obj())
				there[name] = true
			},
			"leave": func(t *rapid.T) {
				name := rapid.StringMatching(`[a-c][0-9]{0,2}`).Draw(t, "name")
				inv.Delete(fixture.Cluster(name).Obj())
				delete(there, name)
			},
			"compare": func(t *rapid.T) {
				fleet := inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, time.Time{}, nil).Fleet
				seen := 0
				for i := range fleet.Clusters.Len() {
					for j := range fleet.Clusters.Len() {
						a, b := fleet.Clusters.Get(i), fleet.Clusters.Get(j)
						if a == nil || b == nil {
							continue
						}
						seen++
						if got, want := cmp.Compare(fleet.ByName(a, b), 0), strings.Compare(a.Name, b.Name); got != want {
							t.Fatalf("%s compares to %s as %d, want %d", a.Name, b.Name, got, want)
						}
					}
				}
				if seen != len(there)*len(there) {
					t.Fatalf("%d pairs, want those of %d clusters", seen, len(there))
				}
			},
		})
	})
}
