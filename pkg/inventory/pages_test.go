package inventory_test

import (
	"fmt"
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

// TestForeignPagesAreBounded: a Snapshot has the first pages with the label and another controller,
// and all of its own.
func TestForeignPagesAreBounded(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Placement(plainKey.Namespace, plainKey.Name).Obj())
	for i := range 100 {
		inv.Update(fixture.Page(plainKey.Namespace, fmt.Sprintf("a%02d", i)).Of(plainKey.Name).ControlledBy("Other", "o").Lists("c").Obj())
		inv.Update(fixture.Page(plainKey.Namespace, fmt.Sprintf("own%02d", i)).Of(plainKey.Name).OwnedBy(plainKey.Name).Lists("c").Obj())
	}
	subject := inv.Snapshot(plainKey, fixture.Now, nil).Subject
	if own := subject.OwnPages(); len(own) != 100 || len(subject.Pages) != 120 || subject.Pages[19].Name != "a19" {
		t.Errorf("%d pages, %d of its own", len(subject.Pages), len(own))
	}
}
