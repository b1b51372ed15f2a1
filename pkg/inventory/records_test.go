package inventory_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

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

var plainKey = inventory.Key{Namespace: "n", Name: "plain"}

// plainWith is Placement plain with a UID.
func plainWith(uid types.UID) *v1alpha1.Placement {
	pl := fixture.Placement("n", "plain").Obj()
	pl.UID = uid
	return pl
}

// record is a change of Placement plain that adds clusters.
func record(uid types.UID, revision int64, version int, phase berthv1alpha1.ChangePhase, added ...string) *berthv1alpha1.PlacementChange {
	r := changes.NewRecord(plainWith(uid), 0, revision, changes.NewChange(nil, added))
	r.UID, r.ResourceVersion, r.Status.Phase = types.UID(fmt.Sprint(uid, revision)), fmt.Sprint(version), phase
	return r
}

func answered(r *berthv1alpha1.PlacementChange, decision berthv1alpha1.ApprovalDecision) *berthv1alpha1.PlacementChange {
	r.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: decision, By: "ann"}
	return r
}

func withoutOwner(r *berthv1alpha1.PlacementChange) *berthv1alpha1.PlacementChange {
	r.OwnerReferences = nil
	return r
}

// recorded is an inventory with a published Placement, one held change, and no affected Placement.
func recorded() *inventory.Inventory {
	inv := fullInventory()
	inv.Update(plainWith("u"))
	page := fixture.Page("n", "plain-decision-1").Of("plain").OwnedBy("plain").Version("8").Lists("c1", "gone").Obj()
	page.OwnerReferences[0].UID = "u"
	inv.Update(page)
	inv.Update(record("u", 1, 10, berthv1alpha1.PhasePublished, "c1"))
	inv.Update(record("u", 2, 11, berthv1alpha1.PhaseHeld, "c2"))
	inv.Started()
	inv.ClearCause(inv.Snapshot(plainKey, fixture.Now, nil))
	return inv
}

