package filters

import (
	"fmt"
	"sync"
	"testing"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestFilterWithoutPreFilter: where Predicate is disabled at PreFilter alone, Filter compiles, from
// many goroutines at once.
func TestFilterWithoutPreFilter(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Cluster("c1").Label("a", "x").Obj())
	p := newPredicate(t)
	const many = 4000
	var states [many]*framework.CycleState
	for i := range states {
		key := inventory.Key{Namespace: "n", Name: fmt.Sprintf("p%d", i)}
		inv.Update(fixture.Placement(key.Namespace, key.Name).Predicate(fixture.MatchLabel("a", "x")).Obj())
		states[i] = framework.NewCycleState(inv.Snapshot(key, fixture.Now, nil))
	}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for _, state := range states {
				if status := p.Filter(t.Context(), state, state.Snapshot().Subject.Placement, state.Snapshot().Clusters.Get(0)); !status.IsSuccess() {
					t.Errorf("excluded: %v", status.Err())
				}
			}
		})
	}
	workers.Wait()
}
