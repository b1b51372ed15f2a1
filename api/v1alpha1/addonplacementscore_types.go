package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddOnPlacementScore contains scores that an external component computed for one cluster: the
// cluster with the name of its namespace. Placements refer to a score by the object's name and the
// score's name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
type AddOnPlacementScore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status contains the scores.
	// +optional
	Status AddOnPlacementScoreStatus `json:"status,omitzero"`
}

// AddOnPlacementScoreStatus contains the scores of one cluster.
type AddOnPlacementScoreStatus struct {
	// conditions describe the state of the computation of the scores.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// scores are the scores by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Scores []AddOnPlacementScoreItem `json:"scores,omitempty"`

	// validUntil is when the scores expire; expired scores count as 0. If absent, they never
	// expire.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
}

// AddOnPlacementScoreItem is one score.
type AddOnPlacementScoreItem struct {
	// name is the name of the score.
	// +required
	Name string `json:"name"`

	// value is the score, from -100 to 100.
	// +required
	// +kubebuilder:validation:Minimum=-100
	// +kubebuilder:validation:Maximum=100
	Value int32 `json:"value"`
}

// AddOnPlacementScoreList is a list of AddOnPlacementScores.
//
// +kubebuilder:object:root=true
type AddOnPlacementScoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AddOnPlacementScore `json:"items"`
}
