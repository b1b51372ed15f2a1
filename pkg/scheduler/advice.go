package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// adviceReason is the reason of the intents of Advise.
const adviceReason = "Relax"

// Advise returns which filters to relax if the selection is not what the Placement asks for, and
// what that gives. Each advice is confirmed by deciding without the filter; if none is enough, also
// without all filters that exclude clusters. It takes the cycle lock.
func (s *Scheduler) Advise(ctx context.Context, r *Result) []framework.Intent {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	if satisfied, _ := r.Satisfied(); satisfied || r.Failure != nil {
		return nil
	}
	var advice []framework.Intent
	most := len(r.Selected)
	// try returns the filters that exclude clusters all the same.
	try := func(without []string) (others []string, enough bool) {
		names := strings.Join(without, " and ")
		trial := s.decideTrial(ctx, r.Snapshot, nil, without...)
		defer s.Release(trial)
		note := ""
		if enough, _ = trial.Satisfied(); ctx.Err() != nil || trial.Failure != nil {
			return nil, false
		}
		switch selected := len(trial.Selected); {
		case enough:
			note = "is enough"
		case selected > len(r.Selected) && (len(without) == 1 || selected > most):
			most, note = max(most, selected), fmt.Sprintf("would select %d of %d", selected, selected+trial.Shortfall.Missing)
		}
		if note != "" {
			advice = append(advice, framework.Intent{Plugin: names, Reason: adviceReason, Note: "relaxing " + names + " " + note})
		}
		return trial.excluding(), enough
	}
	filters, enough := r.excluding(), false
	tried := min(len(filters), 1)
	var others []string
	for _, filter := range filters {
		var one bool
		others, one = try([]string{filter})
		enough = enough || one
	}
	if len(filters) == 1 {
		filters = append(filters, others...)
	}
	// Without these filters, others may exclude the same clusters.
	for !enough && len(filters) > tried {
		tried = len(filters)
		others, enough = try(filters)
		filters = append(filters, others...)
	}
	return advice
}

// excluding returns the filters that exclude candidates.
func (r *Result) excluding() []string {
	all := r.ExcludedBy()
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Plugin
	}
	return names
}

// decideTrial runs steps 2 to 4 on a Snapshot, which may be a trial one: it confirms each advice.
// bonus is added to totals, by cluster index; the filters in without exclude nothing. The caller
// holds the cycle lock.
func (s *Scheduler) decideTrial(ctx context.Context, snapshot *framework.Snapshot, bonus map[int]int64, without ...string) *Result {
	return s.run(ctx, &Result{Snapshot: snapshot, without: without}, bonus)
}

// isWithout reports whether a filter is to exclude nothing.
func (r *Result) isWithout(filter string) bool { return slices.Contains(r.without, filter) }
