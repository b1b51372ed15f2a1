package inventory

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func readyPolicy(change func(r *berthv1alpha1.ReadinessRequirement)) *berthv1alpha1.DisruptionPolicy {
	policy := fixture.ApprovalPolicy("ns", "careful")
	policy.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: "apps"}
	change(policy.Spec.Readiness)
	return policy
}

func object(namespace, name, cluster string, ready bool, labels map[string]string) ReadyObject {
	return ReadyObject{Key: Key{Namespace: namespace, Name: name}, Labels: labels, Cluster: cluster, Ready: ready}
}

// forPlacements returns an object that counts for the Placements of a namespace.
func forPlacements(namespace string, o ReadyObject) ReadyObject {
	o.PlacementNamespace = namespace
	return o
}

// TestNotReady: which of the published clusters c1, c2 and c3 are not ready, and why.
func TestNotReady(t *testing.T) {
	web, other := map[string]string{"app": "web", "of": "p"}, map[string]string{"app": "other", "of": "q"}
	for name, tc := range map[string]struct {
		policy  func(r *berthv1alpha1.ReadinessRequirement)
		objects []ReadyObject
		want    map[string]string
	}{
		"one object each": {nil, []ReadyObject{object("ns", "a", "c1", true, nil), object("ns", "b", "c2", false, nil)},
			map[string]string{"c2": "apps: 0 of 1 objects ready", "c3": "apps: no object matches"}},
		"all objects must be ready": {nil, []ReadyObject{object("ns", "a", "c1", true, nil), object("ns", "b", "c1", false, nil), object("ns", "c", "c2", true, nil), object("ns", "d", "c3", true, nil)},
			map[string]string{"c1": "apps: 1 of 2 objects ready"}},
		"another namespace": {nil, []ReadyObject{object("else", "a", "c1", true, nil), object("ns", "b", "c2", true, nil), object("ns", "c", "c3", true, nil)},
			map[string]string{"c1": "apps: no object matches"}},
		"the clusters' namespaces": {nil, []ReadyObject{forPlacements("ns", object("c1", "a", "c1", true, nil)), forPlacements("ns", object("c2", "b", "c2", true, nil)), forPlacements("else", object("c2", "b2", "c2", false, nil)), forPlacements("else", object("c3", "c", "c3", true, nil))},
			map[string]string{"c3": "apps: no object matches"}},
		"a selector": {func(r *berthv1alpha1.ReadinessRequirement) {
			r.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}, []ReadyObject{object("ns", "a", "c1", true, web), object("ns", "b", "c2", true, other), object("ns", "c", "c3", true, web), object("ns", "d", "c3", false, other)},
			map[string]string{"c2": "apps: no object matches"}},
		"the label of the Placement": {func(r *berthv1alpha1.ReadinessRequirement) { r.PlacementLabel = "of" },
			[]ReadyObject{object("ns", "a", "c1", true, web), object("ns", "b", "c2", true, other), object("ns", "c", "c3", true, nil)},
			map[string]string{"c2": "apps: no object matches", "c3": "apps: no object matches"}},
		"an object without a cluster": {nil, []ReadyObject{object("ns", "a", "", true, nil), object("ns", "b", "c1", true, nil), object("ns", "c", "c2", true, nil), object("ns", "d", "c3", true, nil)}, nil},
		"too many labels": {func(r *berthv1alpha1.ReadinessRequirement) { r.PlacementLabel = "of" },
			[]ReadyObject{object("ns", "a", "c1", true, map[string]string{"x": strings.Repeat("x", maxLabelBytes)}), object("ns", "b", "c2", true, web), object("ns", "c", "c3", true, web)},
			map[string]string{"c1": "apps: 0 of 1 objects ready"}},
		"a name that no cluster can have": {nil,
			[]ReadyObject{object("ns", "a", strings.Repeat("c", maxClusterName+1), false, nil), object("ns", "b", "c1", true, nil), object("ns", "c", "c2", true, nil), object("ns", "d", "c3", true, nil)}, nil},
		"a source that is not read": {func(r *berthv1alpha1.ReadinessRequirement) { r.Source = "elsewhere" }, nil,
			map[string]string{"c1": "elsewhere: not read yet", "c2": "elsewhere: not read yet", "c3": "elsewhere: not read yet"}},
		"an invalid selector": {func(r *berthv1alpha1.ReadinessRequirement) {
			r.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}
		}, []ReadyObject{object("ns", "a", "c1", true, nil)},
			map[string]string{"c1": "apps: no object matches", "c2": "apps: no object matches", "c3": "apps: no object matches"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.policy == nil {
				tc.policy = func(*berthv1alpha1.ReadinessRequirement) {}
			}
			inv := New(Options{})
			inv.Update(fixture.Placement("ns", "p").Obj())
			inv.Update(readyPolicy(tc.policy))
			inv.ReplaceReadiness("apps", tc.objects, nil)
			inv.SetPublished(inv.Subject(Key{Namespace: "ns", Name: "p"}), &framework.Published{Names: []string{"c1", "c2", "c3"}})
			got := inv.Snapshot(Key{Namespace: "ns", Name: "p"}, fixture.Now, nil).NotReady
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("not ready (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReadinessAffects: an object affects a Placement with a change in progress, or one whose
// attempts cannot be skipped, if it counts for one of its clusters and differs from before.
func TestReadinessAffects(t *testing.T) {
	p := Key{Namespace: "ns", Name: "p"}
	inv := New(Options{})
	placement := fixture.Placement("ns", "p").Obj()
	placement.UID = "u1"
	inv.Update(placement)
	inv.Update(readyPolicy(func(*berthv1alpha1.ReadinessRequirement) {}))
	expect := func(what string, want bool, got []Key) {
		t.Helper()
		if (len(got) == 1 && got[0] == p) != want {
			t.Errorf("%s affects %v, want %t", what, got, want)
		}
	}
	expect("a list before the first attempt", true, inv.ReplaceReadiness("apps", nil, nil))
	settle := func() { inv.Settle(inv.Snapshot(p, time.Now(), nil), &framework.Settled{}) }
	settle()
	expect("a list without a change in progress", false, inv.ReplaceReadiness("apps", nil, nil))
	record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-1", UID: "r1", ResourceVersion: "5", OwnerReferences: []metav1.OwnerReference{
		{Kind: "Placement", Name: "p", UID: "u1", Controller: new(true)},
	}}}
	record.Status.Phase = berthv1alpha1.PhaseProgressing
	inv.Update(record)
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("c1").Obj())
	expect("a list", true, inv.ReplaceReadiness("apps", nil, nil))
	expect("a list of another source", false, inv.ReplaceReadiness("others", nil, nil))
	expect("a new object", true, inv.SetReadiness("apps", object("ns", "a", "c1", false, nil)))
	expect("the same object", false, inv.SetReadiness("apps", object("ns", "a", "c1", false, nil)))
	expect("a ready object", true, inv.SetReadiness("apps", object("ns", "a", "c1", true, nil)))
	expect("an object of a cluster that is not published", false, inv.SetReadiness("apps", object("ns", "b", "c2", true, nil)))
	expect("an object of another namespace", false, inv.SetReadiness("apps", object("else", "a", "c1", true, nil)))
	expect("an object in the cluster's namespace for other Placements", false, inv.SetReadiness("apps", forPlacements("else", object("c1", "a", "c1", true, nil))))
	expect("an object in the cluster's namespace", true, inv.SetReadiness("apps", forPlacements("ns", object("c1", "a", "c1", true, nil))))
	expect("the same for other Placements", true, inv.SetReadiness("apps", forPlacements("else", object("c1", "a", "c1", true, nil))))
	expect("an object that is deleted", true, inv.DeleteReadiness("apps", Key{Namespace: "ns", Name: "a"}))
	expect("an object that is deleted twice", false, inv.DeleteReadiness("apps", Key{Namespace: "ns", Name: "a"}))
	expect("too many objects of the namespace", true, inv.FailReadinessNamespace("apps", "ns", "too many"))
	expect("a failure", true, inv.FailReadiness("apps", "down"))
	expect("an object after a failure", false, inv.SetReadiness("apps", object("ns", "a", "c1", true, nil)))
	record = record.DeepCopy()
	record.Status.Phase, record.ResourceVersion = berthv1alpha1.PhasePublished, "9"
	inv.Update(record)
	settle()
	expect("a list after the change", false, inv.ReplaceReadiness("apps", nil, nil))
}

