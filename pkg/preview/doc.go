// Package preview asks the controller what would be decided, by PlacementExplanations, for users who
// may not list the fleet. The commands that decide use it, with the same edits and reports as the
// simulator.
//
// Read asker.go first; edits.go divides edits into questions for single Placements. It may import
// api, actions, explanation, resilience and simulator.
package preview
