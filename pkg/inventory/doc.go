// Package inventory holds the fleet in memory: clusters, sets, bindings, scores, Placements and their published pages.
// Events feed it; it keeps indexes and decision counts up to date, hands out immutable Snapshots, and says which Placements
// an event can affect.
//
// It may import the API types and the framework. Read inventory.go first.
package inventory
