package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// decisionOn is a Decision for Placement ns/p of generation 2 with clusters in its one set s, after
// last was published. No cluster is selected.
func decisionOn(last *framework.Published, clusters ...fixture.ClusterBuilder) *decide.Decision {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("ns", "s"))
	inv.Update(fixture.Placement("ns", "p").Generation(2).Obj())
	for _, c := range clusters {
		inv.Update(c.Obj())
	}
	snapshot := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
	snapshot.Subject.Last = last
	return &decide.Decision{Snapshot: snapshot, State: framework.NewCycleState(snapshot), Profile: &plugins.Profile{}}
}

// selecting adds cluster a, and selects it.
func selecting(last *framework.Published) *decide.Decision {
	d := decisionOn(last, fixture.Cluster("a").Set("s"))
	d.Selected = []framework.SelectedCluster{{Cluster: d.Snapshot.Clusters.Get(0)}}
	return d
}

func planOf(d *decide.Decision) *planner {
	return &planner{in: Input{Limits: &limits.Limits{}}, Plan: &Plan{Decision: d, Claim: KeepClaim}}
}

func madeOf(t *testing.T, d *decide.Decision) *Plan {
	t.Helper()
	return Make(t.Context(), d, Input{Limits: &limits.Limits{}})
}

// lastOf is a published decision that lists names.
func lastOf(names ...string) *framework.Published {
	return &framework.Published{Names: names, Digest: framework.DigestOf(names)}
}

// recordOf is a record with a phase that leads to clusters.
func recordOf(revision int64, phase berthv1alpha1.ChangePhase, to ...string) *berthv1alpha1.PlacementChange {
	return &berthv1alpha1.PlacementChange{
		Spec:   berthv1alpha1.PlacementChangeSpec{Revision: revision, From: emptyDigest, To: framework.DigestOf(to), PlacementGeneration: 2, Cause: "as recorded"},
		Status: berthv1alpha1.PlacementChangeStatus{Phase: phase, StartTime: new(metav1.NewTime(fixture.Now))},
	}
}

// TestTargetIsEdited: the spec or the profile changed since the last publication. A change in
// progress that goes on has the spec and profile of its record.
func TestTargetIsEdited(t *testing.T) {
	for name, tc := range map[string]struct {
		generation int64
		profile    string
		want       bool
	}{
		"the same":           {generation: 2, profile: "default"},
		"another generation": {generation: 1, profile: "default", want: true},
		"another profile":    {generation: 2, profile: "other", want: true},
		"not known":          {},
	} {
		t.Run(name, func(t *testing.T) {
			last := lastOf("a")
			last.Generation, last.Profile = tc.generation, tc.profile
			if got := madeOf(t, decisionOn(last)).Target.Edited; got != tc.want {
				t.Errorf("got %t", got)
			}
			open := recordOf(2, berthv1alpha1.PhaseProgressing, "a", "b")
			open.Spec.From, open.Spec.Profile, open.Spec.Added, open.Spec.AddedCount = last.Digest, "default", []string{"b"}, 1
			if got := planOf(decisionOn(last)).proposeRemaining(open, nil).Edited; got != tc.want {
				t.Errorf("the change in progress: got %t", got)
			}
		})
	}
}

// TestRestoresRecord: the clusters of the newest Published record are selected, but the pages list
// others, and nothing was published after it.
func TestRestoresRecord(t *testing.T) {
	permitted := recordOf(4, berthv1alpha1.PhaseSuperseded, "b")
	permitted.Status.PermittedTime = &metav1.Time{}
	restored := func(revision int64) *framework.Published {
		last := lastOf("b")
		last.FromPages, last.Revision = true, revision
		return last
	}
	published := recordOf(3, berthv1alpha1.PhasePublished, "a")
	for name, tc := range map[string]struct {
		last    *framework.Published
		records []*berthv1alpha1.PlacementChange
		want    bool
	}{
		"all pages are gone":               {records: []*berthv1alpha1.PlacementChange{published}, want: true},
		"the pages were edited":            {last: restored(3), records: []*berthv1alpha1.PlacementChange{published}, want: true},
		"and a change was rejected":        {last: restored(3), records: []*berthv1alpha1.PlacementChange{published, recordOf(4, berthv1alpha1.PhaseRejected, "b")}, want: true},
		"no record":                        {last: restored(3)},
		"a record of other clusters":       {last: restored(3), records: []*berthv1alpha1.PlacementChange{recordOf(3, berthv1alpha1.PhasePublished, "c")}},
		"a page of a later revision":       {last: restored(4), records: []*berthv1alpha1.PlacementChange{published}},
		"a later change was permitted":     {last: restored(3), records: []*berthv1alpha1.PlacementChange{published, permitted}},
		"a later record has no status":     {last: restored(3), records: []*berthv1alpha1.PlacementChange{published, recordOf(4, "", "b")}},
		"an earlier change was published":  {last: restored(3), records: []*berthv1alpha1.PlacementChange{recordOf(2, berthv1alpha1.PhasePublished, "b"), published}, want: true},
		"this process published the pages": {last: lastOf("b"), records: []*berthv1alpha1.PlacementChange{published}},
	} {
		t.Run(name, func(t *testing.T) {
			d := selecting(tc.last)
			d.Snapshot.Subject.Records = tc.records
			p := madeOf(t, d)
			if got := !IsChange(p.Target); got != tc.want || got != (p.Outcome == Unchanged) {
				t.Errorf("restored: %t, %s", got, p.Outcome)
			}
			if tc.want && p.Target.Revision != 3 {
				t.Errorf("revision %d", p.Target.Revision)
			}
		})
	}
}