// TestReadinessOfUnknownPolicies: in a namespace with many policies, only an attempt finds those of
// a Placement. Until then each list of readiness causes one.
func TestReadinessOfUnknownPolicies(t *testing.T) {
	const most = berthv1alpha1.MaxPoliciesPerPlacement
	for policies, affected := range map[int]int{most: 0, most + 1: 1} {
		inv := New(Options{})
		inv.Update(fixture.Placement("ns", "p").Obj())
		for number := range policies {
			inv.Update(fixture.ApprovalPolicy("ns", fmt.Sprint("policy-", number)))
		}
		if got := inv.ReplaceReadiness("apps", nil, nil); len(got) != affected {
			t.Errorf("%d policies: a list affects %v", policies, got)
		}
		inv.Snapshot(Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
		if got := inv.ReplaceReadiness("apps", nil, nil); len(got) > 0 {
			t.Errorf("%d policies: a list affects %v after an attempt", policies, got)
		}
	}
}

// TestReadinessInputs: a list becomes inputs of few objects, each for the Placements of one
// namespace, so that a recording can divide them.
func TestReadinessInputs(t *testing.T) {
	var inputs []Input
	live := New(Options{OnInput: func(in Input) { inputs = append(inputs, in) }})
	var objects []ReadyObject
	for i := range 3*maxReadinessInput + 1 {
		objects = append(objects, forPlacements([]string{"a", "b"}[i%2], object("c1", fmt.Sprint(i), "c1", true, nil)))
	}
	live.ReplaceReadiness("apps", objects, map[string]string{"bad": "too many"})
	replayed := New(Options{})
	for _, in := range inputs {
		for _, o := range in.Readiness.Objects {
			if len(in.Readiness.Objects) > maxReadinessInput || o.PlacementNamespace != in.Readiness.Objects[0].PlacementNamespace {
				t.Errorf("an input has %d objects, of %s and %s", len(in.Readiness.Objects), in.Readiness.Objects[0].PlacementNamespace, o.PlacementNamespace)
			}
		}
		replayed.Apply(in)
	}
	contents := func(inv *Inventory) (all []ReadinessInput) {
		inv.Contents(func(_ int64, inputs []Input) {
			for _, in := range inputs {
				all = append(all, *in.Readiness)
			}
		})
		return all
	}
	if diff := cmp.Diff(contents(live), contents(replayed)); diff != "" || len(inputs) != 5 {
		t.Errorf("%d inputs (-live +replayed):\n%s", len(inputs), diff)
	}
}

// TestReadinessSources: a source is used as long as a policy names it.
func TestReadinessSources(t *testing.T) {
	inv := New(Options{})
	used := func(want int) {
		t.Helper()
		if got := inv.ReadinessSources(); len(got) != want {
			t.Errorf("used sources: %v, want %d", got, want)
		}
	}
	used(0)
	policy := readyPolicy(func(*berthv1alpha1.ReadinessRequirement) {})
	inv.Update(policy)
	used(1)
	inv.Update(fixture.ApprovalPolicy("ns", "another"))
	used(1)
	inv.Delete(policy)
	used(0)
	inv.Update(readyPolicy(func(r *berthv1alpha1.ReadinessRequirement) { r.Source = "cluster" }))
	used(0)
	inv.ReplaceReadiness("apps", []ReadyObject{object("ns", "a", "c1", true, nil)}, nil)
	inv.ForgetReadiness("apps")
	if got := inv.ReadinessFailure("apps", "ns"); got != "not read yet" {
		t.Errorf("a forgotten source: %q", got)
	}
}

// BenchmarkReadiness: 50,000 Applications of 100 Placements on 500 clusters, and one that becomes
// ready while no change waits for it. It reports the bytes of an object.
func BenchmarkReadiness(b *testing.B) {
	var objects []ReadyObject
	for i := range 50_000 {
		app, cluster := fmt.Sprintf("app-%d", i/500), fmt.Sprintf("cluster-%d", i%500)
		objects = append(objects, object("argocd", app+"-"+cluster, cluster, true, map[string]string{"app.kubernetes.io/instance": app, "team": "shop"}))
	}
	inv := New(Options{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	inv.ReplaceReadiness("apps", objects, nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for i := 0; b.Loop(); i++ {
		o := objects[i%len(objects)]
		o.Ready = i%2 == 0
		inv.SetReadiness("apps", o)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(objects)), "bytes/object")
	runtime.KeepAlive(objects)
}

// progressing is the record of a Placement's change in progress.
func progressing(p *v1alpha1.Placement) *berthv1alpha1.PlacementChange {
	record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "-1", UID: p.UID, ResourceVersion: "5", OwnerReferences: []metav1.OwnerReference{
		{Kind: "Placement", Name: p.Name, UID: p.UID, Controller: new(true)},
	}}}
	record.Status.Phase = berthv1alpha1.PhaseProgressing
	return record
}

// TestClusterSourceSelector: with the source cluster, a label that the policy selects affects the
// Placements with a change in progress.
func TestClusterSourceSelector(t *testing.T) {
	inv := New(Options{})
	inv.Update(readyPolicy(func(r *berthv1alpha1.ReadinessRequirement) {
		r.Source, r.Selector = "cluster", &metav1.LabelSelector{MatchLabels: map[string]string{"checked": "yes"}}
	}))
	p := fixture.Placement("ns", "p").Obj()
	p.UID = "u1"
	inv.Update(p)
	inv.Update(progressing(p))
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("c1").Obj())
	c1 := func() fixture.ClusterBuilder {
		return fixture.Cluster("c1").Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, metav1.Time{})
	}
	inv.Update(fixture.Cluster("c1").Obj())
	for _, step := range []struct {
		name    string
		cluster *v1alpha1.ManagedCluster
		want    int
	}{
		{"without the label", c1().Obj(), 0},
		{"another label", c1().Label("other", "yes").Obj(), 0},
		{"the label", c1().Label("checked", "yes").Obj(), 1},
		{"not available", fixture.Cluster("c1").Label("checked", "yes").Obj(), 1},
		{"neither", fixture.Cluster("c1").Obj(), 0},
	} {
		if got := inv.Update(step.cluster); len(got) != step.want {
			t.Errorf("%s: affected are %v, want %d", step.name, got, step.want)
		}
	}
}

