package install

import "testing"

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
