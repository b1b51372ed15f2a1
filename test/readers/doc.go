// Package readers models what the consumers of PlacementDecisions read of the pages at one moment,
// so that suites can check that none of them misses a cluster.
//
// It may import only api.
package readers
