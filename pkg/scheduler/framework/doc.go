// Package framework is the plugin contract: the extension points, what a plugin answers (Status),
// what it is given (Snapshot, CycleState, Handle) and what a cycle proposes (Proposal, Verdict).
//
// It may import the API types and nothing else of Berth. Read interface.go first.
package framework
