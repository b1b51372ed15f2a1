// Package config is what the scheduler is told about its plugins: which run, in which order, and with which weight.
//
// It knows plugins by their names only and imports nothing of Berth. Read config.go first.
package config
