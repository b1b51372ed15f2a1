// Package flicker tests that no reader ever misses a cluster that stays selected. bin/berth runs as
// a process behind a proxy that fails a share of its writes. The tests kill it at random moments
// while the fleet and the Placements change. Another process reads the pages all the time, as
// consumers do. The tests also check that no event is lost or false, and that failed writes are
// visible. BERTH_BIN selects another berth binary, KUBEBUILDER_ASSETS another hub.
//
// It may import any package of Berth. Read flicker_test.go first.
package flicker
