// Package lifecycle has the plugins of QueueSort, PostFilter, Reserve, Permit, Transition, PreBind,
// Bind and PostBind, one file each. The plugins that filter and score clusters are in pkg/filters
// and pkg/prioritizers.
//
// It may import api, the framework, decisions, changes and resilience.
package lifecycle
