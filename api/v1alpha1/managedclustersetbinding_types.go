package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedClusterSetBinding lets the Placements of its namespace use the clusters of a
// ManagedClusterSet. It has the set's name, so that the permission to create it can be granted for
// each set.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName={mclsetbinding,mclsetbindings}
// +kubebuilder:printcolumn:name="ClusterSet",type=string,JSONPath=`.spec.clusterSet`,description="The bound cluster set"
// +kubebuilder:printcolumn:name="Bound",type=string,JSONPath=`.status.conditions[?(@.type=="Bound")].status`,description="Whether the set exists and the binding has its name"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule=`!has(self.spec) || !has(self.spec.clusterSet) ? oldSelf.hasValue() && !oldSelf.?spec.?clusterSet.hasValue() : (self.spec.clusterSet == self.metadata.name || (oldSelf.?spec.?clusterSet.hasValue() && oldSelf.value().spec.clusterSet == self.spec.clusterSet))`,optionalOldSelf=true,message="spec.clusterSet must equal metadata.name",fieldPath=".spec.clusterSet"
type ManagedClusterSetBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the set to bind.
	// +optional
	Spec ManagedClusterSetBindingSpec `json:"spec,omitzero"`

	// status is the state of the binding.
	// +optional
	Status ManagedClusterSetBindingStatus `json:"status,omitzero"`
}

// ManagedClusterSetBindingSpec is the set to bind.
type ManagedClusterSetBindingSpec struct {
	// clusterSet is the name of the ManagedClusterSet. It must equal metadata.name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	ClusterSet string `json:"clusterSet,omitempty"`
}

// ManagedClusterSetBindingStatus is the state of a binding.
type ManagedClusterSetBindingStatus struct {
	// conditions include Bound, which is True if the set is usable in the namespace.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ManagedClusterSetBindingList is a list of ManagedClusterSetBindings.
//
// +kubebuilder:object:root=true
type ManagedClusterSetBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ManagedClusterSetBinding `json:"items"`
}
