// Package faults is what suites share that break things under a controller and watch from outside:
// a proxy that fails requests, the controller as a process that can be killed, a fleet that changes
// all the while, an observer in a process of its own that holds what it reads to the promises, and
// the comparison of what is published with a simulation.
//
// It may import any package of Berth, and is for tests only. Read observer.go first, then judge.go:
// it says what counts as a violation.
package faults
