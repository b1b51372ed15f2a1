package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
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
	step   *framework.Transition
	status *framework.Status
}

func (*mover) Name() string { return "x" }

func (m *mover) Transition(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Change) (*framework.Transition, *framework.Status) {
	return m.step, m.status
}

// reserver is a Reserve plugin that answers as it is set. It counts the calls of Unreserve.
type reserver struct {
	name       string
	status     *framework.Status
	unreserved int
}

func (r *reserver) Name() string { return r.name }

func (r *reserver) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return r.status
}

func (r *reserver) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
	r.unreserved++
}

// changing is a Plan whose permitted change replaces clusters a and b by c and d.
func changing() *planner {
	a := planOf(decisionOn(lastOf("a", "b"), fixture.Cluster("a").Set("s"), fixture.Cluster("b").Set("s"), fixture.Cluster("c").Set("s"), fixture.Cluster("d").Set("s")))
	a.Feasible, a.Totals = []*framework.Cluster{a.Snapshot.Clusters.Get(2), a.Snapshot.Clusters.Get(3)}, []int64{2, 5}
	a.Selected = []framework.SelectedCluster{{Cluster: a.Feasible[1], Score: 5}, {Cluster: a.Feasible[0], Score: 2}}
	a.Target = a.diff()
	a.Change, a.Outcome = &Move{Proposal: a.Target}, Permitted
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
		wantWhat    Publication
		wantStep    string
		wantText    string
		wantRequeue time.Time
	}{
		"all at once":                      {want: Published, wantWhat: Whole, wantStep: "[c d] 7"},
		"all is allowed":                   {step: &framework.Transition{Added: []string{"c", "d"}, Removed: []string{"a", "b"}}, want: Published, wantWhat: Whole, wantStep: "[c d] 7"},
		"a part":                           {step: &framework.Transition{Added: []string{"d"}, Removed: []string{"b"}, Why: "more"}, want: Progressing, wantWhat: Partial, wantStep: "[a d] 7 partial", wantText: "1 of 2 added, 1 of 2 removed; more", wantRequeue: fixture.Now},
		"a later part":                     {step: &framework.Transition{Removed: []string{"b"}}, open: open, want: Progressing, wantWhat: Partial, wantStep: "[a] 7 partial", wantText: "2 of 4 added, -1 of 0 removed", wantRequeue: fixture.Now},
		"nothing":                          {step: &framework.Transition{Why: "not ready", ProgressDeadline: time.Hour}, open: open, want: Progressing, wantText: "2 of 4 added, -2 of 0 removed; not ready", wantRequeue: before.Add(time.Hour)},
		"nothing, too long":                {step: &framework.Transition{ProgressDeadline: time.Minute}, open: open, want: Progressing, wantText: "2 of 4 added, -2 of 0 removed; no progress since 2026-08-01T11:59:00Z"},
		"nothing yet":                      {step: &framework.Transition{ProgressDeadline: time.Minute}, want: Progressing, wantText: "0 of 2 added, 0 of 2 removed", wantRequeue: fixture.Now.Add(time.Minute)},
		"of a change that adds no cluster": {step: &framework.Transition{}, open: finished, want: Progressing, wantText: "-2 of 0 added, 3 of 5 removed"},
		"a plugin fails":                   {failure: framework.NewStatus(framework.Error, "down"), want: Failed},
		"in a dry run":                     {failure: framework.NewStatus(framework.Error, "down"), dry: true, want: Failed},
	} {
		t.Run(name, func(t *testing.T) {
			a, reserves := changing(), &reserver{name: "y"}
			a.Profile = &plugins.Profile{Transition: []framework.TransitionPlugin{&mover{tc.step, tc.failure}}, Reserve: []framework.ReservePlugin{reserves}}
			a.Change.Open, a.in.Dry = tc.open, tc.dry
			a.nextStep(t.Context())
			step, text := "", ""
			if a.Publish != nil {
				step = fmt.Sprint(a.Publish.Clusters, " ", a.Publish.Revision)
				if a.Publish.Partial {
					step += " partial"
				}
				if a.Publish.Cause != "why" || !a.Publish.Approved || !a.Publish.Edited || a.Publish.Kind != framework.ToTarget {
					t.Errorf("the step is %+v", a.Publish)
				}
			}
			if a.Progress != nil {
				text = a.Progress.String()
			}
			if a.Outcome != tc.want || a.Publication() != tc.wantWhat || step != tc.wantStep || text != tc.wantText {
				t.Errorf("%s: %s step %q, %q", a.Outcome, a.Publication(), step, text)
			}
			if got := a.State.Requeue(); !got.Equal(tc.wantRequeue) {
				t.Errorf("the next attempt is at %v", got)
			}
			if wants := tc.failure != nil && !tc.dry; (reserves.unreserved > 0) != wants {
				t.Errorf("%d times unreserved", reserves.unreserved)
			}
		})
	}
}

// TestPartIsInOrderOfScores: pages sorted by score list a step like a whole decision, and clusters
// that leave after the others.
func TestPartIsInOrderOfScores(t *testing.T) {
	a := changing()
	a.Snapshot.Subject.Last.Scores = map[string]int64{"a": 3, "b": 9}
	p := a.proposeStep(&framework.Transition{Added: []string{"c", "d"}, Removed: []string{}})
	var got []string
	for _, s := range p.Selected {
		got = append(got, s.Cluster.Name)
	}
	if diff := cmp.Diff([]string{"d", "c", "b", "a"}, got); diff != "" {
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
	a.Change.Open = open
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

// excluder is a filter that excludes one cluster. With forces, it may force removals. It is also
// what else a profile needs.
type excluder struct {
	name, excludes string
	forces         bool
}

func (e *excluder) Name() string { return e.name }

func (*excluder) Less(_, _ *v1alpha1.Placement) bool { return false }

func (e *excluder) Filter(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	if cluster.Name == e.excludes {
		return framework.NewStatus(framework.Unschedulable, "")
	}
	return nil
}

func (*excluder) Bind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

func (e *excluder) Describe() (traits framework.Traits) {
	if e.forces {
		traits.ForcesRemoval = func(*framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (f framework.Forcing) { return f }
	}
	return traits
}

// TestLeavingOtherwiseQualifies: only a filter that forces removals excludes the cluster.
func TestLeavingOtherwiseQualifies(t *testing.T) {
	registry, enabled := framework.Registry{}, config.Plugins{}
	for _, plugin := range []*excluder{{name: "forces", excludes: "a", forces: true}, {name: "excludes", excludes: "b"}} {
		registry[plugin.name] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return plugin, nil
		}
		enabled.MultiPoint.Enabled = append(enabled.MultiPoint.Enabled, config.Plugin{Name: plugin.name})
	}
	enabled.QueueSort.Disabled = []config.DisabledPlugin{{Name: "excludes"}}
	profiles, err := plugins.NewProfiles(t.Context(), nil, config.Profile{Plugins: enabled}, registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := changing()
	decider := decide.Decider{Profiles: profiles}
	a.Decision = decider.Decide(t.Context(), decide.Request{Snapshot: a.Snapshot})
	got := map[string]bool{}
	for _, leaving := range a.leaving() {
		got[leaving.Name] = leaving.OtherwiseQualifies
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b": false}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
