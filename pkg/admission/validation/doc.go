// Package validation has the admission handlers that refuse mistakes in Placements,
// SelectionPolicies and ManagedClusterSets, and warn about a status that the API server ignores.
// They change nothing, and fail open: the controller finds the same mistakes and reports them in
// conditions. Only a namespace with too many requests of its own has to repeat them.
//
// It may import api, pkg/admission and pkg/turns. Read handler.go first. config/validation has the
// webhooks, generated from the markers here.
package validation
