// Package v1alpha1 has Berth's own kinds, group berth.dev. They refine what Placements ask for, and
// control and record how published decisions change.
//
// A PlacementChange is one change of a published decision; a DisruptionPolicy defines which changes
// need an approval; a PlacementEviction removes a cluster from a decision; a SelectionPolicy adds
// to a Placement what it cannot ask for itself; a PlacementExplanation asks why clusters were
// selected. The package may import api/v1alpha1 and k8s.io/apimachinery. Read
// placementchange_types.go first.
//
// +kubebuilder:object:generate=true
// +groupName=berth.dev
package v1alpha1
