package scheduler

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Settled returns what is needed to skip later attempts of the Placement that cannot change the
// answer; nil if each must run. Call it after the attempt was published and reported.
func (a *Attempt) Settled() *framework.Settled {
	if a.Err != nil || a.Earlier != nil || a.Step != nil && len(a.Step.Writes) > 0 {
		return nil
	}
	return a.settled
}

// WronglySkipped reports whether the attempt would have been skipped (Snapshot.Settled), but its
// answer differs from the published one, or it failed. An attempt that ran out of time is not
// compared. It is always false unless the inventory checks skips.
func (a *Attempt) WronglySkipped() bool {
	if !a.Snapshot.Settled {
		return false
	}
	if a.Failure != nil {
		_, _, late := a.TimedOut()
		return !late && !a.Failure.IsUnfinished()
	}
	satisfied, _ := a.Satisfied()
	return isChange(a.Target) || !satisfied
}

// whatSettles returns what Settled returns if the attempt needs no write. It runs with the cycle
// lock held, because it reads plugins.
func (a *Attempt) whatSettles(ctx context.Context) *framework.Settled {
	if !a.isQuiet() || !a.isPlain() {
		return nil
	}
	var s *framework.Settled
	a.recovered(call(ctx, "Recheck or Rescore", func() string { return a.settling }, func() *framework.Status {
		s = a.newSettled()
		return nil
	}))
	return s
}

// newSettled calls the plugins; settling has the name of the one that runs.
func (a *Attempt) newSettled() *framework.Settled {
	s := &framework.Settled{
		Sets: a.Snapshot.Sets, Queue: a.Snapshot.Queue, Selected: a.Snapshot.Subject.Published, All: len(a.Selected) == len(a.Feasible),
		Cut: framework.NoCut, Counts: a.Snapshot.Counts.Changes,
	}
	if !a.recheck(s) || !a.rescore(s) || !s.All && !a.cut(s) {
		return nil
	}
	return s
}

// isQuiet reports whether the attempt changed nothing and waits for nothing, and the Placement has
// what it wants.
func (a *Attempt) isQuiet() bool {
	subject := a.Snapshot.Subject
	if a.Failure != nil || a.Outcome != Unchanged || a.partial || subject.Last == nil || a.Snapshot.Trial {
		return false
	}
	// This attempt ends reservations, which the decision counts of the Snapshot include.
	if a.reserved {
		return false
	}
	if len(a.Holds)+len(a.Intents) > 0 || !a.State.NextAttempt().IsZero() {
		return false
	}
	if a.measuresReadiness() || len(subject.Evictions)+len(a.State.Warnings()) > 0 || changes.History(subject.Records).Open() != nil {
		return false
	}
	if satisfied, _ := a.Satisfied(); !satisfied {
		// The message of the condition counts the excluded clusters.
		return false
	}
	return a.publishesSelected()
}

// publishesSelected reports whether the pages list exactly the selected clusters.
func (a *Attempt) publishesSelected() bool {
	published := a.Snapshot.Subject.Published
	if published.Len() != len(a.Selected) {
		return false
	}
	for i := range a.Selected {
		if !published.Has(a.Selected[i].Cluster.Index) {
			return false
		}
	}
	return true
}

// measuresReadiness reports whether each attempt has to measure how long clusters are ready.
// Without a readiness source the times stay as they are.
func (a *Attempt) measuresReadiness() bool {
	for _, since := range a.timers.ReadySince {
		if since.IsZero() {
			return true
		}
	}
	for _, policy := range a.Snapshot.Subject.Policies {
		if policy.Spec.Readiness != nil {
			return len(a.timers.ReadySince) > 0
		}
	}
	return false
}

// isPlain reports whether the selection is the clusters with the highest totals, and nothing else
// about them is published.
func (a *Attempt) isPlain() bool {
	subject, d := a.Snapshot.Subject, &a.Demand
	spec := &subject.Placement.Spec
	if len(subject.SelectionPolicies)+len(subject.Peers) > 0 || a.policy != nil || a.pin != nil || subject.CapacityRequest != nil {
		return false
	}
	if len(d.Spread)+len(d.Tiers)+len(d.Groups) > 0 || d.SpreadWeight != 0 || spec.SortBy == v1alpha1.SortByScore ||
		len(spec.DecisionStrategy.GroupStrategy.DecisionGroups) > 0 {
		return false
	}
	if len(a.State.Demoted()) > 0 || a.State.Expires() {
		return false
	}
	for _, p := range a.profile.PostFilter {
		if a.profile.traits(p.Name()).ReportSelection != nil {
			return false
		}
	}
	return true
}

