package decide

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// adviceReason is the reason of the intents of Advise.
const adviceReason = "Relax"

// Advise returns which filters to relax if the selection is not what the Placement asks for, and
// what that gives. Each advice is confirmed by deciding without the filter; if none is enough, also
// without all filters that exclude clusters.
func (s *Decider) Advise(ctx context.Context, r *Decision) []framework.Intent {
	if satisfied, _ := r.Satisfied(); satisfied || r.Failure != nil {
		return nil
	}
	filters := r.excluding()
	tried, most, enough := min(len(filters), 1), len(r.Selected), false
	var advice []framework.Intent
	var others []string
	for _, filter := range filters {
		c := s.confirm(ctx, r, []string{filter}, len(r.Selected))
		advice, others, most, enough = append(advice, c.advice...), c.others, max(most, c.selected), enough || c.enough
	}
	if len(filters) == 1 {
		filters = append(filters, others...)
	}
	for !enough && len(filters) > tried {
		tried = len(filters)
		c := s.confirm(ctx, r, filters, most)
		advice, filters, most, enough = append(advice, c.advice...), append(filters, c.others...), max(most, c.selected), c.enough
	}
	return advice
}

// confirmation is a decision without some filters.
type confirmation struct {
	// advice is to relax these filters; none if that does not help.
	advice   []framework.Intent
	selected int
	enough   bool
	// others are the filters that then exclude clusters: they may exclude the same ones.
	others []string
}

// confirm decides without filters. It advises to relax them if that is enough, or selects more than
// a number of clusters.
func (s *Decider) confirm(ctx context.Context, r *Decision, without []string, moreThan int) confirmation {
	trial := s.decideTrial(ctx, r.Snapshot, nil, without...)
	defer s.Release(trial)
	if ctx.Err() != nil || trial.Failure != nil {
		return confirmation{}
	}
	c := confirmation{selected: len(trial.Selected), others: trial.excluding()}
	c.enough, _ = trial.Satisfied()
	names := strings.Join(without, " and ")
	note := fmt.Sprintf("relaxing %s would select %d of %d", names, c.selected, c.selected+trial.Shortfall.Missing)
	if c.enough {
		note = fmt.Sprintf("relaxing %s is enough", names)
	}
	if c.enough || c.selected > moreThan {
		c.advice = []framework.Intent{{Plugin: names, Reason: adviceReason, Note: note}}
	}
	return c
}

// excluding returns the filters that exclude candidates.
func (r *Decision) excluding() []string {
	all := r.ExcludedBy()
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Plugin
	}
	return names
}

// decideTrial runs steps 2 to 4 on a Snapshot, which may be a trial one: it confirms each advice.
// bonus is added to totals, by cluster index; the filters in without exclude nothing.
func (s *Decider) decideTrial(ctx context.Context, snapshot *framework.Snapshot, bonus map[int]int64, without ...string) *Decision {
	return s.Decide(ctx, Request{Snapshot: snapshot, Trial: true, without: without, bonus: bonus})
}
