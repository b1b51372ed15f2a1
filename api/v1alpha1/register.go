package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all six kinds.
const GroupName = "cluster.open-cluster-management.io"

// The versions of the group. A type is registered under only one of them; see AddToScheme.
var (
	GroupVersion        = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	GroupVersionV1Beta1 = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}
	GroupVersionV1Beta2 = schema.GroupVersion{Group: GroupName, Version: "v1beta2"}
	GroupVersionV1      = schema.GroupVersion{Group: GroupName, Version: "v1"}
)

// AddToScheme registers the six kinds under the versions that their consumers read, which are also
// the stored versions. A client with this scheme also works on a hub with Open Cluster Management's
// CRDs.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersionV1Beta1,
		&Placement{}, &PlacementList{},
		&PlacementDecision{}, &PlacementDecisionList{})
	scheme.AddKnownTypes(GroupVersionV1,
		&ManagedCluster{}, &ManagedClusterList{})
	scheme.AddKnownTypes(GroupVersionV1Beta2,
		&ManagedClusterSet{}, &ManagedClusterSetList{},
		&ManagedClusterSetBinding{}, &ManagedClusterSetBindingList{})
	scheme.AddKnownTypes(GroupVersion,
		&AddOnPlacementScore{}, &AddOnPlacementScoreList{})
	for _, version := range []schema.GroupVersion{GroupVersionV1, GroupVersionV1Beta2, GroupVersionV1Beta1, GroupVersion} {
		metav1.AddToGroupVersion(scheme, version)
	}
	return nil
}

// AddPagesToScheme registers only PlacementDecision, under v1alpha1: there Berth's CRD has no
// status subresource, and one request writes a whole page. Only the publisher's own client uses it.
// The scheme must not be that of AddToScheme: with one Go type under two versions, it cannot know
// which version a client means.
func AddPagesToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PlacementDecision{}, &PlacementDecisionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
