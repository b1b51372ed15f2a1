package inventory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// holders is an inventory with the clusters c1 and c2 of 4 cpu each, and Placements of namespace n
// with an own UID and creation time; a is the oldest.
type holders struct {
	*inventory.Inventory
	t        *testing.T
	affected []string
}

func newHolders(t *testing.T, placements ...string) *holders {
	h := &holders{t: t}
	h.Inventory = inventory.New(inventory.Options{OnAffected: func(keys []inventory.Key) { h.affected = append(h.affected, names(keys)...) }})
	h.Update(fixture.Set("s1"))
	h.Update(fixture.Binding("n", "s1"))
	for _, c := range []string{"c1", "c2"} {
		h.Update(fixture.Cluster(c).Set("s1").Allocatable("cpu", "4").Obj())
	}
	for _, p := range placements {
		h.Update(h.placement(p).Obj())
	}
	return h
}

func (h *holders) placement(name string) fixture.PlacementBuilder {
	return fixture.Placement("n", name)
}

// requestingCPU is the policy of a Placement that requests cpu.
func requestingCPU(placement, cpu string) *berthv1alpha1.SelectionPolicy {
	policy := affinityPolicy(placement, nil, nil)
	policy.Spec.Requests = map[v1alpha1.ResourceName]resource.Quantity{"cpu": resource.MustParse(cpu)}
	return policy
}

func pageWith(placement string, clusters ...string) *v1alpha1.PlacementDecision {
	return fixture.Page("n", placement+"-decision-1").UID("page-" + placement).Of(placement).OwnedBy(placement).Lists(clusters...).Obj()
}

// publish publishes a decision as the publisher does.
func (h *holders) publish(placement string, clusters ...string) {
	key := inventory.Key{Namespace: "n", Name: placement}
	h.Claim(key, clusters)
	page := pageWith(placement, clusters...)
	end := h.Announce(page, false)
	h.AssumePage(page, false)
	end()
	h.SetPublished(h.Subject(key), &framework.Published{Names: clusters})
}

func (h *holders) has(placement string) string {
	snapshot := h.Snapshot(inventory.Key{Namespace: "n", Name: placement}, fixture.Now, nil)
	var has []string
	for i := range snapshot.Subject.Has.All {
		has = append(has, snapshot.Clusters.Get(i).Name)
	}
	slices.Sort(has)
	return fmt.Sprint(has)
}

