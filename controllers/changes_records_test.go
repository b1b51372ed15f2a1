package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

var (
	recordResource = berthv1alpha1.GroupVersion.WithResource("placementchanges").GroupResource()
	errBroken      = errors.New("broken")
	errGone        = apierrors.NewNotFound(recordResource, "p-1")
	errExists      = apierrors.NewAlreadyExists(recordResource, "p-1")
)

// holder is a Permit plugin that holds all changes.
type holder struct{}

func (holder) Name() string { return "x" }

func (holder) Permit(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) (*framework.Status, time.Duration) {
	return framework.NewStatus(framework.Wait, "why"), time.Hour
}

// attempt is one that ended with an outcome: Unchanged, Held or Published. It adds a cluster under
// a revision, unless it is Unchanged.
func (l *testRecorder) attempt(t *testing.T, outcome plan.Outcome, revision int64, cluster string) *scheduler.Attempt {
	t.Helper()
	snapshot := l.Inventory.Snapshot(placementKey, fixture.Now, nil)
	subject := *snapshot.Subject
	snapshot.Subject, subject.Last = &subject, &framework.Published{Digest: framework.DigestOf(nil), Revision: revision - 1}
	d := &decide.Decision{Snapshot: snapshot, State: framework.NewCycleState(snapshot), Profile: &plugins.Profile{}}
	if outcome != plan.Unchanged {
		d.Selected = []framework.SelectedCluster{{Cluster: framework.NewCluster(fixture.Cluster(cluster).Obj(), 0)}}
	}
	if outcome == plan.Held {
		d.Profile.Permit = []framework.PermitPlugin{holder{}}
	}
	p := plan.Make(t.Context(), d, plan.Input{Limits: &limits.Limits{}})
	if p.Outcome != outcome {
		t.Fatalf("the outcome is %s", p.Outcome)
	}
	return &scheduler.Attempt{Plan: p, Done: scheduler.Done{Step: p.Publish}}
}

