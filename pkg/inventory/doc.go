// Package inventory holds the fleet in memory: clusters, sets, bindings, scores, Placements, their
// published pages, PlacementChanges, DisruptionPolicies and PlacementEvictions. Events update it;
// it maintains indexes and decision counts, returns immutable Snapshots, and finds the Placements
// that an event can affect.
//
// It may import the API types, changes and the framework. Read inventory.go first.
package inventory
