package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// objectsOfAll are the objects of all kinds by kind and name. Each draw gives one of them another
// content.
type objectsOfAll struct {
	version int
	by      map[string]client.Object
}

func (o *objectsOfAll) draw(t *rapid.T) client.Object {
	name := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	cluster := func() string { return name("cluster", "c1", "c2", "c3") }
	yes := func(label string) bool { return rapid.IntRange(0, 2).Draw(t, label) == 0 }
	var object client.Object
	switch name("kind", "cluster", "cluster", "set", "binding", "score", "placement", "page", "page", "page", "record", "record", "policy", "eviction") {
	case "cluster":
		c := fixture.Cluster(cluster()).Set(name("set", "s1", "s2", "")).Label("tier", name("tier", "gold", "silver"))
		if yes("deleting") {
			c = c.Deleting()
		}
		object = c.Obj()
	case "set":
		if object = fixture.Set(name("set", "s1", "s2")); yes("selects") {
			object = fixture.SelectorSet(object.GetName(), &metav1.LabelSelector{MatchLabels: map[string]string{"tier": name("tier", "gold", "silver")}})
		}
	case "binding":
		binding := fixture.Binding("n", name("set", "s1", "s2"))
		if yes("misnamed") {
			binding.Spec.ClusterSet = "other"
		}
		object = binding
	case "score":
		object = fixture.Score(cluster(), name("resource", "r1", "r2")).Value("v", int32(rapid.IntRange(0, 2).Draw(t, "value"))).Obj()
	case "placement":
		pl := fixture.Placement("n", name("placement", "p", "q"))
		if yes("sets") {
			pl = pl.Sets("s1")
		}
		p := pl.Obj()
		p.Labels = map[string]string{"tier": name("tier", "gold", "silver")}
		p.UID = types.UID(p.Name + name("uid", "1", "1", "2"))
		object = p
	case "page":
		owner := name("owner", "p", "q")
		page := fixture.Page("n", name("name", "p", "q")+"-decision-"+name("number", "1", "2")).Lists(cluster())
		if !yes("unlabelled") {
			page = page.Of(owner)
		}
		if yes("owned") {
			page = page.OwnedBy(owner)
		}
		if yes("two") {
			page = page.Lists("c1", "gone")
		}
		p := page.UID(name("uid", "u1", "u2")).Obj()
		if yes("deleting") {
			p.DeletionTimestamp = new(fixture.At(0))
		}
		object = p
	case "record":
		owner := fixture.Placement("n", name("owner", "p", "q")).Obj()
		owner.UID = types.UID(owner.Name + "1")
		record := changes.NewRecord(owner, 0, rapid.Int64Range(1, 2).Draw(t, "revision"), changes.NewChange([]string{cluster()}, []string{cluster(), "gone"}))
		record.Status.Phase = berthv1alpha1.ChangePhase(name("phase", "", "Held", "Progressing", "Published", "Superseded"))
		object = record
	case "policy":
		policy := fixture.ApprovalPolicy("n", name("policy", "a", "b"), "p")
		if yes("by label") {
			policy.Spec.Placements, policy.Spec.PlacementSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
		}
		policy.Generation = rapid.Int64Range(0, 1).Draw(t, "generation")
		object = policy
	default:
		eviction := &berthv1alpha1.PlacementEviction{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name("eviction", "e", "f")}}
		eviction.Spec = berthv1alpha1.PlacementEvictionSpec{Placement: name("placement", "p", "q"), Cluster: cluster(), ExcludeForSeconds: 60}
		if !yes("unchecked") {
			kind, status := name("condition", berthv1alpha1.EvictionValid, berthv1alpha1.EvictionExecuted), name("status", "True", "False")
			eviction.Status.Conditions = []metav1.Condition{{
				Type: kind, Status: metav1.ConditionStatus(status), LastTransitionTime: fixture.At(rapid.IntRange(0, 2).Draw(t, "time")),
			}}
		}
		object = eviction
	}
	o.version++
	object.SetResourceVersion(strconv.Itoa(o.version))
	return object
}

func nameOfObject(object client.Object) string {
	return fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName())
}