func TestRecordsAndPoliciesAffectPlacements(t *testing.T) {
	held, published := berthv1alpha1.PhaseHeld, berthv1alpha1.PhasePublished
	selecting := func(approval berthv1alpha1.ApprovalMode, names ...string) *berthv1alpha1.DisruptionPolicy {
		policy := fixture.ApprovalPolicy("n", "careful", names...)
		policy.Spec.Approval = approval
		return policy
	}
	status := selecting("", "plain")
	status.Status.Placements = 1
	elsewhere := fixture.ApprovalPolicy("far", "careful", "plain")
	broken := fixture.ApprovalPolicy("n", "careful")
	broken.Spec.PlacementSelector.MatchLabels = map[string]string{"not a key": ""}
	evict := func() fixture.EvictionBuilder { return fixture.Eviction("n", "e", "plain", "c1") }
	waiting, gone := evict().Valid(metav1.ConditionTrue).Obj(), evict().Valid(metav1.ConditionTrue).Obj()
	gone.UID = "earlier"
	progress := waiting.DeepCopy()
	progress.Status.Conditions = append(progress.Status.Conditions, metav1.Condition{Type: berthv1alpha1.EvictionExecuted, Status: metav1.ConditionFalse})
	ofOther := fixture.Eviction("n", "e", "cel", "c1").Valid(metav1.ConditionTrue).Obj()
	explained := waiting.DeepCopy()
	explained.Annotations = map[string]string{berthv1alpha1.EditedByAnnotation: "2026-01-01T12:00:00Z ann", berthv1alpha1.CommentAnnotation: "disk broken"}
	drained := c1().Taint(v1alpha1.DrainTaint, "", v1alpha1.TaintEffectNoSelect).Obj()
	drained.Annotations = map[string]string{berthv1alpha1.CommentAnnotation: "kernel upgrade"}
	unreachable := c1().Taint(v1alpha1.ManagedClusterTaintUnreachable, "", v1alpha1.TaintEffectNoSelect).Obj()
	undrained := c1().Obj()
	undrained.Annotations = drained.Annotations
	pinned := plainWith("u")
	pinned.Annotations = map[string]string{berthv1alpha1.PinnedRevisionAnnotation: "12"}
	tests := map[string]struct {
		before    client.Object
		update    client.Object
		delete    client.Object
		want      []string
		wantCause string
	}{
		"a record comes":                  {update: record("u", 3, 12, held, "c2")},
		"a status is written":             {update: record("u", 2, 12, berthv1alpha1.PhaseExpired, "c2")},
		"an approval":                     {update: answered(record("u", 2, 12, held, "c2"), berthv1alpha1.Approved), want: []string{"n/plain"}, wantCause: "PlacementChange plain-2: approval"},
		"a rejection":                     {update: answered(record("u", 2, 12, held, "c2"), berthv1alpha1.Rejected), want: []string{"n/plain"}, wantCause: "PlacementChange plain-2: approval"},
		"an approval of an older state":   {update: answered(record("u", 2, 9, held, "c2"), berthv1alpha1.Approved)},
		"an approval that is known":       {before: answered(record("u", 2, 12, held, "c2"), berthv1alpha1.Approved), update: answered(record("u", 2, 13, held, "c2"), berthv1alpha1.Approved)},
		"an open record goes":             {delete: record("u", 2, 12, held, "c2"), want: []string{"n/plain"}, wantCause: "PlacementChange plain-2: deleted"},
		"an open record loses its owner":  {update: withoutOwner(record("u", 2, 12, held, "c2")), want: []string{"n/plain"}, wantCause: "PlacementChange plain-2: changed"},
		"a finished record goes":          {delete: record("u", 1, 12, published, "c1")},
		"an unknown record goes":          {delete: record("u", 9, 12, held, "c1")},
		"an earlier one of its name goes": {delete: record("earlier", 2, 12, held, "c2")},

		"a policy comes, by name":  {update: selecting("Required", "plain", "nobody"), want: []string{"n/plain"}, wantCause: "DisruptionPolicy careful: spec"},
		"a policy comes, for all":  {update: selecting("Required"), want: allOfN, wantCause: "DisruptionPolicy careful: spec"},
		"a policy, elsewhere":      {update: elsewhere},
		"a policy that is invalid": {update: broken},
		"a policy's status":        {before: selecting("", "plain"), update: status},
		"a policy's approval":      {before: selecting("", "plain"), update: selecting("Required", "plain"), want: []string{"n/plain"}, wantCause: "DisruptionPolicy careful: spec"},
		"a policy selects another": {before: selecting("", "plain"), update: selecting("", "cel"), want: []string{"n/cel", "n/plain"}, wantCause: "DisruptionPolicy careful: spec"},
		"a policy goes":            {before: selecting("", "plain"), delete: selecting("", "plain"), want: []string{"n/plain"}, wantCause: "DisruptionPolicy careful: deleted"},
		"an unknown policy goes":   {delete: selecting("", "plain")},

		"an eviction comes":                                   {update: evict().Obj()},
		"an eviction is accepted":                             {before: evict().Obj(), update: waiting, want: []string{"n/plain"}, wantCause: "PlacementEviction e: eviction of c1"},
		"an eviction with a comment":                          {before: evict().Obj(), update: explained, want: []string{"n/plain"}, wantCause: "PlacementEviction e: eviction of c1 by ann (disk broken)"},
		"a pin":                                               {update: pinned, want: []string{"n/plain"}, wantCause: "Placement: pinned to revision 12"},
		"the end of a pin":                                    {before: pinned, update: plainWith("u"), want: []string{"n/plain"}, wantCause: "Placement: unpinned"},
		"an eviction is refused":                              {before: evict().Obj(), update: evict().Valid(metav1.ConditionFalse).Obj()},
		"an eviction reports what it does":                    {before: waiting, update: progress},
		"an eviction is executed":                             {before: waiting, update: evict().Executed(fixture.Now).Obj(), want: []string{"n/plain"}, wantCause: "PlacementEviction e: eviction of c1"},
		"an eviction fails":                                   {before: waiting, update: evict().Valid(metav1.ConditionFalse).Obj(), want: []string{"n/plain"}, wantCause: "PlacementEviction e: eviction of c1"},
		"an eviction goes":                                    {before: waiting, delete: waiting, want: []string{"n/plain"}, wantCause: "PlacementEviction e: deleted"},
		"a refused eviction goes":                             {before: evict().Valid(metav1.ConditionFalse).Obj(), delete: waiting},
		"an earlier eviction goes":                            {before: waiting, delete: gone},
		"an unknown eviction goes":                            {delete: waiting},
		"an eviction of no Placement":                         {update: fixture.Eviction("n", "e", "nosuch", "c1").Valid(metav1.ConditionTrue).Obj()},
		"an eviction elsewhere":                               {update: fixture.Eviction("far", "e", "plain", "c1").Valid(metav1.ConditionTrue).Obj()},
		"an eviction is replaced by one of another Placement": {before: waiting, update: ofOther, want: []string{"n/cel", "n/plain"}, wantCause: "PlacementEviction e: eviction of c1"},

		"a cluster's labels":       {update: c1().Label("a", "y").Obj(), want: []string{"n/cel", "n/labels"}, wantCause: ""},
		"a cluster leaves its set": {update: c1().Set("s9").Obj(), want: seesS1, wantCause: "ManagedCluster c1: labels"},
		"a cluster goes":           {delete: c1().Obj(), want: seesS1, wantCause: "ManagedCluster c1: deleted"},
		"a cluster is drained":     {update: drained, want: seesS1, wantCause: "ManagedCluster c1: drained (kernel upgrade)"},
		"a cluster is undrained":   {before: drained, update: undrained, want: seesS1, wantCause: "ManagedCluster c1: undrained"},
		"a cluster is unavailable": {update: unreachable, want: seesS1, wantCause: "ManagedCluster c1: unavailable"},
		"a cluster is back":        {before: unreachable, update: c1().Obj(), want: seesS1, wantCause: "ManagedCluster c1: available again"},
		"a cluster's taints":       {update: c1().Taint("u", "", v1alpha1.TaintEffectNoSelect).Obj(), want: seesS1, wantCause: "ManagedCluster c1: taints"},
		"a binding goes":           {delete: fixture.Binding("n", "s1"), want: allOfN, wantCause: "ManagedClusterSetBinding s1: deleted"},
		"a set goes":               {delete: fixture.Set("s1"), want: allOfN, wantCause: "ManagedClusterSet s1: deleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inv := recorded()
			if tc.before != nil {
				inv.Update(tc.before)
				inv.ClearCause(inv.Snapshot(plainKey, fixture.Now, nil))
			}
			var got []inventory.Key
			if tc.delete != nil {
				got = inv.Delete(tc.delete)
			} else {
				got = inv.Update(tc.update)
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
			if cause := inv.Snapshot(plainKey, fixture.Now, nil).Cause; cause != tc.wantCause {
				t.Errorf("cause %q, want %q", cause, tc.wantCause)
			}
		})
	}
}

