// Package v1alpha1 has the six kinds of Open Cluster Management that Berth reads and writes, and
// the names of their conditions, reasons, labels, annotations, taint keys and prioritizers.
//
// The Go types exist only here. Each kind is served under v1alpha1 and, with the same schema, under
// the version that its consumers read. Read register.go first: it registers each type under its
// version. Teams write placement_types.go.
//
// The package may import nothing but k8s.io/apimachinery.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1alpha1