// TestFailedNamespace: the objects of a namespace with too many do not count, those of others do.
func TestFailedNamespace(t *testing.T) {
	for _, inCluster := range []bool{false, true} {
		inv := New(Options{})
		for _, namespace := range []string{"ns", "other"} {
			inv.Update(fixture.Placement(namespace, "p").Obj())
			policy := readyPolicy(func(*berthv1alpha1.ReadinessRequirement) {})
			policy.Namespace = namespace
			inv.Update(policy)
			inv.SetPublished(inv.Subject(Key{Namespace: namespace, Name: "p"}), &framework.Published{Names: []string{"c1", "c2"}})
		}
		notReady := func(namespace string) string {
			return fmt.Sprint(inv.Snapshot(Key{Namespace: namespace, Name: "p"}, fixture.Now, nil).NotReady)
		}
		var objects []ReadyObject
		for _, cluster := range []string{"c1", "c2"} {
			for _, namespace := range []string{"ns", "other"} {
				o := object(namespace, namespace+cluster, cluster, true, nil)
				if inCluster {
					o.Namespace, o.PlacementNamespace = cluster, namespace
				}
				objects = append(objects, o)
			}
		}
		inv.ReplaceReadiness("apps", objects, nil)
		const failed, wantNs, wantOther, wantPolicy = "ns", "map[c1:apps: too many c2:apps: too many]", "map[]", "too many"
		for _, fails := range []func(){
			func() { inv.FailReadinessNamespace("apps", failed, "too many") },
			func() { inv.SetReadiness("apps", objects[0]) },
			func() { inv.DeleteReadiness("apps", objects[0].Key) },
			func() { inv.ReplaceReadiness("apps", objects, map[string]string{failed: "too many"}) },
		} {
			fails()
			if got, other, policy := notReady("ns"), notReady("other"), inv.ReadinessFailure("apps", failed); got != wantNs || other != wantOther || policy != wantPolicy {
				t.Errorf("in the clusters' namespaces %t: %s, other namespace %s, policies %q", inCluster, got, other, policy)
			}
		}
		if inv.ReplaceReadiness("apps", objects, nil); notReady("ns") != "map[]" || inv.ReadinessFailure("apps", failed) != "" {
			t.Errorf("in the clusters' namespaces %t, when all objects are kept again: %s", inCluster, notReady("ns"))
		}
	}
}

