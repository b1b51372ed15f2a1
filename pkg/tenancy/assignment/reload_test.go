package assignment_test

import (
	"maps"
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/test/fixture"
)

func TestReloadCases(t *testing.T) {
	var all struct {
		Reload []struct {
			ID, Desc   string
			Configs    []string
			Submission struct {
				User, Queue string
				Groups      []string
				Tags        map[string]string
			}
			Expect struct {
				Queue            string
				Rejected, Logged bool
			}
		}
	}
	fixture.Cases(t, "queue_config.json", &all)
	for _, tc := range all.Reload {
		t.Run(tc.ID, func(t *testing.T) {
			admission := assignment.New(assignment.Options{
				Published: func(assignment.Key) (string, int, int) { return "", 0, 0 }, Recorded: func(assignment.Key) (string, string) { return "", "" }, OnAffected: func([]assignment.Key) {}, Now: time.Now,
			})
			refused := false
			for _, text := range tc.Configs {
				_, err := admission.Configure([]byte(text))
				refused = refused || err != nil
			}
			if tc.Expect.Logged && !refused {
				t.Error("no document was refused")
			}
			annotations := map[string]string{
				identity.UserInfoAnnotation: identity.Identity{User: tc.Submission.User, Groups: tc.Submission.Groups}.String(),
				"yunikorn.apache.org/queue": tc.Submission.Queue,
			}
			maps.Copy(annotations, tc.Submission.Tags)
			key := assignment.Key{Namespace: tc.Submission.Tags["namespace"], Name: "p"}
			admission.Submit(assignment.Submission{Key: key, Annotations: annotations})
			if got := admission.Admit(key, -1); got.Queue != tc.Expect.Queue || got.Admitted == tc.Expect.Rejected {
				t.Errorf("%s: %+v, want queue %q", tc.Desc, got, tc.Expect.Queue)
			}
		})
	}
}

// TestAdmittedPlacementIsCheckedAgain: while the groups of a submitter cannot be found, its
// Placement keeps its queue, and only a later attempt can find out that it may not.
func TestAdmittedPlacementIsCheckedAgain(t *testing.T) {
	a := assignment.New(assignment.Options{
		Published: func(assignment.Key) (string, int, int) { return "", 0, 0 }, Recorded: func(assignment.Key) (string, string) { return "", "" },
		OnAffected: func([]assignment.Key) {}, Now: func() time.Time { return fixture.Now },
	})
	configure := func(resolver string) {
		if _, err := a.Configure([]byte("partitions:\n- name: default\n  usergroupresolver: {type: " + resolver + "}\n  queues:\n  - name: root\n    submitacl: ' '\n    queues:\n    - {name: a, submitacl: ' testuser1'}\n  placementrules: [{name: fixed, value: root.a}]\n")); err != nil {
			t.Fatal(err)
		}
	}
	key := assignment.Key{Namespace: "ns", Name: "p"}
	configure("none") // testuser1 is in the group testuser1.
	a.Submit(assignment.Submission{Key: key, Labels: map[string]string{identity.DefaultUserLabel: "testuser1"}})
	if got := a.Admit(key, -1); !got.Admitted || got.RetryAfter != 0 {
		t.Fatalf("got %+v", got)
	}
	configure("os") // It does not find testuser1.
	if got := a.Admit(key, -1); !got.Admitted || got.RetryAfter != identity.FailureTTL {
		t.Errorf("got %+v", got)
	}
}
