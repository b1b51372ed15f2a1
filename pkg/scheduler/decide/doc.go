// Package decide decides which clusters a Placement gets: steps 2 to 4 of an attempt, the verdict
// on each candidate, and what must change for another decision. It has no effects.
//
// It may import api, framework, plugins, selection, limits and changes. Read cycle.go first.
package decide
