package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// governedWith is governed with 3 clusters wanted, and arguments of plugins.
func governedWith(t *testing.T, arguments map[string]string, change func(spec *berthv1alpha1.DisruptionPolicySpec)) *desk {
	t.Helper()
	d := governed(t, 3, change)
	d.arguments = arguments
	d.restart()
	d.attemptUntilStable()
	return d
}

// TestMassTaint: an untolerated taint appears on two of three published clusters. BlastRadius sees
// the whole change once, and an approval of it covers all steps.
func TestMassTaint(t *testing.T) {
	const limit = `{"maxRemoved": 1, "settle": "0s"}`
	taint := func(d *desk, key string) {
		d.tier("gold", "x", "y")
		d.taint("a", key)
		d.taint("b", key)
	}
	for name, tc := range map[string]struct {
		limit, key string
		want, then []string
	}{
		"without BlastRadius the clusters leave at once": {"", "unreachable", []string{"c x y"}, nil},
		"BlastRadius holds it, and an approval removes them at once": {limit, "unreachable",
			[]string{"a b c"}, []string{"c x y"}},
		"a drain is replaced first": {"", v1alpha1.DrainTaint, []string{
			"a b c x (True RollingUpdate: 1 of 2 added, 0 of 2 removed)", "b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed)",
			"b c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed)", "c x y",
		}, nil},
		"BlastRadius counts a drain before its first step": {limit, v1alpha1.DrainTaint, []string{"a b c"}, []string{
			"a b c x (True RollingUpdate: 1 of 2 added, 0 of 2 removed)", "b c x (True RollingUpdate: 1 of 2 added, 1 of 2 removed)",
			"b c x y (True RollingUpdate: 2 of 2 added, 1 of 2 removed)", "c x y",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := map[string]string{}
			if tc.limit != "" {
				arguments["BlastRadius"] = tc.limit
			}
			d := governedWith(t, arguments, nothing)
			taint(d, tc.key)
			if diff := cmp.Diff(strings.Join(tc.want, "\n"), d.steps()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.then == nil {
				return
			}
			if got := d.pending(); got != "True/Held" {
				t.Fatalf("pending: %s", got)
			}
			d.approve(d.newest().Name[len("p-"):])
			if diff := cmp.Diff(strings.Join(tc.then, "\n"), d.steps()); diff != "" {
				t.Errorf("after the approval (-want +got):\n%s", diff)
			}
			if len(d.records) != 2 {
				t.Errorf("%d records", len(d.records))
			}
		})
	}
}

// TestRemovalsOfAChangeInStepsCountOnce: BlastRadius permits two removals. A change of two in steps
// passes as a whole, and leaves nothing for the next one.
func TestRemovalsOfAChangeInStepsCountOnce(t *testing.T) {
	d := governedWith(t, map[string]string{"BlastRadius": `{"maxRemoved": 2, "settle": "0s"}`}, nothing)
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y", "z")
	for range 3 {
		d.attempt()
		if got := d.pending(); got != "" {
			t.Fatalf("pending in the middle: %s", got)
		}
	}
	d.attemptUntilStable()
	d.expect("p-decision-1: c x y |  | ")
	d.tier("silver", "c")
	d.attemptUntilStable()
	d.expect("p-decision-1: c x y | [x y z] | True/Held")
}

// TestTheRestCountsOnce: BlastRadius counts the whole change when it is permitted. Its later steps
// do not count again, before and after the end of the window, also if a revoked cluster leaves
// beside the rest, or is one of the rest.
func TestTheRestCountsOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(d *desk)
		// beside is how many clusters leave beside the rest.
		beside int
	}{
		"nothing":                      {meanwhile: func(*desk) {}},
		"a revoked cluster":            {meanwhile: func(d *desk) { d.leaveSet("c") }, beside: 1},
		"a revoked cluster, undecided": {meanwhile: func(d *desk) { d.preScorer.answer = fails; d.leaveSet("c") }, beside: 1},
		"a revoked cluster, RemoveRevoked": {meanwhile: func(d *desk) {
			d.leaveSet("c")
			d.recordAfter(d.scheduler.RemoveRevoked(d.t.Context(), key.Namespace, d.snapshot))
		}, beside: 1},
		"revoked, of the rest":            {meanwhile: func(d *desk) { d.leaveSet("a") }},
		"revoked, of the rest, undecided": {meanwhile: func(d *desk) { d.preScorer.answer = fails; d.leaveSet("a") }},
		"revoked, of the rest, RemoveRevoked": {meanwhile: func(d *desk) {
			d.leaveSet("a")
			d.recordAfter(d.scheduler.RemoveRevoked(d.t.Context(), key.Namespace, d.snapshot))
		}},
		"revoked, and of the rest": {meanwhile: func(d *desk) { d.preScorer.answer = fails; d.leaveSet("a"); d.leaveSet("c") }, beside: 1},
		"a revoked cluster, a write fails": {meanwhile: func(d *desk) {
			d.leaveSet("c")
			d.pages.refuse = func(string) error { d.pages.refuse = nil; return errHubDown }
		}, beside: 1},
	} {
		for _, minutes := range []int{1, 11} {
			if minutes > 10 && strings.HasSuffix(name, "fails") {
				continue // The rest counts again.
			}
			t.Run(fmt.Sprintf("%s, after %d minutes", name, minutes), func(t *testing.T) {
				limit := fmt.Sprintf(`{"fleetMaxRemoved": %d, "window": "10m", "settle": "0s"}`, 2+tc.beside)
				d := governedWith(t, map[string]string{"BlastRadius": limit}, func(spec *berthv1alpha1.DisruptionPolicySpec) {
					spec.MinReadySeconds = 3600
				})
				d.preScorer = &preScorer{bare: bare{"preScorer"}}
				d.restart()
				d.tier("bronze", "q1")
				attempt := d.other("bronze")
				attempt(1)
				d.tier("silver", "a", "b")
				d.tier("gold", "x", "y")
				d.attemptUntilStable()
				want := 2 + tc.beside
				if d.later(60 * minutes); minutes > 10 {
					attempt(0) // The removal of another Placement drops what is outside the window.
					want = 1 + tc.beside
				}
				count := func() {
					t.Helper()
					if n, _ := after(d.now.Add(-10*time.Minute), d.counted()); n != want {
						t.Errorf("%d removals count, want %d: %+v", n, want, d.counted())
					}
				}
				tc.meanwhile(d)
				if _, _ = d.try(); strings.HasSuffix(name, "fails") {
					d.attempt()
				}
				if d.keeps("b") != 1 || d.keeps("c") != 1-tc.beside || strings.Contains(name, "of the rest") && d.keeps("a") != 0 {
					t.Errorf("the rest does not wait, or a revoked cluster stays: %s", d.whole())
				}
				d.preScorer.answer = nil
				d.attemptUntilStable()
				if count(); d.keeps("a") == 0 && tc.beside > 0 {
					return // The next change supersedes the rest.
				}
				d.tier("gold", "z") // It replaces c.
				d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinReadySeconds = 0 })
				d.attempt()
				if d.keeps("a", "b") > 1 {
					t.Errorf("the rest does not go on: %s", d.whole())
				}
				count()
			})
		}
	}
}