// TestReadinessCounts: after random events, the counts that followed them are those of all objects.
func TestReadinessCounts(t *testing.T) {
	var placements []*placement
	var requirements []*changes.Readiness
	for _, name := range []string{"p", "q", "r"} {
		placements = append(placements, &placement{key: Key{Namespace: "ns", Name: name}})
	}
	for _, change := range []func(r *berthv1alpha1.ReadinessRequirement){
		func(*berthv1alpha1.ReadinessRequirement) {},
		func(r *berthv1alpha1.ReadinessRequirement) { r.PlacementLabel = "of" },
		func(r *berthv1alpha1.ReadinessRequirement) {
			r.PlacementLabel, r.Selector = "of", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		},
		func(r *berthv1alpha1.ReadinessRequirement) {
			r.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "invalid"}}
		},
	} {
		r, _ := changes.ReadinessOf(readyPolicy(change))
		requirements = append(requirements, r)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := newReadinessSource(&ReadinessInput{})
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			o := object("ns", rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "cluster"),
				rapid.Bool().Draw(t, "ready"), map[string]string{
					"of": rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "of"), "app": rapid.SampledFrom([]string{"web", "other"}).Draw(t, "app"),
				})
			switch rapid.SampledFrom([]string{"set", "set", "set", "remove", "part", "large", "many"}).Draw(t, "event") {
			case "large":
				o.Labels["x"] = strings.Repeat("x", maxLabelBytes)
				s.set(o)
			case "remove":
				s.remove(o.Key)
			case "part":
				for _, scope := range s.scopes {
					steps := 1
					scope.count(placements[0], requirements[len(s.scopes)%2], &steps)
				}
			case "many":
				if scope := s.scopes[Key{Namespace: "ns", Name: o.Cluster}]; scope != nil {
					scope.size = maxReadyCounts
				}
			default:
				s.set(o)
			}
			p, r := rapid.SampledFrom(placements).Draw(t, "placement"), rapid.SampledFrom(requirements).Draw(t, "requirement")
			for key, scope := range s.scopes {
				var want readyCount
				for _, names := range s.objects {
					for _, o := range names {
						if o.scope() == key && o.matches(p, r) {
							want.add(o, 1)
						}
					}
				}
				steps := math.MaxInt
				if rapid.Bool().Draw(t, "later") {
					continue
				}
				if got, complete := scope.count(p, r, &steps); got != want || !complete || len(scope.objects) == 0 {
					t.Fatalf("%v: %+v, want %+v", key, got, want)
				}
			}
		}
	})
}

