package inventory

import (
	"testing"

	"github.com/berth-dev/berth/api/kinds"
)

// TestEveryKindHasAHandler: the feed passes every kind of the table to the inventory.
func TestEveryKindHasAHandler(t *testing.T) {
	for _, kind := range kinds.All() {
		t.Run(kind.Name, func(t *testing.T) {
			if _, ok := handlers[kind.Name]; !ok {
				t.Fatal("there is none")
			}
			object := kind.New()
			object.SetName("x")
			inv := New(Options{})
			inv.Update(object)
			inv.Delete(object)
		})
	}
	if len(handlers) != len(kinds.All()) {
		t.Errorf("%d handlers for %d kinds", len(handlers), len(kinds.All()))
	}
}
