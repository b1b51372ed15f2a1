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
				Published: func(assignment.Key) (string, int) { return "", 0 }, Recorded: func(assignment.Key) string { return "" }, OnAffected: func([]assignment.Key) {}, Now: time.Now,
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
