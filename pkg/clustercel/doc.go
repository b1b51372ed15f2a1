// Package clustercel has CEL over clusters: expressions over the one variable managedCluster are
// compiled, guarded against those that cost too much, and evaluated for one cluster at a time.
//
// It may import api. Read compile.go first, then evaluate.go, then cost.go.
package clustercel
