// Package config is what the scheduler is told about its plugins: which run, in which order, and with which weight. The
// configuration file, PlacementSchedulerConfiguration of config.berth.dev/v1alpha1, is read, laid over the defaults and
// validated here; the types that all of it ends in are in config.go, the file to read first.
//
// It knows plugins by their names only and imports nothing of Berth.
package config
