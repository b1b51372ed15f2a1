package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedClusterSet is a group of clusters. Placements of a namespace can use the clusters of the
// sets that are bound to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={mclset,mclsets}
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters`,description="The number of clusters in the set"
// +kubebuilder:printcolumn:name="Selector",type=string,JSONPath=`.spec.clusterSelector.selectorType`,description="How the set selects its clusters"
// +kubebuilder:printcolumn:name="Empty",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterSetEmpty")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedClusterSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which clusters belong to the set.
	// +optional
	// +kubebuilder:default={clusterSelector: {selectorType: ExclusiveClusterSetLabel}}
	Spec ManagedClusterSetSpec `json:"spec,omitzero"`

	// status is the state of the set.
	// +optional
	Status ManagedClusterSetStatus `json:"status,omitzero"`
}

// ManagedClusterSetSpec defines which clusters belong to a set.
type ManagedClusterSetSpec struct {
	// clusterSelector selects the set's clusters.
	// +optional
	// +kubebuilder:default={selectorType: ExclusiveClusterSetLabel}
	ClusterSelector ManagedClusterSelector `json:"clusterSelector,omitzero"`

	// managedNamespaces are the namespaces to manage on every cluster of the set. Placement ignores
	// them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	ManagedNamespaces []ManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ManagedNamespaceConfig is a namespace to be managed on clusters.
type ManagedNamespaceConfig struct {
	// name is the name of the namespace.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// ManagedClusterSelector selects clusters for a set.
// +kubebuilder:validation:XValidation:rule="self.selectorType == 'LabelSelector' || !has(self.labelSelector)",message="must be LabelSelector when labelSelector is set",messageExpression="'\"' + self.selectorType + '\": must be LabelSelector when labelSelector is set'",fieldPath=".selectorType"
type ManagedClusterSelector struct {
	// selectorType is ExclusiveClusterSetLabel or LabelSelector. With the first, the clusterset
	// label of a cluster names its one set; with the second, labelSelector selects the clusters,
	// and sets may overlap.
	// +required
	// +kubebuilder:default=ExclusiveClusterSetLabel
	SelectorType SelectorType `json:"selectorType,omitempty"`

	// labelSelector is matched against clusters' labels if selectorType is LabelSelector. If
	// absent, it matches no cluster; if empty, every cluster. Example: {matchLabels: {region: eu}}.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// SelectorType is how a set selects its clusters.
// +kubebuilder:validation:Enum=ExclusiveClusterSetLabel;LabelSelector
type SelectorType string

// The ways a set selects its clusters. The empty one means ExclusiveClusterSetLabel.
const (
	ExclusiveClusterSetLabel SelectorType = "ExclusiveClusterSetLabel"
	LabelSelector            SelectorType = "LabelSelector"
)

// The sets that Berth creates: the set of clusters without a cluster set label, and the set of all
// clusters.
const (
	DefaultManagedClusterSetName = "default"
	GlobalManagedClusterSetName  = "global"
)

// ManagedClusterSetStatus is the state of a set.
type ManagedClusterSetStatus struct {
	// clusters is the number of clusters in the set. Open Cluster Management's CRD does not have
	// the field.
	// +optional
	Clusters *int32 `json:"clusters,omitempty"`

	// conditions include ClusterSetEmpty, which is True if the set has no cluster.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ManagedClusterSetList is a list of ManagedClusterSets.
//
// +kubebuilder:object:root=true
type ManagedClusterSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ManagedClusterSet `json:"items"`
}
