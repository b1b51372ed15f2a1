package tenancy_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// cases reads a file of test/cases.
func cases(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../test/cases", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

type submission struct {
	User   string
	Groups []string
	Queue  string
	Tags   map[string]string
}

func (s submission) request() tenancy.Request {
	return tenancy.Request{User: s.User, Groups: s.Groups, Queue: s.Queue, Tags: s.Tags}
}

// outcome is a queue, or that there is none.
type outcome struct {
	Queue    string
	Rejected bool
}

type placementCase struct {
	ID, Config, Note      string
	ExistingDynamicQueues []string
	Submission            submission
	Expect                outcome
}

func existing(queues ...string) *tenancy.Members {
	m := tenancy.NewMembers()
	for _, queue := range queues {
		m.Add(tenancy.Application{Queue: queue})
	}
	return m
}

func placeIn(t *testing.T, tree *tenancy.Tree, request tenancy.Request, members *tenancy.Members) outcome {
	t.Helper()
	placed, err := tree.Place(request, members)
	if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
		t.Log(err)
		return outcome{Rejected: true}
	}
	return outcome{Queue: placed.Queue}
}

func TestPlacementCases(t *testing.T) {
	var all []placementCase
	cases(t, "placement_rules.json", &all)
	for _, tc := range all {
		t.Run(tc.ID, func(t *testing.T) {
			config := parse(t, tc.Config)
			got := placeIn(t, config.Tree, tc.Submission.request(), existing(tc.ExistingDynamicQueues...))
			if diff := cmp.Diff(tc.Expect, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.Note, diff)
			}
		})
	}
}

func parse(t testing.TB, text string) *tenancy.Config {
	t.Helper()
	config, _, err := tenancy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// partition makes a document of the keys of the default partition.
func partition(body string) string {
	return "partitions:\n- name: default\n  " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n  ") + "\n"
}
