package framework

import (
	"context"
	"math"
	"slices"
)

// Settled is what an attempt that changed nothing keeps, so that a later change of a cluster that
// cannot change the answer needs no attempt. It is valid as long as only clusters and decision
// counts change, and each change was checked by Survives.
type Settled struct {
	// Sets are those that the Placement may use; their members are the candidates.
	Sets []*ClusterSet
	// Queue is the queue admission of the attempt; nil without queues.
	Queue *QueueAdmission
	// Selected are the indexes of the clusters that are selected and published. All is true if
	// these are all that qualify, so that scores do not matter.
	Selected Bitset
	All      bool
	// Passes are the filters that a candidate must pass, Scores the prioritizers.
	Passes []SettledFilter
	Scores []WeightedSettledScore
	// Cut separates the selected from the other clusters by their totals. If Far, only fixed scores
	// count, and the others cannot move any cluster to the other side.
	Cut Cut
	Far bool
	// Counts is the number of changes of decision counts (DecisionCounts.Changes) that were
	// checked.
	Counts uint64

	// running is the name of the plugin that a check called last.
	running string
}

// SettledFilter is a filter: the function that Recheck of a plugin returned.
type SettledFilter struct {
	Plugin string
	Passes func(*Cluster) Passing
}

// WeightedSettledScore is a prioritizer with its weight.
type WeightedSettledScore struct {
	Plugin string
	SettledScore
	Weight int64
}

// SettledScore is how a prioritizer scores a cluster after the attempt that settled.
type SettledScore interface {
	// Score returns the score of a feasible cluster after NormalizeScore; NoScore if it has none.
	Score(c *Cluster, counts *DecisionCounts) int64
	// Keeps reports whether the scores of all other feasible clusters stay after a cluster changed
	// from before to after; nil stands for a cluster that is not feasible.
	Keeps(before, after *Cluster, counts *DecisionCounts) bool
	// DependsOn says what the scores depend on.
	DependsOn() ScoreDependency
}

// ScoreDependency is what can change a score while a Placement is settled.
type ScoreDependency int

// What a SettledScore depends on. Fixed scores never change.
const (
	OnNothing ScoreDependency = iota
	OnClusters
	OnDecisionCounts
)

// Rescorer is a ScorePlugin that can score clusters again after an attempt. A Placement with
// another prioritizer is decided again after each change of a cluster that it reads. A plugin that
// embeds a Rescorer must have a Rescore of its own if its Score differs.
type Rescorer interface {
	ScorePlugin
	// Rescore is called at the end of an attempt that changed nothing. The result must not refer
	// to the CycleState or the Snapshot, which would stay in memory.
	Rescore(state *CycleState) (score SettledScore, ok bool)
}

// Rechecker is a PreEnqueue, PreFilter or Filter plugin that can filter a candidate again after an
// attempt, or a Bind plugin that has nothing to do until the next change. A Placement with another
// such plugin is decided again after each change of a cluster that it reads. A plugin that embeds a
// Rechecker must have a Recheck of its own if its results differ.
type Rechecker interface {
	Plugin
	// Recheck is called at the end of an attempt that changed nothing. passes is nil if all
	// clusters pass while the Placement, its pages, records and policies stay as they are. The
	// function must not refer to the CycleState or the Snapshot, which would stay in memory.
	Recheck(state *CycleState) (passes func(*Cluster) Passing, ok bool)
}

// Passing is the result of a filter for a cluster that has changed.
type Passing int

// Results of Rechecker.
const (
	Passes Passing = iota
	Excluded
	// Unclear means that the Placement must be decided again.
	Unclear
)

// Cut separates totals: a cluster is on the side of the selected ones if its total is higher than
// Total, or equal to it with a name that is not after Name.
type Cut struct {
	Total int64
	Name  string
}

// NoCut has every cluster on the side of the selected ones.
var NoCut = Cut{Total: math.MinInt64}

// Above reports whether a total is on the side of the selected clusters.
func (c Cut) Above(total int64, name string) bool {
	return total > c.Total || total == c.Total && name <= c.Name
}

// SettledFleet is the fleet at the time of a check. Changed returns the indexes of the names whose
// decision counts have changed since a number of changes; false if they are not known any more.
type SettledFleet struct {
	Clusters *Vector[*Cluster]
	Counts   *DecisionCounts
	Changed  func(since uint64) ([]int32, bool)
}

