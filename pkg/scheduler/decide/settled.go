package decide

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Settles returns what is needed to skip later attempts that cannot change the answer; nil if each
// must run. The attempt changed nothing, and the Placement has what it wants. failure is the panic
// of a plugin.
func (r *Decision) Settles(ctx context.Context) (s *framework.Settled, failure *framework.Status) {
	if !r.isPlain() || !r.publishesSelected() {
		return nil, nil
	}
	p := &prover{Decision: r}
	failure = plugins.CallNamed(ctx, "Recheck or Rescore", func() string { return p.running }, func() *framework.Status {
		s = p.prove()
		return nil
	})
	return s, failure
}

// publishesSelected reports whether exactly the selected clusters were published last.
func (r *Decision) publishesSelected() bool {
	published := r.Snapshot.Subject.LastClusters
	return published.Len() == len(r.Selected) &&
		!slices.ContainsFunc(r.Selected, func(s framework.SelectedCluster) bool { return !published.Has(s.Cluster.Index) })
}

// prover finds what settles a Decision. running is the name of the plugin that runs.
type prover struct {
	*Decision
	running string
}

func (a *prover) prove() *framework.Settled {
	s := &framework.Settled{
		Sets: a.Snapshot.Sets, Queue: a.Snapshot.Queue, Selected: a.Snapshot.Subject.LastClusters, All: len(a.Selected) == len(a.Feasible),
		Cut: framework.NoCut, Counts: a.Snapshot.Counts.Changes,
	}
	if !a.recheck(s) || !a.rescore(s) || !s.All && !a.cut(s) {
		return nil
	}
	return s
}

// isPlain reports whether the selection is the clusters with the highest totals, and nothing else
// about them is published.
func (r *Decision) isPlain() bool {
	subject, d := r.Snapshot.Subject, &r.Demand
	spec := &subject.Placement.Spec
	if len(subject.SelectionPolicies)+len(subject.Peers) > 0 || r.selectionPolicy != nil || r.pin != nil || subject.CapacityRequest != nil {
		return false
	}
	if len(d.Spread)+len(d.Tiers)+len(d.Groups) > 0 || d.SpreadWeight != 0 || spec.SortBy == v1alpha1.SortByScore ||
		len(spec.DecisionStrategy.GroupStrategy.DecisionGroups) > 0 {
		return false
	}
	if len(r.State.Demoted()) > 0 || r.State.Expires() {
		return false
	}
	for _, p := range r.Profile.PostFilter {
		if r.Profile.Traits(p.Name()).ReportSelection != nil {
			return false
		}
	}
	return true
}

// recheck adds the filters. It returns false if one of them cannot filter again, also one that does
// so in PreFilter only, or if a Bind plugin may have something to do all the same.
func (a *prover) recheck(s *framework.Settled) bool {
	s.Passes = make([]framework.SettledFilter, 0, 2)
	if !recheckOthers(a, s, a.Profile.PreEnqueue) {
		return false
	}
	for _, p := range a.Profile.PreFilter {
		if _, filters := p.(framework.FilterPlugin); filters && !plugins.Has(a.Profile.Filter, p.Name()) || !a.addRecheck(s, p) {
			return false
		}
	}
	return recheckOthers(a, s, a.Profile.Filter) && recheckOthers(a, s, a.Profile.Bind)
}

// recheckOthers adds those plugins of a point that are not at PreFilter, too.
func recheckOthers[T framework.Plugin](a *prover, s *framework.Settled, point []T) bool {
	return !slices.ContainsFunc(point, func(p T) bool { return !plugins.Has(a.Profile.PreFilter, p.Name()) && !a.addRecheck(s, p) })
}

func (a *prover) addRecheck(s *framework.Settled, p framework.Plugin) bool {
	again, can := p.(framework.Rechecker)
	if !can {
		return false
	}
	a.running = p.Name()
	passes, ok := again.Recheck(a.State)
	if passes != nil {
		s.Passes = append(s.Passes, framework.SettledFilter{Plugin: p.Name(), Passes: passes})
	}
	return ok
}

// rescore adds the prioritizers. It returns false if one of them cannot score again.
func (a *prover) rescore(s *framework.Settled) bool {
	for _, p := range a.Profile.PreScore {
		if _, can := p.(framework.Rescorer); !can && a.Profile.ScorePlugin(p.Name()) == nil {
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
		a.running = p.name
		score, ok := again.Rescore(a.State)
		if !ok {
			return false
		}
		s.Scores = append(s.Scores, framework.WeightedSettledScore{Plugin: p.name, SettledScore: score, Weight: p.weight})
	}
	return true
}

// ReadsCounts reports whether a prioritizer depends on the decision counts. failure is the panic of
// one.
func (r *Decision) ReadsCounts() (reads bool, failure *framework.Status) {
	for _, p := range r.scorers {
		again, can := p.ScorePlugin.(framework.Rescorer)
		if !can || p.addOn || reads {
			continue
		}
		failure = cmp.Or(failure, plugins.Call(context.Background(), "Rescore", p, func() *framework.Status {
			score, _ := again.Rescore(r.State)
			reads = score != nil && score.DependsOn() == framework.OnDecisionCounts
			return nil
		}))
	}
	return reads, failure
}

// cut sets the Cut between the selected and the other feasible clusters: by fixed scores alone, if
// the others cannot bridge the distance, else by the totals. It returns false if there is none.
func (a *prover) cut(s *framework.Settled) bool {
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
func (r *Decision) isBetter(i, j int) bool {
	return r.Totals[i] > r.Totals[j] || r.Totals[i] == r.Totals[j] && r.byName(i, j) < 0
}

// farCut returns a cut between the sums of fixed scores. It is false if the other scores, which are
// from MinScore to MaxScore, could move a cluster over it.
func (a *prover) farCut(s *framework.Settled) (cut int64, far bool) {
	reach, fixed := int64(0), false
	for _, p := range s.Scores {
		a.running = p.Plugin
		if p.DependsOn() != framework.OnNothing {
			reach += max(p.Weight, -p.Weight) * (framework.MaxScore - framework.MinScore)
		} else {
			fixed = true
		}
	}
	if !fixed {
		return 0, false
	}
	low, high := a.Decision.cut(s.Selected, func(i int) int64 { return a.fixedTotal(s, a.Feasible[i]) })
	if low == nil || high == nil || *low-*high <= reach {
		return 0, false
	}
	return *low - reach - 1, true
}

// fixedTotal is the part of a cluster's total that fixed scores make up.
func (a *prover) fixedTotal(s *framework.Settled, c *framework.Cluster) (total int64) {
	for _, p := range s.Scores {
		a.running = p.Plugin
		if p.DependsOn() != framework.OnNothing {
			continue
		}
		if x := p.Score(c, a.Snapshot.Counts); x != framework.NoScore {
			total += p.Weight * x
		}
	}
	return total
}
