package main

// The API groups: of Open Cluster Management's kinds and of Berth's own.
const (
	ocmGroup   = "cluster.open-cluster-management.io"
	berthGroup = "berth.dev"
)

// version is one version a CRD serves.
type version struct {
	name string
	// wholeWrites means that the version has no status subresource: a request through it writes
	// metadata and status together.
	wholeWrites bool
}

// kind says which versions the CRD of one plural serves. The first is the version stored: the one
// consumers read, so that a fleet moves to Open Cluster Management, or from it, without migrating
// stored objects.
type kind struct {
	group, plural string
	versions      []version
}

var table = []kind{
	{berthGroup, "disruptionpolicies", []version{{name: "v1alpha1"}}},
	{berthGroup, "placementchanges", []version{{name: "v1alpha1"}}},
	{ocmGroup, "addonplacementscores", []version{{name: "v1alpha1"}}},
	{ocmGroup, "managedclusters", []version{{name: "v1"}, {name: "v1alpha1"}}},
	{ocmGroup, "managedclustersetbindings", []version{{name: "v1beta2"}, {name: "v1alpha1"}}},
	{ocmGroup, "managedclustersets", []version{{name: "v1beta2"}, {name: "v1alpha1"}}},
	{ocmGroup, "placementdecisions", []version{{name: "v1beta1"}, {name: "v1alpha1", wholeWrites: true}}},
	{ocmGroup, "placements", []version{{name: "v1beta1"}, {name: "v1alpha1"}}},
}
