// Package scheduler is the engine: it runs a profile's plugins on a Snapshot, selects the clusters
// of a Placement and explains the decision.
//
// It may import api, framework, config, selection, changes and turns. Read attempt.go first: one
// attempt, in numbered steps.
package scheduler
