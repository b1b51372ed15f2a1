// Package v1alpha1 holds Berth's own kinds, group berth.dev: how published decisions change and who
// may change them.
//
// A PlacementChange is one change of a published decision; a DisruptionPolicy says which changes
// need an approval. The package may import api/v1alpha1 and k8s.io/apimachinery. Read
// placementchange_types.go first.
//
// +kubebuilder:object:generate=true
// +groupName=berth.dev
package v1alpha1
