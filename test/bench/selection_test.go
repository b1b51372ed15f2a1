package bench

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func regions(names ...string) v1alpha1.ClusterSelector {
	return v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: names}}}}
}

func policyOf(namespace, placement string, spec berthv1alpha1.SelectionPolicySpec) *berthv1alpha1.SelectionPolicy {
	spec.Placement = placement
	return &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: placement, UID: types.UID(placement)}, Spec: spec}
}

func requests(cpu string) map[v1alpha1.ResourceName]resource.Quantity {
	return map[v1alpha1.ResourceName]resource.Quantity{"cpu": resource.MustParse(cpu)}
}

// allParts is a policy with every part.
func allParts() berthv1alpha1.SelectionPolicySpec {
	return berthv1alpha1.SelectionPolicySpec{
		ClusterNames: berthv1alpha1.ClusterNames{Exclude: []string{"cluster-00001", "elsewhere"}},
		Preferences:  []berthv1alpha1.Preference{{Weight: 60, ClusterSelector: regions("r1")}, {Weight: -30, ClusterSelector: regions("r2", "r3")}},
		Requests:     requests("2"),
		Tiers:        []berthv1alpha1.SelectionTier{{Name: "a", ClusterSelector: regions("r0", "r1", "r2", "r3")}, {Name: "b", ClusterSelector: regions("r4", "r5", "r6")}},
		Groups:       []berthv1alpha1.SelectionGroup{{Name: "x", ClusterSelector: regions("r0", "r1"), Min: new(int32(1))}, {Name: "y", ClusterSelector: regions("r2"), Max: new(int32(1))}},
		Affinity: berthv1alpha1.PlacementAffinity{
			With: []berthv1alpha1.PlacementReference{{Placement: "peer"}}, ApartFrom: []berthv1alpha1.PlacementReference{{PlacementSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
		},
	}
}

// BenchmarkSelectionPolicy is BenchmarkCycle with a policy that has all parts, with 1,000 policies
// of other Placements, and without any.
func BenchmarkSelectionPolicy(b *testing.B) {
	for _, kind := range []string{"none", "others", "all parts"} {
		b.Run(fmt.Sprintf("policies=%s/clusters=5000", kind), func(b *testing.B) { selectionCycles(b, kind, 5_000) })
	}
}

func selectionCycles(b *testing.B, kind string, c int) {
	inv := newHub(c, fixture.Placement("ns", "p").Number(3).Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1).Predicate(fixture.MatchLabel("tier", "gold")))
	if kind == "all parts" {
		peer := fixture.Page("ns", "peer-decision-1").Of("peer").OwnedBy("peer")
		for n := range c {
			if n%2 == 0 {
				peer = peer.Lists(fmt.Sprintf("cluster-%05d", n))
			}
		}
		apart := fixture.Placement("ns", "apart").Obj()
		apart.Labels = map[string]string{"app": "db"}
		inv.Update(fixture.Placement("ns", "peer").Obj())
		inv.Update(peer.Obj())
		inv.Update(apart)
		inv.Update(fixture.Page("ns", "apart-decision-1").Of("apart").OwnedBy("apart").Lists("cluster-00000").Obj())
		inv.Update(policyOf("ns", "p", allParts()))
	}
	if kind != "none" {
		for n := range others {
			inv.Update(policyOf("others", fmt.Sprintf("p%d", n), berthv1alpha1.SelectionPolicySpec{Requests: requests("100m")}))
		}
	}
	inv.Started()
	cycles(b, inv, c)
}

// BenchmarkRequests measures the events of a Placement that leaves one of 200 clusters and takes
// another one, while 1,000 Placements request capacity and most clusters are full.
func BenchmarkRequests(b *testing.B) {
	const clusters, placements = 200, 1_000
	affected, slowest := 0, time.Duration(0)
	inv := inventory.New(inventory.Options{OnAffected: func(keys []inventory.Key) { affected += len(keys) }})
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	for n := range clusters {
		inv.Update(fixture.Cluster(fmt.Sprintf("cluster-%05d", n)).Set("s1").Allocatable("cpu", "10").Obj())
	}
	listed := func(n, cluster int) *v1alpha1.PlacementDecision {
		name := fmt.Sprintf("p%d", n)
		return fixture.Page("ns", name+"-decision-1").UID(name).Of(name).OwnedBy(name).Lists(fmt.Sprintf("cluster-%05d", cluster%clusters)).Obj()
	}
	for n := range placements {
		name := fmt.Sprintf("p%d", n)
		inv.Update(fixture.Placement("ns", name).Number(1).Obj())
		inv.Update(policyOf("ns", name, berthv1alpha1.SelectionPolicySpec{Requests: requests("2")}))
		inv.Update(listed(n, n))
	}
	inv.Started()
	b.ReportAllocs()
	affected, slowest = 0, time.Duration(0)
	for i := 0; b.Loop(); i++ {
		n := i % placements
		key := inventory.Key{Namespace: "ns", Name: fmt.Sprintf("p%d", n)}
		cluster := fmt.Sprintf("cluster-%05d", (n+1+i/placements)%clusters)
		begin := time.Now()
		inv.Claim(key, []string{cluster})
		inv.AssumePage(listed(n, n+1+i/placements), false)
		inv.SetPublished(inv.Subject(key), &framework.Published{Names: []string{cluster}})
		inv.Snapshot(key, fixture.Now, nil)
		slowest = max(slowest, time.Since(begin))
	}
	b.ReportMetric(float64(slowest.Nanoseconds()), "slowest-ns")
	b.ReportMetric(float64(affected)/float64(b.N), "affected/op")
}
