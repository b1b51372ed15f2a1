package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// recordKey names a Placement of the namespace n.
func recordKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "n", Name: name}
}

// describeUnwritten are changes as "first-last +added -removed: cause".
func describeUnwritten(o *owed) string {
	if o == nil {
		return ""
	}
	var all []string
	for _, u := range o.changes {
		all = append(all, describeChange(u))
	}
	return strings.Join(all, "; ")
}

func describeChange(u *unwritten) string {
	return fmt.Sprintf("%d-%d +%s -%s: %s", u.first, u.revision, strings.Join(u.change.Added, ""), strings.Join(u.change.Removed, ""), u.change.Cause)
}

func TestPublishedChangesAreQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestRecorder(t)
		began := time.Now()
		l.publish(4, "a", "b")
		o := l.owed[placementKey]
		if got, want := describeUnwritten(o), "4-4 +b -a: cause 4"; got != want {
			t.Fatalf("queued is %q, want %q", got, want)
		}
		u := o.changes[0]
		if o.placement != l.pl || !u.at.Time.Equal(fixture.Now) || !o.since.Equal(began) || u.tried {
			t.Errorf("queued is %+v", u)
		}
		if len(l.changed) != 1 {
			t.Error("the first change does not wake the background")
		}
		<-l.changed
		time.Sleep(time.Second)
		l.publish(5, "b", "bc")
		if got, want := describeUnwritten(o), "4-5 +bc -a: cause 5"; got != want {
			t.Errorf("queued is %q, want %q", got, want)
		}
		if !o.since.Equal(began) {
			t.Errorf("queued is %+v", o.changes[0])
		}
		if diff := cmp.Diff([]types.NamespacedName{placementKey}, l.turns); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
		// A Placement that is created again has a history of its own, and another turn.
		l.createAgain()
		l.publish(1, "a", "d")
		again := l.owed[placementKey]
		if got, want := describeUnwritten(again), "1-1 +d -a: cause 1"; got != want || !again.since.Equal(began.Add(time.Second)) {
			t.Errorf("queued is %q, want %q: %+v", got, want, again)
		}
		if diff := cmp.Diff([]types.NamespacedName{placementKey, placementKey}, l.turns); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
	})
}

// TestWritersOfChangesWait: one writes the changes of a Placement at a time, and others wait no
// longer than their context.
func TestWritersOfChangesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestRecorder(t)
		l.publish(1, "a", "b")
		o := l.owed[placementKey]
		if err := l.beginWriting(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.writeChanges(ctx, placementKey); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- l.writeChanges(t.Context(), placementKey) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("a second writer did not wait: %v", err)
		default:
		}
		l.endWriting(o)
		if err := <-done; err != nil || len(l.owed) > 0 && len(l.owed[placementKey].changes) > 0 {
			t.Errorf("owed is %q: %v", describeUnwritten(l.owed[placementKey]), err)
		}
	})
}