// TestWhoIsAffectedByHoldings: which other Placements are decided again after an event.
func TestWhoIsAffectedByHoldings(t *testing.T) {
	labelledPlacement := func(name, app string) *v1alpha1.Placement {
		pl := fixture.Placement("n", name).Obj()
		pl.Labels = map[string]string{"app": app}
		return pl
	}
	tiered := requestingCPU("b", "3")
	tiered.Spec.Tiers = []berthv1alpha1.SelectionTier{{Name: "all"}}
	spread := fixture.Placement("n", "b").Spread("zone", 1, v1alpha1.DoNotSchedule).Obj()
	relative := fixture.Placement("n", "b").Prioritizer(v1alpha1.PrioritizerResourceAllocatableCPU, 1).Obj()
	namesCluster := affinityPolicy("b", nil, nil)
	namesCluster.Spec.ClusterNames.Exclude = []string{"c9"}
	for name, tc := range map[string]struct {
		before []client.Object
		has    map[string][]string
		event  func(*holders)
		want   string
	}{
		"capacity that is taken":                  {[]client.Object{requestingCPU("a", "2"), requestingCPU("b", "3")}, nil, func(h *holders) { h.publish("a", "c1") }, "[]"},
		"capacity that is taken, with tiers":      {[]client.Object{requestingCPU("a", "2"), tiered}, nil, func(h *holders) { h.publish("a", "c1") }, "[n/b]"},
		"capacity that is taken, spread":          {[]client.Object{requestingCPU("a", "2"), spread, requestingCPU("b", "3")}, nil, func(h *holders) { h.publish("a", "c1") }, "[n/b]"},
		"capacity that is taken, relative scores": {[]client.Object{requestingCPU("a", "2"), relative, requestingCPU("b", "3")}, nil, func(h *holders) { h.publish("a", "c1") }, "[n/b]"},
		"capacity that is freed":                  {[]client.Object{requestingCPU("a", "2"), requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}}, func(h *holders) { h.publish("a") }, "[n/b]"},
		"capacity that nobody lacked":             {[]client.Object{requestingCPU("a", "1"), requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}}, func(h *holders) { h.publish("a") }, "[]"},
		"a cluster that is not too full any more": {[]client.Object{requestingCPU("a", "2"), requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}, "b": {"c1"}}, func(h *holders) { h.publish("a") }, "[n/b]"},
		"capacity of a deleted Placement":         {[]client.Object{requestingCPU("a", "2"), requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}}, func(h *holders) { h.affected = names(h.Delete(h.placement("a").Obj())) }, "[n/a n/b]"},
		"a smaller request":                       {[]client.Object{requestingCPU("a", "2"), requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}}, func(h *holders) { h.affected = names(h.Update(requestingCPU("a", "1"))) }, "[n/a n/b]"},
		"a larger request":                        {[]client.Object{requestingCPU("a", "1"), requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}, "b": {"c1"}}, func(h *holders) { h.affected = names(h.Update(requestingCPU("a", "2"))) }, "[n/a n/b]"},
		"a deleted policy":                        {[]client.Object{requestingCPU("a", "2"), requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}}, func(h *holders) { h.affected = names(h.Delete(requestingCPU("a", "2"))) }, "[n/a n/b]"},
		"a cluster of one that it is with":        {[]client.Object{affinityPolicy("b", named("a"), nil)}, nil, func(h *holders) { h.publish("a", "c1") }, "[n/b]"},
		"a cluster of one that it is apart from":  {[]client.Object{affinityPolicy("b", nil, named("a"))}, nil, func(h *holders) { h.publish("a", "c1") }, "[]"},
		"a common cluster":                        {[]client.Object{affinityPolicy("b", nil, named("a"))}, map[string][]string{"b": {"c1"}}, func(h *holders) { h.publish("a", "c1") }, "[n/b]"},
		"a cluster that is left":                  {[]client.Object{affinityPolicy("b", nil, named("a"))}, map[string][]string{"a": {"c1"}}, func(h *holders) { h.publish("a") }, "[n/b]"},
		"a label of a peer":                       {[]client.Object{affinityPolicy("b", nil, databases())}, map[string][]string{"a": {"c1"}}, func(h *holders) { h.affected = names(h.Update(labelledPlacement("a", "db"))) }, "[n/a n/b]"},
		"a label of a peer without clusters":      {[]client.Object{affinityPolicy("b", nil, databases())}, nil, func(h *holders) { h.affected = names(h.Update(labelledPlacement("a", "db"))) }, "[n/a]"},
		"a left cluster that is too small now":    {[]client.Object{requestingCPU("a", "3"), spread, requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}, "b": {"c1", "c2"}}, func(h *holders) { h.publish("b", "c2") }, "[n/a n/b]"},
		"a left cluster that is large enough":     {[]client.Object{requestingCPU("a", "1"), spread, requestingCPU("b", "3")}, map[string][]string{"a": {"c1"}, "b": {"c1", "c2"}}, func(h *holders) { h.publish("b", "c2") }, "[]"},
		"a left cluster of a peer":                {[]client.Object{affinityPolicy("b", nil, named("a")), spread}, map[string][]string{"a": {"c1"}, "b": {"c1", "c2"}}, func(h *holders) { h.publish("b", "c2") }, "[n/b]"},
		"a left cluster that decides nothing":     {[]client.Object{affinityPolicy("b", nil, named("a"))}, map[string][]string{"a": {"c1"}, "b": {"c1", "c2"}}, func(h *holders) { h.publish("b", "c2") }, "[]"},
		"two policies have no affinity": {[]client.Object{affinityPolicy("b", nil, named("a")), func() client.Object {
			second := affinityPolicy("second", nil, named("a"))
			second.Spec.Placement = "b"
			return second
		}()}, map[string][]string{"b": {"c1"}}, func(h *holders) { h.publish("a", "c1") }, "[]"},
		"a named cluster outside of the bound sets": {[]client.Object{namesCluster, fixture.Set("far"), fixture.Binding("m", "far")}, nil, func(h *holders) { h.affected = names(h.Update(fixture.Cluster("c9").Set("far").Obj())) }, "[]"},
		"a named cluster in a bound set that the Placement does not use": {[]client.Object{namesCluster, fixture.Placement("n", "b").Sets("s1").Obj(), fixture.Set("s2"), fixture.Binding("n", "s2")}, nil,
			func(h *holders) { h.affected = names(h.Update(fixture.Cluster("c9").Set("s2").Obj())) }, "[n/a n/b]"},
		"a policy before its Placement": {[]client.Object{requestingCPU("z", "2")}, nil, func(h *holders) { h.affected = names(h.Update(fixture.Placement("n", "z").Obj())) }, "[n/z]"},
		"other namespaces":              {[]client.Object{requestingCPU("a", "2"), fixture.Placement("far", "p").Obj()}, nil, func(h *holders) { h.publish("a", "c1") }, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHolders(t, "a", "b")
			for _, o := range tc.before {
				h.Update(o)
			}
			for placement, clusters := range tc.has {
				h.publish(placement, clusters...)
			}
			h.Started()
			h.affected = nil
			if tc.event(h); fmt.Sprint(h.affected) != tc.want {
				t.Errorf("affected are %v, want %s", h.affected, tc.want)
			}
		})
	}
}

