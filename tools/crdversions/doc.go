// Command crdversions turns the CRDs that controller-gen writes, of one version each, into the ones
// Berth installs: the same schema under every version that is served. table.go says which versions
// those are and is the file to read first.
//
// It also restricts the operators of selectors, which are a type of apimachinery's that no marker
// of ours can reach, and takes the status subresource from PlacementDecision's v1alpha1, so that
// one request there writes a page whole.
//
// Usage: crdversions FROM-DIR TO-DIR
package main
