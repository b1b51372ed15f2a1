package inventory

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// evictionFor excludes a cluster from Placement n/p until a second after Now.
func evictionFor(name, cluster string, second int) *berthv1alpha1.PlacementEviction {
	e := &berthv1alpha1.PlacementEviction{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), CreationTimestamp: fixture.At(0)}}
	e.Spec = berthv1alpha1.PlacementEvictionSpec{Placement: "p", Cluster: cluster, ExcludeForSeconds: 60}
	e.Status.Conditions = []metav1.Condition{{Type: berthv1alpha1.EvictionExecuted, Status: metav1.ConditionTrue, LastTransitionTime: fixture.At(second - 60)}}
	return e
}

// TestSnapshot: all that one Placement sees.
func TestSnapshot(t *testing.T) {
	inv := New(Options{})
	pl := fixture.Placement("n", "p").Sets("s1").Obj()
	inv.Update(pl)
	for _, set := range []string{"s1", "s2"} {
		inv.Update(fixture.Set(set))
		inv.Update(fixture.Binding("n", set))
	}
	inv.Update(fixture.Binding("n", "gone"))
	for _, c := range []fixture.ClusterBuilder{fixture.Cluster("c2").Set("s1"), fixture.Cluster("c1").Set("s1"), fixture.Cluster("c3").Set("s2")} {
		inv.Update(c.Obj())
	}
	inv.Update(fixture.Score("c1", "r").Value("v", 1).Obj())
	inv.Update(fixture.Page("n", "p-decision-2").Of("p").OwnedBy("p").Lists("c1", "lost").Obj())
	inv.Update(fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Lists("c1").Obj())
	c := changes.NewChange([]string{"c1", "lost"}, []string{"c2", "lost"})
	record := changes.NewRecord(pl, 0, 3, c)
	inv.Update(record)
	inv.Update(fixture.ApprovalPolicy("n", "b", "p"))
	inv.Update(fixture.ApprovalPolicy("n", "a", "p"))
	unchecked, earlier := evictionFor("unchecked", "c3", 5), evictionFor("earlier", "c4", 5)
	unchecked.Status.Conditions, earlier.Spec.Placement = nil, "q"
	for _, e := range []*berthv1alpha1.PlacementEviction{evictionFor("x", "c1", 1), evictionFor("y", "c1", 3), evictionFor("z", "c1", 2), evictionFor("v", "b1", 4), unchecked, earlier} {
		inv.Update(e)
	}
	indexes := func(names ...string) []int {
		var all []int
		for _, name := range names {
			all = append(all, inv.names.index[name])
		}
		slices.Sort(all)
		return all
	}
	membersOf := func(set framework.Bitset) []int {
		var all []int
		for i := range set.All {
			all = append(all, i)
		}
		return all
	}
	key := Key{Namespace: "n", Name: "p"}
	check := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	s := inv.Snapshot(key, fixture.Now, nil)
	check("bound sets", []string{"s1", "s2"}, s.BoundSets)
	check("members of bound sets", [][]int{indexes("c1", "c2"), indexes("c3")}, [][]int{membersOf(s.Bound[0].Members), membersOf(s.Bound[1].Members)})
	if len(s.Sets) != 1 || s.Sets[0].Name != "s1" {
		t.Errorf("uses %d sets", len(s.Sets))
	}
	check("order", true, s.ByName(s.Clusters.Get(indexes("c1")[0]), s.Clusters.Get(indexes("c2")[0])) < 0)
	check("published", indexes("c1", "lost"), membersOf(s.Subject.LastClusters))
	check("entries", indexes("c1", "lost"), membersOf(s.Subject.Entries.Clusters))
	check("entries of c1", int32(1), s.Subject.Entries.Of(indexes("c1")[0]))
	check("decisions of c1", int32(1), s.Counts.ByIndex.Get(indexes("c1")[0]))
	check("incumbents of a change without status", indexes("c1", "c2", "lost"), membersOf(s.Subject.Incumbents))
	check("leaving", indexes("c1"), membersOf(s.Subject.Leaving))
	check("score", int32(1), s.Scores["r"].Get(indexes("c1")[0]).Status.Scores[0].Value)
	check("pages", []string{"p-decision-1", "p-decision-2"}, []string{s.Subject.Pages[0].Name, s.Subject.Pages[1].Name})
	check("policies", []string{"a", "b"}, []string{s.Subject.DisruptionPolicies[0].Name, s.Subject.DisruptionPolicies[1].Name})
	check("evictions", []framework.Eviction{
		{Cluster: "b1", Name: "v", Until: fixture.At(4).Time}, {Cluster: "c1", Name: "y", Until: fixture.At(3).Time},
	}, s.Subject.Evictions)
	progressing := record.DeepCopy()
	progressing.Status.Phase = berthv1alpha1.PhaseProgressing
	inv.Update(progressing)
	s = inv.Snapshot(key, fixture.Now, nil)
	check("incumbents of a change in progress", indexes("c2", "lost"), membersOf(s.Subject.Incumbents))
	check("published, still", indexes("c1", "lost"), membersOf(s.Subject.LastClusters))
	check("leaving, still", indexes("c1"), membersOf(s.Subject.Leaving))
}

