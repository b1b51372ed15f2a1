package assignment

import (
	"maps"
	"slices"
)

// Effect is what the configuration does to all submitted Placements.
type Effect struct {
	Placements int
	// Unplaced counts the Placements for which no rule finds a queue. First is the first of them by
	// name, and Reason is why.
	Unplaced int
	First    Key
	Reason   string
	// Exceeded describes the quotas that the Placements exceed already.
	Exceeded []string
	// Blocked is not nil if queues of Placements can hold none.
	Blocked error
}

// Effect assigns all submitted Placements and returns the effect of the configuration. Without a
// configuration there is none.
func (a *Assignments) Effect() (e Effect) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.config == nil {
		return Effect{}
	}
	a.assignPending()
	e.Placements, e.Blocked = len(a.placements), a.blocked(a.config.Tree)
	e.Exceeded = a.config.Tree.Exceeded(a.members)
	for _, key := range slices.SortedFunc(maps.Keys(a.placements), compareKeys) {
		s := a.placements[key]
		if s.admitted || s.admission.Reason != ReasonNoRuleMatched {
			continue
		}
		if e.Unplaced++; e.Unplaced == 1 {
			e.First, e.Reason = key, s.admission.Message
		}
	}
	return e
}