// TestMergedChanges: what is published while a record is written is merged if that is refused,
// unless the hub may have the record, or a later one was written first.
func TestMergedChanges(t *testing.T) {
	tests := map[string]struct {
		closed, tried, succeeds bool
		want                    string
	}{
		"the record is written":               {succeeds: true, want: "3-3 +c -: cause 3"},
		"it is refused":                       {want: "1-3 +bc -a: cause 3"},
		"it fails, and the hub may have it":   {tried: true, want: "1-2 +b -a: cause 2; 3-3 +c -: cause 3"},
		"it is refused, and another is newer": {closed: true, want: "1-2 +b -a: cause 2; 3-3 +c -: cause 3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			l.publish(1, "a", "x")
			l.publish(2, "x", "b")
			o := l.owed[placementKey]
			_, u := l.beginChange(o, 0)
			u.tried = tc.tried
			if tc.closed {
				l.closeChanges(placementKey)
			}
			l.publish(3, "b", "bc")
			if got, want := describeUnwritten(o), "1-2 +b -a: cause 2; 3-3 +c -: cause 3"; got != want {
				t.Errorf("while it is written: %q, want %q", got, want)
			}
			err := errBroken
			if tc.succeeds {
				err = nil
			}
			l.endChange(o, u, err)
			if got := describeUnwritten(o); got != tc.want {
				t.Errorf("queued is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNextRecord(t *testing.T) {
	waiting := func(r *Recorder, name string, age time.Duration) {
		r.turns = append(r.turns, recordKey(name))
		r.owed[recordKey(name)] = &owed{prune: true, scheduled: true, since: time.Now().Add(-age)}
	}
	status := func(r *Recorder, name string) {
		r.owed[recordKey(name)] = &owed{statuses: []*berthv1alpha1.PlacementChange{{}}}
	}
	retried := func(r *Recorder, name string, after time.Duration) {
		r.owed[recordKey(name)] = &owed{prune: true, scheduled: true, since: time.Now()}
		r.retries = append(r.retries, laterTry{recordKey(name), time.Now().Add(after)})
	}
	tests := map[string]struct {
		prepare func(r *Recorder)
		ended   bool
		// want are the names that come one after the other; then wantWait is the time to wait, none
		// if 0.
		want     []string
		wantWait time.Duration
		// wantTurns and wantRetries are left.
		wantTurns, wantRetries int
	}{
		"nothing":  {prepare: func(*Recorder) {}},
		"in order": {prepare: func(r *Recorder) { waiting(r, "a", 0); waiting(r, "b", 0) }, want: []string{"a", "b"}},
		"forgotten ones have no turn": {
			prepare: func(r *Recorder) {
				r.turns = append(r.turns, recordKey("gone"), recordKey("gone too"))
				waiting(r, "a", 0)
			},
			want: []string{"a"},
		},
		"only forgotten ones":               {prepare: func(r *Recorder) { r.turns = append(r.turns, recordKey("gone")) }},
		"it yields":                         {prepare: func(r *Recorder) { r.Yield(); waiting(r, "a", time.Second) }, wantWait: recordPatience - time.Second, wantTurns: 1},
		"it yields to the last moment":      {prepare: func(r *Recorder) { r.Yield(); waiting(r, "a", recordPatience-1) }, wantWait: 1, wantTurns: 1},
		"its patience has ended":            {prepare: func(r *Recorder) { r.Yield(); waiting(r, "a", recordPatience) }, want: []string{"a"}},
		"it yields no more at the end":      {prepare: func(r *Recorder) { r.Yield(); waiting(r, "a", 0) }, ended: true, want: []string{"a"}},
		"a retry":                           {prepare: func(r *Recorder) { retried(r, "a", time.Second) }, wantWait: time.Second, wantRetries: 1},
		"a retry whose time has come":       {prepare: func(r *Recorder) { retried(r, "a", 0) }, want: []string{"a"}},
		"a retry at the end":                {prepare: func(r *Recorder) { retried(r, "a", time.Second); retried(r, "b", time.Minute); r.hasten() }, ended: true, want: []string{"a", "b"}},
		"a status":                          {prepare: func(r *Recorder) { status(r, "a") }},
		"a status at the end":               {prepare: func(r *Recorder) { status(r, "a"); r.hasten() }, ended: true, want: []string{"a"}},
		"one of two retries":                {prepare: func(r *Recorder) { retried(r, "a", -1); retried(r, "b", 1) }, want: []string{"a"}, wantWait: 1, wantRetries: 1},
		"a retry does not delay others":     {prepare: func(r *Recorder) { retried(r, "a", time.Second); waiting(r, "b", 0) }, want: []string{"b"}, wantWait: time.Second, wantRetries: 1},
		"a retry comes after those waiting": {prepare: func(r *Recorder) { retried(r, "a", 0); waiting(r, "b", 0) }, want: []string{"b", "a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestRecorder(t)
				tc.prepare(l.Recorder)
				var got []string
				var wait <-chan time.Time
				for {
					key, later, ok := l.next(tc.ended)
					if !ok {
						wait = later
						break
					}
					if later != nil {
						t.Errorf("%s has its turn, and waits", key)
					}
					got = append(got, key.Name)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("turns (-want +got):\n%s", diff)
				}
				if (wait != nil) != (tc.wantWait > 0) {
					t.Fatalf("it waits: %t", wait != nil)
				}
				if wait != nil {
					began := time.Now()
					if <-wait; time.Since(began) != tc.wantWait {
						t.Errorf("it waits for %s, want %s", time.Since(began), tc.wantWait)
					}
				}
				if len(l.turns) != tc.wantTurns || len(l.retries) != tc.wantRetries {
					t.Errorf("%d turns and %d retries are left, want %d and %d", len(l.turns), len(l.retries), tc.wantTurns, tc.wantRetries)
				}
			})
		})
	}
}

// failuresOf is how often writing records failed for a reason.
func failuresOf(t *testing.T, reason string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(recordFailures)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// TestRetryOfRecords: what fails is tried again, later each time; what is refused is logged once.
func TestRetryOfRecords(t *testing.T) {
	conflict := apierrors.NewConflict(recordResource, "p-1", nil)
	terminating := &apierrors.StatusError{ErrStatus: metav1.Status{
		Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
	const minute = time.Minute
	tests := map[string]struct {
		err   error
		ended bool
		// want are the times until the next tries; none if the record is given up.
		want     []time.Duration
		wantLine string
	}{
		"a conflict":                   {err: conflict, want: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
		"an error that is not the API": {err: errBroken, want: []time.Duration{time.Second, 2 * time.Second}},
		"for long":                     {err: errBroken, want: []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, minute, minute}},
		"the end":                      {err: conflict, ended: true, want: []time.Duration{flushRetry, flushRetry}},
		"a refusal at the end":         {err: errGone, ended: true, want: []time.Duration{flushRetry}, wantLine: "is refused"},
		"the namespace is gone":        {err: errGone, want: []time.Duration{minute, minute}, wantLine: "is refused"},
		"the right is missing":         {err: apierrors.NewForbidden(recordResource, "p-1", nil), want: []time.Duration{minute}, wantLine: "is refused"},
		"the record is invalid":        {err: apierrors.NewInvalid(berthv1alpha1.GroupVersion.WithKind("PlacementChange").GroupKind(), "p-1", nil), want: []time.Duration{minute}, wantLine: "is refused"},
		"the record is too large":      {err: apierrors.NewRequestEntityTooLargeError("too large"), want: []time.Duration{minute}, wantLine: "is refused"},
		"another record is there":      {err: fmt.Errorf("%w: %w", errOtherRecord, errExists), wantLine: "has no record"},
		"the namespace is going":       {err: terminating, wantLine: "the namespace is being deleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestRecorder(t)
				var lines []string
				l.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
				l.publish(1, "a", "b")
				l.next(true)
				before, tries := failuresOf(t, reasonOf(tc.err)), max(1, len(tc.want))
				for i := range tries {
					l.failures = []error{tc.err}
					l.schedule(placementKey, l.flush(t.Context(), placementKey), tc.ended)
					var want []laterTry
					if i < len(tc.want) {
						want = []laterTry{{placementKey, time.Now().Add(tc.want[i])}}
					}
					if diff := cmp.Diff(want, l.retries, cmp.AllowUnexported(laterTry{})); diff != "" {
						t.Errorf("retries after failure %d (-want +got):\n%s", i+1, diff)
					}
					l.retries = nil
				}
				if got := failuresOf(t, reasonOf(tc.err)) - before; got != float64(tries) {
					t.Errorf("%v failures are counted, want %d", got, tries)
				}
				if kept := l.owed[placementKey] != nil; kept != (len(tc.want) > 0) {
					t.Errorf("the change is kept: %t", kept)
				}
				if tc.wantLine == "" {
					expectLines(t, lines)
				} else if len(lines) != 1 || !strings.Contains(lines[0], tc.wantLine) || !strings.Contains(lines[0], `"placement"="n/p"`) {
					t.Errorf("the log is %q", lines)
				}
			})
		})
	}
}

// runRecorder runs the background until stop is called, which returns how long it took to end.
func runRecorder(t *testing.T, l *testRecorder) (stop func() time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx)
	}()
	synctest.Wait()
	return func() time.Duration {
		began := time.Now()
		cancel()
		<-ended
		return time.Since(began)
	}
}