// TestHas: a Placement has the clusters of its last published decision, those that are being
// published, and those that may be on a page after a failed write.
func TestHas(t *testing.T) {
	h := newHolders(t, "a", "b")
	h.Update(requestingCPU("b", "1"))
	h.Started()
	expect := func(when, want string) {
		t.Helper()
		if got := h.has("a"); got != want {
			t.Errorf("%s: has %s, want %s", when, got, want)
		}
	}
	key := inventory.Key{Namespace: "n", Name: "a"}
	expect("at first", "[]")
	h.Claim(key, []string{"c1"})
	expect("reserved", "[c1]")
	h.Claim(key, nil)
	expect("not reserved", "[]")
	h.publish("a", "c1")
	expect("published", "[c1]")
	h.Claim(key, []string{"c2"})
	end := h.Announce(pageWith("a", "c1", "c2"), false)
	end()
	h.Claim(key, nil)
	expect("after a write without a response", "[c1 c2]")
	h.SetPublished(h.Subject(key), &framework.Published{Names: []string{"c1"}})
	expect("published again", "[c1]")
	h.Update(fixture.Page("n", "a-decision-2").UID("other").Of("a").Lists("c2").Obj())
	expect("a page of another writer", "[c1]")
	h.Delete(requestingCPU("b", "1"))
	expect("without policies that need it", "[]")
}

// TestHasOfADisabledPlacement: a Placement does not have what its open change adds while other
// writers own its pages: from when scheduling is disabled until these are adopted.
func TestHasOfADisabledPlacement(t *testing.T) {
	h, key := newHolders(t, "a", "b"), inventory.Key{Namespace: "n", Name: "b"}
	h.Update(requestingCPU("a", "1"))
	h.Started()
	record := changes.NewRecord(h.Placement(key), 0, 2, changes.NewChange([]string{"c1"}, []string{"c1", "c2"}))
	record.UID, record.ResourceVersion, record.Status.Phase = "r", "1", berthv1alpha1.PhaseHeld
	h.AssumeRecord(record)
	setDisabled := func(disabled string) func() {
		return func() {
			pl := h.Placement(key).DeepCopy()
			pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: disabled}
			h.Update(pl)
		}
	}
	for _, step := range []struct {
		when, want string
		do         func()
	}{
		{"a change is held", "[c2]", func() {}},
		{"scheduling is disabled", "[]", setDisabled("true")},
		{"scheduling is enabled", "[]", setDisabled("false")},
		{"the pages are adopted", "[c2]", func() { h.AdoptPages(h.Subject(key), 0) }},
	} {
		if step.do(); h.has("b") != step.want {
			t.Errorf("%s: has %s, want %s", step.when, h.has("b"), step.want)
		}
	}
}

