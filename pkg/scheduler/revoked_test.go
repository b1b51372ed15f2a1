package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRemoveRevoked: it removes the clusters of a lost set without running a filter, and does not
// change the delay after timeouts.
func TestRemoveRevoked(t *testing.T) {
	holds := map[string]*framework.Status{"Permit a": framework.NewStatus(framework.Wait, "not now")}
	tests := map[string]struct {
		lost      bool
		answers   map[string]*framework.Status
		slow      bool
		want      string
		wantCalls string
		wantLate  bool
		wantHeld  string
	}{
		"no cluster is lost":      {wantHeld: "default Continues 0s"},
		"a cluster is lost":       {lost: true, want: "2", wantCalls: "Reserve a, Permit a, PreBind a, Bind a, PostBind a", wantHeld: "default Continues 0s"},
		"a plugin holds it":       {lost: true, answers: holds, wantCalls: "Reserve a, Permit a, Permit a", wantHeld: "default Continues 0s"},
		"a plugin takes too long": {lost: true, slow: true, wantCalls: "Reserve a, Permit a, Unreserve a", wantLate: true, wantHeld: "default TimedOut 103ms"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, _, calls := probing(t, "a", tc.answers)
			clock := slowly(s, "Filter", 100*time.Millisecond)
			inv := fleet(ask(), fixture.Cluster("1"), fixture.Cluster("2"))
			inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("1", "2").Obj())
			snapshot := func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) }
			if a := s.Attempt(ctx, key.Namespace, snapshot); !a.FirstTimeout() {
				t.Fatal("the attempt before does not time out")
			}
			began, delay := clock.Now(), s.AttemptDelay(inv.Placement(key))
			s.Timer = func(_, point string) func() {
				if tc.slow && point == "Permit" {
					clock.Step(103 * time.Millisecond)
				}
				return func() {}
			}
			var held string
			s.LockHeld = func(profile, outcome string, took time.Duration) { held = fmt.Sprint(profile, " ", outcome, " ", took) }
			if tc.lost {
				inv.Update(fixture.Cluster("1").Set("other").Obj())
			}
			*calls = nil

			a := s.RemoveRevoked(ctx, key.Namespace, snapshot)
			published := ""
			if a.Step != nil {
				published = strings.Join(a.Step.Clusters, " ")
			}
			if published != tc.want || held != tc.wantHeld {
				t.Errorf("published %q, want %q; lock held: %s, want %s", published, tc.want, held, tc.wantHeld)
			}
			if diff := cmp.Diff(tc.wantCalls, strings.Join(*calls, ", ")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if a.FirstTimeout() != tc.wantLate || a.Failure.IsUnfinished() == tc.wantLate {
				t.Errorf("first timeout %t, %v", a.FirstTimeout(), a.Failure.Err())
			}
			if got := clock.Since(began) + s.AttemptDelay(inv.Placement(key)); got != delay {
				t.Errorf("the delay was %s and is %s now", delay, got)
			}
		})
	}
}

// TestSlowRemovalsAreCharged: removals that take long count for the share of the namespace.
func TestSlowRemovalsAreCharged(t *testing.T) {
	s, _, _ := probing(t, "a", nil)
	slowly(s, "Permit", 99*time.Millisecond)
	inv := fleet(ask(), fixture.Cluster("1"))
	inv.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("1").Obj())
	inv.Update(fixture.Cluster("1").Set("other").Obj())
	wants := func(want bool) {
		t.Helper()
		if got := s.AttemptDelay(inv.Placement(key)) > 0; got != want {
			t.Errorf("a new Placement of the namespace waits: %t", got)
		}
	}
	wants(false)
	for range 12 {
		s.RemoveRevoked(context.Background(), key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	}
	wants(true)
}

// TestHeldRevokedRemovalHasARecord: a removal of revoked clusters that BlastRadius holds can be
// approved, also if the change to the target is denied, or was rejected.
func TestHeldRevokedRemovalHasARecord(t *testing.T) {
	for name, end := range map[string]func(d *desk){
		"nothing was decided": func(d *desk) { d.pin("no") },
		"is denied by x: no": func(d *desk) {
			d.x.answer, d.x.ofRevoked = framework.NewStatus(framework.Unschedulable, "no"), framework.NewStatus(framework.Success, "")
		},
		"has ended: Rejected": func(d *desk) {
			d.require()
			d.attemptUntilStable()
			d.refuseIt()
		},
		"has ended: Expired": func(d *desk) {
			d.require()
			d.attemptUntilStable()
			d.later(8 * 24 * 3600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "a", "b", "c")
			d.arguments = map[string]string{"BlastRadius": `{"fleetMaxRemoved": 1, "window": "1h", "settle": "0s"}`}
			d.restart()
			d.attemptUntilStable()
			d.leaveSet("a")
			d.leaveSet("b")
			d.add("d")
			end(d)
			d.attemptUntilStable()
			if got := d.pending(); got != "True/Held" || d.phase(d.revision()) != berthv1alpha1.PhaseHeld {
				t.Fatalf("%s: %s", d.state(), d.message())
			}
			if d.placement.Annotations == nil && !strings.HasSuffix(d.message(), ". The change to the selected clusters "+name) {
				t.Error(d.message())
			}
			if a := d.attempt(); len(a.Records.Before) > 0 || d.pending() != "True/Held" {
				t.Errorf("it is not held any more: %s", d.state())
			} else if at := a.State.Requeue(); at.Before(d.now.Add(time.Hour)) {
				t.Errorf("nothing has changed, and the next attempt is at %s", at)
			}
			d.approve(d.revision())
			d.attemptUntilStable()
			if d.keeps("a", "b") > 0 || d.keeps("c") < 1 {
				t.Errorf("it was approved, and published is %s", d.published())
			}
		})
	}
}