// addRecord stores a record of the Placement on the hub, and in the inventory if it is known there.
func (l *testRecorder) addRecord(t *testing.T, revision int64, known bool, edit func(*berthv1alpha1.PlacementChange)) {
	t.Helper()
	record := changes.NewRecord(l.pl, 0, revision, changes.NewChange(nil, []string{"z"}))
	if edit != nil {
		edit(record)
	}
	status := record.Status
	if err := l.hub.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	record.Status = status
	if err := l.hub.Status().Update(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if known {
		l.Inventory.Update(record)
	}
}

func setHeld(record *berthv1alpha1.PlacementChange) {
	record.Status.Phase, record.Status.StartTime = berthv1alpha1.PhaseHeld, new(fixture.At(-90))
}

func TestRecordsBeforePublication(t *testing.T) {
	tests := map[string]struct {
		outcome      plan.Outcome
		prepare      func(t *testing.T, l *testRecorder)
		want         []string
		wantErr      error
		wantRecorded bool
	}{
		"nothing to record": {
			outcome: plan.Published,
			// What is not written yet is left to the background.
			prepare: func(_ *testing.T, l *testRecorder) { l.publish(1, "a", "b") },
		},
		"a held change": {outcome: plan.Held, want: []string{"2 Held +c -"}, wantRecorded: true},
		"earlier changes come first": {
			outcome: plan.Held, prepare: func(_ *testing.T, l *testRecorder) { l.publish(1, "a", "b") },
			want: []string{"1 Published +b -a", "2 Held +c -"}, wantRecorded: true,
		},
		"earlier changes cannot be written": {
			outcome: plan.Held, wantErr: errBroken,
			prepare: func(_ *testing.T, l *testRecorder) {
				l.publish(1, "a", "b")
				l.failures = []error{errBroken}
			},
		},
		"the record cannot be written": {
			outcome: plan.Held, wantErr: errBroken, prepare: func(_ *testing.T, l *testRecorder) { l.failures = []error{errBroken} },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			if tc.prepare != nil {
				tc.prepare(t, l)
			}
			a := l.attempt(t, tc.outcome, 2, "c")
			if err := l.Before(t.Context(), a); !errors.Is(err, tc.wantErr) {
				t.Errorf("got error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, l.records(t)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if a.Recorded() != tc.wantRecorded {
				t.Errorf("recorded is %t", a.Recorded())
			}
		})
	}
}

func TestRecordsAfterPublication(t *testing.T) {
	short := func(l *testRecorder) {
		policy := fixture.ApprovalPolicy("n", "short", "p")
		policy.Spec.Approval, policy.Spec.HistoryLimit = "", 1
		l.Inventory.Update(policy)
	}
	superseded := func(record *berthv1alpha1.PlacementChange) { record.Status.Phase = berthv1alpha1.PhaseSuperseded }
	tests := map[string]struct {
		outcome plan.Outcome
		prepare func(t *testing.T, l *testRecorder, a *scheduler.Attempt)
		before  func(t *testing.T, l *testRecorder)
		want    []string
		wantErr error
		// wantQueued is the revision of the change whose record is queued.
		wantQueued int64
	}{
		"nothing changed": {outcome: plan.Unchanged},
		"a change":        {outcome: plan.Published, wantQueued: 3},
		"an attempt that failed": {
			outcome: plan.Published, before: func(t *testing.T, l *testRecorder) { l.addRecord(t, 1, true, setHeld) },
			prepare: func(_ *testing.T, _ *testRecorder, a *scheduler.Attempt) {
				a.Err = framework.NewStatus(framework.Error, "failed")
			},
			want: []string{"1 Held +z -"},
		},
		"a held change that is superseded": {
			outcome: plan.Published, before: func(t *testing.T, l *testRecorder) { l.addRecord(t, 1, true, setHeld) },
			want: []string{"1 Superseded +z -"}, wantQueued: 3,
		},
		"the record cannot be written": {
			outcome: plan.Published, before: func(t *testing.T, l *testRecorder) { l.addRecord(t, 1, true, setHeld) },
			prepare: func(_ *testing.T, l *testRecorder, _ *scheduler.Attempt) { l.statusFailures = []error{errBroken} },
			want:    []string{"1 Held +z -"}, wantErr: errBroken, wantQueued: 3,
		},
		"old records are deleted after a write": {
			outcome: plan.Published,
			before: func(t *testing.T, l *testRecorder) {
				short(l)
				l.addRecord(t, 1, true, superseded)
				l.addRecord(t, 2, true, setHeld)
			},
			want: []string{"2 Superseded +z -"}, wantQueued: 3,
		},
		"old records stay without a write": {
			outcome: plan.Published,
			before: func(t *testing.T, l *testRecorder) {
				short(l)
				l.addRecord(t, 1, true, superseded)
				l.addRecord(t, 2, true, superseded)
			},
			want: []string{"1 Superseded +z -", "2 Superseded +z -"}, wantQueued: 3,
		},
		"old records are deleted after an earlier write": {
			outcome: plan.Published,
			before: func(t *testing.T, l *testRecorder) {
				short(l)
				l.addRecord(t, 1, true, superseded)
				l.addRecord(t, 2, true, superseded)
			},
			prepare: func(_ *testing.T, _ *testRecorder, a *scheduler.Attempt) { a.SetRecorded() },
			want:    []string{"2 Superseded +z -"}, wantQueued: 3,
		},
		"old records cannot be deleted": {
			outcome: plan.Published,
			before: func(t *testing.T, l *testRecorder) {
				short(l)
				l.addRecord(t, 1, true, superseded)
				l.addRecord(t, 2, true, superseded)
			},
			prepare: func(_ *testing.T, l *testRecorder, a *scheduler.Attempt) {
				a.SetRecorded()
				l.deleteFailure = errBroken
			},
			want: []string{"1 Superseded +z -", "2 Superseded +z -"}, wantErr: errBroken, wantQueued: 3,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			if tc.before != nil {
				tc.before(t, l)
			}
			a := l.attempt(t, tc.outcome, 3, "c")
			if tc.prepare != nil {
				tc.prepare(t, l, a)
			}
			l.Owe(a)
			if err := l.Write(t.Context(), placementKey); !errors.Is(err, tc.wantErr) {
				t.Errorf("got error %v, want %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, l.records(t)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			var queued int64
			if o := l.owed[placementKey]; o != nil && len(o.changes) > 0 {
				queued = o.changes[0].revision
			}
			if queued != tc.wantQueued {
				t.Errorf("the record of revision %d is queued, want %d", queued, tc.wantQueued)
			}
		})
	}
}

// heldSeconds is how often, and for how long in all, changes were held that ended in a phase.
func heldSeconds(t *testing.T, phase string) (count uint64, sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(permitSeconds)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == phase {
				return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return 0, 0
}

// TestHeldTimeIsObserved: the metric counts held changes that end, once each.
func TestHeldTimeIsObserved(t *testing.T) {
	tests := map[string]struct {
		existing        bool
		start, complete *metav1.Time
		wantCount       uint64
	}{
		"it ends":                     {existing: true, start: new(fixture.At(-90)), complete: new(fixture.At(0)), wantCount: 1},
		"it goes on":                  {existing: true, start: new(fixture.At(-90))},
		"it has no start":             {existing: true, complete: new(fixture.At(0))},
		"a record of a published one": {start: new(fixture.At(-90)), complete: new(fixture.At(0))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			record := changes.NewRecord(l.pl, 0, 1, changes.NewChange(nil, []string{"z"}))
			if tc.existing {
				if err := l.hub.Create(t.Context(), record); err != nil {
					t.Fatal(err)
				}
			}
			record.Status = berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseRejected, StartTime: tc.start, CompletionTime: tc.complete}
			countBefore, sumBefore := heldSeconds(t, "Rejected")
			if err := l.write(t.Context(), l.pl, record); err != nil {
				t.Fatal(err)
			}
			count, sum := heldSeconds(t, "Rejected")
			if count-countBefore != tc.wantCount || sum-sumBefore != 90*float64(tc.wantCount) {
				t.Errorf("%d are observed with %v s, want %d", count-countBefore, sum-sumBefore, tc.wantCount)
			}
			known := l.Inventory.Records()
			if len(known) != 1 || known[0].ManagedFields != nil || known[0].Status.Phase != berthv1alpha1.PhaseRejected {
				t.Errorf("the inventory knows %v", known)
			}
		})
	}
}

func TestCreateRecord(t *testing.T) {
	ofEarlier := func(edit func(*berthv1alpha1.PlacementChange)) func(t *testing.T, l *testRecorder) {
		return func(t *testing.T, l *testRecorder) {
			l.addRecord(t, 1, false, func(record *berthv1alpha1.PlacementChange) {
				record.OwnerReferences[0].UID = "earlier"
				record.CreationTimestamp = fixture.At(-60)
				if edit != nil {
					edit(record)
				}
			})
		}
	}
	// The placement is created after the record that an earlier one left.
	created := func(l *testRecorder) { l.pl.CreationTimestamp = fixture.At(0) }
	tests := map[string]struct {
		prepare func(t *testing.T, l *testRecorder)
		want    []string
		wantErr error
		text    string
	}{
		"no other": {want: []string{"1 Published +b -a"}},
		"it cannot be created": {
			prepare: func(_ *testing.T, l *testRecorder) { l.failures = []error{errBroken} },
			wantErr: errBroken, text: "creating PlacementChange n/p-1: broken",
		},
		"its status cannot be written": {
			prepare: func(_ *testing.T, l *testRecorder) { l.statusFailures = []error{errBroken} },
			want:    []string{"1  +b -a"}, wantErr: errBroken, text: "writing the status of PlacementChange n/p-1: broken",
		},
		"the other one cannot be read": {
			prepare: func(t *testing.T, l *testRecorder) {
				ofEarlier(nil)(t, l)
				l.readFailure = errBroken
			},
			want: []string{"1  +z -"}, wantErr: errBroken, text: "reading it: broken",
		},
		"an earlier one of an older Placement": {
			prepare: func(t *testing.T, l *testRecorder) {
				ofEarlier(nil)(t, l)
				created(l)
			},
			want: []string{"1 Published +b -a"},
		},
		"an earlier one of a Placement without a time": {prepare: ofEarlier(nil), want: []string{"1 Published +b -a"}},
		"an earlier one that cannot be deleted": {
			prepare: func(t *testing.T, l *testRecorder) {
				ofEarlier(nil)(t, l)
				l.deleteFailure = errBroken
			},
			want: []string{"1  +z -"}, wantErr: errBroken, text: "deleting the one that a deleted Placement left: broken",
		},
		"an earlier one that is deleted meanwhile, and another is there": {
			prepare: func(t *testing.T, l *testRecorder) {
				ofEarlier(nil)(t, l)
				l.deleteFailure = errGone
			},
			want: []string{"1  +z -"}, wantErr: errExists, text: "creating PlacementChange n/p-1: ",
		},
		"an earlier one with a finalizer": {
			prepare: ofEarlier(func(record *berthv1alpha1.PlacementChange) { record.Finalizers = []string{"a.io/b", "c.io/d"} }),
			want:    []string{"1  +z -"}, text: "is kept by metadata.finalizers a.io/b, c.io/d",
		},
		"an earlier one with a finalizer, and the server fails": {
			prepare: func(t *testing.T, l *testRecorder) {
				ofEarlier(func(record *berthv1alpha1.PlacementChange) { record.Finalizers = []string{"a.io/b"} })(t, l)
				l.failures = []error{errExists, errBroken}
			},
			want: []string{"1  +z -"}, wantErr: errBroken, text: "creating PlacementChange n/p-1: broken",
		},
		"one of this Placement that another writer finished": {
			prepare: func(t *testing.T, l *testRecorder) {
				l.addRecord(t, 1, false, func(record *berthv1alpha1.PlacementChange) {
					record.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "berth"}}
					setHeld(record)
				})
			},
			want: []string{"1 Held +z -"}, wantErr: errExists,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			if tc.prepare != nil {
				tc.prepare(t, l)
			}
			l.publish(1, "a", "b")
			err := l.flush(t.Context(), placementKey)
			switch {
			case tc.wantErr == nil && tc.text == "":
				if err != nil {
					t.Errorf("got error %v", err)
				}
			case err == nil || !strings.Contains(err.Error(), tc.text) || tc.wantErr != nil && !sameError(err, tc.wantErr):
				t.Errorf("got error %v, want %v with %q", err, tc.wantErr, tc.text)
			}
			if diff := cmp.Diff(tc.want, l.records(t)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			for _, known := range l.Inventory.Records() {
				if known.ManagedFields != nil {
					t.Errorf("the inventory keeps %v", known.ManagedFields)
				}
			}
		})
	}
}