// TestReadinessIsCountedInParts: before an attempt, the objects that count for a Placement are
// counted in parts, so that no event waits for many of them; the Snapshot counts none.
func TestReadinessIsCountedInParts(t *testing.T) {
	const objects = 3 * maxReadinessPart
	inv, key := New(Options{}), Key{Namespace: "ns", Name: "p"}
	inv.Update(fixture.Placement("ns", "p").Obj())
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("c1", "c2").Obj())
	var all []ReadyObject
	for i := range objects {
		all = append(all, object("ns", fmt.Sprint("a", i), "c1", true, nil), object("ns", fmt.Sprint("b", i), "c2", i > 0, nil))
	}
	inv.ReplaceReadiness("apps", all, nil)
	inv.Update(readyPolicy(func(*berthv1alpha1.ReadinessRequirement) {}))
	scopes := inv.readiness["apps"].scopes
	counted := func() (n int) {
		for _, scope := range scopes {
			for _, counts := range scope.counts {
				for _, c := range counts.byValue {
					n += c.first
				}
			}
		}
		return n
	}
	r := inv.requirementsOf(inv.placements[key])[0]
	for at, before := 0, 0; at < 2; before = counted() {
		if at = inv.countReady(key, r, []string{"c1", "c2"}, at); counted()-before > maxReadinessPart {
			t.Fatalf("%d objects are counted at once", counted()-before)
		}
	}
	scopes[Key{Namespace: "ns", Name: "c1"}].counts, scopes[Key{Namespace: "ns", Name: "c2"}].counts = nil, nil
	if inv.PrepareReadiness(key); counted() != 2*objects {
		t.Errorf("%d of %d objects are counted before the attempt", counted(), 2*objects)
	}
	want := map[string]string{"c2": fmt.Sprintf("apps: %d of %d objects ready", objects-1, objects)}
	if diff := cmp.Diff(want, inv.Snapshot(key, fixture.Now, nil).NotReady); diff != "" {
		t.Errorf("not ready (-want +got):\n%s", diff)
	}
}