// TestCompare: the parts in which two states of a cluster differ, and the first of them.
func TestCompare(t *testing.T) {
	inv := New(Options{})
	base := func() fixture.ClusterBuilder {
		return fixture.Cluster("c").Label("a", "x").Claim("k", "1").Taint("t", "v", v1alpha1.TaintEffectNoSelect).
			Allocatable("cpu", "4").Allocatable("memory", "8Gi")
	}
	old := inv.newCluster(0, base().Obj(), nil, nil)
	edited := func(change func(*v1alpha1.ManagedCluster)) *v1alpha1.ManagedCluster {
		c := base().Obj()
		change(c)
		return c
	}
	for name, tc := range map[string]struct {
		cluster *v1alpha1.ManagedCluster
		first   bool // there is no earlier state
		want    difference
		text    string
	}{
		"new":                 {cluster: base().Obj(), first: true, want: difference{anything: true, membership: true}, text: "added"},
		"a heartbeat":         {cluster: edited(func(c *v1alpha1.ManagedCluster) { c.ResourceVersion = "2" }), text: "changed"},
		"a deletion":          {cluster: base().Deleting().Obj(), want: difference{anything: true, membership: true}, text: "being deleted"},
		"a label":             {cluster: base().Label("a", "y").Label("b", "z").Obj(), want: difference{anything: true, labels: map[string]bool{"a": true, "b": true}}, text: "labels"},
		"a label less":        {cluster: edited(func(c *v1alpha1.ManagedCluster) { delete(c.Labels, "a") }), want: difference{anything: true, labels: map[string]bool{"a": true}}, text: "labels"},
		"a claim":             {cluster: base().Claim("k", "2").Obj(), want: difference{anything: true, claims: map[string]bool{"k": true}}, text: "claims"},
		"a taint":             {cluster: base().Taint("u", "", v1alpha1.TaintEffectNoSelect).Obj(), want: difference{anything: true, taints: true}, text: "taints"},
		"cpu":                 {cluster: base().Allocatable("cpu", "5").Obj(), want: difference{anything: true, cpu: true, resources: map[string]bool{"cpu": true}}, text: "allocatable"},
		"memory":              {cluster: base().Allocatable("memory", "9Gi").Obj(), want: difference{anything: true, memory: true, resources: map[string]bool{"memory": true}}, text: "allocatable"},
		"gpu":                 {cluster: base().Allocatable("gpu", "1").Obj(), want: difference{anything: true, resources: map[string]bool{"gpu": true}}, text: "allocatable"},
		"capacity of another": {cluster: base().Capacity("gpu", "1").Obj(), want: difference{anything: true}, text: "changed"},
		"an annotation":       {cluster: base().Annotation("a", "b").Obj(), want: difference{anything: true}, text: "changed"},
		"a condition":         {cluster: base().Condition("Available", "True", fixture.At(0)).Obj(), want: difference{anything: true}, text: "changed"},
	} {
		t.Run(name, func(t *testing.T) {
			before := old
			if tc.first {
				before = nil
			}
			got := compare(before, inv.newCluster(0, tc.cluster, before, nil))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(difference{})); diff != "" || got.changed(before, tc.cluster) != tc.text {
				t.Errorf("%s (-want +got):\n%s", got.changed(before, tc.cluster), diff)
			}
		})
	}
}

