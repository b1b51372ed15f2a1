// Package samples holds the fleets and Placements that `berth up --samples` applies, in the order
// of their file names: each fleet before the Placement that chooses from it. Every file says in its
// comments what the answer is. The folders guide and argocd are for a person to apply and are not
// embedded.
//
// It imports nothing of Berth. Read 10-guide-fleet.yaml first.
package samples

import "embed"

// FS has the sample files at its root, and nothing else: kustomization.yaml is left out.
//
//go:embed [0-9]*.yaml
var FS embed.FS
