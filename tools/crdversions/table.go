package main

// group is the API group of every kind in the table.
const group = "cluster.open-cluster-management.io"

// version is one version a CRD serves.
type version struct {
	name string
	// wholeWrites means that the version has no status subresource: a request through it writes metadata and status
	// together.
	wholeWrites bool
}

// kind says which versions the CRD of one plural serves. The first is the version stored: the one consumers read, so that
// a fleet moves to Open Cluster Management, or from it, without migrating stored objects.
type kind struct {
	plural   string
	versions []version
}

var table = []kind{
	{plural: "addonplacementscores", versions: []version{{name: "v1alpha1"}}},
	{plural: "managedclusters", versions: []version{{name: "v1"}, {name: "v1alpha1"}}},
	{plural: "managedclustersetbindings", versions: []version{{name: "v1beta2"}, {name: "v1alpha1"}}},
	{plural: "managedclustersets", versions: []version{{name: "v1beta2"}, {name: "v1alpha1"}}},
	{plural: "placementdecisions", versions: []version{{name: "v1beta1"}, {name: "v1alpha1", wholeWrites: true}}},
	{plural: "placements", versions: []version{{name: "v1beta1"}, {name: "v1alpha1"}}},
}
