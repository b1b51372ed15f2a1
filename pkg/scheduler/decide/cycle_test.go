package decide

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// watcher is a plugin that uses the cycle's time in PreFilter, and sets an expiry for each cluster
// in Filter.
type watcher struct {
	plain
	clock  *clocktesting.FakeClock
	takes  time.Duration
	yields bool
	expiry time.Time
	rank   time.Time
}

func (w *watcher) PreFilter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if w.clock != nil {
		w.clock.Step(w.takes)
	}
	w.yields = state.ShouldYield()
	return nil, w.status
}

func (w *watcher) Filter(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	if !w.expiry.IsZero() {
		state.SetFilterExpiry(cluster.Index, w.expiry)
	}
	if !w.rank.IsZero() {
		state.SetRankExpiry(cluster.Index, w.rank)
	}
	return w.filtered[cluster.Name]
}

func watching(w *watcher) *Decider {
	return &Decider{Profiles: map[string]*plugins.Profile{"default": {PreFilter: []framework.PreFilterPlugin{w}, Filter: []framework.FilterPlugin{w}}}}
}

// TestPluginsYield: after half of CycleTimeout.
func TestPluginsYield(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		want  bool
	}{
		"less than half": {takes: 49 * time.Millisecond},
		"half":           {takes: 50 * time.Millisecond, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(fixture.Now)
			w := &watcher{plain: plain{name: "w"}, clock: clock, takes: tc.takes}
			limit := limits.Limits{Clock: clock, CycleTimeout: 100 * time.Millisecond}
			ctx, deadline := limit.Start(t.Context())
			defer deadline.Stop()
			d, snapshot := watching(w), snapshotOf(fixture.Cluster("a").Set("s"))
			d.Decide(ctx, Request{Snapshot: snapshot, Deadline: deadline})
			if w.yields != tc.want {
				t.Errorf("got %t", w.yields)
			}
			limit.CycleTimeout = 0
			_, unlimited := limit.Start(t.Context())
			for _, deadline := range []*limits.Deadline{nil, unlimited} {
				if d.Decide(t.Context(), Request{Snapshot: snapshot, Deadline: deadline}); w.yields {
					t.Error("it yields without a limit")
				}
			}
		})
	}
}

// TestFilterExpiryStartsAnAttempt: a cluster that is selected for a time only.
func TestFilterExpiryStartsAnAttempt(t *testing.T) {
	at := fixture.Now.Add(time.Minute)
	r := watching(&watcher{plain: plain{name: "w"}, expiry: at}).Decide(t.Context(), Request{Snapshot: snapshotOf(fixture.Cluster("a").Set("s"))})
	expires, cause := r.Expiry()
	if got := r.State.Requeue(); !got.Equal(at) || !expires.Equal(at) || cause != "toleration expired" {
		t.Errorf("the next attempt is at %v: %s at %v", got, cause, expires)
	}
	if diff := cmp.Diff([]FilterResult{{Name: "w", Clusters: []string{"a"}}}, r.FilterResults()); diff != "" {
		t.Errorf("filter results (-want +got):\n%s", diff)
	}
}

// TestRankExpiryStartsAnAttempt: a cluster whose score expires.
func TestRankExpiryStartsAnAttempt(t *testing.T) {
	at := fixture.Now.Add(time.Minute)
	r := watching(&watcher{plain: plain{name: "w"}, rank: at}).Decide(t.Context(), Request{Snapshot: snapshotOf(fixture.Cluster("a").Set("s"))})
	expires, cause := r.Expiry()
	if got := r.State.NextAttempt(); !got.Equal(at) || !expires.Equal(at) || cause != "AddOnPlacementScore expired" {
		t.Errorf("the next attempt is at %v: %s at %v", got, cause, expires)
	}
}

// suggester is a PostFilter plugin that suggests something.
type suggester struct{ plain }

func (*suggester) PostFilter(context.Context, *framework.CycleState, *v1alpha1.Placement, framework.Filtered) ([]framework.Intent, *framework.Status) {
	return []framework.Intent{{Note: "add clusters"}}, nil
}

// TestIntents are those of PostFilter plugins, which run if clusters are missing.
func TestIntents(t *testing.T) {
	profile := &plugins.Profile{PostFilter: []framework.PostFilterPlugin{&suggester{plain{name: "s"}}}}
	for number, want := range map[int32][]framework.Intent{1: nil, 2: {{Plugin: "s", Note: "add clusters"}}} {
		snapshot := snapshotOf(fixture.Cluster("a").Set("s"))
		snapshot.Subject.Placement = fixture.Placement("ns", "p").Number(number).Obj()
		if diff := cmp.Diff(want, decideWith(t, profile, snapshot).Intents); diff != "" {
			t.Errorf("%d wanted (-want +got):\n%s", number, diff)
		}
	}
}

