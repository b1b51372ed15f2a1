package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// watcher is a plugin that uses the cycle's time in PreFilter, sets an expiry for each cluster in
// Filter, and counts what it is called for.
type watcher struct {
	plain
	clock     *clocktesting.FakeClock
	takes     time.Duration
	yields    bool
	expiry    time.Time
	rank      time.Time
	recounted int
	needs     time.Duration
	counts    map[string]int
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

func (w *watcher) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

func (w *watcher) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

func (w *watcher) counter() instances {
	return instances{w.Name(): {w, framework.Traits{Counter: framework.Counter{
		Counts:       func() any { return w.counts },
		Recount:      func(records []*berthv1alpha1.PlacementChange) { w.recounted = len(records) },
		NeedsRecords: func() time.Duration { return w.needs },
	}}}}
}

func watching(w *watcher) *Scheduler {
	return New(map[string]*Profile{"default": {
		PreFilter: []framework.PreFilterPlugin{w}, Filter: []framework.FilterPlugin{w}, Reserve: []framework.ReservePlugin{w}, plugins: w.counter(),
	}}, nil)
}

// TestNeedsRecords: the longest time of all profiles.
func TestNeedsRecords(t *testing.T) {
	profile := func(needs time.Duration) *Profile {
		w := &watcher{needs: needs}
		return &Profile{Reserve: []framework.ReservePlugin{w}, plugins: w.counter()}
	}
	s := New(map[string]*Profile{"default": profile(time.Minute), "other": profile(time.Hour), "none": {}}, nil)
	if got := s.NeedsRecords(); got != time.Hour {
		t.Errorf("got %s", got)
	}
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
			s := watching(w)
			s.Clock, s.CycleTimeout = clock, 100*time.Millisecond
			s.DecideInTime(t.Context(), attemptOn(nil, fixture.Cluster("a").Set("s")).Snapshot)
			if w.yields != tc.want {
				t.Errorf("got %t", w.yields)
			}
			if s.Decide(t.Context(), attemptOn(nil).Snapshot); w.yields {
				t.Error("it yields without a limit")
			}
		})
	}
}

// TestSlowDecisionsAreCharged to the namespace, and those of attempts as well.
func TestSlowDecisionsAreCharged(t *testing.T) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	s := watching(&watcher{plain: plain{name: "w"}, clock: clock, takes: 60 * time.Millisecond})
	s.Clock, s.CycleTimeout = clock, 100*time.Millisecond
	s.DecideInTime(t.Context(), attemptOn(nil).Snapshot)
	if used := s.shares.used["ns"]; used != 60*time.Millisecond {
		t.Errorf("charged with %s", used)
	}
}

// TestFilterExpiryStartsAnAttempt: a cluster that is selected for a time only.
func TestFilterExpiryStartsAnAttempt(t *testing.T) {
	at := fixture.Now.Add(time.Minute)
	s := watching(&watcher{plain: plain{name: "w"}, expiry: at})
	a := s.Decide(t.Context(), attemptOn(nil, fixture.Cluster("a").Set("s")).Snapshot)
	if got := a.State.Requeue(); !got.Equal(at) || a.timers.NextAttemptCause != "toleration expired" {
		t.Errorf("the next attempt is at %v: %s", got, a.timers.NextAttemptCause)
	}
	if diff := cmp.Diff([]FilterResult{{Name: "w", Clusters: []string{"a"}}}, a.FilterResults()); diff != "" {
		t.Errorf("filter results (-want +got):\n%s", diff)
	}
}

// TestRankExpiryStartsAnAttempt: a cluster whose score expires.
func TestRankExpiryStartsAnAttempt(t *testing.T) {
	at := fixture.Now.Add(time.Minute)
	s := watching(&watcher{plain: plain{name: "w"}, rank: at})
	a := s.Decide(t.Context(), attemptOn(nil, fixture.Cluster("a").Set("s")).Snapshot)
	if got := a.State.NextAttempt(); !got.Equal(at) || a.timers.NextAttemptCause != "AddOnPlacementScore expired" {
		t.Errorf("the next attempt is at %v: %s", got, a.timers.NextAttemptCause)
	}
}

// suggester is a PostFilter plugin that suggests something.
type suggester struct{ plain }

func (*suggester) PostFilter(context.Context, *framework.CycleState, *v1alpha1.Placement, framework.Filtered) ([]framework.Intent, *framework.Status) {
	return []framework.Intent{{Note: "add clusters"}}, nil
}

