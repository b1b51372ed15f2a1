// Package scheduler is the engine: attempts in ten steps, and what is remembered of a Placement
// from one attempt to the next.
//
// It may import api, framework, changes, turns and its rooms limits, plugins, decide and plan. Read
// attempt.go first, then decide/cycle.go and plan/plan.go. The package report says what an attempt
// means for conditions and events.
package scheduler