func TestPreEnqueue(t *testing.T) {
	answer := func(code framework.Code) *plain {
		return &plain{name: "Q", status: framework.NewStatus(code, "why")}
	}
	tests := map[string]struct {
		plugins        []framework.PreEnqueuePlugin
		wantCode       framework.Code
		want           string
		wantCandidates int
	}{
		"no plugin":             {wantCandidates: 2},
		"admitted":              {plugins: []framework.PreEnqueuePlugin{answer(framework.Success)}, wantCandidates: 2},
		"not admitted":          {plugins: []framework.PreEnqueuePlugin{answer(framework.Unschedulable)}, wantCode: framework.Unschedulable, want: "Q: why"},
		"rejected":              {plugins: []framework.PreEnqueuePlugin{answer(framework.UnschedulableAndUnresolvable)}},
		"rejected, then failed": {plugins: []framework.PreEnqueuePlugin{answer(framework.UnschedulableAndUnresolvable), answer(framework.Error)}, wantCode: framework.Error, want: "Q: why"},
		"the second says no":    {plugins: []framework.PreEnqueuePlugin{answer(framework.Success), answer(framework.Unschedulable)}, wantCode: framework.Unschedulable, want: "Q: why"},
		"a code of no meaning":  {plugins: []framework.PreEnqueuePlugin{answer(framework.Wait)}, wantCode: framework.Error, want: "Q: PreEnqueue returned Wait: why", wantCandidates: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var candidates framework.Bitset
			r := &Decision{
				Profile: &plugins.Profile{PreEnqueue: tc.plugins}, candidates: candidates.Set(1).Set(2),
				Snapshot: &framework.Snapshot{Subject: &framework.Subject{Placement: fixture.Placement("n", "p").Obj()}},
			}
			var points []string
			var s Decider
			s.Timer = func(_, point string) func() {
				points = append(points, "begin "+point)
				return func() { points = append(points, "end "+point) }
			}
			status := s.preEnqueue(t.Context(), r)
			if status.Code() != tc.wantCode || tc.want != "" && fmt.Sprint(status.Err()) != tc.want {
				t.Errorf("got %s %v", status.Code(), status.Err())
			}
			if r.candidates.Len() != tc.wantCandidates {
				t.Errorf("%d candidates, want %d", r.candidates.Len(), tc.wantCandidates)
			}
			var wantPoints []string
			if len(tc.plugins) > 0 {
				wantPoints = []string{"begin PreEnqueue", "end PreEnqueue"}
			}
			if diff := cmp.Diff(wantPoints, points); diff != "" {
				t.Errorf("timed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotAdmitted: a Placement that a PreEnqueue plugin does not admit is not decided, or without
// clusters. The condition and the refusal give the plugin and its reason, unless it is the queue.
func TestNotAdmitted(t *testing.T) {
	queue := &framework.QueueAdmission{Message: "the queue is full"}
	for name, tc := range map[string]struct {
		code        framework.Code
		queue       *framework.QueueAdmission
		reason      string
		want        string
		wantDecided bool
	}{
		"not now":          {code: framework.Unschedulable, reason: "why", want: "q: why"},
		"never":            {code: framework.UnschedulableAndUnresolvable, reason: "why", want: "q: why", wantDecided: true},
		"not by the queue": {code: framework.Unschedulable, queue: queue, reason: queue.Message, want: queue.Message},
		"before the queue": {code: framework.Unschedulable, queue: queue, reason: "why", want: "q: why"},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := &plain{name: "q", status: framework.NewStatus(tc.code, tc.reason)}
			snapshot := snapshotOf(fixture.Cluster("a").Set("s"))
			snapshot.Subject.Last = &framework.Published{Names: []string{"b"}, Digest: framework.DigestOf([]string{"b"})}
			snapshot.Queue = tc.queue
			a := decideWith(t, &plugins.Profile{PreEnqueue: []framework.PreEnqueuePlugin{plugin}}, snapshot)
			if (a.Failure == nil) != tc.wantDecided || len(a.Selected) > 0 {
				t.Errorf("%v, %d selected", a.Failure.Err(), len(a.Selected))
			}
			if c := a.satisfiedCondition(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonNotAllDecisionsScheduled || c.Message != tc.want {
				t.Errorf("PlacementSatisfied is %v", c)
			}
			refusal := a.Refusal()
			if tc.reason != "why" && refusal != nil || tc.reason == "why" && (refusal.Plugin() != "q" || refusal.Err().Error() != tc.want) {
				t.Errorf("the refusal is %v", refusal.Err())
			}
		})
	}
}

// TestWithoutProfiles: a Placement whose profile does not exist, and no default one either.
func TestWithoutProfiles(t *testing.T) {
	if a := new(Decider).Decide(t.Context(), Request{Snapshot: snapshotOf()}); !a.Misconfigured() {
		t.Errorf("got %v", a.Failure.Err())
	}
}

// TestUnknownProfile counts more than a failure before step 2, unless a later attempt continues.
func TestUnknownProfile(t *testing.T) {
	for name, tc := range map[string]struct {
		failure *framework.Status
		want    framework.Code
	}{
		"alone":                     {want: framework.UnschedulableAndUnresolvable},
		"a plugin failed":           {failure: framework.NewStatus(framework.Error, "down"), want: framework.UnschedulableAndUnresolvable},
		"a later attempt continues": {failure: framework.Unfinished("more"), want: framework.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := snapshotOf()
			snapshot.Subject.Placement = fixture.Placement("ns", "p").Annotation(v1alpha1.ProfileAnnotation, "x").Obj()
			if got := new(Decider).Decide(t.Context(), Request{Snapshot: snapshot, Failure: tc.failure}).Failure; got.Code() != tc.want {
				t.Errorf("got %s: %v", got.Code(), got.Err())
			}
		})
	}
}