// TestIntents are those of PostFilter plugins, which run if clusters are missing.
func TestIntents(t *testing.T) {
	s := New(map[string]*Profile{"default": {PostFilter: []framework.PostFilterPlugin{&suggester{plain{name: "s"}}}}}, nil)
	for number, want := range map[int32][]framework.Intent{1: nil, 2: {{Plugin: "s", Note: "add clusters"}}} {
		a := attemptOn(nil, fixture.Cluster("a").Set("s"))
		a.Snapshot.Subject.Placement = fixture.Placement("ns", "p").Number(number).Obj()
		if diff := cmp.Diff(want, s.Decide(t.Context(), a.Snapshot).Intents); diff != "" {
			t.Errorf("%d wanted (-want +got):\n%s", number, diff)
		}
	}
}

// TestNotAdmitted: a Placement that a PreEnqueue plugin does not admit is not decided, or without
// clusters. The condition and an event give the plugin and its reason, unless it is the queue.
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
			s := New(map[string]*Profile{"default": {PreEnqueue: []framework.PreEnqueuePlugin{plugin}}}, nil)
			snapshot := attemptOn(lastOf("b"), fixture.Cluster("a").Set("s")).Snapshot
			snapshot.Queue = tc.queue
			a := s.Decide(t.Context(), snapshot)
			if (a.Failure == nil) != tc.wantDecided || len(a.Selected) > 0 {
				t.Errorf("%v, %d selected", a.Failure.Err(), len(a.Selected))
			}
			if c := a.satisfiedCondition(); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonNotAllDecisionsScheduled || c.Message != tc.want {
				t.Errorf("PlacementSatisfied is %v", c)
			}
			var want []Event
			if tc.reason == "why" {
				want = []Event{{Type: "Warning", Reason: "PlacementRefused", Action: "q", Note: tc.want}}
			}
			if diff := cmp.Diff(want, a.PluginEvents()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWithoutProfiles: a Placement whose profile does not exist, and no default one either.
func TestWithoutProfiles(t *testing.T) {
	if a := New(nil, nil).Decide(t.Context(), attemptOn(nil).Snapshot); !a.Misconfigured() {
		t.Errorf("got %v", a.Failure.Err())
	}
}

// TestWithoutCandidates: why a Placement has no candidates.
func TestWithoutCandidates(t *testing.T) {
	for name, tc := range map[string]struct {
		bound bool
		queue *framework.QueueAdmission
		want  string
	}{
		"no binding":              {want: "No valid ManagedClusterSetBindings found in placement namespace"},
		"none of its sets":        {bound: true, want: "None of ManagedClusterSets [other] is bound to placement namespace"},
		"none of its queue":       {bound: true, queue: &framework.QueueAdmission{Admitted: true, Restricted: true, Message: "root.a"}, want: "The queue owns none of the ManagedClusterSets that the Placement can use: root.a"},
		"a queue that allows all": {bound: true, queue: &framework.QueueAdmission{Admitted: true, Message: "root.a"}, want: "None of ManagedClusterSets [other] is bound to placement namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Snapshot.Subject.Placement = fixture.Placement("ns", "p").Sets("other").Obj()
			if a.Snapshot.Sets, a.Snapshot.Queue = nil, tc.queue; !tc.bound {
				a.Snapshot.BoundSets = nil
			}
			if _, got := a.withoutCandidates(); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
	if reason, _ := attemptOn(nil).withoutCandidates(); reason != v1alpha1.ReasonAllManagedClusterSetsEmpty {
		t.Errorf("with an empty set: %q", reason)
	}
}

// TestOtherConditionsWhilePending: only Satisfied describes the published clusters.
func TestOtherConditionsWhilePending(t *testing.T) {
	a := changing()
	a.Outcome, a.Change = Held, &Move{Proposal: a.Target}
	var conditions []metav1.Condition
	a.SetConditions(&conditions)
	reasons := map[string]string{}
	for _, c := range conditions {
		reasons[c.Type] = c.Reason
	}
	want := map[string]string{
		v1alpha1.PlacementConditionMisconfigured: v1alpha1.ReasonSucceedConfigured, v1alpha1.PlacementConditionSatisfied: v1alpha1.ReasonDecisionPending,
		v1alpha1.PlacementConditionDecisionPending: "Held",
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPlaceholder: the empty page of a Placement that was never decided is not reported.
func TestPlaceholder(t *testing.T) {
	failure := framework.NewStatus(framework.Pending, "")
	empty, full := fixture.Page("ns", "p-decision-1").Obj(), fixture.Page("ns", "p-decision-1").Lists("a").Obj()
	for name, tc := range map[string]struct {
		last     *framework.Published
		failure  *framework.Status
		restores bool
		page     *v1alpha1.PlacementDecision
		want     bool
	}{
		"nothing can be decided":   {failure: failure, page: empty, want: true},
		"the first change is held": {restores: true, page: empty, want: true},
		"no cluster is selected":   {page: empty},
		"clusters are selected":    {page: full, restores: true},
		"a decision was published": {last: lastOf("a"), failure: failure, page: empty},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(tc.last)
			a.Failure = tc.failure
			if got := a.isPlaceholder(&framework.Proposal{Restores: tc.restores}, tc.page); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestEventsWithoutScores: no cluster is feasible, so there are no scores to report.
func TestEventsWithoutScores(t *testing.T) {
	write := framework.PageWrite{Page: fixture.Page("ns", "p-decision-1").Obj(), Deleted: true, DecisionsChanged: true}
	events := attemptOn(lastOf("a")).Events(&framework.Proposal{Writes: []framework.PageWrite{write}, Outcome: framework.Outcome{Changed: true}})
	if len(events) != 1 || events[0].Reason != "DecisionDelete" {
		t.Errorf("got %+v", events)
	}
}

func TestCutNote(t *testing.T) {
	for n, want := range map[int]int{maxNote: maxNote, maxNote + 1: maxNote} {
		if got := CutNote(strings.Repeat("x", n)); len(got) != want || strings.HasSuffix(got, "......") != (n > want) {
			t.Errorf("%d bytes became %d: %q", n, len(got), got[len(got)-8:])
		}
	}
}

// TestCountsAreInTheSnapshot: those of Counters.
func TestCountsAreInTheSnapshot(t *testing.T) {
	w := &watcher{plain: plain{name: "w"}, counts: map[string]int{"a": 1}}
	s, snapshot := watching(w), attemptOn(nil).Snapshot
	s.loadState(t.Context(), snapshot)
	if diff := cmp.Diff(map[string]any{"w": any(w.counts)}, snapshot.PluginCounts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Recount(make([]*berthv1alpha1.PlacementChange, 3))
	if w.recounted != 3 {
		t.Errorf("%d records are recounted", w.recounted)
	}
}

// TestSatisfiedAfterAFailure: the summary of excluded clusters is of a decision only.
func TestSatisfiedAfterAFailure(t *testing.T) {
	excluded := map[string]*framework.Status{"a": framework.NewStatus(framework.Unschedulable, "no")}
	s := watching(&watcher{plain: plain{name: "w", filtered: excluded}})
	a := s.Decide(t.Context(), attemptOn(nil, fixture.Cluster("a").Set("s")).Snapshot)
	if got := a.satisfiedCondition().Message; !strings.HasSuffix(got, ": of 1 candidates 1 excluded by w") {
		t.Errorf("got %q", got)
	}
	a.Failure = framework.NewStatus(framework.Error, "down")
	if got := a.satisfiedCondition().Message; got != "down" {
		t.Errorf("after a failure: %q", got)
	}
}

// TestMisconfiguredEvent: a Placement that becomes misconfigured, or for another reason.
func TestMisconfiguredEvent(t *testing.T) {
	of := func(status metav1.ConditionStatus, message string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.PlacementConditionMisconfigured, Status: status, Message: message}
	}
	mistake := framework.NewStatus(framework.UnschedulableAndUnresolvable, "why").WithPlugin("x")
	for name, tc := range map[string]struct {
		before  *metav1.Condition
		failure *framework.Status
		want    bool
	}{
		"valid":                      {},
		"valid again":                {before: of(metav1.ConditionTrue, "x:why")},
		"misconfigured, new":         {failure: mistake, want: true},
		"misconfigured, after valid": {before: of(metav1.ConditionFalse, "x:why"), failure: mistake, want: true},
		"as before":                  {before: of(metav1.ConditionTrue, "x:why"), failure: mistake},
		"for another reason":         {before: of(metav1.ConditionTrue, "other"), failure: mistake, want: true},
		"another failure":            {failure: framework.NewStatus(framework.Error, "down")},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Failure = tc.failure
			if tc.before != nil {
				pl := a.Snapshot.Subject.Placement.DeepCopy()
				pl.Status.Conditions = []metav1.Condition{*tc.before}
				a.Snapshot.Subject.Placement = pl
			}
			if got := a.MisconfiguredEvent(); (got != nil) != tc.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestConditionsThatEnd: a Placement that was disabled, or in a queue, or changed in steps.
func TestConditionsThatEnd(t *testing.T) {
	const disabled, admitted, progressing = v1alpha1.PlacementConditionSchedulingDisabled, v1alpha1.PlacementConditionQueueAdmitted, v1alpha1.PlacementConditionDecisionProgressing
	inSteps := &berthv1alpha1.PlacementChange{Status: berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhaseProgressing}}
	for name, tc := range map[string]struct {
		outcome Outcome
		queue   *framework.QueueAdmission
		partial bool
		records []*berthv1alpha1.PlacementChange
		want    []string
	}{
		"decided":               {outcome: Unchanged},
		"in a queue":            {outcome: Unchanged, queue: &framework.QueueAdmission{Admitted: true}, want: []string{admitted}},
		"failed":                {outcome: Failed, records: []*berthv1alpha1.PlacementChange{inSteps}, want: []string{progressing}},
		"failed after the end":  {outcome: Failed},
		"forced removals alone": {outcome: Published, partial: true, want: []string{progressing}},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(lastOf())
			a.Outcome, a.partial, a.Snapshot.Queue, a.Snapshot.Subject.Records = tc.outcome, tc.partial, tc.queue, tc.records
			var conditions []metav1.Condition
			for _, kind := range []string{disabled, admitted, progressing} {
				conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
			}
			a.SetConditions(&conditions)
			var got []string
			for _, c := range conditions {
				if c.Type == disabled || c.Type == admitted || c.Type == progressing {
					got = append(got, c.Type)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNamed: a message names ten clusters at most.
func TestNamed(t *testing.T) {
	names := strings.Fields("a b c d e f g h i j k l")
	for n, want := range map[int]string{0: "0 added", 2: "2 added: a b", 10: "10 added: a b c d e f g h i j", 12: "12 added: a b c d e f g h i j and 2 more"} {
		if got := named(names[:n], "added"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestEmptyPage: a Placement for which nothing can be decided gets one, unless clusters were or may
// be published.
func TestEmptyPage(t *testing.T) {
	for name, tc := range map[string]struct {
		placement string
		last      *framework.Published
		pages     []*v1alpha1.PlacementDecision
		want      bool
	}{
		"nothing is published":           {placement: "p", want: true},
		"a decision was published":       {placement: "p", last: lastOf()},
		"a page has its label":           {placement: "p", pages: []*v1alpha1.PlacementDecision{fixture.Page("ns", "x").Of("p").Obj()}},
		"its name is as long as a label": {placement: strings.Repeat("p", v1alpha1.MaxLabelValueLength), want: true},
		"its name is longer":             {placement: strings.Repeat("p", v1alpha1.MaxLabelValueLength+1)},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(tc.last)
			a.Failure = framework.NewStatus(framework.Pending, "")
			pl := a.Snapshot.Subject.Placement.DeepCopy()
			pl.Name = tc.placement
			a.Snapshot.Subject.Placement, a.Snapshot.Subject.Pages = pl, tc.pages
			if got := a.diff() != nil; got != tc.want {
				t.Errorf("got %t", got)
			}
			if mistake := validate(pl); (mistake != nil) != (len(tc.placement) > v1alpha1.MaxLabelValueLength) {
				t.Errorf("validated: %v", mistake)
			}
		})
	}
}

// TestPreScoreOfWeighted: PreScore of a plugin that scores runs if it has a weight.
func TestPreScoreOfWeighted(t *testing.T) {
	var calls []string
	of := func(name string) *preScorer { return &preScorer{plain: plain{name: name}, calls: &calls} }
	scores, rests, prepares := of("scores"), of("rests"), of("prepares")
	r := attemptOn(nil).Result
	r.profile = &Profile{PreScore: []framework.PreScorePlugin{scores, rests, prepares}, Score: []WeightedScore{{scores, 1}, {rests, 0}}}
	if _, failure := New(nil, nil).preScore(t.Context(), r, []scorer{{ScorePlugin: scores, name: "scores"}, {ScorePlugin: scores, name: "rests", addOn: true}}); failure != nil {
		t.Fatal(failure.Err())
	}
	if diff := cmp.Diff([]string{"scores", "prepares"}, calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type preScorer struct {
	plain
	calls *[]string
}

func (p *preScorer) PreScore(context.Context, *framework.CycleState, *v1alpha1.Placement, []*framework.Cluster) *framework.Status {
	*p.calls = append(*p.calls, p.name)
	return nil
}