func TestBackgroundOfRecords(t *testing.T) {
	busy := apierrors.NewTooManyRequestsError("busy")
	type step struct {
		do   func(l *testRecorder)
		wait time.Duration
		want []string
	}
	nothing := func(*testRecorder) {}
	written := []string{"1 Published +b -a"}
	var done func()
	tests := map[string]struct {
		steps    []step
		want     []string
		wantTook time.Duration
	}{
		"at once": {steps: []step{{do: func(l *testRecorder) { l.publish(1, "a", "b") }, want: written}}, want: written},
		"after the attempt": {steps: []step{
			{do: func(l *testRecorder) { done = l.Yield(); l.publish(1, "a", "b") }, wait: recordPatience / 2},
			{do: func(*testRecorder) { done() }, wait: recordQuiet - 1},
			{do: nothing, wait: 1, want: written},
		}, want: written},
		"not between two attempts": {steps: []step{
			{do: func(l *testRecorder) { l.Yield()(); l.publish(1, "a", "b") }, wait: recordQuiet - 1},
			{do: func(l *testRecorder) { done = l.Yield() }, wait: 2},
			{do: func(*testRecorder) { done() }, wait: recordQuiet, want: written},
		}, want: written},
		"when patience ends": {steps: []step{
			{do: func(l *testRecorder) { l.Yield(); l.publish(1, "a", "b") }, wait: recordPatience - 1},
			{do: nothing, wait: 1, want: written},
		}, want: written},
		"a second later": {steps: []step{
			{do: func(l *testRecorder) { l.failures = []error{busy}; l.publish(1, "a", "b") }, wait: time.Second - 1},
			{do: nothing, wait: 1, want: written},
		}, want: written},
		"at the end": {steps: []step{{do: func(l *testRecorder) { l.Yield(); l.publish(1, "a", "b") }}}, want: written},
		"a failure at the end": {steps: []step{
			{do: func(l *testRecorder) { l.Yield(); l.failures = []error{busy}; l.publish(1, "a", "b") }},
		}, want: written, wantTook: flushRetry},
		"failures at the end": {steps: []step{
			{do: func(l *testRecorder) {
				l.Yield()
				l.failures = slices.Repeat([]error{busy}, 100)
				l.publish(1, "a", "b")
			}},
		}, wantTook: recordFlush},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestRecorder(t)
				stop := runRecorder(t, l)
				for i, s := range tc.steps {
					s.do(l)
					time.Sleep(s.wait)
					synctest.Wait()
					if diff := cmp.Diff(s.want, l.records(t)); diff != "" {
						t.Errorf("records after step %d (-want +got):\n%s", i, diff)
					}
				}
				if took := stop(); took != tc.wantTook {
					t.Errorf("it ended after %s, want %s", took, tc.wantTook)
				}
				if diff := cmp.Diff(tc.want, l.records(t)); diff != "" {
					t.Errorf("records at the end (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnEndBoundsTheTimeOfRecords: a write that is still running some time after the end is
// canceled, and no other begins.
func TestAnEndBoundsTheTimeOfRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestRecorder(t)
		l.Client = slowWrites{l.Client}
		defer l.Yield()()
		stop := runRecorder(t, l)
		l.publish(1, "a", "b")
		l.turns, l.owed[recordKey("q")] = append(l.turns, recordKey("q")), &owed{prune: true, since: time.Now()}
		time.Sleep(time.Second)
		if took := stop(); took != 5*time.Second {
			t.Errorf("it ended after %s, want 5s", took)
		}
		if o := l.owed[recordKey("q")]; o == nil || !o.prune {
			t.Error("another write began")
		}
	})
}

// slowWrites creates nothing until the request is canceled.
type slowWrites struct{ client.Client }

func (slowWrites) Create(ctx context.Context, _ client.Object, _ ...client.CreateOption) error {
	<-ctx.Done()
	return ctx.Err()
}
