package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// testRecorder is a Recorder with a hub in memory.
type testRecorder struct {
	*Recorder
	hub client.Client
	pl  *v1alpha1.Placement
	// failures are met by the next creations, one each; during runs in the next one.
	failures []error
	during   func()
	// statusFailures are met by the next writes of a status.
	statusFailures []error
	// lostResponse is the failure of the next write of a status, which succeeds nevertheless.
	lostResponse error
	// deleteFailure is met by all deletions, readFailure by all reads past the cache.
	deleteFailure, readFailure error
}

// Get implements client.Reader, past all caches.
func (l *testRecorder) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if l.readFailure != nil {
		return l.readFailure
	}
	err := l.hub.Get(ctx, key, o, options...)
	// As the API server answers.
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "berth"}})
	return err
}

// List implements client.Reader.
func (l *testRecorder) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return l.hub.List(ctx, list, options...)
}

func newTestRecorder(t *testing.T) *testRecorder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := berthv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	l := &testRecorder{pl: fixture.Placement("n", "p").Obj()}
	l.pl.UID = "first"
	l.hub = memoryhub.BuilderFor(scheme).WithStatusSubresource(&berthv1alpha1.PlacementChange{}).Build()
	c := interceptor.NewClient(l.hub.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if during := l.during; during != nil {
				l.during = nil
				during()
			}
			if len(l.failures) > 0 {
				err := l.failures[0]
				l.failures = l.failures[1:]
				return err
			}
			if record, ok := o.(*berthv1alpha1.PlacementChange); ok {
				// As the API server does for a kind with a status subresource.
				record.Status = berthv1alpha1.PlacementChangeStatus{}
			}
			o.SetUID(types.UID(fmt.Sprintf("%s of %v", o.GetName(), l.pl.UID)))
			return c.Create(ctx, o, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if len(l.statusFailures) > 0 {
				err := l.statusFailures[0]
				l.statusFailures = l.statusFailures[1:]
				return err
			}
			err := c.SubResource(name).Update(ctx, o, options...)
			if lost := l.lostResponse; lost != nil {
				l.lostResponse = nil
				return lost
			}
			// As the API server answers.
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "berth"}})
			return err
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if l.deleteFailure != nil {
				return l.deleteFailure
			}
			return c.Delete(ctx, o, options...)
		},
	})
	inv := inventory.New(inventory.Options{})
	inv.Update(l.pl)
	l.Recorder = NewRecorder(c, l, inv, logr.Discard())
	return l
}

// publish tells the Recorder of a published change; sets are letters, one for each cluster.
func (l *testRecorder) publish(revision int64, from, to string) {
	letters := func(text string) []string { return changes.Sorted(strings.Split(text, "")) }
	change := changes.NewChange(letters(from), letters(to))
	change.Cause = fmt.Sprint("cause ", revision)
	l.queue(l.pl, func(o *owed) {
		o.addChange(&unwritten{first: revision, revision: revision, change: change, at: metav1.Time{Time: fixture.Now.Truncate(time.Second)}})
	})
}

// createAgain has the Placement deleted and created again.
func (l *testRecorder) createAgain() {
	l.Inventory.Delete(l.pl)
	l.pl = l.pl.DeepCopy()
	l.pl.UID = "second"
	l.Inventory.Update(l.pl)
}

// records are those on the hub, as "1 Published +b -a".
func (l *testRecorder) records(t *testing.T) []string {
	t.Helper()
	var list berthv1alpha1.PlacementChangeList
	if err := l.hub.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b berthv1alpha1.PlacementChange) int { return int(a.Spec.Revision - b.Spec.Revision) })
	var all []string
	for _, r := range list.Items {
		revision := fmt.Sprint(r.Spec.Revision)
		if r.Spec.FirstRevision != 0 {
			revision = fmt.Sprintf("%d-%s", r.Spec.FirstRevision, revision)
		}
		all = append(all, fmt.Sprintf("%s %s +%s -%s", revision, r.Status.Phase, strings.Join(r.Spec.Added, ""), strings.Join(r.Spec.Removed, "")))
	}
	return all
}

