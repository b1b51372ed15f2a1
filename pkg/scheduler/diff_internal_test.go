package scheduler

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
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// attemptOn is an attempt for Placement ns/p of generation 2 with clusters in its one set s,
// after last was published.
func attemptOn(last *framework.Published, clusters ...fixture.ClusterBuilder) *Attempt {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("ns", "s"))
	inv.Update(fixture.Placement("ns", "p").Generation(2).Obj())
	for _, c := range clusters {
		inv.Update(c.Obj())
	}
	snapshot := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
	snapshot.Subject.Last = last
	return &Attempt{Result: &Result{Snapshot: snapshot, State: framework.NewCycleState(snapshot), profile: &Profile{}}}
}

// lastOf is a published decision that lists names.
func lastOf(names ...string) *framework.Published {
	return &framework.Published{Names: names, Digest: framework.DigestOf(names)}
}

// recordOf is a record with a phase that leads to clusters.
func recordOf(revision int64, phase berthv1alpha1.ChangePhase, to ...string) *berthv1alpha1.PlacementChange {
	return &berthv1alpha1.PlacementChange{
		Spec:   berthv1alpha1.PlacementChangeSpec{Revision: revision, From: emptyDigest, To: framework.DigestOf(to), PlacementGeneration: 2, Cause: "as recorded"},
		Status: berthv1alpha1.PlacementChangeStatus{Phase: phase},
	}
}

// TestDiffIsEdited: the spec or the profile changed since the last publication. A change in
// progress that goes on has the spec and profile of its record.
func TestDiffIsEdited(t *testing.T) {
	for name, tc := range map[string]struct {
		generation int64
		profile    string
		want       bool
	}{
		"the same":           {generation: 2, profile: "default"},
		"another generation": {generation: 1, profile: "default", want: true},
		"another profile":    {generation: 2, profile: "other", want: true},
		"not known":          {profile: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			last := lastOf("a")
			last.Generation, last.Profile = tc.generation, tc.profile
			if got := attemptOn(last).diff().Edited; got != tc.want {
				t.Errorf("got %t", got)
			}
			open := recordOf(2, berthv1alpha1.PhaseProgressing, "a", "b")
			open.Spec.From, open.Spec.Profile, open.Spec.Added, open.Spec.AddedCount = last.Digest, "default", []string{"b"}, 1
			if got := attemptOn(last).toward(open).Edited; got != tc.want {
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
		last.Restored, last.Revision = true, revision
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
			a := attemptOn(tc.last, fixture.Cluster("a").Set("s"))
			a.Snapshot.Subject.Records = tc.records
			a.Selected = []framework.Selection{{Cluster: a.Snapshot.Clusters.Get(0)}}
			p := a.diff()
			if got := !isChange(p); got != tc.want {
				t.Errorf("restored: %t", got)
			}
			if tc.want && p.Revision != 3 {
				t.Errorf("revision %d", p.Revision)
			}
		})
	}
}

// TestFindChangeState: a change has the cause, the revision and the holds of its record.
func TestFindChangeState(t *testing.T) {
	expired, approved := recordOf(5, berthv1alpha1.PhaseExpired, "a"), recordOf(5, berthv1alpha1.PhaseExpired, "a")
	expired.Status.Holds = []berthv1alpha1.ChangeHold{{Plugin: "x"}, {Plugin: "y"}}
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
			a := attemptOn(last)
			a.Snapshot.Subject.Records, a.Snapshot.Answers = tc.records, tc.answers
			p := &framework.Proposal{From: emptyDigest, Digest: framework.DigestOf([]string{"a"}), Added: []string{"a"}, Clusters: []string{"a"}}
			a.newMove(p, framework.Stability{})
			got := framework.Proposal{Revision: p.Revision, Cause: p.Cause, ExpiredBy: p.ExpiredBy, Approved: p.Approved, HeldBy: p.HeldBy}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestForcedRemovals: clusters that are deleted or terminating, or in no usable set.
func TestForcedRemovals(t *testing.T) {
	a := attemptOn(lastOf("deleted", "fine", "lost", "moved", "terminating"),
		fixture.Cluster("fine").Set("s"), fixture.Cluster("moved").Set("other"), fixture.Cluster("lost").Set("other"), fixture.Cluster("terminating").Set("s").Deleting(), fixture.Cluster("unlisted"))
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
	a := attemptOn(last, fixture.Cluster("a").Set("s"), fixture.Cluster("b").Set("s"), fixture.Cluster("c").Set("s"))
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
			p := a.republish(tc.without)
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
			if p.Restores != tc.wantRestores || p.Forced == tc.wantRestores || p.Revision != 4 || p.LastScores != last.ScoresAt || p.From != last.Digest {
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
			a := attemptOn(lastOf("a"))
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
			if got := hadClusters(&v1alpha1.Placement{Status: v1alpha1.PlacementStatus{DecisionGroups: tc.groups}}); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
