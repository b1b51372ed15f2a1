package assignment_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPreview returns what a Placement would get, and takes no place in a queue.
func TestPreview(t *testing.T) {
	const config = "queues: [{name: a, submitacl: ann, maxapplications: 1, resources: {max: {clusters: 3}}}]"
	preview := func(d *testQueues, user string) string {
		got := d.admission.Preview(assignment.Submission{
			Key: assignment.Key{Namespace: "ns"}, Labels: map[string]string{"queue": "root.a"},
			Annotations: map[string]string{identity.UserInfoAnnotation: fmt.Sprintf(`{"user":%q,"groups":[]}`, user)},
		})
		return fmt.Sprint(got.Reason, " ", got.Queue, " ", got.Limit)
	}
	d := newTestQueues(fixture.Partition(config))
	for range 3 {
		if diff := cmp.Diff("Placed root.a 3", preview(d, "ann")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff("NoRuleMatched  -1", preview(d, "eve")); diff != "" {
		t.Errorf("another user (-want +got):\n%s", diff)
	}
	d.add("p", "ann", "root.a", 2)
	if diff := cmp.Diff(map[string]string{"p": "Placed root.a 2"}, d.state()); diff != "" {
		t.Errorf("after the previews (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("QuotaExceeded  -1", preview(d, "ann")); diff != "" {
		t.Errorf("in a full queue (-want +got):\n%s", diff)
	}
}

// TestPreviewNumber: a preview of another number returns what the queue would allow, and the
// Placement that quotas limit still gets more when it can.
func TestPreviewNumber(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a, submitacl: ann, resources: {max: {clusters: 3}}}]"))
	d.add("p", "ann", "root.a", 2)
	d.add("q", "ann", "root.a", 3)
	for number, want := range map[int]string{1: "Placed root.a 1", 3: "Placed root.a 1", -1: "Placed root.a 1"} {
		got := d.admission.PreviewNumber(assignment.Key{Namespace: "ns", Name: "q"}, number)
		if diff := cmp.Diff(want, fmt.Sprint(got.Reason, " ", got.Queue, " ", got.Limit)); diff != "" {
			t.Errorf("%d clusters (-want +got):\n%s", number, diff)
		}
	}
	d.admission.PreviewNumber(assignment.Key{Namespace: "ns", Name: "q"}, 1)
	d.remove("p")
	if diff := cmp.Diff(map[string]string{"q": "Placed root.a 3"}, d.state()); diff != "" {
		t.Errorf("after the previews (-want +got):\n%s", diff)
	}
	if got := d.admission.PreviewNumber(assignment.Key{Namespace: "ns", Name: "nosuch"}, 1); got.Admitted {
		t.Errorf("an unknown Placement is admitted: %+v", got)
	}
}

// TestPreviewWhileNotDecided: it says what a Placement would get if it were decided, and takes no
// place, also after a restart.
func TestPreviewWhileNotDecided(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a, maxapplications: 1, resources: {max: {clusters: 2}}}]"))
	d.add("has", "ann", "a", 1)
	d.edit("has", decided(false))
	d.add("waits", "ann", "a", 1)
	d.edit("waits", decided(false))
	check := func() {
		t.Helper()
		if v := d.admission.PreviewNumber(d.placements["has"].Key, 3); !v.Admitted || v.Queue != "root.a" || v.Limit != 2 {
			t.Errorf("with a queue: %+v", v)
		}
		if v := d.admission.PreviewNumber(d.placements["waits"].Key, 1); v.Reason != assignment.ReasonQuotaExceeded {
			t.Errorf("a full queue: %+v", v)
		}
	}
	d.prepare("unknown", "ann", "a", 1)
	if v := d.admission.PreviewNumber(d.placements["unknown"].Key, 1); v.Reason != assignment.ReasonQuotaExceeded {
		t.Errorf("before it was looked at: %+v", v)
	}
	d.remove("unknown")
	check()
	d.restart(rand.New(rand.NewPCG(1, 1)))
	check()
	d.remove("has")
	for range 2 {
		if v := d.admission.PreviewNumber(d.placements["waits"].Key, 3); !v.Admitted || v.Queue != "root.a" || v.Limit != 2 {
			t.Errorf("a queue with a place: %+v", v)
		}
	}
	d.add("next", "ann", "a", 1)
	if got := d.state()["next"]; got != "Placed root.a 1" {
		t.Error(got)
	}
}

// TestPreviewInAnUnusableQueue: a Placement whose queue can hold none keeps its place without being
// admitted, also while it is not decided.
func TestPreviewInAnUnusableQueue(t *testing.T) {
	d := newTestQueues(fixture.Partition("queues: [{name: a}]"))
	d.add("p", "ann", "a", 1)
	d.edit("p", decided(false))
	d.config = fixture.Partition("queues: [{name: a, queues: [{name: x}]}]")
	for _, isDecided := range []bool{false, true} {
		d.placements["p"].NotDecided = !isDecided
		d.restart(rand.New(rand.NewPCG(1, 1)))
		if v := d.admission.PreviewNumber(d.placements["p"].Key, 1); v.Admitted || v.Reason != assignment.ReasonConfigInvalid || v.Limit != -1 {
			t.Errorf("decided %t: %+v", isDecided, v)
		}
	}
}
