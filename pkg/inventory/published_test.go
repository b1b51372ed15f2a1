package inventory_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// quoting is a page of Placement plain that records a queue.
func quoting(name, queue string, clusters ...string) *v1alpha1.PlacementDecision {
	page := fixture.Page("n", name).Of("plain").OwnedBy("plain").Lists(clusters...).Obj()
	if queue != "" {
		page.Annotations = map[string]string{v1alpha1.QueueAnnotation: queue}
	}
	return page
}

// TestQueueOnPages: only the pages that the Placement controls give the queue that an earlier
// process published, and only pages of the Placement count.
func TestQueueOnPages(t *testing.T) {
	foreign := quoting("plain-decision-0", "root.foreign", "x")
	foreign.OwnerReferences[0].UID = "another"
	unlabelled := quoting("plain-decision-3", "root.unlabelled", "y")
	unlabelled.Labels = nil
	tests := map[string]struct {
		placement    string
		pages        []client.Object
		wantQueue    string
		wantClusters int
	}{
		"no page":                         {placement: "plain"},
		"no Placement":                    {placement: "other", pages: []client.Object{quoting("plain-decision-1", "root.a", "a")}},
		"a page":                          {placement: "plain", pages: []client.Object{quoting("plain-decision-1", "root.a", "a", "b")}, wantQueue: "root.a", wantClusters: 2},
		"a page without a queue":          {placement: "plain", pages: []client.Object{quoting("plain-decision-1", "", "a")}, wantClusters: 1},
		"the first page with a queue":     {placement: "plain", pages: []client.Object{quoting("plain-decision-1", "", "a"), quoting("plain-decision-2", "root.b", "b")}, wantQueue: "root.b", wantClusters: 2},
		"the first page":                  {placement: "plain", pages: []client.Object{quoting("plain-decision-1", "root.a"), quoting("plain-decision-2", "root.b")}, wantQueue: "root.a"},
		"a cluster on two pages is one":   {placement: "plain", pages: []client.Object{quoting("plain-decision-1", "", "a"), quoting("plain-decision-2", "", "a", "b")}, wantClusters: 2},
		"a page of another owner":         {placement: "plain", pages: []client.Object{foreign, quoting("plain-decision-1", "root.a", "a")}, wantQueue: "root.a", wantClusters: 1},
		"a page without label is no page": {placement: "plain", pages: []client.Object{unlabelled}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(fixture.Placement("n", "plain").Obj())
			for _, page := range tc.pages {
				inv.Update(page)
			}
			key := inventory.Key{Namespace: "n", Name: tc.placement}
			_, queue := inv.RecordedQueue(key)
			_, clusters, kept := inv.Published(key)
			if queue != tc.wantQueue || clusters != tc.wantClusters || kept != clusters {
				t.Errorf("got %q and %d clusters, want %q and %d", queue, clusters, tc.wantQueue, tc.wantClusters)
			}
		})
	}
}

// TestPublishedWhileProgressing: a change in progress keeps no cluster that it removes, and a step
// that lists more clusters than its start and its end leaves no more.
func TestPublishedWhileProgressing(t *testing.T) {
	for name, tc := range map[string]struct {
		phase  berthv1alpha1.ChangePhase
		listed []string
		want   int
	}{
		"added, not removed yet": {berthv1alpha1.PhaseProgressing, []string{"a", "b", "x"}, 2},
		"removed, not added yet": {berthv1alpha1.PhaseProgressing, []string{"b"}, 1},
		"held":                   {berthv1alpha1.PhaseHeld, []string{"a", "b"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(plainWith("u"))
			page := quoting("plain-decision-1", "", tc.listed...)
			page.OwnerReferences[0].UID = "u"
			inv.Update(page)
			r := record("u", 2, 2, tc.phase)
			r.Spec.Added, r.Spec.Removed = []string{"x"}, []string{"a"}
			r.Spec.AddedCount, r.Spec.RemovedCount = 1, 1
			inv.Update(r)
			if _, clusters, kept := inv.Published(inventory.Key{Namespace: "n", Name: "plain"}); clusters != len(tc.listed) || kept != tc.want {
				t.Errorf("%d clusters are published and %d kept, want %d and %d", clusters, kept, len(tc.listed), tc.want)
			}
		})
	}
}

