package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// slowly gives a scheduler a cycle timeout of 100 ms and a clock that takes a step when an
// extension point begins.
func slowly(s *scheduler.Scheduler, point string, step time.Duration) *clocktesting.FakeClock {
	clock := clocktesting.NewFakeClock(fixture.Now)
	s.CycleTimeout, s.Clock = 100*time.Millisecond, clock
	s.Timer = func(_, now string) func() {
		if now == point {
			clock.Step(step)
		}
		return func() {
			if point == "Select" && now == "Score" {
				clock.Step(step)
			}
		}
	}
	return clock
}

// TestCycleTimeout: a cycle that takes too long fails, whichever point and plugin is slow. Nothing
// is proposed, and what was reserved is given back.
func TestCycleTimeout(t *testing.T) {
	const (
		filtered = "PreFilter a, PreFilter b, Filter a1, Filter b1, Filter a2, Filter b2, PostFilter a"
		scored   = ", PreScore a, PreScore b, Score a1, Score a2, Score b1, Score b2, NormalizeScore a, NormalizeScore b"
	)
	for point, want := range map[string]string{
		"Snapshot":   "",
		"PreFilter":  "PreFilter a",
		"Filter":     "PreFilter a, PreFilter b, Filter a1",
		"PostFilter": filtered,
		"PreScore":   filtered + ", PreScore a",
		"Score":      filtered + ", PreScore a, PreScore b, Score a1",
		"Select":     filtered + scored,
		"Reserve":    filtered + scored + ", Reserve a" + undone,
		"Permit":     filtered + scored + ", Reserve a, Reserve b, Permit a" + undone,
	} {
		t.Run(point, func(t *testing.T) {
			ctx := context.Background()
			s, _, calls := probing(t, "a b", nil)
			clock := slowly(s, point, 103*time.Millisecond)
			var held []string
			s.LockHeld = func(profile, outcome string, took time.Duration) {
				held = append(held, fmt.Sprint(profile, " ", outcome, " ", took))
			}
			inv := fleet(ask().Number(3), fixture.Cluster("1"), fixture.Cluster("2"))
			inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists("1").Obj())
			a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot {
				if point == "Snapshot" {
					clock.Step(103 * time.Millisecond)
				}
				return inv.Snapshot(key, fixture.Now, nil)
			})
			if diff := cmp.Diff(want, strings.Join(*calls, ", ")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			message := "the cycle was stopped in " + point + " after 103ms; cycleTimeout is 100ms"
			if point != "Snapshot" && point != "Select" {
				message = "a: " + message
			}
			if a.Failure.Code() != framework.Error || a.Failure.Err().Error() != message {
				t.Errorf("failure %v, want %s", a.Failure.Err(), message)
			}
			if at, _, ok := a.TimedOut(); at != point || !ok || !a.FirstTimeout() {
				t.Errorf("timed out at %q, %t, first: %t", at, ok, a.FirstTimeout())
			}
			if a.Target != nil || a.Step != nil || a.Err != nil {
				t.Errorf("selected %+v, published %+v, %v", a.Target, a.Step, a.Err.Err())
			}
			if diff := cmp.Diff([]string{"default TimedOut 103ms"}, held); diff != "" {
				t.Errorf("lock held (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnfinishedIsNotLate: a plugin that continues in a later attempt decides nothing, so that its
// answer counts however late it comes, and a Placement without a decision gets no empty page.
func TestUnfinishedIsNotLate(t *testing.T) {
	s, _, _ := probing(t, "a b", map[string]*framework.Status{"PreFilter a": framework.Unfinished("the rest follows")})
	slowly(s, "PreFilter", 103*time.Millisecond)
	inv := fleet(ask().Number(1), fixture.Cluster("1"))
	a := s.Attempt(context.Background(), key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	if _, _, late := a.TimedOut(); late || !a.Failure.IsUnfinished() {
		t.Errorf("late %t, %v", late, a.Failure.Err())
	}
	if a.Step != nil || a.Outcome != plan.Undecided {
		t.Errorf("published %+v, outcome %s", a.Step, a.Outcome)
	}
}

// TestNoCycleTimeout: neither a simulation nor an attempt that is as fast as it has to be is
// stopped.
func TestNoCycleTimeout(t *testing.T) {
	s, _, _ := probing(t, "a b", nil)
	slowly(s, "Filter", time.Hour)
	inv := fleet(ask().Number(2), fixture.Cluster("1"), fixture.Cluster("2"))
	if r := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil)); r.Failure != nil || len(r.Selected) != 2 {
		t.Errorf("a simulation: %v, %d selected", r.Failure.Err(), len(r.Selected))
	}
	slowly(s, "Filter", 99*time.Millisecond)
	a := s.Attempt(context.Background(), key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	if a.Failure != nil || len(a.Selected) != 2 {
		t.Errorf("an attempt of 99 ms: %v, %d selected", a.Failure.Err(), len(a.Selected))
	}
}

// waiter is a PreFilter plugin that waits until its context ends, but not for the Placement quick.
type waiter struct{ begun chan struct{} }

func (waiter) Name() string { return "Waiter" }

func (w waiter) PreFilter(ctx context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if pl.Name == "quick" {
		return nil, nil
	}
	w.begun <- struct{}{}
	<-ctx.Done()
	return nil, framework.AsStatus(context.Cause(ctx))
}

func (waiter) Bind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

func (waiter) Less(a, b *v1alpha1.Placement) bool { return a.Name < b.Name }

// TestPluginThatWaits: the deadline ends what waits for something else, and the next Placement is
// decided.
func TestPluginThatWaits(t *testing.T) {
	ctx, w := context.Background(), waiter{make(chan struct{})}
	defaults := config.Profile{Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: "Waiter"}}}}}
	profiles, err := plugins.NewProfiles(ctx, nil, defaults, framework.Registry{
		"Waiter": func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) { return w, nil },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := scheduler.New(profiles, scheduler.NewMemory())
	clock := slowly(s, "", 0)
	inv := fleet(ask(), fixture.Cluster("1"))
	inv.Update(fixture.Placement("ns", "quick").Obj())
	attempts := make(chan *scheduler.Attempt)
	go func() {
		attempts <- s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	}()
	<-w.begun
	clock.Step(100 * time.Millisecond)
	a := <-attempts
	if point, plugin, ok := a.TimedOut(); point != "PreFilter" || plugin != "Waiter" || !ok {
		t.Errorf("got %v", a.Failure.Err())
	}
	quick := inventory.Key{Namespace: "ns", Name: "quick"}
	if a := s.Attempt(ctx, quick.Namespace, func() *framework.Snapshot { return inv.Snapshot(quick, fixture.Now, nil) }); a.Failure != nil || len(a.Selected) != 1 {
		t.Errorf("the next one: %v", a.Failure.Err())
	}
}

// TestTimeoutsAreRepeatedWithGrowingDelays: also if an event affects the Placement, but at
// once after an edit.
func TestTimeoutsAreRepeatedWithGrowingDelays(t *testing.T) {
	ctx := context.Background()
	s, _, _ := probing(t, "a", nil)
	clock := slowly(s, "Filter", 100*time.Millisecond)
	inv := fleet(ask().Generation(1), fixture.Cluster("1"))
	attempt := func() *scheduler.Attempt {
		return s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	}
	var delays []time.Duration
	for range 11 {
		a := attempt()
		if a.FirstTimeout() != (len(delays) == 0) {
			t.Errorf("after %d: first %t", len(delays), a.FirstTimeout())
		}
		delay := a.State.Requeue().Sub(fixture.Now)
		delays = append(delays, delay)
		if wait := s.AttemptDelay(inv.Placement(key)); wait != delay {
			t.Errorf("requeued early it waits %s instead of %s", wait, delay)
		}
		clock.Step(5 * time.Minute)
		if wait := s.AttemptDelay(inv.Placement(key)); wait != 0 {
			t.Errorf("after %s it waits %s", delay, wait)
		}
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
	attempt()
	inv.Update(ask().Generation(2).Obj())
	if wait := s.AttemptDelay(inv.Placement(key)); wait != 0 {
		t.Errorf("after an edit it waits %s", wait)
	}
	if a := attempt(); !a.FirstTimeout() {
		t.Error("an edit does not restart the delays")
	}
}

// TestSlowPlacementsShareLittleTime: a hundred Placements of one namespace that time out, edited
// all the time, take a tenth of the time and what they may take at once; others wait for none of
// them.
func TestSlowPlacementsShareLittleTime(t *testing.T) {
	ctx := context.Background()
	s, _, _ := probing(t, "a", nil)
	clock := slowly(s, "", 0)
	slow, taken := false, time.Duration(0)
	s.Timer = func(_, point string) func() {
		if slow && point == "Filter" {
			clock.Step(100 * time.Millisecond)
			taken += 100 * time.Millisecond
		}
		return func() {}
	}
	inv := fleet(ask().Generation(1), fixture.Cluster("1"))
	inv.Update(fixture.Binding("other", "s1"))
	run := func(key inventory.Key) bool {
		if s.AttemptDelay(inv.Placement(key)) > 0 {
			return false
		}
		s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
		return true
	}
	// A fast neighbour in the namespace goes on, once it is known to be fast.
	if !run(key) {
		t.Fatal("the neighbour waits")
	}
	began := clock.Now()
	for round := range int64(600) {
		slow = true
		for i := range 100 {
			hostile := fixture.Placement("ns", fmt.Sprint("hostile-", i)).Generation(round).Obj()
			inv.Update(hostile)
			run(inventory.Key{Namespace: "ns", Name: hostile.Name})
		}
		slow = false
		if !run(key) {
			t.Fatalf("round %d: the fast neighbour waits", round)
		}
		stranger := fixture.Placement("other", fmt.Sprint("stranger-", round)).Obj()
		inv.Update(stranger)
		if !run(inventory.Key{Namespace: "other", Name: stranger.Name}) {
			t.Fatalf("round %d: a new Placement of another namespace waits", round)
		}
		clock.Step(100 * time.Millisecond)
	}
	elapsed := clock.Since(began)
	if most := time.Second + 100*time.Millisecond + elapsed/10; taken > most || taken < time.Second {
		t.Errorf("slow Placements took %s of %s, at most %s", taken, elapsed, most)
	}
}

// TestConditionsWhileEvaluationContinues: what was True of the same spec, and of clusters that are
// all still there, stays True.
func TestConditionsWhileEvaluationContinues(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "Stored", Message: "stored", ObservedGeneration: generation}
	}
	satisfied := condition(v1alpha1.PlacementConditionSatisfied, metav1.ConditionTrue, 1)
	unfinished, awaits := framework.Unfinished("still at it"), framework.NewStatus(framework.Pending, "a fact")
	const (
		standing = "True stored"
		pending  = "False a: still at it"
		fine     = "False Placement configurations check pass"
	)
	for name, tc := range map[string]struct {
		answer                           *framework.Status
		stored                           []metav1.Condition
		selected                         int32
		pages                            string
		wantSatisfied, wantMisconfigured string
	}{
		"it stands":                        {answer: unfinished, stored: []metav1.Condition{satisfied}, selected: 2, pages: "1 2", wantSatisfied: standing, wantMisconfigured: fine},
		"nothing is stored":                {answer: unfinished, selected: 2, pages: "1 2", wantSatisfied: pending, wantMisconfigured: fine},
		"of another spec":                  {answer: unfinished, stored: []metav1.Condition{condition(v1alpha1.PlacementConditionSatisfied, metav1.ConditionTrue, 0)}, selected: 2, pages: "1 2", wantSatisfied: pending, wantMisconfigured: fine},
		"it was not satisfied":             {answer: unfinished, stored: []metav1.Condition{condition(v1alpha1.PlacementConditionSatisfied, metav1.ConditionFalse, 1)}, selected: 2, pages: "1 2", wantSatisfied: pending, wantMisconfigured: fine},
		"a cluster is gone":                {answer: unfinished, stored: []metav1.Condition{satisfied}, selected: 2, pages: "1 gone", wantSatisfied: pending, wantMisconfigured: fine},
		"a page is gone":                   {answer: unfinished, stored: []metav1.Condition{satisfied}, selected: 2, pages: "1", wantSatisfied: pending, wantMisconfigured: fine},
		"a plugin waits for news":          {answer: awaits, stored: []metav1.Condition{satisfied}, selected: 2, pages: "1 2", wantSatisfied: standing, wantMisconfigured: fine},
		"news about what is not satisfied": {answer: awaits, selected: 2, pages: "1 2", wantSatisfied: "False a: a fact", wantMisconfigured: fine},
		"news after a mistake": {
			answer: awaits, stored: []metav1.Condition{condition(v1alpha1.PlacementConditionMisconfigured, metav1.ConditionTrue, 1)}, selected: 2, pages: "1 2",
			wantSatisfied: "False a: a fact", wantMisconfigured: fine,
		},
		"it was misconfigured": {
			answer: unfinished, stored: []metav1.Condition{condition(v1alpha1.PlacementConditionMisconfigured, metav1.ConditionTrue, 1)}, selected: 2, pages: "1 2",
			wantSatisfied: "False stored", wantMisconfigured: standing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := probing(t, "a", map[string]*framework.Status{"PreFilter a": tc.answer})
			inv := fleet(ask(), fixture.Cluster("1"), fixture.Cluster("2"))
			pl := ask().Generation(1).Obj()
			pl.Status.Conditions, pl.Status.NumberOfSelectedClusters = tc.stored, tc.selected
			inv.Update(pl)
			inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists(strings.Fields(tc.pages)...).Obj())
			a := s.Attempt(context.Background(), key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
			got := map[string]string{}
			for _, c := range a.Conditions() {
				got[c.Type] = string(c.Status) + " " + c.Message
				if c.ObservedGeneration != 1 {
					t.Errorf("%s is of generation %d", c.Type, c.ObservedGeneration)
				}
			}
			want := map[string]string{v1alpha1.PlacementConditionSatisfied: tc.wantSatisfied, v1alpha1.PlacementConditionMisconfigured: tc.wantMisconfigured}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTimeoutsOfAnEndedChange: attempts for a change that was rejected or has expired time out one
// after the other. The decision and the record stay as they are.
func TestTimeoutsOfAnEndedChange(t *testing.T) {
	for name, end := range map[string]func(*desk){
		"rejected": func(d *desk) { d.answer(d.revision(), berthv1alpha1.Rejected) },
		"expired":  func(d *desk) { d.now = d.now.Add(8 * 24 * time.Hour) },
	} {
		for _, point := range []string{"Reserve", "Permit"} {
			t.Run(name+" in "+point, func(t *testing.T) {
				d := newDesk(t, ask().Number(1), "c1")
				d.require()
				d.attempt()
				end(d)
				d.attempt()
				want := d.phase("1")
				for range 3 {
					slowly(d.scheduler, point, 103*time.Millisecond)
					if a, _ := d.try(); a.Change != nil || a.Record() != nil || a.Failure == nil {
						t.Errorf("change %+v, record %+v, failure %v", a.Change, a.Record(), a.Failure.Err())
					}
				}
				if got := d.phase("1"); got != want || d.published() != "p-decision-1:" && d.published() != "" {
					t.Errorf("phase %s, want %s; published %s", got, want, d.published())
				}
			})
		}
	}
}
