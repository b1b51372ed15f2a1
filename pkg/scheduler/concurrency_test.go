package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestDecidedAtOnce: Placements of one cluster each, decided by several workers at the same time,
// spread over equal clusters: what one attempt takes counts for the next though its page is not
// written yet.
func TestDecidedAtOnce(t *testing.T) {
	const many, workers = 100, 8
	ctx := context.Background()
	pages := &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}}
	inv := inventory.New(inventory.Options{})
	profiles, err := builtin.Profiles(ctx, nil, builtin.Registry(), &framework.Handle{
		Pages: pages, Assume: inv.AssumePage,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := scheduler.New(profiles, scheduler.NewMemory())
	s.StoreClaim = inv.StoreClaim
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	queue := make(chan inventory.Key, many)
	for i := range many {
		name := fmt.Sprintf("p%02d", i)
		inv.Update(fixture.Cluster(fmt.Sprintf("c%02d", i)).Set("s1").Obj())
		inv.Update(fixture.Placement("ns", name).Number(1).Obj())
		queue <- inventory.Key{Namespace: "ns", Name: name}
	}
	close(queue)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for key := range queue {
				a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
				if !a.Err.IsSuccess() {
					t.Errorf("%s: %v", key, a.Err.Err())
				}
				s.Release(a.Decision)
			}
		})
	}
	wg.Wait()
	taken := map[string]string{}
	for key, page := range pages.pages {
		for _, d := range page.Status.Decisions {
			if other, twice := taken[d.ClusterName]; twice {
				t.Errorf("%s and %s both have %s", other, key.Name, d.ClusterName)
			}
			taken[d.ClusterName] = key.Name
		}
	}
	if len(taken) != many {
		t.Errorf("%d Placements have %d clusters", many, len(taken))
	}
	fleet := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p00"}, fixture.Now, nil).Fleet
	if got := fleet.Counts.Histogram; len(got) != 2 || got[1] != many {
		t.Errorf("%v names by their number of decisions: something is still on its way", got)
	}
}
