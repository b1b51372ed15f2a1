package explore

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// largeFleet has clusters in five regions and Placements in namespaces of eight. Every third
// Placement reads labels, every third one has a number.
func largeFleet(clusters, placements int) simulator.Objects {
	o := simulator.Objects{fixture.Set("prod")}
	for i := range clusters {
		c := fixture.Cluster(fmt.Sprintf("cluster-%05d", i)).Set("prod").Label("region", fmt.Sprintf("region-%d", i%5)).
			Allocatable("cpu", fmt.Sprint(8+i*7%56)).Allocatable("memory", fmt.Sprintf("%dGi", 16+i*13%240))
		if i%17 == 3 {
			c = c.Taint("maintenance", "", v1alpha1.TaintEffectNoSelect)
		}
		o = append(o, c.Obj())
	}
	for i := range placements {
		namespace := fmt.Sprintf("team-%03d", i/8)
		if i%8 == 0 {
			o = append(o, fixture.Binding(namespace, "prod"))
		}
		p := fixture.Placement(namespace, fmt.Sprintf("app-%d", i%8))
		switch i % 3 {
		case 0:
			p = p.Predicate(fixture.MatchLabel("region", fmt.Sprintf("region-%d", i%5)))
		case 1:
			p = p.Number(20).Prioritizer("ResourceAllocatableMemory", 1)
		}
		o = append(o, p.Obj(), fixture.Page(namespace, fmt.Sprintf("app-%d-decision-1", i%8)).Of(fmt.Sprintf("app-%d", i%8)).
			OwnedBy(fmt.Sprintf("app-%d", i%8)).Lists("cluster-00001", fmt.Sprintf("cluster-%05d", i%clusters)).Obj())
	}
	return o
}

// BenchmarkLarge measures the requests of the page on 5,000 clusters and 2,000 Placements.
func BenchmarkLarge(b *testing.B) {
	objects := largeFleet(5000, 2000)
	hub, err := NewLiveWorld(simulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := hub.Fill(objects); err != nil {
		b.Fatal(err)
	}
	b.Run("whole state", func(b *testing.B) {
		for range b.N {
			hub.fleet()
		}
	})
	b.Run("40 columns", func(b *testing.B) {
		for i := range b.N {
			var placements []string
			for j := range 40 {
				n := (i*40 + j) % 2000
				placements = append(placements, fmt.Sprintf("team-%03d/app-%d", n/8, n%8))
			}
			hub.mu.Lock()
			clear(hub.world.columns)
			hub.mu.Unlock()
			if _, err := columns(b.Context(), hub, placements); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one cluster changes", func(b *testing.B) {
		for i := range b.N {
			old := objects[1+i%5000].(*v1alpha1.ManagedCluster)
			changed := old.DeepCopy()
			changed.Labels["region"] = fmt.Sprintf("region-%d", (i+1)%5)
			hub.update(hub.run, old, changed)
			objects[1+i%5000] = changed
			hub.flush()
		}
	})
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.Logf("heap: %d MiB", m.HeapAlloc>>20)
}
