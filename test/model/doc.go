// Package model predicts what an attempt of a Placement publishes and records, from docs/changes.md
// alone. It is written to be read beside that page, shares no code with the engine, and covers one
// Placement with integer times. pkg/scheduler compares it with the engine on random histories.
//
// It may import the API types and is for tests only. Read model.go first.
package model
