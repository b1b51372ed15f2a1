// Package v1alpha1 holds the six kinds Berth reads and writes, and every name that appears on them:
// conditions and their reasons, labels, annotations, taint keys and prioritizers.
//
// The kinds belong to the API group of Open Cluster Management. Each is served under v1alpha1 and,
// with the same schema, under the version its consumers read; the Go types live once, here.
// register.go says which type goes into a scheme under which version and is the file to read first;
// placement_types.go is what a team writes.
//
// The package may import nothing but k8s.io/apimachinery.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.open-cluster-management.io
package v1alpha1