// TestRevokedRemovalLeavesItsRecord: another change supersedes the removal of a revoked cluster,
// which BlastRadius held. Its record keeps that removal held no longer, so it is made when no limit
// is exceeded.
func TestRevokedRemovalLeavesItsRecord(t *testing.T) {
	weigh := func(d *desk, weight int32) {
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.PrioritizerPolicy = ask().Prioritizer(v1alpha1.PrioritizerBalance, weight).Obj().Spec.PrioritizerPolicy
		})
	}
	for name, tc := range map[string]struct{ with, then func(d *desk) }{
		"by a change that removes more": {with: func(*desk) {}, then: func(d *desk) { d.remove("b") }},
		"by an edit, after another one": {with: func(d *desk) { weigh(d, 2) }, then: func(d *desk) {
			d.require()
			d.later(2 * 60 * 60)
			weigh(d, 3)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "a", "b", "c", "d")
			d.arguments = map[string]string{"BlastRadius": `{"fleetMaxRemoved": 1, "window": "1h", "settle": "0s"}`}
			d.restart()
			d.attemptUntilStable()
			var a *scheduler.Attempt
			for _, lose := range []func(){func() { d.remove("d") }, func() { d.leaveSet("a"); tc.with(d) }, func() { tc.then(d) }} {
				d.later(60)
				lose()
				a = d.attemptUntilStable()
			}
			for end := d.now.Add(time.Hour); d.keeps("a") > 0; a = d.attemptUntilStable() {
				if d.now = a.State.Requeue(); d.now.After(end) {
					t.Fatalf("nothing happens until %s: %s", d.now, d.whole())
				}
			}
		})
	}
}

// TestDeniedRevokedRemovalIsNoExpiredChange: that a change with the same removal expired before
// does not hide why nothing is published.
func TestDeniedRevokedRemovalIsNoExpiredChange(t *testing.T) {
	d := newDesk(t, ask().Predicate(fixture.MatchLabel("pool", "in")))
	pool := func(value, set string, names ...string) {
		for _, name := range names {
			d.clusters[name] = fixture.Cluster(name).Set(set).Label("pool", value).Obj()
			d.inv.Update(d.clusters[name].DeepCopy())
		}
	}
	pool("in", "s1", "a", "b", "c")
	d.attemptUntilStable()
	d.require()
	pool("out", "s1", "a")
	d.attemptUntilStable()
	d.later(8 * 24 * 3600)
	d.attemptUntilStable()
	if got := d.pending(); got != "False/Expired" {
		t.Fatal(d.state())
	}
	d.x.answer = framework.NewStatus(framework.Unschedulable, "no")
	pool("out", "other", "a")
	pool("in", "s1", "d")
	d.attemptUntilStable()
	if got := d.pending(); got != "False/Denied" {
		t.Errorf("%s: %s", d.state(), d.message())
	}
}

// TestRevokedRemovalAfterTheWindow: BlastRadius holds a change. After its window, a restart, or an
// attempt for another reason, answers as the attempt before: a held removal stays held, also if the
// change adds clusters, and a removal that is a part of the change is made when it is allowed.
func TestRevokedRemovalAfterTheWindow(t *testing.T) {
	for name, tc := range map[string]struct {
		// voluntary is true if the change also removes a cluster that the Placement could keep.
		voluntary bool
		want      string
	}{
		"the removal of the change": {want: "b c"},
		"a part of the change":      {voluntary: true, want: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask().Predicate(fixture.MatchLabel("pool", "in")))
			pool := func(value, set string, names ...string) {
				for _, name := range names {
					d.clusters[name] = fixture.Cluster(name).Set(set).Label("pool", value).Obj()
					d.inv.Update(d.clusters[name].DeepCopy())
				}
			}
			d.arguments = map[string]string{"BlastRadius": `{"fleetMaxRemoved": 1, "window": "1h", "settle": "0s"}`}
			d.restart()
			pool("in", "s1", "a", "b", "c")
			d.attemptUntilStable()
			d.leaveSet("a")
			d.attemptUntilStable()
			d.later(60)
			d.leaveSet("b")
			pool("in", "s1", "d")
			if tc.voluntary {
				pool("out", "s1", "c")
			}
			d.attemptUntilStable()
			if got := d.names(); got != "b c" || d.pending() != "True/Held" {
				t.Fatalf("published is %s: %s", got, d.state())
			}
			due := d.attempt().State.NextAttempt()
			if at := d.now.Add(59 * time.Minute); tc.voluntary != due.Equal(at) {
				t.Errorf("the next attempt is at %s, the window ends at %s", due, at)
			}
			d.later(3600)
			d.attemptUntilStable()
			if got := d.names(); got != tc.want {
				t.Errorf("published is %s, want %s: %s", got, tc.want, d.state())
			}
			d.restart()
			d.attemptUntilStable()
			if got := d.names(); got != tc.want {
				t.Errorf("after a restart, published is %s, want %s: %s", got, tc.want, d.state())
			}
			if tc.voluntary {
				return
			}
			d.later(8 * 24 * 3600)
			d.attemptUntilStable()
			if got := d.names(); got != tc.want || d.pending() != "True/Held" {
				t.Errorf("after the change expired, published is %s: %s", got, d.state())
			}
			d.approve(d.revision())
			d.attemptUntilStable()
			if got := d.names(); got != "c d" {
				t.Errorf("after the approval, published is %s: %s", got, d.state())
			}
		})
	}
}
