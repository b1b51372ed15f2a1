package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementDecision is one page of a Placement's decision: at most 100 of the selected clusters.
// Its labels name the Placement and the decision group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=pd
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.metadata.labels.cluster\.open-cluster-management\.io/placement`,description="The Placement that the page belongs to"
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.metadata.labels.cluster\.open-cluster-management\.io/decision-group-name`,description="The name of the decision group"
// +kubebuilder:printcolumn:name="Index",type=string,JSONPath=`.metadata.labels.cluster\.open-cluster-management\.io/decision-group-index`,description="The index of the decision group"
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.metadata.annotations.berth\.dev/revision`,description="The revision of the change that wrote the page last"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PlacementDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status lists the selected clusters.
	// +optional
	Status PlacementDecisionStatus `json:"status,omitzero"`
}

// PlacementDecisionStatus lists selected clusters.
type PlacementDecisionStatus struct {
	// A nil slice means a page without content yet; it is omitted with the whole status. A page
	// without selected clusters has an empty slice that is not nil, and is never written as null.

	// decisions are the selected clusters of this page. The list is present and empty if no cluster
	// is selected.
	// +required
	// +kubebuilder:validation:MaxItems=1000
	Decisions []ClusterDecision `json:"decisions"`
}

// ClusterDecision is one selected cluster.
type ClusterDecision struct {
	// clusterName is the name of the ManagedCluster, and of its namespace on the hub.
	// +required
	ClusterName string `json:"clusterName"`

	// reason is why the cluster was selected. It is currently empty.
	// +required
	Reason string `json:"reason"`

	// score is the cluster's total score. It is present only if the Placement's sortBy is Score.
	// +optional
	Score *int64 `json:"score,omitempty"`
}

// PlacementDecisionList is a list of PlacementDecisions.
//
// +kubebuilder:object:root=true
type PlacementDecisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PlacementDecision `json:"items"`
}
