package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all six kinds.
const GroupName = "cluster.open-cluster-management.io"

// The versions of the group. A type is registered under one of them only: see AddToScheme.
var (
	GroupVersion        = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
	GroupVersionV1Beta1 = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}
	GroupVersionV1Beta2 = schema.GroupVersion{Group: GroupName, Version: "v1beta2"}
	GroupVersionV1      = schema.GroupVersion{Group: GroupName, Version: "v1"}
)

// AddToScheme registers the six kinds under the versions their consumers read, which are also the
// versions stored: a client with this scheme runs unchanged on a hub whose CRDs are Open Cluster
// Management's own.
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

// AddPagesToScheme registers PlacementDecision alone, under v1alpha1, where Berth's CRD has no
// status subresource and one request writes a page whole. It is for the publisher's own client. The
// scheme must be another than AddToScheme's: a scheme that knows one Go type under two versions
// cannot know which of them a client means.
func AddPagesToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PlacementDecision{}, &PlacementDecisionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
