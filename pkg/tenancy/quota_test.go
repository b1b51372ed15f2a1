package tenancy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/test/fixture"
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
	tree := parse(t, fixture.Partition(quotas)).Tree
	members := tenancy.NewMembers(
		tenancy.Application{Queue: "root.a.b", User: "ann", Groups: []string{"dev"}, Clusters: 3},
		tenancy.Application{Queue: "root.a.B", User: "bob", Groups: []string{"dev", "ops"}, Clusters: 1},
		tenancy.Application{Queue: "root.a.p.x", User: "zoe", Groups: []string{"qa"}, Clusters: 7},
	)
	for name, tc := range map[string]struct {
		members     *tenancy.Members
		queue, user string
		groups      []string
		want        tenancy.Remaining
	}{
		"nobody there": {
			queue: "root.a.b", user: "joe", groups: []string{"dev"},
			want: remaining(3, 5, "root.a group dev maxapplications 3", "root.a.b clusters 5"),
		},
		"the first of two groups that the limits list": {
			members: members, queue: "root.a.b", user: "joe", groups: []string{"dev"},
			want: remaining(2, 1, "root.a group dev maxapplications 3", "root.a.b clusters 5"),
		},
		"the user's": {
			members: members, queue: "root.a.p", user: "ann", groups: []string{"ops"},
			want: remaining(2, 1, "root.a group ops maxapplications 3", "root.a user ann clusters 4"),
		},
		"the group of those without one": {
			members: members, queue: "root.a.p", user: "kim", groups: []string{"hr"},
			want: remaining(1, 989, "root.a group * maxapplications 2", "root.a clusters 1000"),
		},
		"a user named by the wildcard": {
			members: members, queue: "root.free", user: "zoe", want: remaining(7, none, "root user * maxapplications 8", ""),
		},
		"another one": {
			members: members, queue: "root.free", user: "kim", want: remaining(8, none, "root user * maxapplications 8", ""),
		},
		"a template": {
			members: members, queue: "root.a.p.y", user: "kim", groups: []string{"dev"},
			want: remaining(1, 0, "root.a.p.y maxapplications 1", "root.a.p.y clusters 0"),
		},
		"a full dynamic queue": {
			members: members, queue: "root.a.p.X", user: "kim", groups: []string{"dev"},
			want: remaining(0, 0, "root.a.p.x maxapplications 1", "root.a.p.x clusters 0"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tree.Remaining(tc.members, tc.queue, tc.user, tc.groups)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func remaining(applications, clusters int64, applicationsBy, clustersBy string) tenancy.Remaining {
	return tenancy.Remaining{
		Quota: tenancy.Quota{Applications: applications, Clusters: clusters}, ApplicationsBy: applicationsBy, ClustersBy: clustersBy,
	}
}
