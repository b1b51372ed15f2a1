// Package memoryhub is a hub in memory for unit tests of reconcilers, and a manager whose watches
// the test feeds.
//
// It may import the API types and fixture, and is for tests only. Read hub.go first.
package memoryhub