var placementKey = types.NamespacedName{Namespace: "n", Name: "p"}

func TestRecorder(t *testing.T) {
	conflict := apierrors.NewConflict(berthv1alpha1.GroupVersion.WithResource("placementchanges").GroupResource(), "p-1", nil)
	forbidden := apierrors.NewForbidden(berthv1alpha1.GroupVersion.WithResource("placementchanges").GroupResource(), "p-1", nil)
	flush := func(t *testing.T, l *testRecorder, wantErr bool) {
		t.Helper()
		if err := l.flush(t.Context(), placementKey); (err != nil) != wantErr {
			t.Fatalf("flush: %v", err)
		}
	}
	tests := map[string]struct {
		do   func(t *testing.T, l *testRecorder)
		want []string
	}{
		"nothing": {do: func(t *testing.T, l *testRecorder) { flush(t, l, false) }},
		"one": {do: func(t *testing.T, l *testRecorder) {
			l.publish(1, "a", "b")
			flush(t, l, false)
		}, want: []string{"1 Published +b -a"}},
		"changes that are not written yet are merged": {do: func(t *testing.T, l *testRecorder) {
			l.publish(1, "a", "b")
			l.publish(2, "b", "bc")
			flush(t, l, false)
		}, want: []string{"1-2 Published +bc -a"}},
		"those that are written are not": {do: func(t *testing.T, l *testRecorder) {
			l.publish(1, "a", "b")
			flush(t, l, false)
			l.publish(2, "b", "bc")
			flush(t, l, false)
		}, want: []string{"1 Published +b -a", "2 Published +c -"}},
		"a failure is tried again, without what was published since": {do: func(t *testing.T, l *testRecorder) {
			l.failures = []error{errBroken}
			l.publish(1, "a", "b")
			flush(t, l, true)
			l.publish(2, "b", "bc")
			flush(t, l, false)
		}, want: []string{"1 Published +b -a", "2 Published +c -"}},
		"one that is published while the one before is written has a record of its own": {do: func(t *testing.T, l *testRecorder) {
			l.publish(1, "a", "b")
			l.during = func() { l.publish(2, "b", "bc") }
			flush(t, l, false)
		}, want: []string{"1 Published +b -a", "2 Published +c -"}},
		"one that is published while the one before is refused is merged": {do: func(t *testing.T, l *testRecorder) {
			l.failures = []error{forbidden}
			l.publish(1, "a", "b")
			l.during = func() { l.publish(2, "b", "bc") }
			flush(t, l, true)
			flush(t, l, false)
		}, want: []string{"1-2 Published +bc -a"}},
		"a record whose status could not be written is completed": {do: func(t *testing.T, l *testRecorder) {
			l.statusFailures = []error{conflict}
			l.publish(1, "a", "b")
			flush(t, l, true)
			flush(t, l, false)
		}, want: []string{"1 Published +b -a"}},
		"a record whose status could not be written is completed, without what was published since": {do: func(t *testing.T, l *testRecorder) {
			l.statusFailures = []error{conflict}
			l.publish(1, "a", "b")
			flush(t, l, true)
			l.publish(2, "b", "bc")
			l.failures = []error{conflict}
			flush(t, l, true)
			flush(t, l, false)
		}, want: []string{"1 Published +b -a", "2 Published +c -"}},
		"a record whose status was written, with a lost response, has no part in what was published since": {do: func(t *testing.T, l *testRecorder) {
			l.lostResponse, l.readFailure = conflict, errBroken
			l.publish(1, "a", "b")
			flush(t, l, true)
			l.readFailure = nil
			l.publish(2, "b", "bc")
			flush(t, l, false)
		}, want: []string{"1 Published +b -a", "2 Published +c -"}},
		"a record whose status was written, with a lost response, is read": {do: func(t *testing.T, l *testRecorder) {
			l.lostResponse = conflict
			l.publish(1, "a", "b")
			flush(t, l, false)
		}, want: []string{"1 Published +b -a"}},
		"a record that fails waits, others do not": {do: func(t *testing.T, l *testRecorder) {
			l.publish(1, "a", "b")
			l.failures = []error{conflict}
			key, _, _ := l.next(false)
			l.schedule(key, l.flush(t.Context(), key), false)
			other := types.NamespacedName{Namespace: "n", Name: "other"}
			l.turns, l.owed[other] = append(l.turns, other), &owed{prune: true}
			if key, _, ok := l.next(false); !ok || key != other {
				t.Errorf("next is %v, %v", key, ok)
			}
			if _, wait, ok := l.next(false); ok || wait == nil {
				t.Errorf("the next try has to wait")
			}
			l.hasten()
			if key, _, ok := l.next(true); !ok || key != placementKey {
				t.Errorf("at the end next is %v, %v", key, ok)
			}
		}},
		"a refused record is tried again": {do: func(t *testing.T, l *testRecorder) {
			l.failures = []error{forbidden}
			l.publish(1, "a", "b")
			flush(t, l, true)
			l.publish(2, "b", "bc")
			flush(t, l, false)
		}, want: []string{"1-2 Published +bc -a"}},
		"a Placement that is gone": {do: func(t *testing.T, l *testRecorder) {
			l.publish(1, "a", "b")
			l.Forget(placementKey)
			flush(t, l, false)
		}},
		"a Placement that was created again": {do: func(t *testing.T, l *testRecorder) {
			l.publish(7, "a", "b")
			l.createAgain()
			l.publish(1, "", "c")
			flush(t, l, false)
		}, want: []string{"1 Published +c -"}},
		"the record of a later Placement stays": {do: func(t *testing.T, l *testRecorder) {
			later := l.pl.DeepCopy()
			later.UID = "later"
			record := changes.NewRecord(later, 0, 1, changes.NewChange(nil, []string{"z"}))
			l.pl.CreationTimestamp = metav1.NewTime(fixture.Now)
			record.CreationTimestamp = metav1.NewTime(fixture.Now.Add(time.Hour))
			if err := l.hub.Create(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			l.publish(1, "a", "b")
			flush(t, l, true)
		}, want: []string{"1  +z -"}},
		"a record of no Placement is deleted": {do: func(t *testing.T, l *testRecorder) {
			record := changes.NewRecord(l.pl, 0, 1, changes.NewChange(nil, []string{"z"}))
			l.pl.CreationTimestamp, record.OwnerReferences = metav1.NewTime(fixture.Now), nil
			record.CreationTimestamp = metav1.NewTime(fixture.Now.Add(time.Hour))
			if err := l.hub.Create(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			l.publish(1, "a", "b")
			flush(t, l, false)
		}, want: []string{"1 Published +b -a"}},
		"a record that an earlier Placement left is deleted": {do: func(t *testing.T, l *testRecorder) {
			earlier := l.pl.DeepCopy()
			earlier.UID = "earlier"
			left := changes.NewRecord(earlier, 0, 1, changes.NewChange(nil, []string{"z"}))
			if err := l.hub.Create(t.Context(), left); err != nil {
				t.Fatal(err)
			}
			l.publish(1, "a", "b")
			flush(t, l, false)
		}, want: []string{"1 Published +b -a"}},
		"a record that an earlier Placement left, and a finalizer keeps, is no other writer's": {do: func(t *testing.T, l *testRecorder) {
			earlier := l.pl.DeepCopy()
			earlier.UID = "earlier"
			left := changes.NewRecord(earlier, 0, 1, changes.NewChange(nil, []string{"z"}))
			left.Finalizers = []string{"a.io/b"}
			if err := l.hub.Create(t.Context(), left); err != nil {
				t.Fatal(err)
			}
			l.publish(1, "a", "b")
			if err := l.flush(t.Context(), placementKey); err == nil || isRefusal(err) || !strings.Contains(err.Error(), "a.io/b") {
				t.Errorf("flush: %v", err)
			}
		}, want: []string{"1  +z -"}},
		"the record of a former leader stays": {do: func(t *testing.T, l *testRecorder) {
			written := changes.NewRecord(l.pl, 0, 1, changes.NewChange(nil, []string{"z"}))
			if err := l.hub.Create(t.Context(), written); err != nil {
				t.Fatal(err)
			}
			l.publish(1, "a", "b")
			flush(t, l, true)
			if known := l.Inventory.Snapshot(placementKey, fixture.Now, nil).Subject.Records; len(known) != 1 {
				t.Errorf("the inventory knows %d records", len(known))
			}
			flush(t, l, false)
		}, want: []string{"1  +z -"}},
		"the oldest records are deleted": {do: func(t *testing.T, l *testRecorder) {
			policy := fixture.ApprovalPolicy("n", "short", "p")
			policy.Spec.Approval, policy.Spec.HistoryLimit = "", 2
			l.Inventory.Update(policy)
			for n, sets := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "d"}} {
				l.publish(int64(n+1), sets[0], sets[1])
				flush(t, l, false)
			}
		}, want: []string{"2 Published +c -b", "3 Published +d -c"}},
		"those that a plugin counts are kept": {do: func(t *testing.T, l *testRecorder) {
			policy := fixture.ApprovalPolicy("n", "short", "p")
			policy.Spec.Approval, policy.Spec.HistoryLimit = "", 1
			l.Inventory.Update(policy)
			l.NeedsRecords = func() time.Duration { return time.Hour }
			for n, sets := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "e"}} {
				l.Now = func() time.Time { return fixture.Now.Add(time.Hour) }
				if n == 3 {
					l.Now = func() time.Time { return fixture.Now.Add(time.Hour + time.Second) }
				}
				l.publish(int64(n+1), sets[0], sets[1])
				flush(t, l, false)
				if records := l.records(t); n == 2 && len(records) != 3 {
					t.Errorf("within the hour: %v", records)
				}
			}
		}, want: []string{"3 Published +d -c", "4 Published +e -d"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			tc.do(t, l)
			if diff := cmp.Diff(tc.want, l.records(t)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// TestYield: the background waits while attempts are in progress, but not forever.
func TestYield(t *testing.T) {
	l := newTestRecorder(t)
	l.publish(1, "a", "b")
	done := l.Yield()
	if _, wait, ok := l.next(false); ok || wait == nil {
		t.Error("it does not wait for the attempt")
	}
	if _, _, ok := l.next(true); !ok {
		t.Error("it waits at the end")
	}
	l.turns = append(l.turns, placementKey)
	l.owed[placementKey].since = time.Now().Add(-recordPatience)
	if _, _, ok := l.next(false); !ok {
		t.Error("it waits forever")
	}
	l.turns = append(l.turns, placementKey)
	l.owed[placementKey].since = time.Now()
	done()
	if _, wait, ok := l.next(false); ok || wait == nil {
		t.Error("it does not wait for a quiet time after the attempt")
	}
	l.ended = time.Now().Add(-recordQuiet)
	if _, _, ok := l.next(false); !ok {
		t.Error("it waits although nothing was decided for a while")
	}
	var none *Recorder
	none.Yield()()
	none.Forget(placementKey)
	none.Run(t.Context())
	none.Owe(nil)
	if err := none.Write(t.Context(), placementKey); err != nil {
		t.Error(err)
	}
}

// TestHeldChangesArePruned: held changes that supersede one another are kept as history says, also
// where nothing is published in between.
func TestHeldChangesArePruned(t *testing.T) {
	l := newTestRecorder(t)
	for revision := range int64(30) {
		a := l.attempt(t, plan.Held, revision+1, fmt.Sprint("c", revision))
		if err := l.Before(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		l.Owe(a)
		if err := l.Write(t.Context(), placementKey); err != nil {
			t.Fatal(err)
		}
	}
	if records := l.records(t); len(records) != berthv1alpha1.DefaultHistoryLimit {
		t.Errorf("%d records are kept: %v", len(records), records)
	}
}