// TestFollowed: Placements that are with another one follow it to what it has, and to what a change
// adds that may still be rejected only if it has nothing else. The change of that tells them.
func TestFollowed(t *testing.T) {
	h, key := newHolders(t, "a", "b"), inventory.Key{Namespace: "n", Name: "a"}
	h.Update(affinityPolicy("b", named("a"), nil))
	h.Started()
	expect := func(when, want string, told bool) {
		t.Helper()
		snapshot := h.Snapshot(inventory.Key{Namespace: "n", Name: "b"}, fixture.Now, nil)
		var follows []string
		for i := range snapshot.Subject.Peers[0].Clusters.All {
			follows = append(follows, snapshot.Clusters.Get(i).Name)
		}
		if got := fmt.Sprint(follows); got != want || (len(h.affected) > 0) != told {
			t.Errorf("%s: follows to %s, want %s; told %v", when, got, want, h.affected)
		}
		h.affected = nil
	}
	record := changes.NewRecord(h.Placement(key), 0, 2, changes.NewChange([]string{"c1"}, []string{"c1", "c2"}))
	record.UID, record.ResourceVersion, record.Status.Phase = "r", "1", berthv1alpha1.PhaseHeld
	expect("at first", "[]", false)
	h.StoreClaim(h.Subject(key), []string{"c1"}, true)
	expect("the first change waits", "[c1]", true)
	h.StoreClaim(h.Subject(key), []string{"c1"}, false)
	expect("it is permitted", "[c1]", false)
	h.publish("a", "c1")
	expect("it is published", "[c1]", false)
	h.StoreClaim(h.Subject(key), []string{"c2"}, true)
	h.AssumeRecord(record)
	expect("another one is held", "[c1]", false)
	h.StoreClaim(h.Subject(key), []string{"c2"}, false)
	expect("it is approved", "[c1 c2]", true)
	h.StoreClaim(h.Subject(key), nil, false)
	expect("it is given up", "[c1]", true)
	permitted := record.DeepCopy()
	permitted.ResourceVersion, permitted.Status.PermittedTime = "2", new(fixture.At(1))
	h.AssumeRecord(permitted)
	expect("its record is of a change in progress", "[c1 c2]", true)
}

// TestCapacity: requests are summed up by cluster, the oldest Placement first.
func TestCapacity(t *testing.T) {
	h := newHolders(t)
	for i, name := range []string{"young", "middle", "old"} {
		pl := fixture.Placement("n", name).Obj()
		pl.CreationTimestamp = metav1.NewTime(fixture.Now.Add(-time.Duration(i) * time.Hour))
		pl.UID = types.UID(name)
		h.Update(pl)
		h.Update(requestingCPU(name, "1500m"))
	}
	h.Started()
	for _, name := range []string{"young", "old", "middle"} {
		h.publish(name, "c1")
	}
	snapshot := h.Snapshot(inventory.Key{Namespace: "n", Name: "old"}, fixture.Now, nil)
	i := snapshot.Cluster("c1").Index
	if free, reported := snapshot.Capacities["cpu"].Free(i); free != -500 || !reported {
		t.Errorf("free are %d, %t, want -500", free, reported)
	}
	var order []string
	for _, r := range snapshot.CapacityRequests.Get(i) {
		order = append(order, r.Placement.Name)
	}
	if fmt.Sprint(order) != "[old middle young]" {
		t.Errorf("the order is %v", order)
	}
	for _, name := range []string{"young", "middle", "old"} {
		h.Delete(requestingCPU(name, "1500m"))
	}
	if got := h.Snapshot(inventory.Key{Namespace: "n", Name: "old"}, fixture.Now, nil).Capacities; len(got) != 0 {
		t.Errorf("capacities without requests are %v", got)
	}
}

// TestCauseOfHoldings: the cause names the Placement whose clusters changed. It does not replace
// that of the event itself.
func TestCauseOfHoldings(t *testing.T) {
	h := newHolders(t, "a", "b")
	h.Update(affinityPolicy("b", nil, named("a")))
	h.publish("a", "c1")
	h.Started()
	cause := func(placement string) string {
		return h.Snapshot(inventory.Key{Namespace: "n", Name: placement}, fixture.Now, nil).Cause
	}
	h.publish("a")
	if got := cause("b"); got != "Placement a: clusters" {
		t.Errorf("the cause is %q", got)
	}
	mixed := affinityPolicy("a", named("b"), nil)
	h.Update(mixed)
	if got := cause("b"); got != "Placement a: SelectionPolicy" {
		t.Errorf("the cause of a cycle is %q", got)
	}
	if got := cause("a"); got != "SelectionPolicy a: spec" {
		t.Errorf("the cause of the policy's Placement is %q", got)
	}
}

// TestHasAfterAnUnchangedDecision: clusters of a failed write do not count any more once the same
// decision as before is published.
func TestHasAfterAnUnchangedDecision(t *testing.T) {
	h := newHolders(t, "a", "b")
	h.Update(requestingCPU("b", "1"))
	h.Started()
	h.publish("a", "c1")
	key := inventory.Key{Namespace: "n", Name: "a"}
	h.Announce(pageWith("a", "c1", "c2"), false)()
	if got := h.has("a"); got != "[c1 c2]" {
		t.Errorf("after the failed write: has %s", got)
	}
	h.SetPublished(h.Subject(key), nil)
	if got := h.has("a"); got != "[c1]" {
		t.Errorf("after the unchanged decision: has %s", got)
	}
}
