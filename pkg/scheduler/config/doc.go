// Package config is the PlacementSchedulerConfiguration file: which plugins run at which extension
// point, in which order, with which weight and arguments.
//
// It knows plugins by their names only and imports nothing of Berth. Read types.go first, then
// merge.go, which has the rules by which a file changes the defaults.
package config