// TestStateOfAChange: a change has the cause, the revision and the holds of its record.
func TestStateOfAChange(t *testing.T) {
	expired, approved := recordOf(5, berthv1alpha1.PhaseExpired, "a"), recordOf(5, berthv1alpha1.PhaseExpired, "a")
	until := metav1.NewTime(fixture.Now)
	expired.Status.Holds = []berthv1alpha1.ChangeHold{{Plugin: "x", Until: &until}, {Plugin: "y", Until: &until}}
	approved.Status.Holds, approved.Spec.Approval = expired.Status.Holds, &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Approved}
	rejected := recordOf(5, berthv1alpha1.PhaseRejected, "a")
	rejected.Status.Holds = expired.Status.Holds
	answers := framework.Answers{Revision: 1, From: emptyDigest, Digest: framework.DigestOf([]string{"a"}), Generation: 2, Plugins: map[string]time.Time{"x": fixture.Now}}
	others := answers
	others.Digest = "other"
	for name, tc := range map[string]struct {
		records   []*berthv1alpha1.PlacementChange
		published int64 // the revision on the pages
		answers   framework.Answers
		want      framework.Proposal
	}{
		"nothing is known":            {want: framework.Proposal{Revision: 1, Cause: "start"}},
		"a revision on the pages":     {published: 8, want: framework.Proposal{Revision: 9, Cause: "start"}},
		"the change has expired":      {records: []*berthv1alpha1.PlacementChange{expired}, want: framework.Proposal{Revision: 5, Cause: "as recorded", ExpiredBy: []string{"x", "y"}}},
		"but was approved":            {records: []*berthv1alpha1.PlacementChange{approved}, want: framework.Proposal{Revision: 5, Cause: "as recorded", Approved: true}},
		"the change was rejected":     {records: []*berthv1alpha1.PlacementChange{rejected}, want: framework.Proposal{Revision: 5, Cause: "as recorded"}},
		"held, without a record":      {answers: answers, want: framework.Proposal{Revision: 1, Cause: "start", HeldBy: answers.Plugins}},
		"another was held without it": {answers: others, want: framework.Proposal{Revision: 1, Cause: "start"}},
	} {
		t.Run(name, func(t *testing.T) {
			last := lastOf()
			last.Revision = tc.published
			d := selecting(last)
			d.Snapshot.Subject.Records, d.Snapshot.Answers = tc.records, tc.answers
			p := madeOf(t, d).Change
			got := framework.Proposal{Revision: p.Revision, Cause: p.Cause, ExpiredBy: p.ExpiredBy, Approved: p.Approved, HeldBy: p.HeldBy}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestForcedRemovals: clusters that are deleted or terminating, or in no usable set.
func TestForcedRemovals(t *testing.T) {
	a := planOf(decisionOn(lastOf("deleted", "fine", "lost", "moved", "terminating"),
		fixture.Cluster("fine").Set("s"), fixture.Cluster("moved").Set("other"), fixture.Cluster("lost").Set("other"), fixture.Cluster("terminating").Set("s").Deleting(), fixture.Cluster("unlisted")))
	if diff := cmp.Diff([]string{"deleted", "lost", "moved", "terminating"}, a.forcedRemovals()); diff != "" {
		t.Errorf("forced (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lost", "moved"}, revokedClusters(a.Snapshot)); diff != "" {
		t.Errorf("revoked (-want +got):\n%s", diff)
	}
}

// TestRepublish: the clusters that stay, by their published scores.
func TestRepublish(t *testing.T) {
	last := lastOf("a", "b", "c", "deleted")
	last.Scores, last.Revision, last.ScoresAt = map[string]int64{"a": 1, "c": 3}, 4, fixture.Now
	a := planOf(decisionOn(last, fixture.Cluster("a").Set("s"), fixture.Cluster("b").Set("s"), fixture.Cluster("c").Set("s")))
	a.Feasible, a.Totals = []*framework.Cluster{a.Snapshot.Clusters.Get(0), a.Snapshot.Clusters.Get(1)}, []int64{7, 2}
	for name, tc := range map[string]struct {
		without      []string
		want         string
		wantRestores bool
	}{
		"all":         {want: "[a b c deleted]: c=3 b=2 a=1 deleted=0", wantRestores: true},
		"without one": {without: []string{"b"}, want: "[a c deleted]: c=3 a=1 deleted=0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := a.lastWithout(tc.without)
			got := fmt.Sprint(p.Clusters) + ":"
			for _, s := range p.Selected {
				got += fmt.Sprintf(" %s=%d", s.Cluster.Name, s.Score)
				if gone := s.Cluster.Index < 0; gone != (s.Cluster.Name == "deleted") {
					t.Errorf("cluster %s is gone: %t", s.Cluster.Name, gone)
				}
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if (p.Kind == framework.Republication) != tc.wantRestores || p.Kind.Forced() == tc.wantRestores || p.Revision != 4 || p.LastScores != last.ScoresAt || p.From != last.Digest {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// TestRegroups: a decided Placement with groups, or with groups before an edit.
func TestRegroups(t *testing.T) {
	two := []v1alpha1.DecisionGroupStatus{{}, {DecisionGroupIndex: 1}}
	for name, tc := range map[string]struct {
		failure  *framework.Status
		groups   []v1alpha1.DecisionGroupStatus
		strategy v1alpha1.GroupStrategy
		want     bool
	}{
		"had groups":              {groups: two, want: true},
		"and is not decided":      {groups: two, failure: framework.NewStatus(framework.Pending, "")},
		"one group":               {groups: two[:1]},
		"asks for groups":         {strategy: v1alpha1.GroupStrategy{DecisionGroups: []v1alpha1.DecisionGroup{{}}}, want: true},
		"asks for smaller groups": {strategy: v1alpha1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromInt32(3)}, want: true},
		"asks for the default":    {strategy: v1alpha1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromString("100%")}},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(lastOf("a")))
			a.Failure = tc.failure
			pl := a.Snapshot.Subject.Placement.DeepCopy()
			pl.Status.DecisionGroups, pl.Spec.DecisionStrategy.GroupStrategy = tc.groups, tc.strategy
			a.Snapshot.Subject.Placement = pl
			if got := a.regroups(); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestHadClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		groups []v1alpha1.DecisionGroupStatus
		want   bool
	}{
		"no group":               {},
		"an empty group":         {groups: []v1alpha1.DecisionGroupStatus{{}}},
		"a group with a cluster": {groups: []v1alpha1.DecisionGroupStatus{{}, {ClusterCount: 1}}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := HadClusters(&v1alpha1.Placement{Status: v1alpha1.PlacementStatus{DecisionGroups: tc.groups}}); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestStabilityOf: the same target goes on, another one begins.
func TestStabilityOf(t *testing.T) {
	before := framework.Stability{Digest: "d", Since: fixture.Now.Add(-time.Hour), RemovingSince: fixture.Now.Add(-time.Minute)}
	for name, tc := range map[string]struct {
		before framework.Stability
		p      *framework.Proposal
		want   framework.Stability
	}{
		"the same, published":      {before: before, p: &framework.Proposal{Digest: "d"}, want: framework.Stability{Digest: "d", Since: before.Since}},
		"the same":                 {before: before, p: &framework.Proposal{Digest: "d", Removed: []string{"a"}}, want: before},
		"another one that removes": {before: before, p: &framework.Proposal{Digest: "e", Removed: []string{"a"}}, want: framework.Stability{Digest: "e", Since: fixture.Now, RemovingSince: before.RemovingSince}},
		"another one that adds":    {before: before, p: &framework.Proposal{Digest: "e", Added: []string{"a"}}, want: framework.Stability{Digest: "e", Since: fixture.Now}},
		"the first one":            {p: &framework.Proposal{Digest: "d", Removed: []string{"a"}}, want: framework.Stability{Digest: "d", Since: fixture.Now, RemovingSince: fixture.Now}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, stabilityOf(tc.before, tc.p, fixture.Now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCause: an event comes before the time that an earlier attempt asked for.
func TestCause(t *testing.T) {
	now := fixture.Now
	for name, tc := range map[string]struct {
		cause  string
		timers framework.Timers
		want   string
	}{
		"an event":              {cause: "Placement: spec", timers: framework.Timers{NextAttempt: now, NextAttemptCause: "timer"}, want: "Placement: spec"},
		"the time has come":     {timers: framework.Timers{NextAttempt: now, NextAttemptCause: "toleration expired"}, want: "toleration expired"},
		"the time is past":      {timers: framework.Timers{NextAttempt: now.Add(-time.Second), NextAttemptCause: "timer"}, want: "timer"},
		"before the time":       {timers: framework.Timers{NextAttempt: now.Add(time.Second), NextAttemptCause: "timer"}, want: "retry"},
		"nothing was asked for": {want: "retry"},
	} {
		t.Run(name, func(t *testing.T) {
			d := selecting(nil)
			d.Snapshot.Cause, d.Snapshot.Timers = tc.cause, tc.timers
			if got := madeOf(t, d).Change.Cause; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestChangeNamesItsQueue: a change names the queue of the Placement, if the queue admitted it.
func TestChangeNamesItsQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		queue *framework.QueueAdmission
		want  string
	}{
		"no queues":    {},
		"admitted":     {queue: &framework.QueueAdmission{Admitted: true, Annotation: "root.a"}, want: "root.a"},
		"not admitted": {queue: &framework.QueueAdmission{Annotation: "root.a"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := selecting(nil)
			d.Snapshot.Queue = tc.queue
			p := madeOf(t, d)
			if got := p.ChangeOf(p.Target).Queue; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
