package scheduler_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestWhyNoCandidate: a cluster that is no candidate of a Placement has the reason for that.
func TestWhyNoCandidate(t *testing.T) {
	const noSet = "it is in none of the cluster sets that the Placement may use"
	leaving := fixture.Cluster("leaving").Set("s1").Obj()
	leaving.DeletionTimestamp = new(fixture.At(-60))
	leavingAlone := fixture.Cluster("leaving-alone").Obj()
	leavingAlone.DeletionTimestamp = new(fixture.At(-60))
	objects := []client.Object{
		fixture.Set("s1"), fixture.Binding("ns", "s1"), fixture.Set("s2"), fixture.Binding("ns", "s2"), fixture.Set("s3"), leaving, leavingAlone,
		fixture.Cluster("in").Set("s1").Obj(), fixture.Cluster("beside").Set("s2").Obj(), fixture.Cluster("unbound").Set("s3").Obj(), fixture.Cluster("alone").Obj(),
	}
	for name, tc := range map[string]struct {
		queue *framework.QueueAdmission
		want  map[string]string
	}{
		"without queues": {want: map[string]string{
			"in": "", "leaving": "it is being deleted", "leaving-alone": "it is being deleted", "unbound": noSet, "alone": noSet, "nowhere": "it does not exist",
			"beside": "its cluster sets are bound to the namespace, but spec.clusterSets of the Placement, or its queue, does not allow them",
		}},
		"not admitted": {queue: &framework.QueueAdmission{Reason: "QueueFull", Message: "the queue is full", Limit: -1}, want: map[string]string{
			"in": "the Placement is not admitted: the queue is full", "leaving": "it is being deleted",
		}},
		"rejected": {queue: &framework.QueueAdmission{Rejected: true, Reason: "NoQueue", Message: "no rule matches", Limit: -1}, want: map[string]string{
			"in": "the Placement is not admitted: no rule matches",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask().Sets("s1"))
			for _, object := range objects {
				d.inv.Update(object.DeepCopyObject().(client.Object))
			}
			d.queue = tc.queue
			r := d.scheduler.Decide(t.Context(), d.snapshot()).Decision
			for cluster, want := range tc.want {
				if got := r.WhyNoCandidate(cluster); got != want {
					t.Errorf("%s: %q, want %q", cluster, got, want)
				}
			}
		})
	}
}
