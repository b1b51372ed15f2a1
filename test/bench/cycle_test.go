package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// sizes are the clusters of a fleet, all of them candidates.
var sizes = []int{100, 1_000, 10_000}

// others is how many more Placements are decided on the hub, three clusters each.
const others = 1_000

var key = inventory.Key{Namespace: "ns", Name: "p"}

// cluster is one of two states of the n-th cluster; they differ in memory, and in the label that
// the predicate reads.
func cluster(n int, flipped bool) *v1alpha1.ManagedCluster {
	memory, tier := fmt.Sprintf("%dMi", 1000+n*7%500), "gold"
	if flipped {
		memory, tier = fmt.Sprintf("%dMi", 1000+n*11%500), "lead"
	}
	return fixture.Cluster(fmt.Sprintf("cluster-%05d", n)).Set("s1").Label("tier", tier).
		Label("region", fmt.Sprintf("r%d", n%7)).Allocatable("memory", memory).Allocatable("cpu", "8").Obj()
}

func page(n, shift, c int) *v1alpha1.PlacementDecision {
	name := fmt.Sprintf("p%d", n)
	b := fixture.Page("others", name+"-decision-1").Of(name).OwnedBy(name)
	for i := range 3 {
		b = b.Lists(fmt.Sprintf("cluster-%05d", (n*3+i+shift)%c))
	}
	return b.Obj()
}

func newHub(c int, p fixture.PlacementBuilder) *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	for n := range c {
		inv.Update(cluster(n, false))
	}
	for n := range others {
		inv.Update(fixture.Placement("others", fmt.Sprintf("p%d", n)).Obj())
		inv.Update(page(n, 0, c))
	}
	inv.Update(p.Obj())
	return inv
}

func newScheduler(b *testing.B) *scheduler.Scheduler {
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		b.Fatal(err)
	}
	return scheduler.New(profiles, nil)
}

// BenchmarkCycle decides top 3 by Balance, Steady and ResourceAllocatableMemory. Before each cycle
// a cluster changed, and another Placement's page: ns/op and allocs/op count these two events,
// cycle-ns and cycle-allocs Snapshot and decision alone.
func BenchmarkCycle(b *testing.B) {
	for _, predicate := range []bool{true, false} {
		for _, c := range sizes {
			b.Run(fmt.Sprintf("predicate=%t/clusters=%d", predicate, c), func(b *testing.B) {
				p := fixture.Placement("ns", "p").Number(3).Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1)
				if predicate {
					p = p.Predicate(fixture.MatchLabel("tier", "gold"))
				}
				cycles(b, newHub(c, p), c)
			})
		}
	}
}

func cycles(b *testing.B, inv *inventory.Inventory, c int) {
	const different = 64
	var clusters [2][different]*v1alpha1.ManagedCluster
	var pages [2][different]*v1alpha1.PlacementDecision
	for i := range different {
		n := i * c / different
		clusters[0][i], clusters[1][i] = cluster(n, true), cluster(n, false)
		pages[0][i], pages[1][i] = page(i, 1, c), page(i, 0, c)
	}
	s := newScheduler(b)
	i := 0
	change := func() {
		state, which := i/different%2, i%different
		i++
		inv.Update(clusters[state][which])
		inv.Update(pages[state][which])
	}
	decide := func() {
		r := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
		if len(r.Selected) != 3 {
			b.Fatalf("selected %d clusters", len(r.Selected))
		}
		s.Release(r.Decision)
	}
	decide()
	allocations := allocationsOf(change, decide)
	b.ReportAllocs()
	var cycle time.Duration
	for b.Loop() {
		change()
		start := time.Now()
		decide()
		cycle += time.Since(start)
	}
	perCycle := float64(cycle.Nanoseconds()) / float64(b.N)
	b.ReportMetric(perCycle, "cycle-ns")
	b.ReportMetric(perCycle/float64(c), "ns/candidate")
	b.ReportMetric(allocations, "cycle-allocs")
}

// allocationsOf counts those of one function, called after the other.
func allocationsOf(change, decide func()) float64 {
	const times = 128
	var before, after runtime.MemStats
	n := uint64(0)
	for range times {
		change()
		runtime.ReadMemStats(&before)
		decide()
		runtime.ReadMemStats(&after)
		n += after.Mallocs - before.Mallocs
	}
	return float64(n) / times
}

// BenchmarkCandidates finds the candidates after a cluster joined or left the set.
func BenchmarkCandidates(b *testing.B) {
	const c = 10_000
	inv := newHub(c, fixture.Placement("ns", "p"))
	in := cluster(c/2, false)
	out := in.DeepCopy()
	delete(out.Labels, v1alpha1.ClusterSetLabel)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		want := c
		if i%2 == 0 {
			want--
			inv.Update(out)
		} else {
			inv.Update(in)
		}
		if got := inv.Snapshot(key, fixture.Now, nil).Sets[0].Members.Len(); got != want {
			b.Fatalf("%d candidates, want %d", got, want)
		}
	}
}

// BenchmarkHeartbeat measures a status write that changes nothing any of the Placements reads.
func BenchmarkHeartbeat(b *testing.B) {
	inv := newHub(1_000, fixture.Placement("ns", "p").Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1))
	var beats [2]*v1alpha1.ManagedCluster
	for i := range beats {
		beats[i] = cluster(500, false)
		beats[i].Status.Conditions = fixture.Cluster("").Condition(v1alpha1.ManagedClusterConditionAvailable, "True", fixture.At(i)).Obj().Status.Conditions
	}
	inv.Update(beats[1])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if woken := inv.Update(beats[i%2]); len(woken) > 0 {
			b.Fatalf("a heartbeat woke %v", woken)
		}
	}
}
