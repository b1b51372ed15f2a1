package prioritizers

import (
	"context"
	"encoding/json"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ResourceAllocatable prefers clusters with a large allocatable amount of the resource. A cluster
// that does not report the resource both as allocatable and as capacity has no score, which counts
// as 0.
//
// The score of the amount a is int(((a−min)/(max−min) − 0.5)·2·100) over the feasible clusters, in
// IEEE doubles; 100 if min equals max. A cluster whose Amount is not Known has no score.
type ResourceAllocatable struct {
	name   string
	amount func(*framework.Cluster) framework.Amount
}

type rangeState struct{ min, max float64 }

func (s *rangeState) Clone() framework.StateData { c := *s; return &c }

// NewResourceAllocatableCPU is the factory of the plugin for cores.
func NewResourceAllocatableCPU(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return &ResourceAllocatable{v1alpha1.PrioritizerResourceAllocatableCPU, func(c *framework.Cluster) framework.Amount { return c.CPU }}, nil
}

// NewResourceAllocatableMemory is the factory of the plugin for bytes of memory.
func NewResourceAllocatableMemory(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return &ResourceAllocatable{v1alpha1.PrioritizerResourceAllocatableMemory, func(c *framework.Cluster) framework.Amount { return c.Memory }}, nil
}

// Name implements framework.Plugin.
func (r *ResourceAllocatable) Name() string { return r.name }

// Reads implements framework.ClusterReader.
func (r *ResourceAllocatable) Reads(*v1alpha1.Placement) framework.Reads {
	return framework.Reads{CPU: r.name == v1alpha1.PrioritizerResourceAllocatableCPU, Memory: r.name == v1alpha1.PrioritizerResourceAllocatableMemory}
}

// PreScore computes min and max.
func (r *ResourceAllocatable) PreScore(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, feasible []*framework.Cluster) *framework.Status {
	var s *rangeState
	for _, c := range feasible {
		a := r.amount(c)
		switch {
		case !a.Known:
		case s == nil:
			s = &rangeState{a.Value, a.Value}
		default:
			s.min, s.max = min(s.min, a.Value), max(s.max, a.Value)
		}
	}
	if s == nil {
		s = &rangeState{}
	}
	state.Write(framework.StateKey(r.name), s)
	return nil
}

// Score implements framework.ScorePlugin.
func (r *ResourceAllocatable) Score(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	a := r.amount(cluster)
	if !a.Known {
		return 0, noResource
	}
	s, ok := framework.ReadAs[*rangeState](state, framework.StateKey(r.name))
	if !ok {
		return 0, framework.AsStatus(framework.ErrNotFound)
	}
	return s.score(a.Value), nil
}

// score returns the score of an amount in the range.
func (s rangeState) score(amount float64) int64 {
	if s.min == s.max {
		return framework.MaxScore
	}
	return int64(((amount-s.min)/(s.max-s.min) - 0.5) * 2.0 * 100.0)
}

// keepsAfter reports whether the range stays after the amount of a cluster changed.
func (s rangeState) keepsAfter(before, after framework.Amount) bool {
	if before == after {
		return true
	}
	return (!before.Known || s.min < before.Value && before.Value < s.max) && (!after.Known || s.min <= after.Value && after.Value <= s.max)
}

// settledRange are the scores in a range of amounts.
type settledRange struct {
	rangeState
	amount func(*framework.Cluster) framework.Amount
}

// Rescore implements framework.Rescorer.
func (r *ResourceAllocatable) Rescore(state *framework.CycleState) (framework.SettledScore, bool) {
	s, ok := framework.ReadAs[*rangeState](state, framework.StateKey(r.name))
	if !ok {
		return nil, false
	}
	return &settledRange{*s, r.amount}, true
}

func (s *settledRange) amountOf(c *framework.Cluster) framework.Amount {
	if c == nil {
		return framework.Amount{}
	}
	return s.amount(c)
}

func (s *settledRange) Score(c *framework.Cluster, _ *framework.DecisionCounts) int64 {
	a := s.amount(c)
	if !a.Known {
		return framework.NoScore
	}
	return s.score(a.Value)
}

// Keeps is true while the lowest and the highest amount stay.
func (s *settledRange) Keeps(before, after *framework.Cluster, _ *framework.DecisionCounts) bool {
	return s.keepsAfter(s.amountOf(before), s.amountOf(after))
}

func (*settledRange) DependsOn() framework.ScoreDependency { return framework.OnClusters }

var noResource = framework.NewStatus(framework.Skip, "the cluster does not report the resource")
