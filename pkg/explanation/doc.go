// Package explanation answers PlacementExplanations and OCM's debugger: why a Placement has its
// clusters, and what a Placement that does not exist would get.
//
// It decides with an engine of its own, so that no explanation holds the lock of the engine that
// publishes. It may import api, the engine, inventory, admission, changes, resilience and
// simulator. Read explainer.go first; whatif.go decides with edits. status.go and change.go convert
// answers into the status of a PlacementExplanation and back, debug.go into OCM's JSON. await.go is
// for those who ask: it waits for an answer.
package explanation
