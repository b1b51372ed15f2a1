package inventory_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// requesting is the policy of Placement p<i> that requests 1 of each of 16 resources.
func requesting(i int, resourceName func(j int) string) *berthv1alpha1.SelectionPolicy {
	name := fmt.Sprintf("p%d", i)
	p := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: name, UID: types.UID("policy-" + name), CreationTimestamp: metav1.NewTime(fixture.Now),
	}}
	p.Spec.Placement, p.Spec.Requests = name, map[v1alpha1.ResourceName]resource.Quantity{}
	for j := range 16 {
		p.Spec.Requests[v1alpha1.ResourceName(resourceName(j))] = resource.MustParse("1")
	}
	return p
}

// The inventory is locked meanwhile, so this delays all decisions.
func TestEditsOfRequestsTakeLittleTime(t *testing.T) {
	const placements, clusters, limit = 120, 500, 5 * time.Second
	inv := balanced(0)
	shared := func(j int) string { return fmt.Sprintf("r%d", j) }
	var names []string
	for i := range clusters {
		names = append(names, fmt.Sprintf("c%d", i))
		cluster := fixture.Cluster(names[i])
		for j := range 16 {
			cluster = cluster.Allocatable(shared(j), "1000")
		}
		inv.Update(cluster.Obj())
	}
	inv.Started()
	began := time.Now()
	for i := range placements {
		inv.Update(fixture.Placement("n", fmt.Sprintf("p%d", i)).Obj())
		inv.Claim(inventory.Key{Namespace: "n", Name: fmt.Sprintf("p%d", i)}, names)
		inv.Update(requesting(i, shared))
	}
	if took := time.Since(began); took > limit {
		t.Errorf("%d policies for %d clusters took %s, want at most %s", placements, clusters, took, limit)
	}
	free, _ := inv.Snapshot(watched, fixture.Now, nil).Capacities["r3"].Free(0)
	if free != 1000-placements {
		t.Errorf("%d are free, want %d", free, 1000-placements)
	}
}

// The inventory is locked meanwhile: if an edit changes what is free on many clusters for many
// Placements, they are not compared, and all are decided.
func TestManyRequestsAreNotCompared(t *testing.T) {
	const placements = 40
	for _, tc := range []struct{ clusters, want int }{{500, 1}, {1000, placements}} {
		inv := balanced(0)
		shared := func(j int) string { return fmt.Sprintf("r%d", j) }
		var names []string
		for i := range tc.clusters {
			names = append(names, fmt.Sprintf("c%d", i))
			cluster := fixture.Cluster(names[i])
			for j := range 16 {
				cluster = cluster.Allocatable(shared(j), "1000")
			}
			inv.Update(cluster.Obj())
		}
		for i := range placements {
			inv.Update(fixture.Placement("n", fmt.Sprintf("p%d", i)).Obj())
			inv.Update(requesting(i, shared))
		}
		inv.Claim(inventory.Key{Namespace: "n", Name: "p0"}, names)
		inv.Started()
		edited := requesting(0, shared)
		edited.Spec.Requests["r0"] = resource.MustParse("2")
		if got := len(inv.Update(edited)); got != tc.want {
			t.Errorf("an edit on %d clusters affects %d Placements, want %d", tc.clusters, got, tc.want)
		}
	}
}

// Any user can request resources that do not exist.
func TestUnknownResourcesTakeLittleMemory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	inv := balanced(1000)
	inv.Started()
	before := heap()
	for i := range 200 {
		inv.Update(fixture.Placement("n", fmt.Sprintf("p%d", i)).Obj())
		inv.Update(requesting(i, func(j int) string { return fmt.Sprintf("p%d-r%d", i, j) }))
		inv.Claim(inventory.Key{Namespace: "n", Name: fmt.Sprintf("p%d", i)}, []string{"c999"})
	}
	if grown := heap() - before; grown > 8<<20 {
		t.Errorf("3,200 resources that no cluster reports take %d MiB, want at most 8", grown>>20)
	}
	runtime.KeepAlive(inv)
}

// A sum of requests is exact when a cluster begins to report a resource.
func TestRequestsOfResourceThatIsReportedLater(t *testing.T) {
	inv := balanced(1)
	inv.Started()
	for i := range 3 {
		inv.Update(fixture.Placement("n", fmt.Sprintf("p%d", i)).Obj())
		inv.Claim(inventory.Key{Namespace: "n", Name: fmt.Sprintf("p%d", i)}, []string{"c0"})
		inv.Update(requesting(i, func(j int) string { return fmt.Sprintf("r%d", j) }))
	}
	inv.Delete(requesting(2, func(j int) string { return fmt.Sprintf("r%d", j) }))
	for version, amount := range []string{"10", "", "20"} {
		cluster := fixture.Cluster("c0")
		if amount != "" {
			cluster = cluster.Allocatable("r0", amount)
		}
		object := cluster.Obj()
		object.ResourceVersion = fmt.Sprint(version + 2)
		inv.Update(object)
	}
	free, reported := inv.Snapshot(watched, fixture.Now, nil).Capacities["r0"].Free(0)
	if free != 18 || !reported {
		t.Errorf("free: %d, %t; want 18, true", free, reported)
	}
}
