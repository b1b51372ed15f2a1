package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of Berth's own kinds.
const GroupName = "berth.dev"

// GroupVersion is the one version of the group.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers Berth's own kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&PlacementChange{}, &PlacementChangeList{},
		&DisruptionPolicy{}, &DisruptionPolicyList{},
		&PlacementEviction{}, &PlacementEvictionList{},
		&SelectionPolicy{}, &SelectionPolicyList{},
		&PlacementExplanation{}, &PlacementExplanationList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