// TestPublishedInPart: a Placement keeps no more clusters than the change leads to of which a part
// was published.
func TestPublishedInPart(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Placement("n", "plain").Obj())
	inv.SetPublished(inv.Subject(plainKey), &framework.Published{Names: []string{"a", "b", "x"}, Extra: 1})
	if _, clusters, kept := inv.Published(plainKey); clusters != 3 || kept != 2 {
		t.Errorf("%d clusters are published and %d kept, want 3 and 2", clusters, kept)
	}
}

// TestPublishedDamaged: what was published counts, also while other writers have damaged the pages,
// and after a restart as the records say.
func TestPublishedDamaged(t *testing.T) {
	key := inventory.Key{Namespace: "n", Name: "plain"}
	for name, restarts := range map[string]bool{"while a controller runs": false, "while none runs": true} {
		t.Run(name, func(t *testing.T) {
			page := quoting("plain-decision-1", "", "a", "b")
			page.OwnerReferences[0].UID, page.Annotations = "u", map[string]string{berthv1alpha1.RevisionAnnotation: "1"}
			damaged := page.DeepCopy()
			damaged.Status.Decisions = damaged.Status.Decisions[1:]
			r := changes.NewRecord(plainWith("u"), 1, 1, changes.NewChange(nil, []string{"a", "b"}))
			r.Status.Phase = berthv1alpha1.PhasePublished
			inv := inventory.New(inventory.Options{})
			objects := []client.Object{plainWith("u"), r, page}
			if restarts {
				objects[2] = damaged
			}
			for _, object := range objects {
				inv.Update(object)
			}
			inv.Started()
			if inv.Subject(key); !restarts {
				inv.Update(damaged)
			}
			if _, clusters, kept := inv.Published(key); clusters != 2 || kept != 2 {
				t.Errorf("%d clusters are published and %d kept, want 2", clusters, kept)
			}
		})
	}
}

