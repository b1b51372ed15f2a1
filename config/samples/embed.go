// Package samples holds the fleets and Placements that `berth up --samples` applies, in the order
// of their file names: each fleet before the Placement that selects from it. The comments in each
// file show the decision. The folders guide and argocd are for users to apply and are not embedded.
//
// It imports nothing of Berth. Read 10-guide-fleet.yaml first.
package samples

import "embed"

// FS has only the sample files at its root, without kustomization.yaml.
//
//go:embed [0-9]*.yaml
var FS embed.FS
