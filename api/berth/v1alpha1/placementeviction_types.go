package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bounds of PlacementEvictions.
const (
	// DefaultExcludeForSeconds is the default of spec.excludeForSeconds.
	DefaultExcludeForSeconds = 60 * 60
	// EvictionRetention is the time from the end of a PlacementEviction to its deletion by the
	// controller.
	EvictionRetention = time.Hour
)

// Conditions of a PlacementEviction, and their reasons.
const (
	// EvictionValid is True if the published decision had the cluster when the controller first saw
	// it. It becomes False if the Placement is deleted before the eviction is executed.
	EvictionValid = "Valid"
	// EvictionExecuted is True once the cluster is in no PlacementDecision of the Placement. Then
	// it stays True, and excludeForSeconds count from its transition.
	EvictionExecuted = "Executed"

	// ReasonEvictionAccepted, with Valid True: the cluster is evicted.
	ReasonEvictionAccepted = "Accepted"
	// ReasonClusterNotSelected, with Valid False: the published decision does not have the cluster,
	// or the cluster does not exist.
	ReasonClusterNotSelected = "ClusterNotSelected"
	// ReasonEvictionWaiting, with Executed False: the cluster is still published.
	ReasonEvictionWaiting = "Waiting"
	// ReasonClusterRemoved, with Executed True: the cluster is not published any more.
	ReasonClusterRemoved = "ClusterRemoved"
)

// PlacementEviction removes one cluster from the decision of one Placement of its namespace, as the
// DisruptionPolicies of the Placement allow. Then the cluster is not selected for
// excludeForSeconds. Berth deletes the object an hour after that; deleting it earlier ends the
// eviction.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=pev
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Executed",type=string,JSONPath=`.status.conditions[?(@.type=="Executed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PlacementEviction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the Placement and the cluster. It is immutable.
	// +required
	Spec PlacementEvictionSpec `json:"spec"`

	// status is the progress of the eviction. Only the controller writes it.
	// +optional
	Status PlacementEvictionStatus `json:"status,omitzero"`
}

// PlacementEvictionSpec names the Placement and the cluster.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: create another PlacementEviction"
type PlacementEvictionSpec struct {
	// placement is the name of a Placement in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Placement string `json:"placement"`

	// cluster is the name of a cluster in the published decision of the Placement.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster"`

	// excludeForSeconds is how long the cluster is not selected for the Placement after it was
	// removed, in seconds. From 1 to 31,536,000 (a year); the default is 3,600 (an hour).
	// +optional
	// +default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	ExcludeForSeconds int64 `json:"excludeForSeconds,omitempty"`
}

// PlacementEvictionStatus is the progress of an eviction.
type PlacementEvictionStatus struct {
	// conditions are Valid and Executed, with reasons.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlacementEvictionList is a list of PlacementEvictions.
//
// +kubebuilder:object:root=true
type PlacementEvictionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PlacementEviction `json:"items"`
}
