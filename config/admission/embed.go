// Package admission has the admission policies that belong to a hub, as YAML.
//
// It imports nothing of Berth.
package admission

import "embed"

// FS holds the policies, in files to be applied in order of their names.
//
//go:embed annotations.yaml changes.yaml cluster-sets.yaml clusters.yaml
var FS embed.FS

// Editor holds the policy that records who edits Placements, in the folder editor, for API servers
// that serve MutatingAdmissionPolicies (Kubernetes 1.36).
//
//go:embed editor/editor.yaml
var Editor embed.FS
