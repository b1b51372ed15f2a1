// Package faults is shared by suites that cause faults under a controller and observe it from
// outside. It has a proxy that fails requests, the controller as a process that can be killed, a
// fleet that keeps changing, and a comparison of published decisions with a simulation. An observer
// in its own process checks the promises against the objects that it reads.
//
// It may import any package of Berth and is for tests only. Read observer.go first, then check.go,
// which defines the violations.
package faults
