// Package flux runs the recipes of docs/consumers.md on the hub of `berth up`, with the CRDs of
// Flux's kustomize-controller, in the version of go.mod, and of the Flux Operator.
//
// It is a separate module because Berth needs nothing of Flux, and it imports nothing of Berth.
// BERTH_BIN selects another berth binary; berth reads KUBEBUILDER_ASSETS itself. Read flux_test.go
// first.
package flux
