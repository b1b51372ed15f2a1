package caches

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Process is a process of Berth with caches. Webhooks are served by the controller.
type Process string

// The processes. Controller and Explorer decide, so that they keep the same.
const (
	Controller Process = "controller"
	Explorer   Process = "explorer"
	Generator  Process = "generator"
	Reporter   Process = "reporter"
)

// Bounds of what is kept.
const (
	// MaxScores is the maximum number of AddOnPlacementScores in a namespace: those whose names
	// sort first.
	MaxScores = 100
	// MaxScoreItems is the maximum number of scores in an AddOnPlacementScore, and MaxScoreNames
	// that of bytes of their names together.
	MaxScoreItems = 1000
	MaxScoreNames = 64 << 10

	// MaxLabels is the maximum number of labels of a ManagedCluster: those whose names sort first,
	// and that of its set.
	MaxLabels = 1000

	// objectLimit is the largest object that an API server with etcd's defaults stores.
	objectLimit = 1536 << 10
)

// Row is one line of the table.
type Row struct {
	// Kind is of the objects; Plural is their resource.
	Kind, Plural string
	Processes    []Process
	// Writers are those who can write the objects, besides the hub's administrator.
	Writers string
	// Kept says what is kept of each object.
	Kept string
	// Number bounds the number of objects.
	Number string
	// Bytes is the size of what is kept of an object, as JSON.
	Bytes int
	// trim removes the rest in place; nil where the process reads objects in a way of its own.
	trim func(object metav1.Object)
}

// decides are the processes that decide.
var decides = []Process{Controller, Explorer}

// The words of the table.
const (
	quota    = "a ResourceQuota"
	whole    = "all"
	authors  = "authors"
	specOnly = "labels, spec and status"
)

// Table returns the table.
func Table() []Row {
	return []Row{
		{"ManagedCluster", "managedclusters", decides, "its agent", whole + ", because CEL reads it; 1,000 labels and resources", "one", objectLimit, trimCluster},
		{"ManagedCluster", "managedclusters", []Process{Generator}, "its agent", whole + ", because CEL reads it", "one", objectLimit, stripManagedFields},
		{
			"AddOnPlacementScore", "addonplacementscores", decides, "its agent",
			"1,000 scores, 64 KiB of names; until when they count", fmt.Sprintf("%d a namespace, by name", MaxScores), 96 << 10, trimScore,
		},
		{"Lease", "leases", []Process{Controller}, "its agent, `berth report`", "name and renewTime", "one a namespace", 1 << 10, trimLease},
		{"ManagedClusterSet", "managedclustersets", decides, "–", specOnly + ", the annotation `autoupdate`", "administrators", objectLimit, keepLabels(v1alpha1.AutoUpdateAnnotation)},
		{"ManagedClusterSetBinding", "managedclustersetbindings", decides, authors, specOnly, quota, objectLimit, keepLabels()},
		{"Placement", "placements", decides, authors, "all; who edited the spec last", quota, objectLimit, trimPlacement},
		{"Placement", "placements", []Process{Generator}, authors, "name and UID", quota, 2 << 10, keepMeta},
		{"SelectionPolicy", "selectionpolicies", []Process{Controller, Explorer, Generator}, authors, specOnly + ", the annotation of failback", quota, objectLimit, keepLabels(berthv1alpha1.FailbackRequestedAnnotation)},
		{"DisruptionPolicy", "disruptionpolicies", decides, authors, specOnly, quota, objectLimit, keepLabels()},
		{"PlacementEviction", "placementevictions", decides, authors, whole, quota, objectLimit, trimPlacement},
		{"PlacementDecision", "placementdecisions", []Process{Controller}, "writers of pages", "all; who else wrote last", quota, objectLimit, trimPage},
		{"PlacementDecision", "placementdecisions", []Process{Explorer}, "writers of pages", whole, quota, objectLimit, stripManagedFields},
		{"PlacementDecision", "placementdecisions", []Process{Generator}, "writers of pages", "clusters, owners, labels, revision", quota, objectLimit, trimPublished},
		{"PlacementChange", "placementchanges", decides, "–", whole + "; the controller packs ended ones", "100 a Placement", objectLimit, stripManagedFields},
		{"PlacementExplanation", "placementexplanations", []Process{Controller}, authors, "name, times and conditions", "100 a namespace", 8 << 10, trimExplanation},
		{"ClusterProfile", "clusterprofiles", []Process{Controller}, "cluster managers", "100 labels, claims of 64 KiB, version, health", "chosen namespaces", 256 << 10, nil},
		{"objects of readiness sources", "", []Process{Controller}, "as the source says", "name, labels, cluster, ready or not", "200,000; 100,000 a namespace", objectLimit, nil},
		{"Namespace", "namespaces", []Process{Controller}, "–", whole + ", for plugins", "administrators", objectLimit, trimPlacement},
		{"ConfigMap", "configmaps", []Process{Controller}, "queue administrators", "data", "one", objectLimit, keepMeta},
		{"Secret", "secrets", []Process{Reporter}, "–", "data and labels", "administrators", objectLimit, keepLabels()},
		{"Secret", "secrets", []Process{Generator}, "–", "name and server", "administrators", 4 << 10, trimClusterSecret},
	}
}

// Markdown returns the table as docs/threat-model.md has it.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| kind | in | writers | kept | number | KiB |\n|---|---|---|---|---|---|\n")
	for _, r := range Table() {
		names := make([]string, len(r.Processes))
		for i, p := range r.Processes {
			names[i] = string(p)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d |\n", r.Kind, strings.Join(names, ", "), r.Writers, r.Kept, r.Number, r.Bytes>>10)
	}
	return b.String()
}
