// Package model predicts what an attempt of a Placement publishes and records, from docs/changes.md
// alone. It is written to be read beside that page, shares no code with the engine, and covers one
// Placement with integer times. fleet.go covers what several Placements know of each other.
// pkg/scheduler compares both with the engine on random histories.
//
// It may import the API types and is for tests only. Read model.go first.
package model
