package controllers

import (
	"context"
	"errors"
	"fmt"
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

// describeUnwritten is "first-last +added -removed: cause", or nothing.
func describeUnwritten(u *unwritten) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("%d-%d +%s -%s: %s", u.first, u.revision, strings.Join(u.change.Added, ""), strings.Join(u.change.Removed, ""), u.change.Cause)
}

func TestPublishedChangesAreQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestRecorder(t)
		began := time.Now()
		l.publish(4, "a", "b")
		u := l.unwritten[placementKey]
		if got, want := describeUnwritten(u), "4-4 +b -a: cause 4"; got != want {
			t.Errorf("queued is %q, want %q", got, want)
		}
		if u.placement != l.pl || !u.at.Time.Equal(fixture.Now) || !u.since.Equal(began) || u.tried != nil {
			t.Errorf("queued is %+v", u)
		}
		if len(l.changed) != 1 {
			t.Error("the first change does not wake the background")
		}
		<-l.changed
		u.tried = &berthv1alpha1.PlacementChange{}
		time.Sleep(time.Second)
		l.publish(5, "b", "bc")
		merged := l.unwritten[placementKey]
		if got, want := describeUnwritten(merged), "4-5 +bc -a: cause 5"; got != want {
			t.Errorf("queued is %q, want %q", got, want)
		}
		if !merged.since.Equal(began) || merged.tried != u.tried {
			t.Errorf("queued is %+v", merged)
		}
		if len(l.changed) != 1 {
			t.Error("the second change does not wake the background")
		}
		if diff := cmp.Diff([]types.NamespacedName{placementKey}, l.turns); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
		// A Placement that is created again has a history of its own, and another turn.
		l.pl = l.pl.DeepCopy()
		l.pl.UID = "second"
		l.publish(1, "a", "d")
		again := l.unwritten[placementKey]
		if got, want := describeUnwritten(again), "1-1 +d -a: cause 1"; got != want || !again.since.Equal(began.Add(time.Second)) || again.tried != nil {
			t.Errorf("queued is %q, want %q: %+v", got, want, again)
		}
		if diff := cmp.Diff([]types.NamespacedName{placementKey, placementKey}, l.turns); diff != "" {
			t.Errorf("turns (-want +got):\n%s", diff)
		}
	})
}

func TestPutBack(t *testing.T) {
	tests := map[string]struct {
		meanwhile func(l *testRecorder)
		want      string
		wantSince time.Duration
		wantTried bool
	}{
		"nothing was published meanwhile": {meanwhile: func(*testRecorder) {}, want: "1-2 +b -a: cause 2", wantTried: true},
		"a change was published meanwhile": {
			meanwhile: func(l *testRecorder) { l.publish(3, "b", "bc") }, want: "1-3 +bc -a: cause 3", wantTried: true,
		},
		"the Placement was created again": {
			meanwhile: func(l *testRecorder) {
				l.pl = l.pl.DeepCopy()
				l.pl.UID = "second"
				l.publish(1, "c", "d")
			},
			want: "1-1 +d -c: cause 1", wantSince: time.Second,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestRecorder(t)
				l.publish(1, "a", "x")
				l.publish(2, "x", "b")
				u := l.unwritten[placementKey]
				u.tried = &berthv1alpha1.PlacementChange{}
				l.Forget(placementKey)
				time.Sleep(time.Second)
				tc.meanwhile(l)
				l.keepUnwritten(placementKey, u)
				got := l.unwritten[placementKey]
				if describeUnwritten(got) != tc.want {
					t.Errorf("queued is %q, want %q", describeUnwritten(got), tc.want)
				}
				if since := got.since.Sub(u.since); since != tc.wantSince || (got.tried == u.tried) != tc.wantTried {
					t.Errorf("it waits since %s, want %s; tried: %v", since, tc.wantSince, got.tried)
				}
			})
		})
	}
}

