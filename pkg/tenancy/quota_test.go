package tenancy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
)

const none = tenancy.Unlimited

const quotas = `
limits:
- {limit: each, users: [eve, "*"], maxapplications: 8}
queues:
- name: root
  queues:
  - name: a
    maxapplications: 6
    resources: {max: {clusters: 1k}}
    limits:
    - {limit: own, users: [ann], maxresources: {clusters: 4}}
    - {limit: teams, groups: [ops, dev], maxapplications: 3}
    - {limit: others, groups: ["*"], maxapplications: 2}
    queues:
    - {name: b, maxapplications: 4, resources: {max: {clusters: 5}}}
    - {name: p, parent: true, maxapplications: 6}
    childtemplate: {maxapplications: 1, resources: {max: {clusters: 0}}}
  - name: free
`

func TestRoom(t *testing.T) {
	tree := parse(t, partition(quotas)).Tree
	members := tenancy.NewMembers(
		tenancy.Application{Queue: "root.a.b", User: "ann", Groups: []string{"dev"}, Clusters: 3},
		tenancy.Application{Queue: "root.a.B", User: "bob", Groups: []string{"dev", "ops"}, Clusters: 1},
		tenancy.Application{Queue: "root.a.p.x", User: "zoe", Groups: []string{"qa"}, Clusters: 7},
	)
	for name, tc := range map[string]struct {
		members     *tenancy.Members
		queue, user string
		groups      []string
		want        tenancy.Room
	}{
		"nobody there": {
			queue: "root.a.b", user: "joe", groups: []string{"dev"},
			want: room(3, 5, "root.a group dev maxapplications 3", "root.a.b clusters 5"),
		},
		"the first of two groups that the limits list": {
			members: members, queue: "root.a.b", user: "joe", groups: []string{"dev"},
			want: room(2, 1, "root.a group dev maxapplications 3", "root.a.b clusters 5"),
		},
		"the user's": {
			members: members, queue: "root.a.p", user: "ann", groups: []string{"ops"},
			want: room(2, 1, "root.a group ops maxapplications 3", "root.a user ann clusters 4"),
		},
		"the group of those without one": {
			members: members, queue: "root.a.p", user: "kim", groups: []string{"hr"},
			want: room(1, 989, "root.a group * maxapplications 2", "root.a clusters 1000"),
		},
		"a user named by the wildcard": {
			members: members, queue: "root.free", user: "zoe", want: room(7, none, "root user * maxapplications 8", ""),
		},
		"another one": {
			members: members, queue: "root.free", user: "kim", want: room(8, none, "root user * maxapplications 8", ""),
		},
		"a template": {
			members: members, queue: "root.a.p.y", user: "kim", groups: []string{"dev"},
			want: room(1, 0, "root.a.p.y maxapplications 1", "root.a.p.y clusters 0"),
		},
		"a full dynamic queue": {
			members: members, queue: "root.a.p.X", user: "kim", groups: []string{"dev"},
			want: room(0, 0, "root.a.p.x maxapplications 1", "root.a.p.x clusters 0"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tree.Room(tc.members, tc.queue, tc.user, tc.groups)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func room(applications, clusters int64, applicationsBy, clustersBy string) tenancy.Room {
	return tenancy.Room{
		Quota: tenancy.Quota{Applications: applications, Clusters: clusters}, ApplicationsBy: applicationsBy, ClustersBy: clustersBy,
	}
}

func TestQuotaProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"legal":          {body: quotas},
		"units":          {body: "queues: [{name: a, resources: {max: {vcore: 500m, memory: 1Gi, disk: 2 K, clusters: +3}}}]"},
		"unparsable":     {body: "queues: [{name: a, resources: {max: {clusters: -1}, guaranteed: {clusters: 1.5}}}]", want: []string{"line 3: …guaranteed", "line 3: …max"}},
		"unknown suffix": {body: "queues: [{name: a, resources: {max: {clusters: 5m, memory: 1ki}}}]", want: []string{"line 3: …\"m\"", "line 3: …\"ki\""}},
		"too large":      {body: "queues: [{name: a, resources: {max: {vcore: 9999999999999999, memory: 9E}}}]", want: []string{"line 3: …too large"}},
		"on root":        {body: "queues: [{name: root, resources: {guaranteed: {}}}]", want: []string{"line 3: …root queue must not"}},
		"guaranteed above max": {
			body: "queues: [{name: a, resources: {max: {vcore: 1}, guaranteed: {vcore: 1001m}}}]", want: []string{"line 3: …1001"},
		},
		"child's max above the grandparent's": {
			body: "queues:\n- name: a\n  resources: {max: {clusters: 2}}\n  queues: [{name: b, queues: [{name: c, resources: {max: {clusters: 3}}}]}]",
			want: []string{"line 6: …3, more than the 2"},
		},
		"sum of guaranteed above the parent's, through a queue without": {
			body: "queues:\n- name: a\n  resources: {guaranteed: {x: 2}}\n  queues: [{name: b, queues: [{name: c, resources: {guaranteed: {x: 2}}}]}, {name: d, resources: {guaranteed: {x: 1}}}]",
			want: []string{"line 5: …3, more than the 2"},
		},
		"sum of guaranteed above the parent's max": {
			body: "queues:\n- name: a\n  resources: {max: {x: 2}}\n  queues: [{name: b, resources: {guaranteed: {x: 3}}}]",
			want: []string{"line 5: …3, more than the 2"},
		},
		"a sum beyond measure": {
			body: "queues:\n- name: a\n  resources: {guaranteed: {x: 1}}\n  queues: [{name: b, resources: {guaranteed: {x: 9E}}}, {name: c, resources: {guaranteed: {x: 9E}}}]",
			want: []string{"line 5: …more than the 1"},
		},
		"limits": {
			body: `
queues:
- name: a
  maxapplications: 5
  resources: {max: {clusters: 5}}
  limits:
  - {limit: nobody, maxapplications: 1}
  - {users: ["a b"], groups: [x@y], maxapplications: 1}
  - {users: [ann, ann], maxapplications: 1}
  - {users: ["*", bob], maxapplications: 1}
  - {groups: [dev], maxresources: {clusters: 0}}
  - {groups: [ops], maxresources: {clusters: x}, maxapplications: 6}
  - {groups: ["*"], maxresources: {clusters: 6}}
  queues:
  - name: b
    maxapplications: 4
    limits:
    - {users: [ann], maxapplications: 2}
    - {groups: [qa], maxresources: {clusters: 6}}
- name: c
  limits: [{groups: ["*"], maxapplications: 1}]
`,
			want: []string{
				"line 8: …users or groups", "line 9: …invalid group", "line 9: …invalid user", "line 10: …already", "line 11: …after *",
				"line 12: …above 0", "line 13: …6, more than the 5", "line 13: …not a quantity", "line 14: …6, more than the 5",
				"line 19: …2, more than the 1 of user ann", "line 20: …6, more than the 5", "line 22: …only group",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := tenancy.Parse([]byte(partition(tc.body)))
			var got []string
			if err != nil {
				for _, problem := range err.(tenancy.Problems) { //nolint:errorlint // Parse promises this very type
					got = append(got, problem.String())
				}
			}
			match(t, "errors", tc.want, got)
		})
	}
}
