package install

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestRoleFor(t *testing.T) {
	for _, tc := range []struct{ verb, group, resource, want string }{
		{"create", "berth.dev", "placementevictions", "berth-evictor"},
		{"patch", "berth.dev", "placementchanges", "berth-approver"},
		{"create", "berth.dev", "disruptionpolicies", "berth-disruption-policy-editor"},
		{"delete", "berth.dev", "disruptionpolicies", "berth-disruption-policy-editor"},
		{"patch", "cluster.open-cluster-management.io", "placements", "berth-editor"},
		{"get", "cluster.open-cluster-management.io", "placements", "berth-viewer"},
		{"list", "cluster.open-cluster-management.io", "managedclusters", "berth-fleet-viewer"},
		{"patch", "cluster.open-cluster-management.io", "managedclusters", ""},
		{"create", "", "placementevictions", ""},
	} {
		if got := RoleFor(tc.verb, tc.group, tc.resource); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.verb, tc.resource, got, tc.want)
		}
	}
}

// TestEditorsRead: the role for editing has all that the one for viewing has.
func TestEditorsRead(t *testing.T) {
	named := func(name string) rbacv1.ClusterRole {
		return roles()[slices.IndexFunc(roles(), func(role rbacv1.ClusterRole) bool { return role.Name == name })]
	}
	editor := named("berth-editor")
	for _, seen := range named("berth-viewer").Rules {
		for _, resource := range seen.Resources {
			for _, verb := range seen.Verbs {
				if !slices.ContainsFunc(editor.Rules, func(rule rbacv1.PolicyRule) bool {
					return slices.Contains(rule.APIGroups, seen.APIGroups[0]) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
				}) {
					t.Errorf("an editor may not %s %s", verb, resource)
				}
			}
		}
	}
}
