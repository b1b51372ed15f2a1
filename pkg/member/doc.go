// Package member copies the state of one member cluster to its ManagedCluster on the hub. `berth
// report` adds flags and printing.
//
// It may import api. Read reporter.go, its only file.
package member
