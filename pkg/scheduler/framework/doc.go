// Package framework is the plugin contract: the extension points, the plugins' answers (Status),
// their inputs (Snapshot, CycleState, Handle) and the result of a cycle (Proposal, ClusterVerdict).
//
// It may import the API types and nothing else of Berth. Read interface.go first.
package framework
