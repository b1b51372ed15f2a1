// Package validation has the admission handlers that refuse mistakes in Placements,
// SelectionPolicies and ManagedClusterSets, and warn about a status that the API server ignores.
// They change nothing, and fail open: the controller finds the same mistakes and reports them in
// conditions.
//
// It may import api and pkg/admission. Read handler.go first. config/validation has the webhooks,
// generated from the markers here.
package validation
