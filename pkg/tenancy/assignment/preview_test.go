package assignment_test

import (
	"fmt"
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