// Survives reports whether the answer stays after a candidate changed from before to after, which
// is in the fleet. If so, the next check continues from here. If a plugin panics, it does not stay.
func (s *Settled) Survives(fleet *SettledFleet, before, after *Cluster) (stays bool) {
	defer Recover(context.Background(), "Recheck", s.runningPlugin, new(*Status))
	was, is := s.passes(before), s.passes(after)
	selected := s.Selected.Has(after.Index)
	switch {
	case was == Unclear || is == Unclear || selected != (was == Passes) && (selected || s.All):
		return false
	case selected && is == Excluded:
		return false
	case s.All:
		return selected == (is == Passes)
	case s.Far:
		return is == Excluded || s.onItsSide(fleet, after, selected)
	}
	if was == Excluded {
		before = nil
	}
	passed := after
	if is == Excluded {
		passed = nil
	}
	return s.othersStay(fleet, before, passed) && (passed == nil || s.onItsSide(fleet, after, selected))
}

// StillApplies reports whether the answer stays with the decision counts and the queue admission of
// now. If a plugin panics, it does not.
func (s *Settled) StillApplies(fleet *SettledFleet, queue *QueueAdmission) (stays bool) {
	defer Recover(context.Background(), "Rescore", s.runningPlugin, new(*Status))
	return s.sameQueue(queue) && (s.All || s.Far || s.othersStay(fleet, nil, nil))
}

func (s *Settled) runningPlugin() string { return s.running }

// othersStay reports whether all clusters stay on their side of the cut, except the one that
// changed from before to after; nil stands for a cluster that is not feasible.
func (s *Settled) othersStay(fleet *SettledFleet, before, after *Cluster) bool {
	for i := range s.Scores {
		s.running = s.Scores[i].Plugin
		if !s.Scores[i].Keeps(before, after, fleet.Counts) {
			return false
		}
	}
	return s.countsSurvive(fleet)
}

// maxCountChanges is the maximum number of changes of decision counts that one check reads. With
// more, an attempt takes about as long.
const maxCountChanges = 256

// countsSurvive reports whether the clusters whose decision counts have changed since the last
// check are on their side of the cut.
func (s *Settled) countsSurvive(fleet *SettledFleet) bool {
	reads := false
	for i := range s.Scores {
		s.running = s.Scores[i].Plugin
		reads = reads || s.Scores[i].DependsOn() == OnDecisionCounts
	}
	if !reads || s.Counts == fleet.Counts.Changes {
		return true
	}
	changed, known := fleet.Changed(s.Counts)
	if !known || len(changed) > maxCountChanges {
		return false
	}
	for _, i := range changed {
		c := fleet.Clusters.Get(int(i))
		if c == nil || !s.isCandidate(int(i)) {
			continue
		}
		switch s.passes(c) {
		case Unclear:
			return false
		case Passes:
			if !s.onItsSide(fleet, c, s.Selected.Has(int(i))) {
				return false
			}
		}
	}
	s.Counts = fleet.Counts.Changes
	return true
}

func (s *Settled) isCandidate(i int) bool {
	return slices.ContainsFunc(s.Sets, func(set *ClusterSet) bool { return set.Members.Has(i) })
}

// passes is the result of all filters; Excluded for a cluster that is no candidate.
func (s *Settled) passes(c *Cluster) Passing {
	if !s.isCandidate(c.Index) {
		return Excluded
	}
	result := Passes
	for i := range s.Passes {
		s.running = s.Passes[i].Plugin
		switch s.Passes[i].Passes(c) {
		case Excluded:
			return Excluded
		case Unclear:
			result = Unclear
		}
	}
	return result
}

// onItsSide reports whether a feasible cluster stays selected, or not selected.
func (s *Settled) onItsSide(fleet *SettledFleet, c *Cluster, selected bool) bool {
	total := int64(0)
	for i := range s.Scores {
		p := &s.Scores[i]
		s.running = p.Plugin
		if s.Far && p.DependsOn() != OnNothing {
			continue
		}
		if x := p.Score(c, fleet.Counts); x != NoScore {
			total += p.Weight * x
		}
	}
	return s.Cut.Above(total, c.Name) == selected
}

func (s *Settled) sameQueue(queue *QueueAdmission) bool {
	if s.Queue == nil || queue == nil {
		return s.Queue == queue
	}
	a, b := s.Queue, queue
	return a.Admitted == b.Admitted && a.Rejected == b.Rejected && a.Limit == b.Limit && a.Restricted == b.Restricted &&
		a.Reason == b.Reason && a.Message == b.Message && a.Annotation == b.Annotation
}
