package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedCluster is one cluster of the fleet. The namespace of the same name on the hub is the
// cluster's own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={mcl,mcls}
// +kubebuilder:printcolumn:name="Hub Accepted",type=boolean,JSONPath=`.spec.hubAcceptsClient`
// +kubebuilder:printcolumn:name="Managed Cluster URLs",type=string,JSONPath=`.spec.managedClusterClientConfigs[*].url`
// +kubebuilder:printcolumn:name="Joined",type=string,JSONPath=`.status.conditions[?(@.type=="ManagedClusterJoined")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the hub knows and wants of the cluster.
	// +optional
	Spec ManagedClusterSpec `json:"spec"`

	// status is what the cluster reports of itself.
	// +optional
	Status ManagedClusterStatus `json:"status,omitzero"`
}

// ManagedClusterSpec is what the hub knows and wants of a cluster.
type ManagedClusterSpec struct {
	// managedClusterClientConfigs are the addresses of the cluster's API server.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ManagedClusterClientConfigs []ClientConfig `json:"managedClusterClientConfigs,omitempty"`

	// hubAcceptsClient says whether the hub lets the cluster's agent in. Placement does not look at
	// it.
	// +optional
	HubAcceptsClient bool `json:"hubAcceptsClient"`

	// leaseDurationSeconds is how often the cluster's agent renews its lease, in seconds.
	// +optional
	// +kubebuilder:default=60
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`

	// taints keep the cluster out of Placements that do not tolerate them.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Taints []Taint `json:"taints,omitempty"`
}

// ClientConfig is one address of a cluster's API server.
type ClientConfig struct {
	// url is the address.
	// +required
	URL string `json:"url"`

	// caBundle is the PEM encoded bundle of authorities that signed the server's certificate. The
	// system's own when absent.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// Taint keeps a cluster out of Placements that do not tolerate it.
type Taint struct {
	// key names the taint.
	// +required
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`

	// value belongs to the key.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect says what happens to Placements that do not tolerate the taint.
	// +required
	Effect TaintEffect `json:"effect"`

	// timeAdded is when the taint was added; tolerations with tolerationSeconds count from it.
	// +optional
	// +nullable
	TimeAdded metav1.Time `json:"timeAdded"`
}

// TaintEffect says what a taint does to Placements that do not tolerate it.
// +kubebuilder:validation:Enum=NoSelect;PreferNoSelect;NoSelectIfNew
type TaintEffect string

// The effects of a Taint.
const (
	// TaintEffectNoSelect takes the cluster out of every Placement that does not tolerate the
	// taint.
	TaintEffectNoSelect TaintEffect = "NoSelect"
	// TaintEffectPreferNoSelect ranks the cluster after every cluster without such a taint.
	TaintEffectPreferNoSelect TaintEffect = "PreferNoSelect"
	// TaintEffectNoSelectIfNew keeps the cluster out, except where it is already chosen.
	TaintEffectNoSelectIfNew TaintEffect = "NoSelectIfNew"
)

// ManagedClusterStatus is what a cluster reports of itself.
type ManagedClusterStatus struct {
	// conditions say how the cluster stands.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=100
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity is the sum of all the nodes' resources.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable is the part of capacity that workloads may use.
	// +optional
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// version is what software the cluster runs.
	// +optional
	Version ManagedClusterVersion `json:"version"`

	// clusterClaims are facts the cluster states of itself, such as its region. Of two with one
	// name the last one counts.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	ClusterClaims []ManagedClusterClaim `json:"clusterClaims,omitempty"`

	// managedNamespaces are the namespaces that the cluster's sets want managed on it.
	// +optional
	// +listType=map
	// +listMapKey=clusterSet
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10000
	ManagedNamespaces []ClusterSetManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ResourceName names a resource such as cpu or memory.
type ResourceName string

// The resources that the built-in prioritizers compare.
const (
	ResourceCPU    ResourceName = "cpu"
	ResourceMemory ResourceName = "memory"
)

// ResourceList is an amount of each of several resources.
type ResourceList map[ResourceName]resource.Quantity

// ManagedClusterVersion is what software a cluster runs.
type ManagedClusterVersion struct {
	// kubernetes is the version of the cluster's API server.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
}

// ManagedClusterClaim is a fact a cluster states of itself.
type ManagedClusterClaim struct {
	// name is the name of the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// value is what is claimed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ClusterSetManagedNamespaceConfig is a namespace that a set wants managed on the cluster, and how
// that goes.
type ClusterSetManagedNamespaceConfig struct {
	ManagedNamespaceConfig `json:",inline"`

	// clusterSet is the name of the ManagedClusterSet that asks for it.
	// +required
	ClusterSet string `json:"clusterSet"`

	// conditions say how it goes.
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
