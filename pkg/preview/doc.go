// Package preview asks the controller what would be decided, by PlacementExplanations, for users
// who may not list the fleet. It has the edits and the reports of the simulator.
//
// Read asker.go first; edits.go divides edits into questions for single Placements. It may import
// api, actions, explanation, resilience and simulator.
package preview
