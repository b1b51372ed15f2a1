// Package client follows the decision of one Placement, for programs that deploy something to the
// selected clusters. example_test.go shows how it is used.
//
// Read follower.go first: a Follower calls a function with the clusters that were added and
// removed. decision.go makes one list of the pages, the package view follows them without gaps.
//
// It may import api and view.
package client
