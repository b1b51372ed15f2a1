package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// plain is a plugin that filters and scores, and answers as it is set.
type plain struct {
	name     string
	status   *framework.Status
	filtered map[string]*framework.Status
}

func (p *plain) Name() string { return p.name }

func (p *plain) PreEnqueue(context.Context, *framework.CycleState, *v1alpha1.Placement) *framework.Status {
	return p.status
}

func (p *plain) PreFilter(context.Context, *framework.CycleState, *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	return nil, p.status
}

func (p *plain) Filter(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	return p.filtered[cluster.Name]
}

func (p *plain) Score(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (int64, *framework.Status) {
	return 0, nil
}

// normalizer writes scores.
type normalizer struct {
	plain
	scores []int64
}

func (n *normalizer) NormalizeScore(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, scores []int64) *framework.Status {
	copy(scores, n.scores)
	return n.status
}

// reader is a plugin that says what it reads.
type reader struct {
	plain
	reads framework.Reads
}

func (r *reader) Reads(*v1alpha1.Placement) framework.Reads { return r.reads }

func TestSchedulerReads(t *testing.T) {
	of := func(reads framework.Reads) *reader { return &reader{plain{name: "R"}, reads} }
	labels, claims := of(framework.Reads{Labels: []string{"a"}, CPU: true}), of(framework.Reads{Labels: []string{"b"}, Claims: []string{"c"}, Memory: true})
	scored := &reader{plain{name: "S"}, framework.Reads{Scores: []string{"s"}}}
	addOn := &reader{plain{name: "AddOn"}, framework.Reads{Scores: []string{"t"}}}
	everything := &plain{name: "P"}
	tests := map[string]struct {
		profile   Profile
		placement *v1alpha1.Placement
		want      framework.Reads
	}{
		"no plugins":           {},
		"a PreFilter plugin":   {profile: Profile{PreFilter: []framework.PreFilterPlugin{labels}}, want: labels.reads},
		"a Filter plugin":      {profile: Profile{Filter: []framework.FilterPlugin{claims}}, want: claims.reads},
		"a Score plugin":       {profile: Profile{Score: []WeightedScore{{scored, 1}}}, want: scored.reads},
		"one of no weight":     {profile: Profile{Score: []WeightedScore{{scored, 0}}}},
		"one that says naught": {profile: Profile{Filter: []framework.FilterPlugin{everything}}, want: framework.Reads{Everything: true}},
		"all together": {
			profile: Profile{
				PreFilter: []framework.PreFilterPlugin{labels}, Filter: []framework.FilterPlugin{claims, everything}, Score: []WeightedScore{{scored, 1}},
			},
			want: framework.Reads{Labels: []string{"a", "b"}, Claims: []string{"c"}, Scores: []string{"s"}, CPU: true, Memory: true, Everything: true},
		},
		"an AddOn, which the spec lists": {
			profile: Profile{Score: []WeightedScore{{addOn, 0}}, plugins: instances{"AddOn": {Traits: framework.Traits{
				ForAddOn: func(v1alpha1.AddOnScore) framework.ScorePlugin { return addOn },
			}}}}, placement: fixture.Placement("n", "p").AddOn("r", "v", 1).Obj(),
		},
		"a misconfigured policy": {
			profile: Profile{Filter: []framework.FilterPlugin{claims}, Score: []WeightedScore{{scored, 1}}}, want: claims.reads,
			placement: fixture.Placement("n", "p").Mode("Fuzzy").Obj(),
		},
		"an unknown profile": {
			profile: Profile{Filter: []framework.FilterPlugin{claims}}, placement: fixture.Placement("n", "p").Annotation(v1alpha1.ProfileAnnotation, "x").Obj(),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.placement == nil {
				tc.placement = fixture.Placement("n", "p").Obj()
			}
			got := New(map[string]*Profile{"default": &tc.profile}, nil).Reads(tc.placement)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// preparer takes some time, and is done after that or not.
type preparer struct {
	plain
	prepared, done bool
	takes          time.Duration
	clock          *clocktesting.FakeClock
	// yields are what yield answered before and after that time.
	yields []bool
}

func (p *preparer) Prepared(*v1alpha1.Placement) bool { return p.prepared }

func (p *preparer) Prepare(_ *v1alpha1.Placement, yield func() bool) bool {
	p.yields = append(p.yields, yield())
	p.clock.Step(p.takes)
	p.yields = append(p.yields, yield())
	return p.done
}

func TestPrepare(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		timeout    time.Duration
		plugins    []preparer
		busy       bool
		chooses    string
		want       bool
		wantYields [][]bool
		wantUsed   time.Duration
	}{
		"nothing to prepare":         {timeout: 100 * ms, want: true},
		"all is prepared":            {timeout: 100 * ms, plugins: []preparer{{prepared: true}}, busy: true, want: true, wantYields: [][]bool{nil}},
		"an unknown profile":         {timeout: 100 * ms, plugins: []preparer{{}}, chooses: "x", want: true, wantYields: [][]bool{nil}},
		"another is being prepared":  {timeout: 100 * ms, plugins: []preparer{{done: true}}, busy: true, wantYields: [][]bool{nil}},
		"one of two":                 {timeout: 100 * ms, plugins: []preparer{{prepared: true}, {done: true, takes: 10 * ms}}, want: true, wantYields: [][]bool{nil, {false, false}}},
		"half of the time is over":   {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 50 * ms}}, want: true, wantYields: [][]bool{{false, true}}, wantUsed: 50 * ms},
		"nearly half is":             {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 49 * ms}}, want: true, wantYields: [][]bool{{false, false}}, wantUsed: 49 * ms},
		"the first is not done":      {timeout: 100 * ms, plugins: []preparer{{takes: 60 * ms}, {done: true}}, wantYields: [][]bool{{false, true}, {true, true}}, wantUsed: 60 * ms},
		"the last is not done":       {timeout: 100 * ms, plugins: []preparer{{done: true}, {}}, wantYields: [][]bool{{false, false}, {false, false}}},
		"there is no limit":          {plugins: []preparer{{done: true, takes: time.Hour}}, want: true, wantYields: [][]bool{{false, false}}},
		"a quarter is not yet slow":  {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 25 * ms}}, want: true, wantYields: [][]bool{{false, false}}},
		"more than a quarter counts": {timeout: 100 * ms, plugins: []preparer{{done: true, takes: 26 * ms}}, want: true, wantYields: [][]bool{{false, false}}, wantUsed: 26 * ms},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(fixture.Now)
			profile := &Profile{PreFilter: []framework.PreFilterPlugin{&plain{name: "P"}}}
			for i := range tc.plugins {
				tc.plugins[i].clock = clock
				profile.PreFilter = append(profile.PreFilter, &tc.plugins[i])
			}
			s := New(map[string]*Profile{"default": profile}, nil)
			s.Clock, s.CycleTimeout = clock, tc.timeout
			if tc.busy {
				s.prepare.begin("other", fixture.Now)
			}
			pl := fixture.Placement("n", "p").Obj()
			if tc.chooses != "" {
				pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: tc.chooses}
			}
			if got := s.Prepare(pl); got != tc.want {
				t.Errorf("got %t", got)
			}
			var yields [][]bool
			for _, p := range tc.plugins {
				yields = append(yields, p.yields)
			}
			if diff := cmp.Diff(tc.wantYields, yields); diff != "" {
				t.Errorf("yields (-want +got):\n%s", diff)
			}
			if used := s.shares.used["n"]; used != tc.wantUsed {
				t.Errorf("charged with %s, want %s", used, tc.wantUsed)
			}
			if s.prepare.begin("third", fixture.Now) == tc.busy {
				t.Errorf("another may be prepared: %t", !tc.busy)
			}
		})
	}
}