// sameError is true for an error that wraps the other, or has the same reason of the API.
func sameError(err, other error) bool {
	return errors.Is(err, other) || apierrors.ReasonForError(other) != "" && apierrors.ReasonForError(err) == apierrors.ReasonForError(other)
}

// TestRecordsWithoutAnAnswer: a request that got no answer may be carried out at any later time.
// Each revision is in one record then, too.
func TestRecordsWithoutAnAnswer(t *testing.T) {
	late := func(t *testing.T, l *testRecorder) {
		t.Helper()
		record := changes.NewRecord(l.pl, 1, 1, changes.NewChange([]string{"a"}, []string{"b"}))
		record.Spec.Cause = "cause 1"
		if err := l.hub.Create(t.Context(), record); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		// failures are those of the creations of the record, one for each try.
		failures []error
		// afterTry is the try after which the first request is carried out.
		afterTry int
	}{
		"carried out at once":              {failures: []error{errBroken}},
		"carried out before the third try": {failures: []error{errBroken, errBroken}, afterTry: 1},
		"carried out at the end":           {failures: []error{errBroken, errBroken}, afterTry: 3},
		"refused at the second try":        {failures: []error{errBroken, errGone}, afterTry: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			l.failures = tc.failures
			l.publish(1, "a", "b")
			for try := range 4 {
				_ = l.flush(t.Context(), placementKey)
				if try == tc.afterTry {
					late(t, l)
				}
				if try == 0 {
					l.publish(2, "b", "bc")
					l.publish(3, "bc", "c")
				}
			}
			if diff := cmp.Diff([]string{"1 Published +b -a", "2-3 Published +c -b"}, l.records(t)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnsureRecordIsReplaced: the record of a change that was not made, and that the hub may have,
// is replaced by that of the change with its revision, which is not merged with others.
func TestUnsureRecordIsReplaced(t *testing.T) {
	l := newTestRecorder(t)
	held := changes.NewRecord(l.pl, 1, 1, changes.NewChange([]string{"a"}, []string{"z"}))
	l.addUnsure(l.pl, held.DeepCopy())
	l.publish(1, "a", "b")
	l.publish(2, "b", "bc")
	if err := l.hub.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if err := l.flush(t.Context(), placementKey); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 Published +b -a", "2 Published +c -"}, l.records(t)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestRecordIsFoundAgain: a record whose creation got no answer gets the whole status, and then the
// next one.
func TestRecordIsFoundAgain(t *testing.T) {
	l := newTestRecorder(t)
	l.addRecord(t, 1, false, setHeld)
	record := changes.NewRecord(l.pl, 0, 1, changes.NewChange(nil, []string{"z"}))
	setHeld(record)
	record.Status.PermittedTime = new(fixture.At(-30))
	for _, phase := range []berthv1alpha1.ChangePhase{berthv1alpha1.PhaseHeld, berthv1alpha1.PhasePublished} {
		record.Status.Phase = phase
		if err := l.write(t.Context(), l.pl, record); err != nil {
			t.Fatal(err)
		}
		found := &berthv1alpha1.PlacementChange{}
		if err := l.hub.Get(t.Context(), client.ObjectKeyFromObject(record), found); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(record.Status, found.Status); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phase, diff)
		}
	}
}

// TestPublishedRecordTimes: all times are those of the attempt, in whole seconds.
func TestPublishedRecordTimes(t *testing.T) {
	l := newTestRecorder(t)
	a := l.attempt(t, plan.Published, 1, "c")
	a.Snapshot.Now = fixture.Now.Add(1500 * time.Millisecond)
	l.Owe(a)
	if err := l.flush(t.Context(), placementKey); err != nil {
		t.Fatal(err)
	}
	at := new(fixture.At(1))
	want := berthv1alpha1.PlacementChangeStatus{
		Phase: berthv1alpha1.PhasePublished, StartTime: at, PermittedTime: at, LastProgressTime: at, CompletionTime: at,
	}
	if known := l.Inventory.Records(); len(known) != 1 || cmp.Diff(want, known[0].Status) != "" {
		t.Errorf("the inventory knows %v", known)
	}
}

func TestPrune(t *testing.T) {
	old := func(record *berthv1alpha1.PlacementChange) { record.Status.Phase = berthv1alpha1.PhasePublished }
	tests := map[string]struct {
		key     types.NamespacedName
		failure error
		want    []string
		wantErr string
	}{
		"surplus":             {key: placementKey, want: []string{"2 Published +z -"}},
		"of a Placement gone": {key: types.NamespacedName{Namespace: "n", Name: "q"}, want: []string{"1 Published +z -", "2 Published +z -"}},
		"deleted meanwhile":   {key: placementKey, failure: errGone, want: []string{"1 Published +z -", "2 Published +z -"}},
		"that cannot be deleted": {
			key: placementKey, failure: errBroken, want: []string{"1 Published +z -", "2 Published +z -"},
			wantErr: "deleting PlacementChange n/p-1, which history no longer keeps: broken",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			policy := fixture.ApprovalPolicy("n", "short", "p")
			policy.Spec.Approval, policy.Spec.HistoryLimit = "", 1
			l.Inventory.Update(policy)
			l.addRecord(t, 1, true, old)
			l.addRecord(t, 2, true, old)
			l.deleteFailure = tc.failure
			err := l.prune(t.Context(), tc.key)
			if (err != nil) != (tc.wantErr != "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("got error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, l.records(t)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}
