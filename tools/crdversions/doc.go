// Command crdversions converts the CRDs of controller-gen, which have one version each, into the
// CRDs that Berth installs. These have the same schema under every served version. Read table.go
// first: it lists the versions.
//
// It also restricts the operators of selectors: their type is in apimachinery, where Berth's
// markers have no effect. It removes the status subresource from PlacementDecision's v1alpha1, so
// that one request writes a whole page.
//
// Usage: crdversions FROM-DIR TO-DIR
package main
