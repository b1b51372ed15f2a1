package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedCluster is one cluster of the fleet. The hub has a namespace of the same name for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={mcl,mcls}
// +kubebuilder:printcolumn:name="Set",type=string,JSONPath=`.metadata.labels.cluster\.open-cluster-management\.io/clusterset`,description="The cluster set that the cluster's label names"
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status`,description="Whether the cluster's API server responds"
// +kubebuilder:printcolumn:name="Taints",type=string,JSONPath=`.spec.taints[*].key`,description="The keys of the taints"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version.kubernetes`,description="The version of the cluster's API server"
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.allocatable.cpu`,description="The allocatable CPU"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.allocatable.memory`,description="The allocatable memory"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Hub Accepted",type=boolean,priority=1,JSONPath=`.spec.hubAcceptsClient`
// +kubebuilder:printcolumn:name="Managed Cluster URLs",type=string,priority=1,JSONPath=`.spec.managedClusterClientConfigs[*].url`
// +kubebuilder:printcolumn:name="Joined",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ManagedClusterJoined")].status`
type ManagedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the hub's configuration of the cluster.
	// +optional
	Spec ManagedClusterSpec `json:"spec"`

	// status is the state that the cluster reports.
	// +optional
	Status ManagedClusterStatus `json:"status,omitzero"`
}

// ManagedClusterSpec is the hub's configuration of a cluster.
type ManagedClusterSpec struct {
	// managedClusterClientConfigs are the addresses of the cluster's API server.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ManagedClusterClientConfigs []ClientConfig `json:"managedClusterClientConfigs,omitempty"`

	// hubAcceptsClient is whether the hub accepts the cluster's agent. Placement ignores it.
	// +optional
	HubAcceptsClient bool `json:"hubAcceptsClient"`

	// leaseDurationSeconds is how often the cluster's agent renews its lease, in seconds.
	// +optional
	// +kubebuilder:default=60
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`

	// taints keep the cluster out of Placements that do not tolerate them. Example: [{key:
	// maintenance, effect: NoSelect}].
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Taints []Taint `json:"taints,omitempty"`
}

// ClientConfig is one address of a cluster's API server.
type ClientConfig struct {
	// url is the address.
	// +required
	URL string `json:"url"`

	// caBundle is the PEM encoded bundle of authorities that signed the server's certificate. If
	// absent, the system's bundle is used.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// Taint keeps a cluster out of Placements that do not tolerate it.
type Taint struct {
	// key is the name of the taint.
	// +required
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`

	// value is the value of the key.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect is the effect on Placements that do not tolerate the taint. NoSelect excludes the
	// cluster. NoSelectIfNew excludes it unless it is already selected. PreferNoSelect ranks it
	// after all clusters without such a taint.
	// +required
	Effect TaintEffect `json:"effect"`

	// timeAdded is when the taint was added; tolerations with tolerationSeconds count from it.
	// +optional
	// +nullable
	TimeAdded metav1.Time `json:"timeAdded"`
}

// TaintEffect is the effect of a taint on Placements that do not tolerate it.
// +kubebuilder:validation:Enum=NoSelect;PreferNoSelect;NoSelectIfNew
type TaintEffect string

// The effects of a Taint.
const (
	// TaintEffectNoSelect excludes the cluster from every Placement that does not tolerate the
	// taint.
	TaintEffectNoSelect TaintEffect = "NoSelect"
	// TaintEffectPreferNoSelect ranks the cluster after every cluster without such a taint.
	TaintEffectPreferNoSelect TaintEffect = "PreferNoSelect"
	// TaintEffectNoSelectIfNew excludes the cluster unless it is already selected.
	TaintEffectNoSelectIfNew TaintEffect = "NoSelectIfNew"
)

// ManagedClusterStatus is the state that a cluster reports.
type ManagedClusterStatus struct {
	// conditions describe the state of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity is the sum of all the nodes' resources.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable is the part of capacity that workloads may use.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// version contains the versions of the cluster's software.
	// +optional
	Version ManagedClusterVersion `json:"version"`

	// clusterClaims are facts that the cluster reports about itself, for example {name:
	// region.open-cluster-management.io, value: eu-west-1}. If two have the same name, the last one
	// is used.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	ClusterClaims []ManagedClusterClaim `json:"clusterClaims,omitempty"`

	// managedNamespaces are the namespaces that the cluster's sets manage on it.
	// +optional
	// +listType=map
	// +listMapKey=clusterSet
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10000
	ManagedNamespaces []ClusterSetManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ResourceName is the name of a resource, for example cpu or memory.
type ResourceName string

// The resources that the built-in prioritizers compare.
const (
	ResourceCPU    ResourceName = "cpu"
	ResourceMemory ResourceName = "memory"
)

// ResourceList contains amounts of resources by name.
type ResourceList map[ResourceName]resource.Quantity

// ManagedClusterVersion contains the versions of a cluster's software.
type ManagedClusterVersion struct {
	// kubernetes is the version of the cluster's API server.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
}

// ManagedClusterClaim is a fact that a cluster reports about itself.
type ManagedClusterClaim struct {
	// name is the name of the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// value is the value of the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ClusterSetManagedNamespaceConfig is a namespace that a set manages on the cluster, with its
// state.
type ClusterSetManagedNamespaceConfig struct {
	ManagedNamespaceConfig `json:",inline"`

	// clusterSet is the name of the ManagedClusterSet that manages it.
	// +required
	ClusterSet string `json:"clusterSet"`

	// conditions describe the state of the managed namespace.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ManagedClusterList is a list of ManagedClusters.
//
// +kubebuilder:object:root=true
type ManagedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ManagedCluster `json:"items"`
}