// recheck adds the filters. It returns false if one of them cannot filter again, also one that does
// so in PreFilter only, or if a Bind plugin may have something to do all the same.
func (a *Attempt) recheck(s *framework.Settled) bool {
	s.Passes = make([]framework.SettledFilter, 0, 2)
	for _, p := range a.profile.PreEnqueue {
		if !a.addRecheck(s, p) {
			return false
		}
	}
	for _, p := range a.profile.PreFilter {
		if _, filters := p.(framework.FilterPlugin); filters && !has(a.profile.Filter, p.Name()) || !a.addRecheck(s, p) {
			return false
		}
	}
	for _, p := range a.profile.Filter {
		if !has(a.profile.PreFilter, p.Name()) && !a.addRecheck(s, p) {
			return false
		}
	}
	for _, p := range a.profile.Bind {
		if !has(a.profile.PreFilter, p.Name()) && !a.addRecheck(s, p) {
			return false
		}
	}
	return true
}

func (a *Attempt) addRecheck(s *framework.Settled, p framework.Plugin) bool {
	again, can := p.(framework.Rechecker)
	if !can {
		return false
	}
	a.settling = p.Name()
	passes, ok := again.Recheck(a.State)
	if passes != nil {
		s.Passes = append(s.Passes, framework.SettledFilter{Plugin: p.Name(), Passes: passes})
	}
	return ok
}

// rescore adds the prioritizers. It returns false if one of them cannot score again.
func (a *Attempt) rescore(s *framework.Settled) bool {
	for _, p := range a.profile.PreScore {
		if _, can := p.(framework.Rescorer); !can && a.profile.score(p.Name()) == nil {
			return false
		}
	}
	if a.scorersOff {
		return false
	}
	s.Scores = make([]framework.WeightedSettledScore, 0, len(a.scorers))
	for _, p := range a.scorers {
		again, can := p.ScorePlugin.(framework.Rescorer)
		if !can || p.addOn {
			return false
		}
		a.settling = p.name
		score, ok := again.Rescore(a.State)
		if !ok {
			return false
		}
		s.Scores = append(s.Scores, framework.WeightedSettledScore{Plugin: p.name, SettledScore: score, Weight: p.weight})
	}
	return true
}

// readsCounts reports whether a prioritizer depends on the decision counts.
func (a *Attempt) readsCounts() bool {
	return slices.ContainsFunc(a.scorers, func(p scorer) bool {
		again, can := p.ScorePlugin.(framework.Rescorer)
		if !can || p.addOn {
			return false
		}
		reads := false
		a.recovered(guard(context.Background(), "Rescore", p, func() *framework.Status {
			score, _ := again.Rescore(a.State)
			reads = score != nil && score.DependsOn() == framework.OnDecisionCounts
			return nil
		}))
		return reads
	})
}

// cut sets the Cut between the selected and the other feasible clusters: by fixed scores alone, if
// the others cannot bridge the distance, else by the totals. It returns false if there is none.
func (a *Attempt) cut(s *framework.Settled) bool {
	if s.Cut.Total, s.Far = a.farCut(s); s.Far {
		return true
	}
	worst, best := -1, -1
	for i, c := range a.Feasible {
		switch selected := s.Selected.Has(c.Index); {
		case selected && (worst < 0 || a.isBetter(worst, i)):
			worst = i
		case !selected && (best < 0 || a.isBetter(i, best)):
			best = i
		}
	}
	if worst < 0 || best < 0 || !a.isBetter(worst, best) {
		return false
	}
	// As far from both as possible, because either may move. With equal totals the names decide.
	low, high := a.Totals[best], a.Totals[worst]
	s.Cut = framework.Cut{Total: high - (high-low)/2, Name: maxName}
	if low == high {
		s.Cut.Name = a.Feasible[worst].Name
	}
	return true
}

// maxName is after all names of clusters.
const maxName = "\x7f"

// isBetter reports whether position i in Feasible ranks before j.
func (a *Attempt) isBetter(i, j int) bool {
	return a.Totals[i] > a.Totals[j] || a.Totals[i] == a.Totals[j] && a.byName(i, j) < 0
}

// farCut returns a cut between the sums of fixed scores. It is false if the other scores, which are
// from MinScore to MaxScore, could move a cluster over it.
func (a *Attempt) farCut(s *framework.Settled) (cut int64, far bool) {
	reach, fixed := int64(0), false
	for _, p := range s.Scores {
		a.settling = p.Plugin
		if p.DependsOn() != framework.OnNothing {
			reach += max(p.Weight, -p.Weight) * (framework.MaxScore - framework.MinScore)
		} else {
			fixed = true
		}
	}
	if !fixed {
		return 0, false
	}
	var low, high int64
	some, others := false, false
	for _, c := range a.Feasible {
		total := a.fixedTotal(s, c)
		switch {
		case s.Selected.Has(c.Index):
			if !some || total < low {
				low, some = total, true
			}
		case !others || total > high:
			high, others = total, true
		}
	}
	if !some || !others || low-high <= reach {
		return 0, false
	}
	return low - reach - 1, true
}

// fixedTotal is the part of a cluster's total that fixed scores make up.
func (a *Attempt) fixedTotal(s *framework.Settled, c *framework.Cluster) (total int64) {
	for _, p := range s.Scores {
		a.settling = p.Plugin
		if p.DependsOn() != framework.OnNothing {
			continue
		}
		if x := p.Score(c, a.Snapshot.Counts); x != framework.NoScore {
			total += p.Weight * x
		}
	}
	return total
}