// described is all that Placements see, with names instead of indexes, after what is known of the
// last published decisions was forgotten.
func described(inv *Inventory) map[string]any {
	all := map[string]any{}
	named := func(set framework.Bitset) []string {
		var names []string
		for i := range set.All {
			names = append(names, inv.names.slots[i].name)
		}
		slices.Sort(names)
		return names
	}
	for _, key := range inv.Placements() {
		inv.setLast(inv.placements[key], nil)
		inv.unread[key] = struct{}{}
	}
	for _, key := range inv.Placements() {
		s := inv.Snapshot(key, fixture.Now, nil)
		one := map[string]any{
			"placement": s.Subject.Placement, "pages": s.Subject.Pages, "records": s.Subject.Records, "policies": s.Subject.DisruptionPolicies,
			"evictions": s.Subject.Evictions, "taken": s.Subject.Taken,
			"published": named(s.Subject.LastClusters), "counted": named(s.Subject.Entries.Clusters),
			"incumbents": named(s.Subject.Incumbents), "leaving": named(s.Subject.Leaving), "bound": s.BoundSets,
		}
		for i := range s.Subject.Entries.Clusters.All {
			one["entries of "+inv.names.slots[i].name] = s.Subject.Entries.Of(i)
		}
		for _, set := range s.Bound {
			one["members of "+set.Name] = named(set.Members)
		}
		for _, set := range s.Sets {
			one["uses "+set.Name] = named(set.Members)
		}
		var order []*framework.Cluster
		for i := range s.Clusters.Len() {
			c := s.Clusters.Get(i)
			if c == nil {
				continue
			}
			order = append(order, c)
			one["cluster "+c.Name] = []any{c.ManagedCluster, c.TaintTimes, s.Counts.ByIndex.Get(i)}
			for resource, scores := range s.Scores {
				if score := scores.Get(i); score != nil {
					one["score "+resource+" of "+c.Name] = score
				}
			}
		}
		slices.SortFunc(order, s.ByName)
		for _, c := range order {
			one["order"] = fmt.Sprint(one["order"], " ", c.Name)
		}
		one["most"] = s.Counts.Max(&framework.Entries{})
		all[key.String()] = one
	}
	return all
}

func textOf(t *rapid.T, all any) string {
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEventsLeadToTheStateOfAListing: after any events, Placements see what they would see if a
// new inventory listed all objects. Nothing is left of objects that were deleted.
func TestEventsLeadToTheStateOfAListing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, inv := &objectsOfAll{by: map[string]client.Object{}}, New(Options{})
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			object := o.draw(t)
			name := nameOfObject(object)
			switch old := o.by[name]; {
			case old != nil && rapid.IntRange(0, 3).Draw(t, "deletes") == 0:
				inv.Delete(old)
				delete(o.by, name)
			case old != nil && old.GetUID() != object.GetUID():
				inv.Delete(old)
				inv.Update(object)
				o.by[name] = object
			default:
				inv.Update(object)
				o.by[name] = object
			}
			listed := New(Options{})
			for _, name := range slices.Sorted(maps.Keys(o.by)) {
				listed.Update(o.by[name])
			}
			if diff := cmp.Diff(textOf(t, described(listed)), textOf(t, described(inv))); diff != "" {
				t.Fatalf("after an event of %s (-listed +seen):\n%s", name, diff)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(o.by)) {
			inv.Delete(o.by[name])
		}
		// An attempt ends after its Placement was deleted.
		for _, name := range []string{"p", "q"} {
			inv.Claim(Key{Namespace: "n", Name: name}, rapid.SampledFrom([][]string{nil, {"c1"}}).Draw(t, "claimed"))
			inv.Claim(Key{Namespace: "n", Name: name}, nil)
		}
		left := map[string]int{
			"names": len(inv.names.index), "sets": len(inv.sets), "bindings": len(inv.bindings), "placements": len(inv.placements), "namespaces": len(inv.byNamespace),
			"readers": len(inv.readers), "pages": len(inv.pages.byName), "pages of Placements": len(inv.pages.byPlacement), "pages of clusters": len(inv.pages.byIndex),
			"taken": len(inv.pages.taken), "deleted": len(inv.pages.deleted), "counts": len(inv.counts.histogram),
			"records": len(inv.records.byName), "records of Placements": len(inv.records.byPlacement), "policies": len(inv.disruptionPolicies),
			"evictions": len(inv.evictions.byPlacement), "evicted Placements": len(inv.evictions.byName), "order": len(inv.order.sorted) + len(inv.order.added),
		}
		maps.DeleteFunc(left, func(_ string, n int) bool { return n == 0 })
		if len(left) > 0 || len(inv.names.free) != len(inv.names.slots) {
			t.Fatalf("left: %v, and %d of %d names", left, len(inv.names.slots)-len(inv.names.free), len(inv.names.slots))
		}
	})
}

