// Package readiness compiles the readiness sources of the configuration and evaluates them: which
// cluster an object is for, and whether it is ready.
//
// It may import api, clustercel and scheduler/config. Read source.go.
package readiness
