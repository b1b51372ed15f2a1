// Package clustercel compiles CEL expressions over a ManagedCluster or over an object of any kind,
// refuses those that cost too much, and evaluates them for one object at a time.
//
// It may import api. Read compile.go first, then evaluate.go, then cost.go.
package clustercel
