package inventory_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// claimants is an inventory whose Placements depend on the clusters of each other.
type claimants struct {
	*inventory.Inventory
	placements, clusters []string
	// told are the Placements that the last change by Berth itself affected.
	told    []inventory.Key
	version int
}

// newClaimants draws what makes each Placement depend on others.
func newClaimants(t *rapid.T) *claimants {
	c := &claimants{placements: []string{"p", "q", "r"}, clusters: []string{"c0", "c1", "c2"}}
	c.Inventory = inventory.New(inventory.Options{OnAffected: func(keys []inventory.Key) { c.told = append(c.told, keys...) }})
	c.Update(fixture.Set("s"))
	c.Update(fixture.Binding("n", "s"))
	for _, name := range c.clusters {
		c.Update(fixture.Cluster(name).Set("s").Allocatable("cpu", "8").Obj())
	}
	for age, name := range c.placements {
		pl := fixture.Placement("n", name).Obj()
		pl.UID, pl.CreationTimestamp = types.UID(name), fixture.At(-age)
		c.Update(pl)
		policy := affinityPolicy(name, nil, nil)
		if rapid.Bool().Draw(t, "requests") {
			policy.Spec.Requests = v1alpha1.ResourceList{"cpu": resource.MustParse(rapid.SampledFrom([]string{"3", "6"}).Draw(t, "cpu"))}
		}
		if rapid.Bool().Draw(t, "tiers") {
			policy.Spec.Tiers = []berthv1alpha1.SelectionTier{{Name: "all"}}
		}
		other := named(rapid.SampledFrom(c.placements).Draw(t, "other"))
		switch rapid.IntRange(0, 2).Draw(t, "affinity") {
		case 1:
			policy.Spec.Affinity.With = other
		case 2:
			policy.Spec.Affinity.ApartFrom = other
		}
		c.Update(policy)
	}
	c.Started()
	return c
}

func (c *claimants) page(placement string, number int, clusters []string) *v1alpha1.PlacementDecision {
	c.version++
	name := fmt.Sprintf("%s-decision-%d", placement, number)
	return fixture.Page("n", name).UID(name).Of(placement).Lists(clusters...).Version(fmt.Sprint(c.version)).Obj()
}

func (c *claimants) record(t *rapid.T, placement string, clusters []string) *berthv1alpha1.PlacementChange {
	c.version++
	record := changes.NewRecord(c.Placement(inventory.Key{Namespace: "n", Name: placement}), 0, 1, changes.NewChange(nil, clusters))
	record.UID, record.ResourceVersion = types.UID(placement), fmt.Sprint(c.version)
	record.Status.Phase = rapid.SampledFrom([]berthv1alpha1.ChangePhase{berthv1alpha1.PhaseHeld, berthv1alpha1.PhaseProgressing, berthv1alpha1.PhasePublished}).Draw(t, "phase")
	if record.Status.Phase == berthv1alpha1.PhaseProgressing {
		record.Status.PermittedTime = new(fixture.At(0))
	}
	return record
}

// claims are the clusters that each Placement has, and those of its peers as it sees them.
func (c *claimants) claims() map[string]string {
	all := map[string]string{}
	for _, name := range c.placements {
		all[name] = fmt.Sprint(slices.Sorted(maps.Keys(c.has(name))))
		for _, peer := range c.Snapshot(inventory.Key{Namespace: "n", Name: name}, fixture.Now, nil).Subject.Peers {
			all[name] += fmt.Sprint(" ", peer.Name, slices.Collect(peer.Clusters.All))
		}
	}
	return all
}

func (c *claimants) has(placement string) map[string]int {
	snapshot, has := c.Snapshot(inventory.Key{Namespace: "n", Name: placement}, fixture.Now, nil), map[string]int{}
	for i := range snapshot.Subject.Has.All {
		has[snapshot.Clusters.Get(i).Name] = i
	}
	return has
}

// excludes reports whether others exclude a Placement from a cluster that it does not have.
func (c *claimants) excludes(placement string, cluster int) bool {
	snapshot := c.Snapshot(inventory.Key{Namespace: "n", Name: placement}, fixture.Now, nil)
	if request := snapshot.Subject.CapacityRequest; request != nil {
		if free, _ := snapshot.Capacities["cpu"].Free(cluster); free < request.Amounts["cpu"] {
			return true
		}
	}
	return slices.ContainsFunc(snapshot.Subject.Peers, func(p framework.Peer) bool { return p.Excludes(cluster, nil) })
}

