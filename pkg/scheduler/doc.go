// Package scheduler is the engine: it runs a profile's plugins over a Snapshot and answers which
// clusters a Placement goes to, and why.
//
// It may import the framework and its configuration. Read scheduler.go first: one cycle, in
// numbered steps.
package scheduler
