package app

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRefusalsNameRoles: the error for a missing permission names the role that gives it.
func TestRefusalsNameRoles(t *testing.T) {
	for _, tc := range []struct {
		forbidden string
		args      []string
		want      string
	}{
		{"placements", []string{"suspend", "web", "--yes"}, `cannot get resource "placements" in API group "cluster.open-cluster-management.io" in the namespace "shop" (the role berth-viewer permits it)`},
		{"disruptionpolicies", []string{"suspend", "web", "--yes"}, "(the role berth-viewer permits it)"},
		{"placementchanges", []string{"approve", "web", "--yes"}, "(the role berth-viewer permits it)"},
		{"managedclusters", []string{"top"}, "(the role berth-fleet-viewer permits it)"},
	} {
		hub := serveHub(t, []client.Object{stated("web", 3)}, tc.forbidden)
		if _, stderr, code := hub.run(tc.args...); code != exitFailure || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit code %d: %s", tc.args, code, stderr)
		}
	}
	for message, want := range map[string]string{
		`cannot create resource "placementevictions" in API group "berth.dev" in the namespace "shop"` + "\nmore":        `in the namespace "shop" (the role berth-evictor permits it)` + "\nmore",
		`cannot patch resource "placementchanges" in API group "berth.dev" in the namespace "shop"`:                      "(the role berth-approver permits it)",
		`cannot create resource "disruptionpolicies" in API group "berth.dev" in the namespace "shop"`:                   "(the role berth-disruption-policy-editor permits it)",
		`cannot patch resource "managedclusters" in API group "cluster.open-cluster-management.io" at the cluster scope`: "at the cluster scope",
	} {
		if got := withRoles(message); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