// BenchmarkReadinessOfOneCluster: 10,000 objects of one namespace and cluster, of which one becomes
// ready before each Snapshot.
func BenchmarkReadinessOfOneCluster(b *testing.B) {
	var objects []ReadyObject
	for i := range 10_000 {
		objects = append(objects, object("ns", fmt.Sprint("app-", i), "c1", true, map[string]string{"app": fmt.Sprint("app-", i), "team": "shop"}))
	}
	inv := New(Options{})
	p := fixture.Placement("ns", "p").Obj()
	p.UID = "u1"
	inv.Update(p)
	inv.Update(readyPolicy(func(r *berthv1alpha1.ReadinessRequirement) {
		r.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	}))
	inv.Update(progressing(p))
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("c1").Obj())
	inv.ReplaceReadiness("apps", objects, nil)
	for i := 0; b.Loop(); i++ {
		o := objects[i%len(objects)]
		o.Ready = i%2 == 0
		inv.SetReadiness("apps", o)
		inv.Snapshot(Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
	}
}

// BenchmarkAvailableFlip: one of 1,000 clusters becomes available or not, while 10,000 changes are
// in progress; ten of their Placements have it.
func BenchmarkAvailableFlip(b *testing.B) {
	inv := New(Options{})
	policy := readyPolicy(func(r *berthv1alpha1.ReadinessRequirement) { r.Source = "cluster" })
	policy.Spec.Placements, policy.Spec.PlacementSelector = nil, &metav1.LabelSelector{}
	inv.Update(policy)
	for i := range 10_000 {
		p := fixture.Placement("ns", fmt.Sprintf("p-%d", i)).Obj()
		p.UID = types.UID(p.Name)
		inv.Update(p)
		inv.Update(progressing(p))
		cluster := fmt.Sprintf("c%d", i%1000)
		inv.Update(fixture.Page("ns", p.Name+"-decision-1").Of(p.Name).OwnedBy(p.Name).Lists(cluster).Obj())
		inv.SetPublished(inv.Subject(Key{Namespace: "ns", Name: p.Name}), &framework.Published{Names: []string{cluster}})
	}
	states := []*v1alpha1.ManagedCluster{
		fixture.Cluster("c7").Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, metav1.Time{}).Obj(), fixture.Cluster("c7").Obj(),
	}
	for i := 0; b.Loop(); i++ {
		if got := inv.Update(states[i%2]); len(got) != 10 {
			b.Fatalf("affected are %d", len(got))
		}
	}
}

// BenchmarkReadinessWhileProgressing: one Application becomes ready while 10,000 changes of other
// namespaces are in progress.
func BenchmarkReadinessWhileProgressing(b *testing.B) {
	inv := New(Options{})
	for i := range 10_000 {
		namespace := fmt.Sprintf("ns-%d", i/10)
		p := fixture.Placement(namespace, fmt.Sprintf("p-%d", i)).Obj()
		p.UID = types.UID(p.Name)
		inv.Update(p)
		policy := readyPolicy(func(*berthv1alpha1.ReadinessRequirement) {})
		policy.Namespace = namespace
		inv.Update(policy)
		inv.Update(progressing(p))
		inv.SetPublished(inv.Subject(Key{Namespace: p.Namespace, Name: p.Name}), &framework.Published{Names: []string{"c1"}})
	}
	inv.ReplaceReadiness("apps", nil, nil)
	for i := 0; b.Loop(); i++ {
		inv.SetReadiness("apps", object("ns-7", "a", "c1", i%2 == 0, nil))
	}
}
