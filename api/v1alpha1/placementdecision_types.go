package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementDecision is one page of the answer to a Placement: at most a hundred of the chosen
// clusters. Its labels say which Placement and which decision group it belongs to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type PlacementDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status lists the chosen clusters.
	// +optional
	Status PlacementDecisionStatus `json:"status,omitzero"`
}

// PlacementDecisionStatus lists chosen clusters.
type PlacementDecisionStatus struct {
	// A nil slice stands for a page that has no content yet; it is left out, with the whole status.
	// A page that says "nothing was chosen" holds an empty slice that is not nil, and is never
	// written as null.

	// decisions are the chosen clusters of this page. The list is there, and empty, when nothing is
	// chosen.
	// +required
	// +kubebuilder:validation:MaxItems=1000
	Decisions []ClusterDecision `json:"decisions"`
}

// ClusterDecision is one chosen cluster.
type ClusterDecision struct {
	// clusterName is the name of the ManagedCluster, and of its namespace on the hub.
	// +required
	ClusterName string `json:"clusterName"`

	// reason says why the cluster was chosen. It is empty today.
	// +required
	Reason string `json:"reason"`

	// score is the cluster's total score. It is there only when the Placement sorts by Score.
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
