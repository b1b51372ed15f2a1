package tenancy_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
			if diff := cmp.Diff(tc.want, tree.Remaining(tc.members, tc.queue, tc.user, tc.groups), cmpopts.IgnoreUnexported(tenancy.Remaining{})); diff != "" {
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

// TestUsed: a message about a quota has how much others use, and the Placements of the namespace
// that use it. It never names a Placement of another namespace, nor one that does not count.
func TestUsed(t *testing.T) {
	tree := parse(t, fixture.Partition(quotas)).Tree
	member := func(namespace, name, queue, user, group string, clusters int64) tenancy.Application {
		return tenancy.Application{Namespace: namespace, Name: name, Queue: queue, User: user, Groups: []string{group}, Clusters: clusters}
	}
	members := tenancy.NewMembers(
		member("team", "web", "root.A.b", "ann", "dev", 3), member("team", "api", "root.a.p.x", "ann", "qa", 1), member("team", "empty", "root.a.b", "bob", "dev", 0),
		member("team", "elsewhere", "root.free", "ann", "dev", 7), member("other", "secret", "root.a.b", "bob", "dev", 1),
	)
	for name, tc := range map[string]struct {
		queue, user, group, namespace string
		wantApplications, wantCluster string
	}{
		"a queue": {
			queue: "root.a.b", user: "joe", group: "hr", namespace: "team",
			wantApplications: "root.a group * maxapplications 2 (1 used by others, in this namespace by api)",
			wantCluster:      "root.a.b clusters 5 (4 used by others, in this namespace by web 3)",
		},
		"in another namespace": {
			queue: "root.a.b", user: "joe", group: "hr", namespace: "other",
			wantApplications: "root.a group * maxapplications 2 (1 used by others, none in this namespace)",
			wantCluster:      "root.a.b clusters 5 (4 used by others, in this namespace by secret 1)",
		},
		"from a namespace without one": {
			queue: "root.a.b", user: "joe", group: "hr", namespace: "third",
			wantApplications: "root.a group * maxapplications 2 (1 used by others, none in this namespace)",
			wantCluster:      "root.a.b clusters 5 (4 used by others, none in this namespace)",
		},
		"a user, and a group": {
			queue: "root.a.p", user: "ann", group: "dev", namespace: "team",
			wantApplications: "root.a group dev maxapplications 3 (3 used by others, in this namespace by empty, web)",
			wantCluster:      "root.a user ann clusters 4 (4 used by others, in this namespace by api 1, web 3)",
		},
		"the wildcard": {
			queue: "root.free", user: "zoe", group: "dev", namespace: "team",
			wantApplications: "root user * maxapplications 8 (none used by others)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			free := tree.Remaining(members, tc.queue, tc.user, []string{tc.group})
			if diff := cmp.Diff(tc.wantApplications, free.ApplicationsUsed(members, tc.namespace, "new")); diff != "" {
				t.Errorf("Placements (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantCluster, free.ClustersUsed(members, tc.namespace, "new")); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
	for i := range 9 {
		members.Add(member("many", fmt.Sprint("p", i), "root.free", "kim", "dev", 1))
	}
	free := tree.Remaining(members, "root.free", "kim", nil)
	if got, want := free.ApplicationsUsed(members, "many", "p1"), "root user * maxapplications 8 (9 used by others, in this namespace by p0, p2, p3, p4, p5, …)"; got != want {
		t.Errorf("got %s", got)
	}
}
