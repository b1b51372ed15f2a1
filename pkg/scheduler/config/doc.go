// Package config reads the PlacementSchedulerConfiguration file: which plugins run at which
// extension point, in which order, with which weights and arguments.
//
// It knows plugins only by name and imports nothing of Berth. Read types.go first, then merge.go:
// the rules by which a file changes the defaults.
package config
