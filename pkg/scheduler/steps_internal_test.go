package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestInBoth: a step is what all plugins allow.
func TestInBoth(t *testing.T) {
	one := &framework.Transition{Added: []string{"a", "b"}, Removed: []string{"c"}, Why: "one", ProgressDeadline: time.Minute}
	two := &framework.Transition{Added: []string{"b", "d"}, Removed: []string{"c", "e"}, Why: "two", ProgressDeadline: time.Hour}
	suspended := &framework.Transition{Why: "suspended", Paused: "Suspended"}
	silent := &framework.Transition{Added: []string{"b"}}
	for name, tc := range map[string]struct{ a, b, want *framework.Transition }{
		"all":                    {},
		"the first allows all":   {b: two, want: two},
		"the second allows all":  {a: one, want: one},
		"both":                   {a: one, b: two, want: &framework.Transition{Added: []string{"b"}, Removed: []string{"c"}, Why: "one", ProgressDeadline: time.Minute}},
		"the second suspends":    {a: one, b: suspended, want: &framework.Transition{Why: "suspended", Paused: "Suspended", ProgressDeadline: time.Minute}},
		"the first suspends":     {a: suspended, b: two, want: &framework.Transition{Why: "suspended", Paused: "Suspended", ProgressDeadline: time.Hour}},
		"both suspend":           {a: suspended, b: &framework.Transition{Why: "too", Paused: "Suspended"}, want: suspended},
		"the first says nothing": {a: silent, b: two, want: &framework.Transition{Added: []string{"b"}, Why: "two", ProgressDeadline: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			got := inBoth(tc.a, tc.b)
			if got != nil && len(got.Added) == 0 {
				got.Added = nil
			}
			if got != nil && len(got.Removed) == 0 {
				got.Removed = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// mover is a Transition plugin that answers as it is set.
type mover struct {
	plain
	step *framework.Transition
}

func (m *mover) Transition(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, change *framework.Change) (*framework.Transition, *framework.Status) {
	return m.step, m.status
}

// changing is an attempt that replaces clusters a and b by c and d.
func changing() *Attempt {
	a := attemptOn(lastOf("a", "b"), fixture.Cluster("a").Set("s"), fixture.Cluster("b").Set("s"), fixture.Cluster("c").Set("s"), fixture.Cluster("d").Set("s"))
	a.Feasible, a.Totals = []*framework.Cluster{a.Snapshot.Clusters.Get(2), a.Snapshot.Clusters.Get(3)}, []int64{2, 5}
	a.Selected = []framework.Selection{{Cluster: a.Feasible[1], Score: 5}, {Cluster: a.Feasible[0], Score: 2}}
	a.Target = a.diff()
	a.Change, a.Outcome = &Move{Proposal: a.Target}, Published
	a.Change.Revision, a.Change.Cause, a.Change.Approved, a.Change.Edited = 7, "why", true, true
	return a
}

// TestNextStep: what is published of a change, and when the next attempt is due.
func TestNextStep(t *testing.T) {
	before := metav1.NewTime(fixture.Now.Add(-time.Minute))
	open := recordOf(7, berthv1alpha1.PhaseProgressing)
	open.Spec.AddedCount, open.Spec.RemovedCount, open.Status.LastProgressTime = 4, 0, &before
	finished := recordOf(7, berthv1alpha1.PhaseProgressing)
	finished.Spec.RemovedCount = 5
	for name, tc := range map[string]struct {
		step        *framework.Transition
		failure     *framework.Status
		open        *berthv1alpha1.PlacementChange
		dry         bool
		want        Outcome
		wantStep    string
		wantText    string
		wantRequeue time.Time
	}{
		"all at once":                      {want: Published, wantStep: "[c d] 7"},
		"all is allowed":                   {step: &framework.Transition{Added: []string{"c", "d"}, Removed: []string{"a", "b"}}, want: Published, wantStep: "[c d] 7"},
		"a part":                           {step: &framework.Transition{Added: []string{"d"}, Removed: []string{"b"}, Why: "more"}, want: Progressing, wantStep: "[a d] 7 partial", wantText: "1 of 2 added, 1 of 2 removed; more", wantRequeue: fixture.Now},
		"a later part":                     {step: &framework.Transition{Removed: []string{"b"}}, open: open, want: Progressing, wantStep: "[a] 7 partial", wantText: "2 of 4 added, -1 of 0 removed", wantRequeue: fixture.Now},
		"nothing":                          {step: &framework.Transition{Why: "not ready", ProgressDeadline: time.Hour}, open: open, want: Progressing, wantText: "2 of 4 added, -2 of 0 removed; not ready", wantRequeue: before.Add(time.Hour)},
		"nothing, too long":                {step: &framework.Transition{ProgressDeadline: time.Minute}, open: open, want: Progressing, wantText: "2 of 4 added, -2 of 0 removed; no progress since 2026-08-01T11:59:00Z"},
		"nothing yet":                      {step: &framework.Transition{ProgressDeadline: time.Minute}, want: Progressing, wantText: "0 of 2 added, 0 of 2 removed", wantRequeue: fixture.Now.Add(time.Minute)},
		"of a change that adds no cluster": {step: &framework.Transition{}, open: finished, want: Progressing, wantText: "-2 of 0 added, 3 of 5 removed"},
		"a plugin fails":                   {failure: framework.NewStatus(framework.Error, "down"), want: Failed},
		"in a dry run":                     {failure: framework.NewStatus(framework.Error, "down"), dry: true, want: Failed},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, reserves := &mover{plain: plain{name: "x", status: tc.failure}, step: tc.step}, &lastPoints{plain: plain{name: "y"}}
			a := changing()
			a.profile = &Profile{Transition: []framework.TransitionPlugin{plugin}, Reserve: []framework.ReservePlugin{reserves}}
			a.Change.open = tc.open
			New(nil, nil).nextStep(t.Context(), a, tc.dry)
			step, text := "", ""
			if a.Step != nil {
				step = fmt.Sprint(a.Step.Clusters, " ", a.Step.Revision)
				if a.Step.Partial {
					step += " partial"
				}
				if a.Step.Cause != "why" || !a.Step.Approved || !a.Step.Edited || a.Step.Restores || a.Step.Forced {
					t.Errorf("the step is %+v", a.Step)
				}
			}
			if a.progress != nil {
				text = a.progress.String()
			}
			if a.Outcome != tc.want || step != tc.wantStep || text != tc.wantText {
				t.Errorf("%s: step %q, %q", a.Outcome, step, text)
			}
			if got := a.State.Requeue(); !got.Equal(tc.wantRequeue) {
				t.Errorf("the next attempt is at %v", got)
			}
			if wants := tc.failure != nil && !tc.dry; (len(reserves.unreserved) > 0) != wants {
				t.Errorf("%d times unreserved", len(reserves.unreserved))
			}
		})
	}
}

// TestPartIsInOrderOfScores: pages sorted by score list a step like a whole decision.
func TestPartIsInOrderOfScores(t *testing.T) {
	a := changing()
	a.Snapshot.Subject.Last.Scores = map[string]int64{"a": 3, "b": 9}
	p := a.part(&framework.Transition{Added: []string{"c", "d"}, Removed: []string{}})
	var got []string
	for _, s := range p.Selected {
		got = append(got, s.Cluster.Name)
	}
	if diff := cmp.Diff([]string{"b", "d", "a", "c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLeaving: the clusters that the change removes, and those that steps removed since a change
// was completed, with their rank.
func TestLeaving(t *testing.T) {
	removes := func(revision int64, phase berthv1alpha1.ChangePhase, left int32, names ...string) *berthv1alpha1.PlacementChange {
		r := recordOf(revision, phase)
		r.Spec.Removed, r.Spec.RemovedCount = names, int32(len(names))
		r.Status.PermittedTime, r.Status.Remaining = &metav1.Time{}, &berthv1alpha1.RemainingClusters{Removed: left}
		return r
	}
	open := removes(8, berthv1alpha1.PhaseHeld, 1, "h")
	a := changing()
	a.Change.open = open
	a.Snapshot.Subject.Records = []*berthv1alpha1.PlacementChange{
		removes(2, berthv1alpha1.PhaseSuperseded, 0, "before"), removes(3, berthv1alpha1.PhasePublished, 0, "published"),
		removes(4, berthv1alpha1.PhaseSuperseded, 0, "e"), removes(5, berthv1alpha1.PhaseSuperseded, 1, "f"), removes(6, berthv1alpha1.PhaseRejected, 1, "r"),
		removes(7, berthv1alpha1.PhaseProgressing, 1, "c", "g"), open,
	}
	a.Feasible, a.Totals = []*framework.Cluster{a.Snapshot.Clusters.Get(0), a.Snapshot.Clusters.Get(3)}, []int64{1, 5}
	var got []string
	for _, leaving := range a.leaving() {
		got = append(got, fmt.Sprintf("%s %d %t", leaving.Name, leaving.Rank, leaving.Forced))
	}
	if diff := cmp.Diff([]string{"a 2 false", "b 0 false", "e 0 true", "g 0 true", "h 0 true"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestShareOfANamespace: a namespace that used its share waits, longer the more it used, and gains
// a tenth of the time.
func TestShareOfANamespace(t *testing.T) {
	const timeout = 100 * time.Millisecond
	pl := fixture.Placement("ns", "p").Obj()
	for name, tc := range map[string]struct {
		used, later time.Duration
		want        time.Duration
	}{
		"less than its share":   {used: time.Second - 1},
		"its share":             {used: time.Second, want: time.Second},
		"more":                  {used: 4 * time.Second, want: 30 * time.Second},
		"more, some time ago":   {used: 4 * time.Second, later: 10 * time.Second, want: 20 * time.Second},
		"more, a long time ago": {used: 4 * time.Second, later: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var s shares
			s.delay(pl, fixture.Now, timeout)
			s.chargePreparation(pl, tc.used, timeout, fixture.Now)
			if got := s.delay(pl, fixture.Now.Add(tc.later), timeout); got != tc.want {
				t.Errorf("it waits for %s", got)
			}
		})
	}
}

// TestUsedUpShares: a namespace that used nothing any more counts no longer for the shares of all.
func TestUsedUpShares(t *testing.T) {
	var s shares
	pl := fixture.Placement("ns", "p").Obj()
	s.delay(pl, fixture.Now, time.Second)
	s.chargePreparation(pl, time.Second, time.Second, fixture.Now)
	s.delay(pl, fixture.Now.Add(10*time.Second), time.Second)
	if len(s.used) > 0 {
		t.Errorf("used: %v", s.used)
	}
}

// TestLeavingOtherwiseQualifies: only a filter that forces removals excludes the cluster.
func TestLeavingOtherwiseQualifies(t *testing.T) {
	a := changing()
	a.profile = &Profile{Filter: []framework.FilterPlugin{&plain{name: "forces"}, &plain{name: "excludes"}}, plugins: instances{"forces": {
		Traits: framework.Traits{ForcesRemoval: func(*framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (f framework.Forcing) { return f }},
	}}}
	for i, by := range []string{"forces", "excludes"} {
		a.excluded = append(a.excluded, exclusion{a.Snapshot.Clusters.Get(i), framework.NewStatus(framework.Unschedulable, "").WithPlugin(by)})
	}
	got := map[string]bool{}
	for _, leaving := range a.leaving() {
		got[leaving.Name] = leaving.OtherwiseQualifies
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": false}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestQueueConditions: what a queue says of the Placement.
func TestQueueConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		queue *framework.QueueAdmission
		want  []string
	}{
		"no queues":    {want: []string{"PlacementSatisfied False AllManagedClusterSetsEmpty"}},
		"admitted":     {queue: &framework.QueueAdmission{Admitted: true, Reason: "Admitted"}, want: []string{"PlacementSatisfied False AllManagedClusterSetsEmpty", "QueueAdmitted True Admitted"}},
		"not admitted": {queue: &framework.QueueAdmission{Reason: "Waits"}, want: []string{"PlacementSatisfied False NotAllDecisionsScheduled", "QueueAdmitted False Waits"}},
		"rejected":     {queue: &framework.QueueAdmission{Rejected: true, Reason: "No"}, want: []string{"PlacementSatisfied False QueueRejected", "QueueAdmitted False No"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Snapshot.Queue = tc.queue
			var got []string
			for _, c := range a.Conditions()[1:] {
				got = append(got, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
