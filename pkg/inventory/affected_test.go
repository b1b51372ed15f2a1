package inventory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// c1 is the state of the changed cluster before the events.
func c1() fixture.ClusterBuilder {
	return fixture.Cluster("c1").Set("s1").Label("a", "x").Label("other", "x").Claim("k", "v").
		Taint("t", "", v1alpha1.TaintEffectNoSelectIfNew).Allocatable("memory", "1Gi").Allocatable("cpu", "4")
}

// placements read different properties. Those in namespace n use set s1 (and s3, which does not
// exist), those in namespace far only s2.
func placements() []fixture.PlacementBuilder {
	return []fixture.PlacementBuilder{
		fixture.Placement("n", "plain"),
		fixture.Placement("n", "labels").Predicate(fixture.MatchLabel("a", "x")),
		fixture.Placement("n", "claims").Predicate(fixture.MatchClaim("k", metav1.LabelSelectorOpIn, "v")),
		fixture.Placement("n", "memory").Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1),
		fixture.Placement("n", "cpu").Prioritizer(v1alpha1.PrioritizerResourceAllocatableCPU, 1),
		fixture.Placement("n", "score").AddOn("r1", "v", 1),
		fixture.Placement("n", "cel").Predicate(fixture.MatchCEL("true")),
		fixture.Placement("n", "spread").Spread("zone", 1, v1alpha1.DoNotSchedule),
		fixture.Placement("n", "missing").Sets("s3"),
		fixture.Placement("far", "away"),
	}
}

// seesS1 are the Placements that use set s1.
var seesS1 = []string{"n/cel", "n/claims", "n/cpu", "n/labels", "n/memory", "n/plain", "n/score", "n/spread"}

var allOfN = []string{"n/cel", "n/claims", "n/cpu", "n/labels", "n/memory", "n/missing", "n/plain", "n/score", "n/spread"}

func fullInventory() *inventory.Inventory {
	inv := inventory.New(inventory.Options{})
	fill(inv)
	return inv
}

// fill adds the objects of fullInventory.
func fill(inv *inventory.Inventory) {
	for _, p := range placements() {
		inv.Update(p.Obj())
	}
	for _, o := range []client.Object{
		fixture.Set("s1"), fixture.Set("s2"),
		fixture.Binding("n", "s1"), fixture.Binding("n", "s3"), fixture.Binding("n", "s5"), fixture.Binding("far", "s2"),
		c1().Obj(), fixture.Cluster("c2").Set("s2").Obj(),
		fixture.Score("c1", "r1").Value("v", 5).Obj(),
		fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("7").Lists("c1", "gone").Obj(),
	} {
		inv.Update(o)
	}
}

func names(keys []inventory.Key) []string {
	var all []string
	for _, key := range keys {
		all = append(all, key.String())
	}
	return all
}

