package tenancy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/test/fixture"
)

func TestAllowed(t *testing.T) {
	tree := parse(t, fixture.Partition(`
queues:
- name: open
  queues: [{name: leaf}]
- name: team
  submitacl: "ann"
  adminacl: " leads"
  queues:
  - {name: Web, submitacl: "bob"}
  - {name: closed, submitacl: " "}
- {name: dropped, submitacl: "o'hara"}
`)).Tree
	for name, tc := range map[string]struct {
		queue, user           string
		groups                []string
		wantSubmit, wantAdmin bool
	}{
		"no list on the way":              {queue: "root.open.leaf", user: "eve", wantSubmit: true},
		"no list and no queue":            {queue: "root.new.x", user: "eve", wantSubmit: true},
		"the queue's own list":            {queue: "root.team.web", user: "bob", wantSubmit: true},
		"in any case":                     {queue: "ROOT.Team.WEB", user: "bob", wantSubmit: true},
		"the list above":                  {queue: "root.team.web", user: "ann", wantSubmit: true},
		"nobody":                          {queue: "root.team.web", user: "eve", groups: []string{"dev"}},
		"a closed child opens above":      {queue: "root.team.closed", user: "ann", wantSubmit: true},
		"an admin submits":                {queue: "root.team.web", user: "eve", groups: []string{"dev", "leads"}, wantSubmit: true, wantAdmin: true},
		"a dynamic queue":                 {queue: "root.team.web.x.y", user: "bob", wantSubmit: true},
		"a list of illegal names is set":  {queue: "root.dropped", user: "eve"},
		"an illegal name grants nobody":   {queue: "root.dropped", user: "o'hara"},
		"nobody administers without list": {queue: "root.open", user: "eve", wantSubmit: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tree.SubmitAllowed(tc.queue, tc.user, tc.groups); got != tc.wantSubmit {
				t.Errorf("submit: want %t, got %t", tc.wantSubmit, got)
			}
			if got := tree.AdminAllowed(tc.queue, tc.user, tc.groups); got != tc.wantAdmin {
				t.Errorf("admin: want %t, got %t", tc.wantAdmin, got)
			}
		})
	}
}

func TestClusterSets(t *testing.T) {
	tree := parse(t, fixture.Partition(`
queues:
- name: free
- name: prod
  properties: {clustersets: "us, eu,eu"}
  childtemplate: {properties: {clustersets: eu}}
  queues:
  - {name: all, parent: true}
  - {name: us, parent: true, properties: {clustersets: us}}
  - {name: none, properties: {clustersets: }}
- {name: templated, parent: true, childtemplate: {properties: {clustersets: dev}}}
`)).Tree
	for queue, want := range map[string][]string{ // nil is unrestricted
		"root":             nil,
		"root.free":        nil,
		"root.other":       nil,
		"root.prod":        {"eu", "us"},
		"root.prod.all":    {"eu", "us"},
		"root.prod.us":     {"us"},
		"root.prod.none":   {},
		"root.prod.x":      {"eu"},
		"root.prod.all.x":  {"eu"},
		"root.prod.us.x":   {},
		"root.templated":   nil,
		"root.templated.x": {"dev"},
		"ROOT.Templated.X": {"dev"},
	} {
		got, restricted := tree.ClusterSets(nil, queue)
		if diff := cmp.Diff(want, got); diff != "" || restricted != (want != nil) {
			t.Errorf("%s: restricted %t (-want +got):\n%s", queue, restricted, diff)
		}
	}
}

func TestQueue(t *testing.T) {
	tree := parse(t, fixture.Partition("queues: [{name: Root}, {name: B, queues: [{name: c}]}]")).Tree
	for name, want := range map[string]struct{ exists, leaf bool }{
		"root": {true, false}, "root.root": {true, true}, "Root.B": {true, false}, "root.b.C": {true, true}, "root.c": {}, "b": {},
	} {
		q := tree.Queue(name)
		if (q != nil) != want.exists || q != nil && q.Leaf() != want.leaf {
			t.Errorf("%s: want %+v, got %+v", name, want, q)
		}
	}
	if tree.Root() != tree.Queue("root") {
		t.Error("root is not root")
	}
}