func TestCauses(t *testing.T) {
	inv := fullInventory()
	cause := func() string { return inv.Snapshot(plainKey, fixture.Now, nil).Cause }
	if got := cause(); got != "start" {
		t.Errorf("in the initial listing: %q", got)
	}
	inv.Started()
	atStart := inv.Snapshot(plainKey, fixture.Now, nil)
	edit := fixture.Placement("n", "plain").Generation(2).Number(1).Obj()
	inv.Update(edit)
	if got := cause(); got != "Placement: spec" {
		t.Errorf("after an edit: %q", got)
	}
	inv.ClearCause(atStart)
	if got := cause(); got != "Placement: spec" {
		t.Errorf("another cause was cleared: %q", got)
	}
	edited := inv.Snapshot(plainKey, fixture.Now, nil)
	inv.Update(fixture.Placement("n", "plain").Generation(3).Number(2).Obj())
	inv.ClearCause(edited)
	if got := cause(); got != "Placement: spec" {
		t.Errorf("a later trigger with the same cause was cleared: %q", got)
	}
	inv.ClearCause(inv.Snapshot(plainKey, fixture.Now, nil))
	if got := cause(); got != "" {
		t.Errorf("not cleared: %q", got)
	}
}

// TestIncumbents: incumbents are the published clusters and those that the open change of this
// Placement (same UID) adds.
func TestIncumbents(t *testing.T) {
	held := berthv1alpha1.PhaseHeld
	for name, tc := range map[string]struct {
		update, delete client.Object
		want           []string
	}{
		"published, and the open change": {want: []string{"c1", "c2"}},
		"the change is published":        {update: record("u", 2, 12, berthv1alpha1.PhasePublished, "c2"), want: []string{"c1"}},
		"the change is rejected":         {update: record("u", 2, 12, berthv1alpha1.PhaseRejected, "c2"), want: []string{"c1"}},
		"the record has no status yet":   {update: record("u", 2, 12, "", "c2"), want: []string{"c1", "c2"}},
		"the record goes":                {delete: record("u", 2, 12, held, "c2"), want: []string{"c1"}},
		"an earlier Placement's record":  {update: record("earlier", 3, 12, held, "c3"), want: []string{"c1", "c2"}},
		"the newest open change":         {update: record("u", 3, 12, held, "c3"), want: []string{"c1", "c3"}},
		"another Placement of this name": {update: plainWith("second")},
	} {
		t.Run(name, func(t *testing.T) {
			inv := recorded()
			inv.Update(fixture.Cluster("c3").Obj())
			if tc.update != nil {
				inv.Update(tc.update)
			}
			if tc.delete != nil {
				inv.Delete(tc.delete)
			}
			snapshot := inv.Snapshot(plainKey, fixture.Now, nil)
			var got []string
			for _, name := range []string{"c1", "c2", "c3"} {
				for i := range snapshot.Clusters.Len() {
					if c := snapshot.Clusters.Get(i); c != nil && c.Name == name && snapshot.Subject.Incumbents.Has(i) {
						got = append(got, name)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("incumbents (-want +got):\n%s", diff)
			}
		})
	}
}

// revisions returns the revisions of the records in the next Snapshot.
func revisions(inv *inventory.Inventory) (all []int64) {
	for _, r := range inv.Snapshot(plainKey, fixture.Now, nil).Subject.Records {
		all = append(all, r.Spec.Revision)
	}
	return all
}

// TestAssumeRecord: a written record counts, in any order of response and watch event.
func TestAssumeRecord(t *testing.T) {
	held := berthv1alpha1.PhaseHeld
	for name, tc := range map[string]struct {
		do   func(inv *inventory.Inventory)
		want []int64
	}{
		"ahead of its echo": {func(inv *inventory.Inventory) { inv.AssumeRecord(record("u", 3, 12, held)) }, []int64{1, 2, 3}},
		"behind its deletion": {func(inv *inventory.Inventory) {
			inv.Update(record("u", 3, 12, held))
			inv.Delete(record("u", 3, 13, held))
			inv.AssumeRecord(record("u", 3, 12, held))
		}, []int64{1, 2}},
		"in place of an earlier Placement's, whose deletion is reported later": {func(inv *inventory.Inventory) {
			inv.Update(record("earlier", 3, 5, held))
			inv.AssumeRecord(record("u", 3, 13, held))
			inv.Delete(record("earlier", 3, 12, held))
		}, []int64{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			inv := recorded()
			tc.do(inv)
			if diff := cmp.Diff(tc.want, revisions(inv)); diff != "" {
				t.Errorf("revisions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEndedRecordsAreCountedAsTheyAre, although all their clusters have left.
func TestEndedRecordsAreCountedAsTheyAre(t *testing.T) {
	inv := recorded()
	r := changes.NewRecord(plainWith("u"), 3, 3, changes.NewChange([]string{"left"}, nil))
	r.UID, r.Status.Phase = "u3", berthv1alpha1.PhaseRejected
	inv.Update(r)
	for _, record := range inv.RecordsToCount() {
		if record.UID == r.UID && record.Status.Phase != berthv1alpha1.PhaseRejected {
			t.Errorf("the phase is %s", record.Status.Phase)
		}
	}
}

// TestRecordsToCount: a record that lost its status in a crash counts as published when all
// clusters that it removes have left.
func TestRecordsToCount(t *testing.T) {
	for removed, removals := range map[string]int{"left": 1, "c1": 0} {
		inv := recorded()
		r := changes.NewRecord(plainWith("u"), 3, 3, changes.NewChange([]string{removed}, nil))
		r.UID, r.CreationTimestamp = "u3", metav1.Unix(100, 0)
		inv.Update(r)
		all := inv.RecordsToCount()
		i := slices.IndexFunc(all, func(record *berthv1alpha1.PlacementChange) bool { return record.UID == r.UID })
		if i < 0 {
			t.Fatalf("%s: not among %d records", removed, len(all))
		}
		if got := changes.RemovalsOf(all[i]); len(got) != removals || removals > 0 && !got[0].At.Equal(changes.EndOfSecond(r.CreationTimestamp.Time)) {
			t.Errorf("%s: %+v", removed, got)
		}
	}
}

// TestAssumeAnswer: an answer that Berth sees first in the response to its own write starts an
// attempt, because the watch shows nothing new then.
func TestAssumeAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		known, answered bool
		want            []inventory.Key
	}{
		"a status":             {known: true},
		"a new record":         {},
		"an answer":            {known: true, answered: true, want: []inventory.Key{plainKey}},
		"a record with answer": {answered: true, want: []inventory.Key{plainKey}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []inventory.Key
			inv := inventory.New(inventory.Options{OnAffected: func(keys []inventory.Key) { told = append(told, keys...) }})
			fill(inv)
			inv.Update(plainWith("u"))
			if tc.known {
				inv.Update(record("u", 3, 12, berthv1alpha1.PhaseHeld))
			}
			inv.Started()
			written := record("u", 3, 14, berthv1alpha1.PhaseHeld)
			if tc.answered {
				written.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Approved, By: "ann"}
			}
			inv.AssumeRecord(written)
			if diff := cmp.Diff(tc.want, told); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAssumeRecordBehindItsEvent: the object of the earlier watch event is kept.
func TestAssumeRecordBehindItsEvent(t *testing.T) {
	inv := recorded()
	echo, later := record("u", 3, 12, berthv1alpha1.PhaseHeld), record("u", 3, 13, berthv1alpha1.PhaseHeld)
	inv.Update(echo)
	inv.AssumeRecord(record("u", 3, 12, berthv1alpha1.PhaseHeld))
	if !slices.Contains(inv.Records(), echo) {
		t.Error("the object of the watch is replaced")
	}
	if inv.AssumeRecord(later); !slices.Contains(inv.Records(), later) {
		t.Error("a later write does not count")
	}
}

// TestPackedRecords: packed records count as whole ones do, in any order of response and events.
func TestPackedRecords(t *testing.T) {
	stored := func(revision int64, version int, phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
		r := record("u", revision, version, phase, "c2")
		r.UID, r.Labels = types.UID(fmt.Sprintf("0e6f3e0b-32a7-4f7c-8f0b-%012d", revision)), nil
		return r
	}
	published := stored(3, 20, berthv1alpha1.PhasePublished)
	for name, events := range map[string]func(inv *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)){
		"comes": func(_ *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) { update(published) },
		"of an open change": func(inv *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) {
			inv.Update(stored(3, 19, berthv1alpha1.PhaseHeld))
			update(published)
		},
		"after its response": func(inv *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) {
			inv.AssumeRecord(published)
			update(published)
		},
		"before its response": func(inv *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) {
			update(published)
			inv.AssumeRecord(published)
		},
		"again": func(_ *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) {
			update(published)
			update(published)
		},
		"an older state comes later": func(inv *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) {
			update(published)
			inv.Update(stored(3, 19, berthv1alpha1.PhaseHeld))
		},
		"goes": func(inv *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) {
			update(published)
			inv.Delete(published)
		},
		"an earlier one of its name goes": func(inv *inventory.Inventory, update func(*berthv1alpha1.PlacementChange)) {
			update(published)
			inv.Delete(stored(4, 21, berthv1alpha1.PhasePublished))
		},
	} {
		t.Run(name, func(t *testing.T) {
			wholes, packeds := recorded(), recorded()
			var wantAffected, gotAffected []inventory.Key
			events(wholes, func(r *berthv1alpha1.PlacementChange) { wantAffected = append(wantAffected, wholes.Update(r)...) })
			events(packeds, func(r *berthv1alpha1.PlacementChange) {
				gotAffected = append(gotAffected, packeds.UpdatePacked(changes.PackRecord(r.DeepCopy()))...)
			})
			if diff := cmp.Diff(wantAffected, gotAffected); diff != "" {
				t.Errorf("affected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wholes.Subject(plainKey).Records, packeds.Subject(plainKey).Records); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wholes.Snapshot(plainKey, fixture.Now, nil).Subject.Incumbents.Len(), packeds.Snapshot(plainKey, fixture.Now, nil).Subject.Incumbents.Len()); diff != "" {
				t.Errorf("incumbents (-want +got):\n%s", diff)
			}
			if got, want := len(packeds.Records()), len(wholes.Records()); got != want {
				t.Errorf("%d records, want %d", got, want)
			}
		})
	}
}

// TestSubject: Subject returns the same as a Snapshot.
func TestSubject(t *testing.T) {
	inv := recorded()
	inv.Update(fixture.Page("n", "plain-decision-1").Of("plain").Version("98").Lists("c1", "gone").Obj())
	subject := inv.Subject(plainKey)
	if !reflect.DeepEqual(subject, inv.Snapshot(plainKey, fixture.Now, nil).Subject) || !cmp.Equal(subject.LastNames(), []string{"c1", "gone"}) {
		t.Errorf("got %+v", subject)
	}
	if other := inv.Subject(inventory.Key{Namespace: "n", Name: "none"}); other != nil {
		t.Errorf("of no Placement: %+v", other)
	}
}

func TestSetPublished(t *testing.T) {
	inv := recorded()
	ours := func(version string, clusters ...string) *v1alpha1.PlacementDecision {
		return fixture.Page("n", "plain-decision-1").Of("plain").Version(version).Lists(clusters...).Obj()
	}
	inv.Update(ours("98", "c1", "gone"))
	subject := inv.Snapshot(plainKey, fixture.Now, nil).Subject
	if subject.Last == nil || !subject.Last.FromPages || !cmp.Equal(subject.LastNames(), []string{"c1", "gone"}) {
		t.Errorf("before: %+v", subject.Last)
	}
	inv.SetPublished(subject, &framework.Published{Names: []string{"c2"}})
	inv.Update(ours("99", "c1", "c2"))
	if got := inv.Snapshot(plainKey, fixture.Now, nil).Subject.LastNames(); !cmp.Equal(got, []string{"c2"}) {
		t.Errorf("after an edit of a page: %v", got)
	}
	inv.Update(plainWith("second"))
	inv.SetPublished(subject, &framework.Published{Names: []string{"c3"}})
	if last := inv.Snapshot(plainKey, fixture.Now, nil).Subject.Last; last != nil && !last.FromPages {
		t.Errorf("another Placement of this name: %+v", last)
	}
}

// TestManyEvictions: however many evictions a tenant creates, those of one cluster count as one,
// and other Placements keep their subject.
func TestManyEvictions(t *testing.T) {
	inv := recorded()
	other := inventory.Key{Namespace: "n", Name: "cel"}
	before := inv.Subject(other)
	for i := range 10_000 {
		e := fixture.Eviction("n", fmt.Sprint("e", i), "plain", fmt.Sprint("c", i%2)).Executed(fixture.Now.Add(time.Duration(i) * time.Second)).Obj()
		if got := names(inv.Update(e)); !slices.Equal(got, []string{"n/plain"}) {
			t.Fatalf("eviction %d affects %v", i, got)
		}
	}
	want := []framework.Eviction{
		{Cluster: "c0", Name: "e9998", Until: fixture.Now.Add(9998*time.Second + time.Hour)},
		{Cluster: "c1", Name: "e9999", Until: fixture.Now.Add(9999*time.Second + time.Hour)},
	}
	if diff := cmp.Diff(want, inv.Subject(plainKey).Evictions); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
	if inv.Subject(other) != before || len(before.Evictions) > 0 {
		t.Error("another Placement's subject was built again")
	}
}

// TestAnswersDoNotReadListsAgain: the lists of a change are read when it is created, not with each
// answer and each step: those of a large fleet take long, while the inventory is locked.
func TestAnswersDoNotReadListsAgain(t *testing.T) {
	const clusters = 5000
	inv := recorded()
	var names []string
	for i := range clusters {
		names = append(names, fmt.Sprintf("new-%05d", i))
	}
	version := 20
	next := func() *berthv1alpha1.PlacementChange {
		version++
		return answered(record("u", 3, version, berthv1alpha1.PhaseHeld, names...), berthv1alpha1.Approved)
	}
	inv.Update(next())
	states := []*berthv1alpha1.PlacementChange{next(), next(), next(), next()}
	if allocations := testing.AllocsPerRun(len(states)-1, func() {
		inv.Update(states[0])
		states = states[1:]
	}); allocations > clusters/10 {
		t.Errorf("an answer to a change of %d clusters makes %.0f allocations", clusters, allocations)
	}
	inv.Update(record("u", 3, version+1, berthv1alpha1.PhaseProgressing, names...))
	if got := inv.Subject(plainKey).Incumbents.Len(); got != clusters+2 {
		t.Errorf("the Placement keeps %d clusters, want %d", got, clusters+2)
	}
}