// TestAmountNeedsCapacity: an allocatable amount without a capacity is not known.
func TestAmountNeedsCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		cluster fixture.ClusterBuilder
		want    framework.Amount
	}{
		"both":              {cluster: fixture.Cluster("c").Allocatable("cpu", "4"), want: framework.Amount{Value: 4, Known: true}},
		"capacity alone":    {cluster: fixture.Cluster("c").Capacity("cpu", "4")},
		"allocatable alone": {cluster: fixture.Cluster("c").OnlyAllocatable("cpu", "4")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := amount(tc.cluster.Obj(), "cpu"); got != tc.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestVersionsOrderObjects: only resource versions of one object are compared.
func TestVersionsOrderObjects(t *testing.T) {
	of := func(uid, version string) metav1.Object {
		return &metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}
	}
	for name, tc := range map[string]struct {
		a, b metav1.Object
		want bool
	}{
		"earlier":            {a: of("u", "9"), b: of("u", "10"), want: true},
		"the same":           {a: of("u", "9"), b: of("u", "9")},
		"later":              {a: of("u", "10"), b: of("u", "9")},
		"of another":         {a: of("u", "9"), b: of("v", "10")},
		"no version":         {a: of("u", ""), b: of("u", "10")},
		"compared with none": {a: of("u", "9"), b: of("u", "")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := older(tc.a, tc.b); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestEditOfAPlacement: what was published last is kept for the same object alone, and its new
// reads count.
func TestEditOfAPlacement(t *testing.T) {
	key := Key{Namespace: "n", Name: "p"}
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.Placement)
		want bool
	}{
		"an edit":      {edit: func(pl *v1alpha1.Placement) { pl.Generation++; pl.Labels = map[string]string{"a": "b"} }, want: true},
		"a recreation": {edit: func(pl *v1alpha1.Placement) { pl.UID = "second" }},
	} {
		t.Run(name, func(t *testing.T) {
			inv := New(Options{})
			inv.Update(fixture.Set("s"))
			inv.Update(fixture.Binding("n", "s"))
			inv.Update(fixture.Placement("n", "p").Predicate(fixture.MatchLabel("a", "x")).Obj())
			inv.SetPublished(inv.Subject(key), &framework.Published{Revision: 4})
			pl := fixture.Placement("n", "p").Predicate(fixture.MatchLabel("b", "x")).Obj()
			tc.edit(pl)
			inv.Update(pl)
			if last := inv.Subject(key).Last; (last != nil) != tc.want {
				t.Errorf("last is %+v", last)
			}
			inv.Update(fixture.Cluster("c").Set("s").Obj())
			if got := inv.Update(fixture.Cluster("c").Set("s").Label("a", "y").Obj()); len(got) > 0 {
				t.Errorf("the label that it no longer reads affects %v", got)
			}
			if got := inv.Update(fixture.Cluster("c").Set("s").Label("a", "y").Label("b", "y").Obj()); len(got) != 1 {
				t.Errorf("the label that it reads now affects %v", got)
			}
		})
	}
}

// TestAnnouncementEnds: after an announcement has ended, the same event is external.
func TestAnnouncementEnds(t *testing.T) {
	inv := New(Options{})
	inv.Update(fixture.Placement("n", "p").Obj())
	page := fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Version("5").Lists("c").Obj()
	end := inv.Announce(page, false)
	end()
	if got := inv.Update(page); len(got) != 1 {
		t.Errorf("affected: %v", got)
	}
	if len(inv.pages.announced) > 0 || inv.pages.seen != 5 {
		t.Errorf("left: %v, seen %d", inv.pages.announced, inv.pages.seen)
	}
	deleted := page.DeepCopy()
	deleted.ResourceVersion = "7"
	inv.Delete(deleted)
	inv.AssumePage(page, false)
	if s := inv.Subject(Key{Namespace: "n", Name: "p"}); len(s.Pages) > 0 || inv.pages.seen != 7 {
		t.Errorf("a deleted page is back, seen %d", inv.pages.seen)
	}
}

// TestSnapshotHasTheTimeOfDay: replay has no monotonic clock, which differs from the time of day
// while the clock is adjusted.
func TestSnapshotHasTheTimeOfDay(t *testing.T) {
	inv := New(Options{})
	inv.Update(fixture.Placement("n", "p").Obj())
	now := time.Now()
	if got := inv.Snapshot(Key{Namespace: "n", Name: "p"}, now, nil).Now; got != now.Round(0) {
		t.Errorf("the Snapshot has %s, want %s", got, now.Round(0))
	}
}