// TestLastIsReadFromPages: a new process takes what was published, and its revision, from the
// pages.
func TestLastIsReadFromPages(t *testing.T) {
	inv := New(Options{})
	inv.Update(fixture.Placement("n", "p").Obj())
	page := fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists("b", "a").Obj()
	page.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: "3"}
	inv.Update(page)
	last := inv.Subject(Key{Namespace: "n", Name: "p"}).Last
	if last == nil || last.Revision != 3 || !last.FromPages || !slices.Equal(last.Names, []string{"a", "b"}) {
		t.Errorf("got %+v", last)
	}
}

// TestLimitOfAQueue is in the Snapshot; without queues there is none.
func TestLimitOfAQueue(t *testing.T) {
	inv := New(Options{})
	inv.Update(fixture.Placement("n", "p").Obj())
	for want, queue := range map[int]*framework.QueueAdmission{-1: nil, 4: {Limit: 4}} {
		if got := inv.Snapshot(Key{Namespace: "n", Name: "p"}, fixture.Now, queue).Limit; got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}

// TestInvalidSetsHaveNoMembers: a set whose selector or type is invalid.
func TestInvalidSetsHaveNoMembers(t *testing.T) {
	invalid := fixture.SelectorSet("s", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}})
	unknown := fixture.Set("s")
	unknown.Spec.ClusterSelector.SelectorType = "Other"
	for name, set := range map[string]client.Object{"selector": invalid, "type": unknown} {
		t.Run(name, func(t *testing.T) {
			inv := New(Options{})
			inv.Update(fixture.Placement("n", "p").Obj())
			inv.Update(fixture.Binding("n", "s"))
			inv.Update(set)
			inv.Update(fixture.Cluster("c").Set("s").Obj())
			if sets := inv.Snapshot(Key{Namespace: "n", Name: "p"}, fixture.Now, nil).Sets; len(sets) != 1 || sets[0].Members.Len() != 0 {
				t.Errorf("got %+v", sets)
			}
		})
	}
}

// TestReservationsEnd: reservations count until the clusters are published, or the Placement is
// deleted; then no name is left.
func TestReservationsEnd(t *testing.T) {
	key := Key{Namespace: "n", Name: "p"}
	for name, end := range map[string]func(*Inventory){
		"unreserved": func(inv *Inventory) { inv.Claim(key, nil) },
		"replaced":   func(inv *Inventory) { inv.Claim(key, nil) },
		"deleted":    func(inv *Inventory) { inv.Delete(fixture.Placement("n", "p").Obj()) },
		"published, removed": func(inv *Inventory) {
			for _, names := range [][]string{{"c1", "c2"}, nil} {
				inv.SetPublished(inv.Subject(key), &framework.Published{Names: names})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inv := New(Options{})
			inv.Update(fixture.Placement("n", "p").Obj())
			inv.Claim(key, []string{"c1", "c2", "c1"})
			if s := inv.Snapshot(key, fixture.Now, nil); s.Subject.Entries.Clusters.Len() != 2 {
				t.Errorf("%d are counted", s.Subject.Entries.Clusters.Len())
			}
			end(inv)
			if len(inv.names.index)+len(inv.counts.histogram) > 0 {
				t.Errorf("left: %v, %v", inv.names.index, inv.counts.histogram)
			}
		})
	}
}
