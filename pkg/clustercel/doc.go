// Package clustercel compiles CEL expressions over the variable managedCluster, refuses those that
// cost too much, and evaluates them for one cluster at a time.
//
// It may import api. Read compile.go first, then evaluate.go, then cost.go.
package clustercel
