package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// decided is a Decision with a Snapshot whose one set is empty.
func decided() *Decision {
	return &Decision{Snapshot: snapshotOf(), State: framework.NewCycleState(nil), Profile: &plugins.Profile{}}
}

// TestWithoutCandidates: why a Placement has no candidates.
func TestWithoutCandidates(t *testing.T) {
	for name, tc := range map[string]struct {
		bound bool
		sets  []string
		queue *framework.QueueAdmission
		want  string
	}{
		"no binding":       {want: "No valid ManagedClusterSetBindings found in placement namespace"},
		"none of its sets": {bound: true, want: "None of ManagedClusterSets [other] is bound to placement namespace"},
		"none of its queue": {
			bound: true, sets: []string{"s"}, queue: &framework.QueueAdmission{Admitted: true, Restricted: true, Sets: []string{"x", "y"}, Message: "queue root.a"},
			want: "The queue owns none of the ManagedClusterSets that the Placement can use: it owns x, y; the Placement can use s; queue root.a",
		},
		"a queue that owns many": {
			bound: true, sets: []string{"s"}, queue: &framework.QueueAdmission{Admitted: true, Restricted: true, Sets: []string{"1", "2", "3", "4", "5", "6"}, Message: "queue root.a"},
			want: "The queue owns none of the ManagedClusterSets that the Placement can use: it owns 1, 2, 3, 4, 5 and 1 more; the Placement can use s; queue root.a",
		},
		"a queue that owns none": {
			bound: true, sets: []string{"s"}, queue: &framework.QueueAdmission{Admitted: true, Restricted: true, Message: "queue root.a"},
			want: "The queue owns none of the ManagedClusterSets that the Placement can use: it owns none; the Placement can use s; queue root.a",
		},
		"none of its sets, in a queue": {
			bound: true, queue: &framework.QueueAdmission{Admitted: true, Restricted: true, Sets: []string{"x"}, Message: "queue root.a"},
			want: "None of ManagedClusterSets [other] is bound to placement namespace",
		},
		"a queue that allows all": {bound: true, queue: &framework.QueueAdmission{Admitted: true, Message: "root.a"}, want: "None of ManagedClusterSets [other] is bound to placement namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			a := decided()
			a.Snapshot.Subject.Placement = fixture.Placement("ns", "p").Sets("other").Sets(tc.sets...).Obj()
			if a.Snapshot.Sets, a.Snapshot.Queue = nil, tc.queue; !tc.bound {
				a.Snapshot.BoundSets = nil
			}
			if _, got := a.withoutCandidates(); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
	if reason, _ := decided().withoutCandidates(); reason != v1alpha1.ReasonAllManagedClusterSetsEmpty {
		t.Errorf("with an empty set: %q", reason)
	}
}

// TestSatisfiedAfterAFailure: the summary of excluded clusters is of a decision only.
func TestSatisfiedAfterAFailure(t *testing.T) {
	excluded := map[string]*framework.Status{"a": framework.NewStatus(framework.Unschedulable, "no")}
	profile := &plugins.Profile{Filter: []framework.FilterPlugin{&plain{name: "w", filtered: excluded}}}
	a := decideWith(t, profile, snapshotOf(fixture.Cluster("a").Set("s")))
	if got := a.satisfiedCondition().Message; !strings.HasSuffix(got, ": of 1 candidates 1 excluded by w") {
		t.Errorf("got %q", got)
	}
	a.Failure = framework.NewStatus(framework.Error, "down")
	if got := a.satisfiedCondition().Message; got != "down" {
		t.Errorf("after a failure: %q", got)
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
			a := decided()
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
