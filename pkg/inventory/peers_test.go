package inventory_test

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPeersAreMutual if the other Placement is apart from this one, too.
func TestPeersAreMutual(t *testing.T) {
	for apart, want := range map[string]string{"a": "[{c false} {b true}]", "x": "[{c false} {b false}]"} {
		h := newHolders(t, "a", "b", "c", "d")
		h.Update(affinityPolicy("a", named("c"), named("b")))
		h.Update(affinityPolicy("b", nil, named(apart)))
		type peer struct {
			name   string
			mutual bool
		}
		peers := map[string]peer{}
		for _, p := range h.Snapshot(inventory.Key{Namespace: "n", Name: "a"}, fixture.Now, nil).Subject.Peers {
			peers[p.With+p.ApartFrom] = peer{p.Name, p.Mutual}
		}
		if got := fmt.Sprint([]peer{peers["spec.affinity.with[0]"], peers["spec.affinity.apartFrom[0]"]}); got != want || len(peers) != 2 {
			t.Errorf("b is apart from %s: got %s, want %s of %v", apart, got, want, peers)
		}
	}
}

// TestOlderPeers: of two Placements, the one that was created first is the older one.
func TestOlderPeers(t *testing.T) {
	h := newHolders(t)
	for placement, second := range map[string]int{"a": 1, "b": 2, "c": 3} {
		pl := h.placement(placement).Obj()
		pl.CreationTimestamp = fixture.At(second)
		h.Update(pl)
	}
	h.Update(affinityPolicy("b", nil, named("a", "c")))
	for _, p := range h.Snapshot(inventory.Key{Namespace: "n", Name: "b"}, fixture.Now, nil).Subject.Peers {
		if p.Older != (p.Name == "a") {
			t.Errorf("%s is older: %t", p.Name, p.Older)
		}
	}
}

// TestQueueOfAFollower: an inventory that follows another process knows the queue from the pages.
func TestQueueOfAFollower(t *testing.T) {
	inv := inventory.New(inventory.Options{Follows: true})
	inv.Update(fixture.Placement("n", "a").Obj())
	page := pageWith("a", "c1")
	page.Annotations = map[string]string{v1alpha1.QueueAnnotation: "q"}
	inv.Update(page)
	if got := inv.Subject(inventory.Key{Namespace: "n", Name: "a"}).Last.Queue; got != "q" {
		t.Errorf("got %q", got)
	}
}

// TestEntriesOfFollowers: the decisions of those that follow a Placement count as its own, once for
// each of them.
func TestEntriesOfFollowers(t *testing.T) {
	h := newHolders(t, "a", "b", "c", "d")
	h.Update(affinityPolicy("b", named("a"), nil))
	h.Update(affinityPolicy("c", named("b"), nil))
	h.publish("a", "c1")
	h.publish("b", "c1")
	h.publish("c", "c1", "c2")
	h.publish("d", "c1")
	for placement, want := range map[string][2]int32{"a": {3, 1}, "b": {2, 1}, "c": {1, 1}, "d": {1, 0}} {
		snapshot := h.Snapshot(inventory.Key{Namespace: "n", Name: placement}, fixture.Now, nil)
		for i, cluster := range []string{"c1", "c2"} {
			if got := snapshot.Subject.Entries.Of(snapshot.Cluster(cluster).Index); got != want[i] {
				t.Errorf("%s has %d decisions on %s, want %d", placement, got, cluster, want[i])
			}
		}
	}
}

// TestSnapshotOfEdited has what is published, also on pages that nobody has asked for yet.
func TestSnapshotOfEdited(t *testing.T) {
	h := newHolders(t, "a")
	h.Update(pageWith("a", "c1"))
	edited := h.placement("a").Number(1).Obj()
	subject := h.SnapshotOfEdited(edited, fixture.Now, nil).Subject
	if subject.Placement != edited || fmt.Sprint(subject.LastNames()) != "[c1]" {
		t.Errorf("%v is published", subject.LastNames())
	}
}

// TestDeletedClusterLeavesItsSets: the next cluster with its place in the tables is no member.
func TestDeletedClusterLeavesItsSets(t *testing.T) {
	h := newHolders(t, "a")
	h.Delete(fixture.Cluster("c1").Obj())
	h.Update(fixture.Cluster("c3").Obj())
	snapshot := h.Snapshot(inventory.Key{Namespace: "n", Name: "a"}, fixture.Now, nil)
	for cluster, want := range map[string]bool{"c2": true, "c3": false} {
		if got := snapshot.IsUsable(snapshot.Cluster(cluster)); got != want {
			t.Errorf("%s may be used: %t", cluster, got)
		}
	}
	if n := len(h.Snapshot(inventory.Key{Namespace: "n", Name: "a"}, fixture.Now, nil).Sets); n != 1 {
		t.Errorf("%d sets", n)
	}
}