// TestWindowClosesInTheMiddle: a change begins only in a window. One that has begun goes on.
func TestWindowClosesInTheMiddle(t *testing.T) {
	window := fmt.Sprintf(`{"schedule": "%d %d * * *", "duration": "10m"}`, fixture.Now.Add(time.Hour).Minute(), fixture.Now.Add(time.Hour).Hour())
	for name, tc := range map[string]struct {
		arguments map[string]string
		policy    func(spec *berthv1alpha1.DisruptionPolicySpec)
		// approvable is true if an approval replaces the window.
		approvable bool
	}{
		"MaintenanceWindow":             {arguments: map[string]string{"MaintenanceWindow": `{"windows": [` + window + `]}`}},
		"MaintenanceWindow, approvable": {arguments: map[string]string{"MaintenanceWindow": `{"windows": [` + window + `], "approvable": true}`}, approvable: true},
		"windows of the policy": {policy: func(spec *berthv1alpha1.DisruptionPolicySpec) {
			at := fixture.Now.Add(time.Hour).UTC()
			spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), Duration: "10m"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := governed(t, 3, nothing)
			if d.arguments = tc.arguments; tc.arguments != nil {
				d.restart()
				d.attemptUntilStable()
			}
			if tc.policy != nil {
				d.govern(tc.policy)
			}
			d.tier("silver", "a", "b")
			d.tier("gold", "x", "y")
			d.attemptUntilStable()
			d.expect("p-decision-1: a b c | [c x y] | True/Held")
			d.approve("2")
			if !tc.approvable {
				d.attemptUntilStable()
				d.expect("p-decision-1: a b c | [c x y] | True/Held")
				d.now = fixture.Now.Add(time.Hour)
			}
			d.attempt()
			d.expect("p-decision-1: a b c x | [c x y] | ")
			d.now = fixture.Now.Add(2 * time.Hour)
			d.restart()
			d.attemptUntilStable()
			d.expect("p-decision-1: c x y |  | ")
			if got := d.phase("2"); got != berthv1alpha1.PhasePublished || len(d.records) != 2 {
				t.Errorf("%s, %d records", got, len(d.records))
			}
		})
	}
}