func TestAffectedPlacements(t *testing.T) {
	renamed := fixture.Binding("n", "s2")
	renamed.Spec.ClusterSet = "s1"
	nameless := fixture.Binding("n", "s2")
	nameless.Spec.ClusterSet = ""
	deleting := fixture.Binding("n", "s1")
	deleting.DeletionTimestamp, deleting.Finalizers = new(metav1.Now()), []string{"example.com/stay"}
	emptied := fixture.Binding("n", "s1")
	emptied.Spec.ClusterSet = ""
	status := fixture.Placement("n", "plain").Obj()
	status.Status.NumberOfSelectedClusters = 1
	bare := page().Version("8").Obj()
	bare.Status.Decisions = nil
	queued := page().Version("8").Obj()
	queued.Annotations = map[string]string{v1alpha1.QueueAnnotation: "root.q"}
	tests := map[string]struct {
		update client.Object
		delete client.Object
		want   []string
	}{
		"a cluster, nothing changed": {update: c1().Obj()},
		"a heartbeat: only CEL could read it": {
			update: c1().Condition("ManagedClusterConditionAvailable", metav1.ConditionTrue, fixture.At(0)).Obj(), want: []string{"n/cel"},
		},
		"another form of the same quantity": {update: c1().Allocatable("memory", "1024Mi").Obj()},
		"a label that some read":            {update: c1().Label("a", "y").Obj(), want: []string{"n/cel", "n/labels"}},
		"a label that nobody reads":         {update: c1().Label("other", "y").Obj(), want: []string{"n/cel"}},
		"a topology key":                    {update: c1().Label("zone", "z").Obj(), want: []string{"n/cel", "n/spread"}},
		"a claim":                           {update: c1().Claim("k", "w").Obj(), want: []string{"n/cel", "n/claims"}},
		"a claim said twice":                {update: c1().Claim("k", "v").Obj(), want: []string{"n/cel"}},
		"a taint":                           {update: c1().Taint("t", "", v1alpha1.TaintEffectNoSelect).Obj(), want: seesS1},
		"memory":                            {update: c1().Allocatable("memory", "2Gi").Obj(), want: []string{"n/cel", "n/memory"}},
		"cpu":                               {update: c1().Allocatable("cpu", "8").Obj(), want: []string{"n/cel", "n/cpu"}},
		"an annotation":                     {update: c1().Annotation("a", "b").Obj(), want: []string{"n/cel"}},
		"a quantity in another notation":    {update: c1().Allocatable("memory", "1073741824").Obj(), want: []string{"n/cel"}},
		"a finalizer":                       {update: marked(func(c *v1alpha1.ManagedCluster) { c.Finalizers = []string{"f"} }), want: []string{"n/cel"}},
		"an owner":                          {update: marked(func(c *v1alpha1.ManagedCluster) { c.OwnerReferences = []metav1.OwnerReference{{Name: "o"}} }), want: []string{"n/cel"}},
		"a cluster of the same name":        {update: marked(func(c *v1alpha1.ManagedCluster) { c.UID = "second" }), want: []string{"n/cel"}},
		"no conditions instead of none":     {update: marked(func(c *v1alpha1.ManagedCluster) { c.Status.Conditions = []metav1.Condition{} }), want: []string{"n/cel"}},
		"a cluster's version":               {update: marked(func(c *v1alpha1.ManagedCluster) { c.ResourceVersion, c.Generation = "9", 9 })},
		"a cluster being deleted":           {update: c1().Deleting().Obj(), want: seesS1},
		"a cluster that moves":              {update: c1().Set("s2").Obj(), want: append([]string{"far/away"}, seesS1...)},
		"a cluster that goes":               {delete: c1().Obj(), want: seesS1},
		"a cluster that comes":              {update: fixture.Cluster("c3").Set("s1").Obj(), want: seesS1},
		"a listed cluster comes back":       {update: fixture.Cluster("gone").Set("elsewhere").Obj(), want: []string{"n/plain"}},
		"a cluster in no set":               {update: fixture.Cluster("c3").Obj()},
		"an unknown cluster goes":           {delete: fixture.Cluster("c3").Obj()},

		"a set, nothing changed":             {update: fixture.Set("s1")},
		"a set's selector":                   {update: fixture.SelectorSet("s1", nil), want: seesS1},
		"a bound set comes":                  {update: fixture.Set("s3"), want: allOfN},
		"a bound set goes":                   {delete: fixture.Set("s1"), want: allOfN},
		"a bound set that not all use comes": {update: fixture.Set("s5"), want: allOfN},
		"an unbound set comes":               {update: fixture.Set("s4")},
		"an unknown set goes":                {delete: fixture.Set("s4")},

		"a binding, nothing changed":          {update: fixture.Binding("n", "s1")},
		"a binding comes":                     {update: fixture.Binding("n", "s2"), want: allOfN},
		"a binding with a finalizer goes":     {update: deleting, want: allOfN},
		"a binding goes":                      {delete: fixture.Binding("n", "s1"), want: allOfN},
		"an unknown binding goes":             {delete: fixture.Binding("n", "s4")},
		"a binding of another name is no one": {update: renamed},
		"a binding that names no set":         {update: nameless},
		"a binding loses its set's name":      {update: emptied, want: allOfN},

		"a score, nothing changed":        {update: fixture.Score("c1", "r1").Value("v", 5).Obj()},
		"a score":                         {update: fixture.Score("c1", "r1").Value("v", 6).Obj(), want: []string{"n/cel", "n/score"}},
		"a score's validity":              {update: fixture.Score("c1", "r1").Value("v", 5).ValidUntil(fixture.At(1)).Obj(), want: []string{"n/cel", "n/score"}},
		"a score goes":                    {delete: fixture.Score("c1", "r1").Obj(), want: []string{"n/cel", "n/score"}},
		"a score that only CEL could see": {update: fixture.Score("c1", "r2").Value("v", 5).Obj(), want: []string{"n/cel"}},
		"a score of a cluster not seen":   {update: fixture.Score("c2", "r1").Value("v", 5).Obj()},
		"a score of no cluster":           {update: fixture.Score("c9", "r1").Value("v", 5).Obj()},
		"an unknown score goes":           {delete: fixture.Score("c9", "r1").Obj()},

		"a Placement, nothing changed":   {update: fixture.Placement("n", "plain").Obj()},
		"a Placement's status":           {update: status, want: []string{"n/plain"}},
		"a Placement's spec":             {update: fixture.Placement("n", "plain").Generation(2).Number(1).Obj(), want: []string{"n/plain"}},
		"a Placement's annotation":       {update: fixture.Placement("n", "plain").Annotation("a", "b").Obj(), want: []string{"n/plain"}},
		"a Placement comes":              {update: fixture.Placement("n", "new").Obj(), want: []string{"n/new"}},
		"a Placement goes":               {delete: fixture.Placement("n", "plain").Obj(), want: []string{"n/plain"}},
		"a page's decisions":             {update: page().Version("8").Lists("c2").Obj(), want: []string{"n/plain"}},
		"an older state of a page":       {update: page().Version("6").Lists("c2").Obj()},
		"a page, nothing changed":        {update: page().Version("8").Obj()},
		"a page's content is taken":      {update: bare, want: []string{"n/plain"}},
		"a page's queue":                 {update: queued, want: []string{"n/plain"}},
		"a page given to another":        {update: page().Version("8").Of("labels").Obj(), want: []string{"n/labels", "n/plain"}},
		"a page goes":                    {delete: page().Obj(), want: []string{"n/plain"}},
		"a page of another life goes":    {delete: page().UID("older").Obj()},
		"a page comes":                   {update: fixture.Page("n", "cpu-decision-1").Of("cpu").Obj(), want: []string{"n/cpu"}},
		"a page without label, by owner": {update: fixture.Page("n", "cpu-decision-1").OwnedBy("cpu").Obj(), want: []string{"n/cpu"}},
		"a page of no Placement":         {update: fixture.Page("n", "odd").Of("nobody").Obj()},
		"a page of no owner":             {update: fixture.Page("n", "odd").Obj()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := fullInventory()
			var got []inventory.Key
			if tc.delete != nil {
				got = inv.Delete(tc.delete)
			} else {
				got = inv.Update(tc.update)
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
		})
	}
}

