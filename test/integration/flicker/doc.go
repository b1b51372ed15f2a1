// Package flicker tests that no reader ever misses a cluster that stays: bin/berth runs as a
// process behind a proxy that fails a share of its writes, and is killed at random moments while
// the fleet and the Placements change; another process reads the pages all the while, as consumers
// do. It also tests that events are neither lost nor made up, and that failed writes show.
// BERTH_BIN names another berth; KUBEBUILDER_ASSETS another hub.
//
// It may import any package of Berth. Read flicker_test.go first.
package flicker