// TestPagesAndGroupsWhileMoving: a step of a decision of several groups and pages is published
// whole, no page moves to another group, and each cluster stays in its group.
func TestPagesAndGroupsWhileMoving(t *testing.T) {
	const clusters = 260
	d := newDesk(t, ask().Number(clusters).Predicate(fixture.MatchLabel("tier", "gold")))
	d.placement.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []v1alpha1.DecisionGroup{
		{GroupName: "canary", ClusterSelector: v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"ring": "canary"}}}},
	}
	d.inv.Update(d.placement.DeepCopy())
	d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxSurge = new(intstr.FromInt32(60)) })
	set := func(i int, tier string) {
		name, ring := fmt.Sprintf("c%03d", i), "rest"
		if i%5 == 0 {
			ring = "canary"
		}
		d.clusters[name] = fixture.Cluster(name).Set("s1").Label("tier", tier).Label("ring", ring).Obj()
		d.inv.Update(d.clusters[name].DeepCopy())
	}
	for i := range clusters {
		set(i, "gold")
	}
	d.attemptUntilStable()
	groups := d.groupsByCluster()
	// The first 150 are replaced.
	for i := range 150 {
		set(i, "silver")
		set(clusters+i, "gold")
	}
	steps := 0
	for last := groups; ; steps++ {
		a := d.attempt()
		now := d.groupsByCluster()
		if len(now) < clusters || len(now) > clusters+60 || a.Step != nil && len(now) != len(a.Step.Clusters) {
			t.Fatalf("step %d publishes %d clusters", steps, len(now))
		}
		for cluster, group := range now {
			if before, known := last[cluster]; known && before != group {
				t.Fatalf("step %d moves %s from group %s to %s", steps, cluster, before, group)
			}
		}
		last = now
		if at := a.State.Requeue(); at.IsZero() || at.After(d.now) {
			break
		}
	}
	if steps < 3 || len(d.groupsByCluster()) != clusters || d.groupsByCluster()["c000"] != "" {
		t.Errorf("%d steps to %d clusters", steps, len(d.groupsByCluster()))
	}
}

// groupsByCluster is the index and name of the group that lists each cluster.
func (d *desk) groupsByCluster() map[string]string {
	groups := map[string]string{}
	for _, page := range d.own() {
		for _, decision := range page.Status.Decisions {
			groups[decision.ClusterName] = page.Labels[v1alpha1.DecisionGroupIndexLabel] + " " + page.Labels[v1alpha1.DecisionGroupNameLabel]
		}
	}
	return groups
}

// TestCountsWhileAnotherMoves: Balance counts the clusters that the Placement in the middle of a
// change lists, and InFlight those that it will list.
func TestCountsWhileAnotherMoves(t *testing.T) {
	d := governed(t, 3, nothing)
	d.tier("silver", "a", "b")
	d.tier("gold", "x", "y")
	d.inv.Update(fixture.Placement("ns", "other").Obj())
	other := inventory.Key{Namespace: "ns", Name: "other"}
	counts := func() string {
		snapshot := d.inv.Snapshot(other, d.now, nil)
		var all []string
		for i := range snapshot.Clusters.Len() {
			if c := snapshot.Clusters.Get(i); c != nil {
				if n := snapshot.Counts.ByIndex.Get(i); n > 0 {
					all = append(all, fmt.Sprintf("%s=%d", c.Name, n))
				}
			}
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	var got []string
	for range 4 {
		d.attempt()
		got = append(got, strings.TrimPrefix(d.published(), "p-decision-1: ")+": "+counts())
	}
	want := []string{
		"a b c x: a=1 b=1 c=1 x=1 y=1",
		"b c x: b=1 c=1 x=1 y=1",
		"b c x y: b=1 c=1 x=1 y=1",
		"c x y: c=1 x=1 y=1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("published: counts (-want +got):\n%s", diff)
	}
}

// TestForcedRemovalOutsideTheWindow: a forced removal waits for a window of the configuration,
// unless removals need not. Then it is a change of its own, as outside a policy's windows.
func TestForcedRemovalOutsideTheWindow(t *testing.T) {
	const window = `"windows": [{"schedule": "0 22 * * *", "duration": "1h"}]`
	for arguments, want := range map[string]string{
		`{` + window + `}`:                      "p-decision-1: a b c | [c x] | True/Held",
		`{` + window + `, "removals": false}`:   "p-decision-1: a c | [c x] | True/Held",
		`{` + window + `, "additions": false}`:  "p-decision-1: a b c | [c x] | True/Held",
		`{` + window + `, "approvable": false}`: "p-decision-1: a b c | [c x] | True/Held",
	} {
		d := governed(t, 3, nothing)
		d.arguments = map[string]string{"MaintenanceWindow": arguments}
		d.restart()
		d.attemptUntilStable()
		d.now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		d.tier("silver", "a")
		d.tier("gold", "x")
		d.attemptUntilStable()
		d.expect("p-decision-1: a b c | [b c x] | True/Held")
		d.remove("b")
		d.attemptUntilStable()
		d.expect(want)
		d.now = time.Date(2026, 1, 1, 22, 0, 0, 0, time.UTC)
		d.tier("gold", "y")
		d.attemptUntilStable()
		d.expect("p-decision-1: c x y |  | ")
	}
}