func TestNextRecord(t *testing.T) {
	waiting := func(r *Recorder, name string, age time.Duration) {
		r.turns = append(r.turns, recordKey(name))
		r.unwritten[recordKey(name)] = &unwritten{since: time.Now().Add(-age)}
	}
	retried := func(r *Recorder, name string, after time.Duration) {
		r.unwritten[recordKey(name)] = &unwritten{since: time.Now()}
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
		"a retry at the end":                {prepare: func(r *Recorder) { retried(r, "a", time.Second); retried(r, "b", time.Minute) }, ended: true, want: []string{"a", "b"}},
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

func TestRetryOfRecords(t *testing.T) {
	conflict := apierrors.NewConflict(recordResource, "p-1", nil)
	tests := map[string]struct {
		err       error
		ended     bool
		forgotten bool
		// wantRetry is true if the record is written again, wantKept if its change is remembered.
		wantRetry, wantKept bool
		wantLine            bool
		// wantInfo is true if the line is no error.
		wantInfo bool
	}{
		"another try":             {err: conflict, wantRetry: true, wantKept: true},
		"the Placement is gone":   {err: conflict, forgotten: true},
		"the end":                 {err: conflict, ended: true, wantLine: true},
		"another record is there": {err: errExists, wantKept: true, wantLine: true},
		"the namespace is gone":   {err: errGone, wantKept: true, wantLine: true, wantInfo: true},
		"the namespace is going": {err: &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
		}}, wantKept: true, wantLine: true, wantInfo: true},
		"the right is missing":         {err: apierrors.NewForbidden(recordResource, "p-1", nil), wantKept: true, wantLine: true},
		"the record is invalid":        {err: apierrors.NewInvalid(berthv1alpha1.GroupVersion.WithKind("PlacementChange").GroupKind(), "p-1", nil), wantKept: true, wantLine: true},
		"the record is too large":      {err: apierrors.NewRequestEntityTooLargeError("too large"), wantKept: true, wantLine: true},
		"a final error at the end":     {err: errExists, ended: true, wantLine: true},
		"an error that is not the API": {err: errBroken, wantRetry: true, wantKept: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestRecorder(t)
				var lines []string
				l.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
				if !tc.forgotten {
					l.unwritten[placementKey] = &unwritten{}
				}
				before := failuresOf(t, reasonOf(tc.err))
				l.retry(placementKey, tc.err, tc.ended)
				if got := failuresOf(t, reasonOf(tc.err)) - before; got != 1 {
					t.Errorf("%v failures are counted", got)
				}
				var want []laterTry
				if tc.wantRetry {
					want = []laterTry{{placementKey, time.Now().Add(time.Second)}}
				}
				if diff := cmp.Diff(want, l.retries, cmp.AllowUnexported(laterTry{})); diff != "" {
					t.Errorf("retries (-want +got):\n%s", diff)
				}
				if kept := l.unwritten[placementKey] != nil; kept != tc.wantKept {
					t.Errorf("the change is kept: %t", kept)
				}
				var wantLines []string
				if tc.wantLine {
					wantLines = []string{`"A published change has no record`}
				}
				expectLines(t, lines, wantLines...)
				for _, line := range lines {
					if !strings.Contains(line, `"placement"="n/p"`) {
						t.Errorf("the line does not name the Placement: %s", line)
					}
					if info := strings.Contains(line, `"level"=0`); info != tc.wantInfo {
						t.Errorf("info: %t: %s", info, line)
					}
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
		steps []step
		want  []string
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
		}},
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
				if took := stop(); took != 0 {
					t.Errorf("it ended after %s", took)
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
		l.turns, l.unwritten[recordKey("q")] = append(l.turns, recordKey("q")), &unwritten{placement: l.pl, since: time.Now()}
		l.publish(1, "a", "b")
		time.Sleep(time.Second)
		if took := stop(); took != 5*time.Second {
			t.Errorf("it ended after %s, want 5s", took)
		}
		if l.unwritten[placementKey] == nil {
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

func TestFinalErrorsAreNotPutBack(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"final":     {err: errGone},
		"not final": {err: errBroken, want: "1-1 +b -a: cause 1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestRecorder(t)
			l.publish(1, "a", "b")
			l.failures = []error{tc.err}
			if err := l.flush(t.Context(), placementKey); !errors.Is(err, tc.err) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
			if got := describeUnwritten(l.unwritten[placementKey]); got != tc.want {
				t.Errorf("queued is %q, want %q", got, tc.want)
			}
		})
	}
}