// TestWaitWithoutLimit: nothing waits if cycles have no limit.
func TestWaitWithoutLimit(t *testing.T) {
	pl := fixture.Placement("n", "p").Obj()
	s := New(nil, nil)
	s.Clock = clocktesting.NewFakeClock(fixture.Now)
	s.shares.recordAttempt(pl, time.Hour, time.Second, CycleTimedOut, fixture.Now)
	for timeout, want := range map[time.Duration]bool{0: false, time.Second: true} {
		s.CycleTimeout = timeout
		if got := s.AttemptDelay(pl) > 0; got != want {
			t.Errorf("with a limit of %s it waits: %t", timeout, got)
		}
	}
}

// TestDeadline: half of the time is over when exactly half of it is, a part when an eighth is; a
// stop tells that the deadline was exceeded.
func TestDeadline(t *testing.T) {
	clock := clocktesting.NewFakeClock(fixture.Now)
	d := &cycleDeadline{clock: clock, began: fixture.Now, timeout: 100 * time.Millisecond}
	for elapsed, want := range map[time.Duration]bool{0: false, 49 * time.Millisecond: false, 50 * time.Millisecond: true, 60 * time.Millisecond: true} {
		clock.SetTime(fixture.Now.Add(elapsed))
		if got := d.halfTimePassed(); got != want {
			t.Errorf("after %s: %t", elapsed, got)
		}
	}
	for elapsed, want := range map[time.Duration]bool{0: false, 12 * time.Millisecond: false, 12500 * time.Microsecond: true} {
		clock.SetTime(fixture.Now.Add(elapsed))
		if got := d.partPassed(); got != want {
			t.Errorf("after %s: the part is over: %t", elapsed, got)
		}
	}
	if err := error(&timeoutError{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// excluding is a result of four clusters: PreFilter of F narrows them to a, b and c, that of G to a
// and b; Filter of G excludes b.
func excluding() *Result {
	f := &plain{name: "F", filtered: map[string]*framework.Status{"d": framework.NewStatus(framework.Unschedulable, "not wanted")}}
	g := &plain{name: "G"}
	r := &Result{profile: &Profile{Filter: []framework.FilterPlugin{f, g}}, State: framework.NewCycleState(nil)}
	clusters := &framework.Vector[*framework.Cluster]{}
	var all []*framework.Cluster
	for i, name := range []string{"d", "c", "b", "a"} {
		all = append(all, framework.NewCluster(fixture.Cluster(name).Obj(), i))
		clusters.Set(i, all[i])
		r.candidates = r.candidates.Set(i)
	}
	r.Snapshot = &framework.Snapshot{Fleet: &framework.Fleet{Clusters: clusters}, Subject: &framework.Subject{Placement: fixture.Placement("n", "p").Obj()}}
	r.narrowed = []narrowing{{plugin: "F", before: r.candidates.Clone()}, {plugin: "G", before: r.candidates.Clone()}}
	r.narrowed[1].before.Unset(0)
	r.Feasible = all[3:]
	r.excluded = []exclusion{{all[2], framework.NewStatus(framework.Unschedulable, "full").WithPlugin("G")}}
	return r
}

func TestWhy(t *testing.T) {
	tests := map[string]struct {
		index                  int
		wantPlugin, wantReason string
	}{
		"narrowed, and Filter says why":     {index: 0, wantPlugin: "F", wantReason: "not wanted"},
		"narrowed, and Filter says nothing": {index: 1, wantPlugin: "G", wantReason: "not among the clusters that pass this plugin"},
		"filtered":                          {index: 2, wantPlugin: "G", wantReason: "full"},
		"feasible":                          {index: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := excluding().Why(t.Context(), tc.index)
			if status.Plugin() != tc.wantPlugin || status.Reason() != tc.wantReason || status.IsSuccess() != (tc.wantPlugin == "") {
				t.Errorf("got %s %q of %q", status.Code(), status.Reason(), status.Plugin())
			}
		})
	}
}

func TestFilterResults(t *testing.T) {
	r := excluding()
	if got := r.FilterResults(); got == nil || len(got) > 0 {
		t.Errorf("before the filters ran: %v", got)
	}
	r.filtered = true
	want := []FilterResult{{Name: "F", Clusters: []string{"a", "b", "c"}}, {Name: "F,G", Clusters: []string{"a"}}}
	if diff := cmp.Diff(want, r.FilterResults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, r.CandidateNames()); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
	if got := r.Summary(); got != "of 4 candidates 1 excluded by F, 2 by G" {
		t.Errorf("got %q", got)
	}
}

func TestCycleOutcome(t *testing.T) {
	late := framework.AsStatus(&timeoutError{point: "Filter"})
	tests := map[string]struct {
		failure *framework.Status
		outcome Outcome
		want    string
	}{
		"an answer":         {outcome: Published, want: "Decided"},
		"timed out":         {failure: late, outcome: Failed, want: "TimedOut"},
		"continued":         {failure: framework.Unfinished("more"), outcome: Undecided, want: "Continues"},
		"no answer":         {failure: framework.NewStatus(framework.Pending, "score"), outcome: Undecided, want: "Failed"},
		"a failed Reserve":  {outcome: Failed, want: "Failed"},
		"a held change":     {outcome: Held, want: "Decided"},
		"another exception": {failure: framework.AsStatus(errors.New("x")), outcome: Failed, want: "Failed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := &Attempt{Result: &Result{Failure: tc.failure}, Verdict: Verdict{Outcome: tc.outcome}}
			if got := a.cycleOutcome(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestRemember: what is known of a held change after each outcome. Before, revision 1 is held.
func TestRemember(t *testing.T) {
	until := metav1.NewTime(fixture.Now.Add(time.Hour))
	const old, held, none = 1, 2, 0
	holds := []berthv1alpha1.ChangeHold{{Plugin: "x", Until: &until}}
	tests := map[string]struct {
		outcome Outcome
		message string
		holds   []berthv1alpha1.ChangeHold
		want    int64
	}{
		"failed":                {outcome: Failed, want: old},
		"undecided":             {outcome: Undecided, want: old},
		"waiting, held as well": {outcome: Waiting, holds: holds, want: old},
		"waiting":               {outcome: Waiting, want: none},
		"held":                  {outcome: Held, holds: holds, want: held},
		"rejected":              {outcome: Rejected, holds: holds, want: held},
		"rejected by a person":  {outcome: Rejected, message: "no", want: none},
		"published":             {outcome: Published, want: none},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(nil, NewHeldChanges())
			pl := fixture.Placement("n", "p").Generation(7).Obj()
			s.held.hold(framework.HeldChange{Key: types.NamespacedName{Namespace: "n", Name: "p"}, UID: pl.UID, Revision: old}, framework.Answers{Revision: old})
			a := &Attempt{
				Result: &Result{Snapshot: &framework.Snapshot{Subject: &framework.Subject{Placement: pl}}}, Verdict: Verdict{Outcome: tc.outcome, message: tc.message, Holds: tc.holds},
				Change: &Move{Proposal: &framework.Proposal{Revision: held, Added: []string{"a"}, Removed: []string{"b"}, From: "f", Digest: "d"}},
			}
			a.timers.NextAttemptCause = "timer"
			s.saveState(a)
			if got := s.timers[types.NamespacedName{Namespace: "n", Name: "p"}]; got.uid != pl.UID || got.NextAttemptCause != "timer" {
				t.Errorf("timers: %+v", got)
			}
			if got := s.held.answers(pl.UID); got.Revision != tc.want {
				t.Fatalf("revision %d is held, want %d", got.Revision, tc.want)
			}
			if tc.want != held {
				return
			}
			want := framework.Answers{Revision: held, From: "f", Digest: "d", Generation: 7, Plugins: map[string]time.Time{"x": until.Time}}
			if diff := cmp.Diff(want, s.held.answers(pl.UID)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			list := []framework.HeldChange{{
				Key: types.NamespacedName{Namespace: "n", Name: "p"}, UID: pl.UID, Revision: held,
				Added: []string{"a"}, Removed: []string{"b"}, Plugins: map[string]time.Time{"x": until.Time},
			}}
			if diff := cmp.Diff(list, s.held.List()); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHeldChangesForgets: one Placement's change, by UID or by key; the others stay, in the order
// of their keys.
func TestHeldChangesForgets(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "n", Name: name} }
	tests := map[string]struct {
		do   func(*HeldChanges)
		want string
	}{
		"nothing":  {do: func(*HeldChanges) {}, want: "[n/a n/b n/c]"},
		"released": {do: func(w *HeldChanges) { w.release("uid-b") }, want: "[n/a n/c]"},
		"gone":     {do: func(w *HeldChanges) { w.forget(key("a")) }, want: "[n/b n/c]"},
		"rejected": {do: func(w *HeldChanges) { w.Reject("uid-c", "x", "no") }, want: "[n/a n/b]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := NewHeldChanges()
			for _, name := range []string{"b", "c", "a"} {
				w.hold(framework.HeldChange{Key: key(name), UID: types.UID("uid-" + name), Plugins: map[string]time.Time{"x": {}}}, framework.Answers{})
			}
			tc.do(w)
			keys := []string{}
			for _, h := range w.List() {
				keys = append(keys, h.Key.String())
			}
			if got := fmt.Sprint(keys); got != tc.want {
				t.Errorf("held: %s, want %s", got, tc.want)
			}
		})
	}
	// A scheduler that never publishes has none.
	var none *HeldChanges
	none.hold(framework.HeldChange{}, framework.Answers{})
	none.release("u")
	none.forget(key("a"))
	if diff := cmp.Diff(framework.Answers{}, none.answers("u")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNormalize(t *testing.T) {
	broken := framework.AsStatus(errors.New("broken"))
	tests := map[string]struct {
		scores []int64
		status *framework.Status
		addOn  bool
		want   string
	}{
		"in range":               {scores: []int64{-100, 100}},
		"none is fine":           {scores: []int64{framework.NoScore, 0}},
		"too high":               {scores: []int64{0, 101}, want: "N: the score 101 of cluster c1 is not between -100 and 100"},
		"too low":                {scores: []int64{-101, 0}, want: "N: the score -101 of cluster c0 is not between -100 and 100"},
		"of an AddOn, any":       {scores: []int64{-101, 101}, addOn: true},
		"a failure":              {scores: []int64{0, 0}, status: broken, want: "N: broken"},
		"a failure of an AddOn":  {scores: []int64{0, 0}, status: broken, addOn: true, want: "N: broken"},
		"a code that means none": {scores: []int64{0, 0}, status: framework.NewStatus(framework.Skip, "why"), want: "N: NormalizeScore returned Skip: why"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Result{Snapshot: &framework.Snapshot{Subject: &framework.Subject{}}}
			for i := range tc.scores {
				r.Feasible = append(r.Feasible, framework.NewCluster(fixture.Cluster(fmt.Sprint("c", i)).Obj(), i))
			}
			n := &normalizer{plain{name: "N", status: tc.status}, tc.scores}
			got := r.normalize(t.Context(), scoring{scorer: scorer{ScorePlugin: n, name: "N", addOn: tc.addOn}, scores: make([]int64, len(tc.scores))})
			if text := fmt.Sprint(got.Err()); tc.want == "" && got != nil || tc.want != "" && text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			bare := scoring{scorer: scorer{ScorePlugin: &plain{name: "N"}, name: "N", addOn: tc.addOn}, scores: tc.scores}
			if failure := r.normalize(t.Context(), bare); tc.status == nil && fmt.Sprint(failure.Err()) != fmt.Sprint(got.Err()) {
				t.Errorf("without NormalizeScore: %v", failure.Err())
			}
		})
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
			r := &Result{
				profile: &Profile{PreEnqueue: tc.plugins}, candidates: candidates.Set(1).Set(2),
				Snapshot: &framework.Snapshot{Subject: &framework.Subject{Placement: fixture.Placement("n", "p").Obj()}},
			}
			var points []string
			s := New(nil, nil)
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
