// Package world runs the whole controller against a model of the API server in a testing/synctest
// bubble, with simulated time, faults and actors, all from one seed.
//
// It may import everything, and is for tests only. Read world_test.go first.
package world