// TestRecordedQueue: the queue is that of the newest Published record.
func TestRecordedQueue(t *testing.T) {
	of := func(uid types.UID, revision int64, phase berthv1alpha1.ChangePhase, queue string) *berthv1alpha1.PlacementChange {
		r := record(uid, revision, int(revision), phase, "c")
		r.Spec.Queue = queue
		return r
	}
	published, held := berthv1alpha1.PhasePublished, berthv1alpha1.PhaseHeld
	tests := map[string]struct {
		placement string
		records   []*berthv1alpha1.PlacementChange
		want      string
	}{
		"no record":            {placement: "plain"},
		"no Placement":         {placement: "other", records: []*berthv1alpha1.PlacementChange{of("u", 1, published, "root.a")}},
		"the newest":           {placement: "plain", records: []*berthv1alpha1.PlacementChange{of("u", 1, published, "root.a"), of("u", 2, published, "root.b")}, want: "root.b"},
		"one that was held":    {placement: "plain", records: []*berthv1alpha1.PlacementChange{of("u", 1, published, "root.a"), of("u", 2, held, "root.b")}, want: "root.a"},
		"only one that is":     {placement: "plain", records: []*berthv1alpha1.PlacementChange{of("u", 2, held, "root.b")}},
		"of an earlier object": {placement: "plain", records: []*berthv1alpha1.PlacementChange{of("old", 1, published, "root.a")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			inv.Update(plainWith("u"))
			for _, r := range tc.records {
				inv.Update(r)
			}
			if got, _ := inv.RecordedQueue(inventory.Key{Namespace: "n", Name: tc.placement}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestRecords: Records returns the records of all Placements.
func TestRecords(t *testing.T) {
	inv := recorded()
	inv.Update(record("other", 5, 12, berthv1alpha1.PhaseHeld, "c1"))
	var got []string
	for _, r := range inv.Records() {
		got = append(got, r.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"plain-1", "plain-2", "plain-5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestManyPolicies: the policies of a namespace are not compiled again for each attempt, which
// would delay the attempts of other namespaces.
func TestManyPolicies(t *testing.T) {
	inv, pl := inventory.New(inventory.Options{}), fixture.Placement(plainKey.Namespace, plainKey.Name).Obj()
	inv.Update(pl)
	for i := range 100 {
		spec := berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}}
		for j := range 50 {
			spec.PlacementSelector.MatchExpressions = append(spec.PlacementSelector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: fmt.Sprint("k", j), Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a", "b"},
			})
		}
		inv.Update(&berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: plainKey.Namespace, Name: fmt.Sprint("p", i)}, Spec: spec})
	}
	allocs := testing.AllocsPerRun(10, func() {
		pl = pl.DeepCopy()
		pl.Status.NumberOfSelectedClusters++
		inv.Update(pl)
		if policies := inv.Snapshot(plainKey, fixture.Now, nil).Subject.DisruptionPolicies; len(policies) != berthv1alpha1.MaxPoliciesPerPlacement || changes.PolicyOf(policies).HistoryLimit != 10 {
			t.Errorf("%d policies", len(policies))
		}
	})
	if allocs > 500 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestPoliciesByName: a Placement gets the policies that select it, sorted by name.
func TestPoliciesByName(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Placement("n", "plain").Obj())
	for _, name := range []string{"c", "a", "b"} {
		inv.Update(fixture.ApprovalPolicy("n", name, "plain"))
	}
	inv.Update(fixture.ApprovalPolicy("n", "d", "other"))
	var got []string
	for _, policy := range inv.Snapshot(plainKey, fixture.Now, nil).Subject.DisruptionPolicies {
		got = append(got, policy.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	status := fixture.ApprovalPolicy("n", "b", "plain")
	status.Status.Placements = 1
	if affected := inv.Update(status); len(affected) > 0 {
		t.Errorf("a status affects %v", names(affected))
	}
	if inv.Snapshot(plainKey, fixture.Now, nil).Subject.DisruptionPolicies[1].Status.Placements != 1 {
		t.Error("the next snapshot has the old status")
	}
}

// TestDeletedSet: a deleted set is no longer bound; it is bound again when it is created again.
func TestDeletedSet(t *testing.T) {
	inv := fullInventory()
	for name, want := range map[string][]string{"n": {"s1"}, "far": {"s2"}} {
		key := inventory.Key{Namespace: name, Name: map[string]string{"n": "plain", "far": "away"}[name]}
		bound := func() []string { return inv.Snapshot(key, fixture.Now, nil).BoundSets }
		if diff := cmp.Diff(want, bound()); diff != "" {
			t.Errorf("before (-want +got):\n%s", diff)
		}
		inv.Delete(fixture.Set(want[0]))
		if got := bound(); len(got) > 0 {
			t.Errorf("afterwards %v are bound", got)
		}
		inv.Update(fixture.Set(want[0]))
		if diff := cmp.Diff(want, bound()); diff != "" {
			t.Errorf("made again (-want +got):\n%s", diff)
		}
	}
}

// TestPublishedBeforeAnEdit: an edit of a page by another writer changes neither the queue in which
// a Placement has its clusters, nor their number that a lower quota leaves it.
func TestPublishedBeforeAnEdit(t *testing.T) {
	for _, queue := range []string{"root.b", ""} {
		inv := inventory.New(inventory.Options{})
		inv.Update(fixture.Placement("n", "plain").Obj())
		inv.Update(quoting("plain-decision-1", "root.a", "a"))
		inv.SetPublished(inv.Subject(plainKey), &framework.Published{Names: []string{"a"}, Queue: "root.a"})
		inv.Update(quoting("plain-decision-1", queue, "a", "b"))
		if queue, clusters, _ := inv.Published(plainKey); queue != "root.a" || clusters != 1 {
			t.Errorf("got %q and %d clusters", queue, clusters)
		}
	}
}
