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
	// nameIsLabel limits the name to the length of a label value.
	nameIsLabel bool
}

var table = []kind{
	{group: berthGroup, plural: "disruptionpolicies", versions: []version{{name: "v1alpha1"}}},
	{group: berthGroup, plural: "placementchanges", versions: []version{{name: "v1alpha1"}}},
	{group: berthGroup, plural: "placementevictions", versions: []version{{name: "v1alpha1"}}},
	{group: berthGroup, plural: "placementexplanations", versions: []version{{name: "v1alpha1"}}, nameIsLabel: true},
	{group: berthGroup, plural: "selectionpolicies", versions: []version{{name: "v1alpha1"}}},
	{group: ocmGroup, plural: "addonplacementscores", versions: []version{{name: "v1alpha1"}}},
	{group: ocmGroup, plural: "managedclusters", versions: []version{{name: "v1"}, {name: "v1alpha1"}}},
	{group: ocmGroup, plural: "managedclustersetbindings", versions: []version{{name: "v1beta2"}, {name: "v1alpha1"}}},
	{group: ocmGroup, plural: "managedclustersets", versions: []version{{name: "v1beta2"}, {name: "v1alpha1"}}, nameIsLabel: true},
	{group: ocmGroup, plural: "placementdecisions", versions: []version{{name: "v1beta1"}, {name: "v1alpha1", wholeWrites: true}}},
	{group: ocmGroup, plural: "placements", versions: []version{{name: "v1beta1"}, {name: "v1alpha1"}}, nameIsLabel: true},
}