// event is one change of what a Placement has. It returns the Placements that are told.
func (c *claimants) event(t *rapid.T, placement string) []inventory.Key {
	key := inventory.Key{Namespace: "n", Name: placement}
	clusters := rapid.SliceOfNDistinct(rapid.SampledFrom(c.clusters), 0, 2, rapid.ID[string]).Draw(t, "clusters")
	number := rapid.IntRange(1, 2).Draw(t, "page")
	object := func(o client.Object) []inventory.Key {
		return slices.DeleteFunc(c.Update(o), func(k inventory.Key) bool { return k == key }) // It is about an object of its own.
	}
	switch rapid.SampledFrom([]string{"claim", "claim", "release", "publish", "publish", "announce", "assume", "assume", "delete", "record", "page", "listing"}).Draw(t, "event") {
	case "claim":
		c.StoreClaim(c.Subject(key), clusters, rapid.Bool().Draw(t, "unpermitted"))
	case "release":
		c.Claim(key, nil)
	case "publish":
		slices.Sort(clusters)
		c.SetPublished(c.Subject(key), &framework.Published{Names: clusters})
	case "announce":
		c.Announce(c.page(placement, number, clusters), false)()
	case "assume":
		c.AssumePage(c.page(placement, number, clusters), false)
	case "delete":
		c.AssumePage(c.page(placement, number, nil), true)
	case "record":
		c.AssumeRecord(c.record(t, placement, clusters))
	case "page":
		return object(c.page(placement, number, clusters))
	case "listing":
		pages := []v1alpha1.PlacementDecision{*c.page(placement, 1, clusters), *c.page(placement, 2, nil)}
		c.AssumePages(key, pages, fmt.Sprint(c.version))
	}
	return c.told
}

// TestToldOfClaims: after each event, others are told only of the difference that it makes to what
// a Placement has. The Placement itself is told only if it left a cluster from which others exclude
// it now, which they could not while it had the cluster.
func TestToldOfClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClaimants(t)
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			placement := rapid.SampledFrom(c.placements).Draw(t, "placement")
			before, had := c.claims(), c.has(placement)
			c.told = nil
			told := c.event(t, placement)
			if maps.Equal(before, c.claims()) && len(told) > 0 {
				t.Fatalf("%v are affected by nothing", told)
			}
			excluded := false
			has := c.has(placement)
			for name, i := range had {
				_, still := has[name]
				excluded = excluded || !still && c.excludes(placement, i)
			}
			if !excluded && slices.Contains(told, inventory.Key{Namespace: "n", Name: placement}) {
				t.Fatalf("%s is affected by its own claim: it had %v and has %v", placement, had, has)
			}
		}
	})
}

// TestClaimOfReplacedPlacement: a Placement of the same name has nothing of the earlier one, also
// if an attempt of that ends later.
func TestClaimOfReplacedPlacement(t *testing.T) {
	for name, replace := range map[string]func(h *holders, first, second *v1alpha1.Placement){
		"in one update": func(h *holders, _, second *v1alpha1.Placement) { h.Update(second) },
		"deleted first": func(h *holders, first, second *v1alpha1.Placement) { h.Delete(first); h.Update(second) },
		"only deleted":  func(h *holders, first, _ *v1alpha1.Placement) { h.Delete(first) },
	} {
		t.Run(name, func(t *testing.T) {
			h, key := newHolders(t, "a", "b", "watched"), inventory.Key{Namespace: "n", Name: "a"}
			h.Update(requestingCPU("a", "3"))
			h.Update(requestingCPU("b", "3"))
			h.Started()
			first, second := h.placement("a").Obj(), h.placement("a").Obj()
			second.UID = "second"
			subject := h.Subject(key)
			h.StoreClaim(subject, []string{"c1"}, false)
			if got := counts(h.Inventory)["c1"]; got != 1 {
				t.Fatalf("claimed: %d decisions on c1", got)
			}
			replace(h, first, second)
			if got := counts(h.Inventory)["c1"]; got != 0 {
				t.Errorf("replaced: %d decisions on c1", got)
			}
			h.StoreClaim(subject, []string{"c2"}, false)
			if got := counts(h.Inventory)["c2"]; got != 0 {
				t.Errorf("the earlier attempt ended: %d decisions on c2", got)
			}
		})
	}
}
