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
// what that gives. Each advice is confirmed by deciding without the filter: if none is enough, also
// without all of them. It takes the cycle lock.
func (s *Scheduler) Advise(ctx context.Context, r *Result) []framework.Intent {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	if satisfied, _ := r.Satisfied(); satisfied || r.Failure != nil {
		return nil
	}
	var filters []string
	for _, e := range r.ExcludedBy() {
		filters = append(filters, e.Plugin)
	}
	var advice []framework.Intent
	most, enough := len(r.Selected), false
	try := func(without ...string) {
		names := strings.Join(without, " and ")
		trial := s.decideTrial(ctx, r.Snapshot, nil, without...)
		defer s.Release(trial)
		satisfied, _ := trial.Satisfied()
		selected := len(trial.Selected)
		switch {
		case ctx.Err() != nil || trial.Failure != nil:
		case satisfied:
			enough = true
			advice = append(advice, framework.Intent{Plugin: names, Reason: adviceReason, Note: fmt.Sprintf("relaxing %s is enough", names)})
		case selected > len(r.Selected) && (len(without) == 1 || selected > most):
			most = max(most, selected)
			advice = append(advice, framework.Intent{Plugin: names, Reason: adviceReason,
				Note: fmt.Sprintf("relaxing %s would select %d of %d", names, selected, selected+trial.Shortfall.Missing)})
		}
	}
	for _, filter := range filters {
		try(filter)
	}
	if len(filters) > 1 && !enough {
		try(filters...)
	}
	return advice
}

// decideTrial runs steps 2 to 4 on a Snapshot, which may be a trial one: it confirms each advice.
// bonus is added to totals, by cluster index; the filters in without exclude nothing. The caller
// holds the cycle lock.
func (s *Scheduler) decideTrial(ctx context.Context, snapshot *framework.Snapshot, bonus map[int]int64, without ...string) *Result {
	return s.run(ctx, &Result{Snapshot: snapshot, without: without}, bonus)
}

// isWithout reports whether a filter is to exclude nothing.
func (r *Result) isWithout(filter string) bool { return slices.Contains(r.without, filter) }
