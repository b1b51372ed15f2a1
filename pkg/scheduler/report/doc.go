// Package report says what an attempt means for the Placement: conditions, events and texts. It
// takes no lock and calls no plugin.
//
// It may import api, framework, selection, changes, plan, decide and scheduler. Read conditions.go
// first.
package report
