package inventory_test

import (
	"testing"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

func TestPublishedPages(t *testing.T) {
	for name, tc := range fixture.PageCases("n", "p", "c1") {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(tc.Page)
			inv.Update(fixture.Cluster("c1").Obj())
			inv.Update(fixture.Placement("n", "p").Obj())
			subject := inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, fixture.Now, nil).Subject
			if got := subject.LastClusters.Len() > 0; got != tc.Published {
				t.Errorf("the cluster is published: %t", got)
			}
			if got := len(subject.OwnPages()) > 0; got != tc.Published {
				t.Errorf("the page is published: %t", got)
			}
			if got := subject.Last != nil; got != tc.Published {
				t.Errorf("the last decision is read from it: %t", got)
			}
		})
	}
}
