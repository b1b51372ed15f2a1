// Package lifecycle holds the plugins that act around a decision rather than in it: QueueSort,
// PostFilter, Reserve, Permit, PreBind, Bind and PostBind, one file each. What fits and what is
// best is the business of pkg/filters and pkg/prioritizers.
//
// It may import api, the framework and decisions.
package lifecycle