func marked(change func(*v1alpha1.ManagedCluster)) *v1alpha1.ManagedCluster {
	c := c1().Obj()
	change(c)
	return c
}

func page() fixture.PageBuilder {
	return fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("7").Lists("c1", "gone")
}

func TestDeletedClusterAffectsPublishers(t *testing.T) {
	inv := fullInventory()
	inv.Update(fixture.Page("far", "away-decision-1").Of("away").Lists("c1").Obj())
	want := append([]string{"far/away"}, seesS1...)
	if diff := cmp.Diff(want, names(inv.Delete(c1().Obj()))); diff != "" {
		t.Errorf("affected (-want +got):\n%s", diff)
	}
}

// TestClusterThatLeavesASetAffectsPublishers: a Placement may have to remove a cluster that leaves
// a set of the namespace, even if the Placement does not use the set.
func TestClusterThatLeavesASetAffectsPublishers(t *testing.T) {
	tests := map[string]struct {
		event client.Object
		want  []string
	}{
		"its label changes":               {fixture.Cluster("c1").Set("s2").Obj(), []string{"n/missing", "n/plain"}},
		"it is being deleted":             {fixture.Cluster("c1").Set("s2").Label("in", "all").Deleting().Obj(), []string{"n/missing", "n/plain"}},
		"the set's selector":              {fixture.SelectorSet("all", &metav1.LabelSelector{MatchLabels: map[string]string{"in": "none"}}), []string{"n/missing", "n/plain"}},
		"a selector that keeps it":        {fixture.SelectorSet("all", &metav1.LabelSelector{}), []string{"n/plain"}},
		"a cluster that is not published": {fixture.Cluster("c2").Set("s2").Obj(), []string{"n/plain"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			for _, o := range []client.Object{
				fixture.Placement("n", "plain").Obj(), fixture.Placement("n", "missing").Sets("s3").Obj(), fixture.Placement("n", "other").Sets("s3").Obj(),
				fixture.SelectorSet("all", &metav1.LabelSelector{MatchLabels: map[string]string{"in": "all"}}), fixture.Set("s2"),
				fixture.Binding("n", "all"), fixture.Cluster("c1").Set("s2").Label("in", "all").Obj(), fixture.Cluster("c2").Set("s2").Label("in", "all").Obj(),
				fixture.Page("n", "missing-decision-1").Of("missing").OwnedBy("missing").Lists("c1").Obj(),
			} {
				inv.Update(o)
			}
			if diff := cmp.Diff(tc.want, names(inv.Update(tc.event))); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAssume(t *testing.T) {
	plain := inventory.Key{Namespace: "n", Name: "plain"}
	published := func(inv *inventory.Inventory) []string {
		var all []string
		for _, p := range inv.Snapshot(plain, fixture.Now, nil).Subject.Pages {
			for _, d := range p.Status.Decisions {
				all = append(all, d.ClusterName)
			}
		}
		return all
	}
	check := func(t *testing.T, inv *inventory.Inventory, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, published(inv)); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	}
	echo := func(t *testing.T, affected []inventory.Key) {
		t.Helper()
		if len(affected) > 0 {
			t.Errorf("an echo affects %v", affected)
		}
	}
	t.Run("an update counts at once, its echo and older states do not", func(t *testing.T) {
		inv := fullInventory()
		inv.AssumePage(page().Version("9").Lists("c2").Obj(), false)
		check(t, inv, "c1", "gone", "c2")
		echo(t, inv.Update(page().Version("8").Obj()))
		echo(t, inv.Update(page().Version("9").Lists("c2").Obj()))
		check(t, inv, "c1", "gone", "c2")
	})
	t.Run("a deletion counts at once, and late states of the page do not", func(t *testing.T) {
		inv := fullInventory()
		inv.AssumePage(page().Obj(), true)
		check(t, inv)
		echo(t, inv.Update(page().Version("8").Obj()))
		echo(t, inv.Delete(page().Version("8").Obj()))
		check(t, inv)
	})
	t.Run("a page of the same name that comes after is another", func(t *testing.T) {
		inv := fullInventory()
		inv.AssumePage(page().Obj(), true)
		inv.AssumePage(page().UID("second").Version("10").Lists("c2").Obj(), false)
		echo(t, inv.Delete(page().Version("9").Obj()))
		check(t, inv, "c1", "gone", "c2")
		if got := names(inv.Delete(page().UID("second").Version("11").Obj())); !cmp.Equal(got, []string{"n/plain"}) {
			t.Errorf("deleting the second page affects %v", got)
		}
	})
	t.Run("late states of the page before it do not count either", func(t *testing.T) {
		inv := fullInventory()
		inv.AssumePage(page().UID("second").Version("10").Lists("c2").Obj(), false)
		echo(t, inv.Update(page().Version("8").Obj()))
		echo(t, inv.Delete(page().Version("9").Obj()))
		check(t, inv, "c1", "gone", "c2")
	})
	t.Run("a write that another client reverted ends when the watch reports it first", func(t *testing.T) {
		inv := fullInventory()
		inv.Delete(page().Version("9").Obj())
		inv.AssumePage(page().Version("8").Lists("c2").Obj(), false)
		check(t, inv)
	})
	t.Run("a deletion that the watch reports first", func(t *testing.T) {
		inv := fullInventory()
		inv.Delete(page().Version("8").Obj())
		inv.AssumePage(page().Obj(), true)
		inv.Update(page().Version("9").Obj())
		check(t, inv, "c1", "gone")
	})
}

func TestTaken(t *testing.T) {
	inv := fullInventory()
	inv.Update(fixture.Page("n", "cpu-decision-1").Of("labels").OwnedBy("cpu").Obj())
	inv.Update(fixture.Page("n", "cpu-decision-2").OwnedBy("cpu").Obj())
	inv.Update(fixture.Page("n", "cpu-decision-3").Obj())
	taken := inv.Snapshot(inventory.Key{Namespace: "n", Name: "cpu"}, fixture.Now, nil).Subject.Taken
	want := map[string]bool{"cpu-decision-1": true, "cpu-decision-2": false, "cpu-decision-3": true, "cpu-decision-4": false}
	for name, w := range want {
		if slices.Contains(taken, name) != w {
			t.Errorf("%s is taken: %t, want %t", name, !w, w)
		}
	}
}

func TestSnapshotDoesNotChange(t *testing.T) {
	inv := fullInventory()
	key := inventory.Key{Namespace: "n", Name: "plain"}
	old := inv.Snapshot(key, fixture.Now, nil)
	i := old.Clusters.Get(0).Index
	inv.Delete(c1().Obj())
	inv.Update(page().Version("8").Lists("c2", "c2").Obj())
	inv.Update(fixture.Cluster("c3").Set("s1").Obj())
	if c := old.Clusters.Get(i); c == nil || c.Name != "c1" || old.Sets[0].Members.Len() != 1 || !old.Subject.LastClusters.Has(i) {
		t.Error("an old snapshot sees what came after it")
	}
	if n := inv.Snapshot(key, fixture.Now, nil).Sets[0].Members.Len(); n != 1 {
		t.Errorf("the new snapshot has %d members, want c3 alone", n)
	}
}

func TestTaintTimes(t *testing.T) {
	clock := fixture.Now
	inv := inventory.New(inventory.Options{FirstSeen: func() time.Time { return clock }})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("n", "s"))
	inv.Update(fixture.Placement("n", "p").Obj())
	times := func(c fixture.ClusterBuilder) []time.Time {
		inv.Update(c.Obj())
		return inv.Snapshot(inventory.Key{Namespace: "n", Name: "p"}, clock, nil).Clusters.Get(0).TaintTimes
	}
	one := fixture.Cluster("c").Set("s").Taint("a", "", v1alpha1.TaintEffectNoSelect)
	first := clock
	if diff := cmp.Diff([]time.Time{first}, times(one)); diff != "" {
		t.Errorf("a taint without a time counts from when it was seen (-want +got):\n%s", diff)
	}
	clock = clock.Add(time.Minute)
	two := one.TaintAt("b", "", v1alpha1.TaintEffectNoSelect, fixture.At(5)).Taint("c", "", v1alpha1.TaintEffectNoSelect)
	if diff := cmp.Diff([]time.Time{first, fixture.At(5).Time, clock}, times(two)); diff != "" {
		t.Errorf("an old taint keeps its time, a new one has its own (-want +got):\n%s", diff)
	}
}

// TestReadsOfPlugins: properties that only the plugins read affect a Placement, too.
func TestReadsOfPlugins(t *testing.T) {
	tests := map[string]struct {
		reads framework.Reads
		event client.Object
		want  []string
	}{
		"nothing":               {event: c1().Label("price", "3").Allocatable("cpu", "8").Obj()},
		"a label":               {framework.Reads{Labels: []string{"price"}}, c1().Label("price", "3").Obj(), []string{"n/plain"}},
		"another label":         {framework.Reads{Labels: []string{"price"}}, c1().Label("size", "3").Obj(), nil},
		"a claim":               {framework.Reads{Claims: []string{"c"}}, c1().Claim("c", "3").Obj(), []string{"n/plain"}},
		"CPU":                   {framework.Reads{CPU: true}, c1().Allocatable("cpu", "8").Obj(), []string{"n/plain"}},
		"memory, not CPU":       {framework.Reads{Memory: true}, c1().Allocatable("cpu", "8").Obj(), nil},
		"memory":                {framework.Reads{Memory: true}, c1().Allocatable("memory", "8Gi").Obj(), []string{"n/plain"}},
		"a score":               {framework.Reads{Scores: []string{"r1"}}, fixture.Score("c1", "r1").Value("v", 6).Obj(), []string{"n/plain"}},
		"everything: a label":   {framework.Reads{Everything: true}, c1().Label("size", "3").Obj(), []string{"n/plain"}},
		"everything: a score":   {framework.Reads{Everything: true}, fixture.Score("c1", "r1").Value("v", 6).Obj(), []string{"n/plain"}},
		"everything in its set": {framework.Reads{Everything: true}, fixture.Cluster("c2").Set("s2").Label("size", "3").Obj(), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{Reads: func(*v1alpha1.Placement) framework.Reads { return tc.reads }})
			for _, o := range []client.Object{
				fixture.Set("s1"), fixture.Set("s2"), fixture.Binding("n", "s1"), c1().Obj(), fixture.Cluster("c2").Set("s2").Obj(),
				fixture.Score("c1", "r1").Value("v", 5).Obj(), fixture.Placement("n", "plain").Obj(),
			} {
				inv.Update(o)
			}
			if diff := cmp.Diff(tc.want, names(inv.Update(tc.event))); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnnouncedPagesAffectNoPlacement: an event that arrives before the response to the write
// affects the Placement only if it has other content.
func TestAnnouncedPagesAffectNoPlacement(t *testing.T) {
	before := fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("7").Lists("c1").Obj()
	wanted := fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("7").Lists("c1", "c2").Obj()
	tests := map[string]struct {
		announce *v1alpha1.PlacementDecision
		deleted  bool
		event    func(inv *inventory.Inventory) []inventory.Key
		want     []string
	}{
		"an update": {wanted, false, func(inv *inventory.Inventory) []inventory.Key {
			return inv.Update(fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("8").Lists("c1", "c2").Obj())
		}, nil},
		"another update": {wanted, false, func(inv *inventory.Inventory) []inventory.Key {
			return inv.Update(fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("8").Lists("c1", "c3").Obj())
		}, []string{"n/plain"}},
		"a deletion":          {before, true, func(inv *inventory.Inventory) []inventory.Key { return inv.Delete(before) }, nil},
		"a deletion, not his": {wanted, false, func(inv *inventory.Inventory) []inventory.Key { return inv.Delete(before) }, []string{"n/plain"}},
		"an update of another page": {wanted, false, func(inv *inventory.Inventory) []inventory.Key {
			return inv.Update(fixture.Page("n", "plain-decision-2").Of("plain").OwnedBy("plain").Version("8").Lists("c1", "c2").Obj())
		}, []string{"n/plain"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(fixture.Placement("n", "plain").Obj())
			inv.Update(before)
			end := inv.Announce(tc.announce, tc.deleted)
			if diff := cmp.Diff(tc.want, names(tc.event(inv))); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
			end()
			if got := names(inv.Update(fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("9").Lists("c9").Obj())); len(got) != 1 {
				t.Errorf("once the write is over, %v are affected", got)
			}
		})
	}
}

// TestPolicyOfOneChangesReadsOfOthers: two Placements have equal policies; then the policy of the
// first one is deleted.
func TestPolicyOfOneChangesReadsOfOthers(t *testing.T) {
	policy := func(name, placement string) *berthv1alpha1.SelectionPolicy {
		return &berthv1alpha1.SelectionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
			Spec: berthv1alpha1.SelectionPolicySpec{Placement: placement, Preferences: []berthv1alpha1.Preference{{
				Weight: 1, ClusterSelector: v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}},
			}}},
		}
	}
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("n", "s1"))
	for _, name := range []string{"first", "second"} {
		inv.Update(fixture.Placement("n", name).Obj())
		inv.Update(policy(name, name))
	}
	inv.Update(fixture.Cluster("c1").Set("s1").Obj())
	if got := names(inv.Update(fixture.Cluster("c1").Set("s1").Label("disk", "ssd").Obj())); !slices.Equal(got, []string{"n/first", "n/second"}) {
		t.Fatalf("affects %v", got)
	}
	inv.Delete(policy("first", "first"))
	if got := names(inv.Update(fixture.Cluster("c1").Set("s1").Label("disk", "hdd").Obj())); !slices.Contains(got, "n/second") {
		t.Errorf("a change of the label that the policy of n/second prefers affects %v", got)
	}
}
