package scheduler

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Scheduler decides. Cycles are serial; publishing is not.
type Scheduler struct {
	profile *Profile
	cycle   sync.Mutex
}

// New is a scheduler with one profile.
func New(profile *Profile) *Scheduler { return &Scheduler{profile: profile} }

// Schedule runs one cycle on a snapshot. It always returns a Result; one whose Failure is set says why nothing was decided,
// and then the published decision stays.
func (s *Scheduler) Schedule(ctx context.Context, snapshot *framework.Snapshot) *Result {
	return s.schedule(ctx, snapshot, nil)
}

// schedule is one cycle; bonus is added to the totals of some clusters, by index, to find out what it would change.
func (s *Scheduler) schedule(ctx context.Context, snapshot *framework.Snapshot, bonus map[int]int64) *Result {
	s.cycle.Lock()
	defer s.cycle.Unlock()

	pl := snapshot.Subject.Placement
	r := &Result{Snapshot: snapshot, State: framework.NewCycleState(snapshot), profile: s.profile, candidates: candidates(snapshot)}

	// 1. PreFilter, always, so that a mistake is said even when there is nothing to choose from.
	admitted, skipped, failure := s.preFilter(ctx, r)
	if r.Failure = failure; failure != nil {
		return r
	}
	// 2. Which prioritizers count, and how much.
	scorers, spread, failure := s.profile.policy(pl)
	if r.Failure = failure; failure != nil {
		return r
	}
	// 3. What a stricter schema would have refused.
	if r.Failure = validate(pl); r.Failure != nil {
		return r
	}
	// 4. Filter the clusters of the eligible sets.
	if r.Failure = s.filter(ctx, r, admitted, skipped); r.Failure != nil {
		return r
	}
	// 5. PostFilter looks on when fewer fit than are wanted; it cannot change the answer.
	if r.Failure = s.postFilter(ctx, r); r.Failure != nil {
		return r
	}
	// 6. PreScore, Score, NormalizeScore.
	if r.Failure = s.score(ctx, r, scorers); r.Failure != nil {
		return r
	}
	for i, c := range r.Feasible {
		if len(bonus) == 0 {
			break
		}
		r.Totals[i] += bonus[c.Index]
	}
	// 7. Select.
	r.choose(spread)
	// 8. When the answer has to be looked at again.
	for _, chosen := range r.Selected {
		if t := r.State.Expiry(chosen.Cluster.Index); !t.IsZero() {
			r.State.RequeueAt(t)
		}
	}
	return r
}

// validate refuses what no answer could be published for.
func validate(pl *v1alpha1.Placement) *framework.Status {
	if len(pl.Name) > v1alpha1.MaxLabelValueLength {
		return misconfigured(fmt.Sprintf("metadata.name: %q is longer than %d characters, so that no decision could carry it as a label",
			pl.Name, v1alpha1.MaxLabelValueLength))
	}
	if n := pl.Spec.NumberOfClusters; n != nil && *n < 0 {
		return misconfigured(fmt.Sprintf("spec.numberOfClusters: %d is negative", *n))
	}
	return nil
}

// preFilter returns what the plugins admit (nil: all) and which Filter plugins need not run.
func (s *Scheduler) preFilter(ctx context.Context, r *Result) (admitted []admission, skipped map[string]bool, failure *framework.Status) {
	skipped = map[string]bool{}
	for _, p := range s.profile.PreFilter {
		result, status := p.PreFilter(ctx, r.State, r.Snapshot.Subject.Placement)
		status = status.WithPlugin(p.Name())
		switch status.Code() {
		case framework.Success:
		case framework.Skip:
			skipped[p.Name()] = true
		case framework.Unschedulable:
			if failure == nil {
				failure = status
			}
		case framework.UnschedulableAndUnresolvable, framework.Error, framework.Pending:
			return nil, nil, status
		default:
			return nil, nil, unexpected(p, "PreFilter", status)
		}
		if result != nil {
			admitted = append(admitted, admission{plugin: p.Name(), clusters: result.Clusters})
			if result.Decides {
				skipped[p.Name()] = true
			}
		}
	}
	return admitted, skipped, failure
}

// admission is what one PreFilter plugin lets through.
type admission struct {
	plugin   string
	clusters framework.Bitset
}

// candidates are the members of the eligible sets.
func candidates(snapshot *framework.Snapshot) framework.Bitset {
	if len(snapshot.Sets) == 1 {
		return snapshot.Sets[0].Members
	}
	var all framework.Bitset
	for _, set := range snapshot.Sets {
		all = all.Or(set.Members)
	}
	return all
}

func (s *Scheduler) filter(ctx context.Context, r *Result, admitted []admission, skipped map[string]bool) *framework.Status {
	left := r.candidates
	for i, a := range admitted {
		if i == 0 {
			left = left.Clone()
		}
		r.narrowed = append(r.narrowed, narrowing{plugin: a.plugin, before: left.Clone()})
		left.And(a.clusters)
	}
	var active []framework.FilterPlugin
	for _, p := range s.profile.Filter {
		if !skipped[p.Name()] {
			active = append(active, p)
		}
	}
	pl := r.Snapshot.Subject.Placement
	r.Feasible = make([]*framework.Cluster, 0, left.Len())
next:
	for i := range left.All {
		cluster := r.Snapshot.Clusters.Get(i)
		for _, p := range active {
			status := p.Filter(ctx, r.State, pl, cluster)
			if status == nil {
				continue
			}
			switch status.Code() {
			case framework.Success:
				continue
			case framework.Unschedulable, framework.UnschedulableAndUnresolvable:
				r.excluded = append(r.excluded, exclusion{cluster, status.WithPlugin(p.Name())})
				continue next
			case framework.Error:
				return status.WithPlugin(p.Name())
			default:
				return unexpected(p, "Filter", status)
			}
		}
		r.Feasible = append(r.Feasible, cluster)
	}
	return nil
}

func (s *Scheduler) postFilter(ctx context.Context, r *Result) *framework.Status {
	pl := r.Snapshot.Subject.Placement
	wanted := pl.Spec.NumberOfClusters
	if wanted == nil || len(r.Feasible) >= int(*wanted) {
		return nil
	}
	for _, p := range s.profile.PostFilter {
		switch status := p.PostFilter(ctx, r.State, pl, r.Feasible); status.Code() {
		case framework.Unschedulable:
		case framework.Success, framework.UnschedulableAndUnresolvable:
			return nil
		default:
			return unexpected(p, "PostFilter", status)
		}
	}
	return nil
}

func (s *Scheduler) score(ctx context.Context, r *Result, scorers []scorer) *framework.Status {
	pl := r.Snapshot.Subject.Placement
	off := map[string]bool{}
	preScore := func(p framework.PreScorePlugin) *framework.Status {
		switch status := p.PreScore(ctx, r.State, pl, r.Feasible); status.Code() {
		case framework.Success:
			return nil
		case framework.Skip:
			off[p.Name()] = true
			return nil
		default:
			return unexpected(p, "PreScore", status)
		}
	}
	for _, p := range s.profile.PreScore {
		// A score plugin's PreScore is run where its Score is; this is for those that only prepare.
		if s.profile.score(p.Name()) != nil {
			continue
		}
		if failure := preScore(p); failure != nil {
			return failure
		}
	}
	r.Totals = make([]int64, len(r.Feasible))
	values := make([]int64, len(r.Feasible)*len(scorers))
	for i, p := range scorers {
		if pre, ok := p.ScorePlugin.(framework.PreScorePlugin); ok {
			if failure := preScore(pre); failure != nil {
				return failure
			}
			if off[pre.Name()] {
				continue
			}
		}
		scores := values[i*len(r.Feasible) : (i+1)*len(r.Feasible)]
		if failure := scoreAll(ctx, r, p, scores); failure != nil {
			return failure
		}
		r.Scores = append(r.Scores, PluginScores{Plugin: p.name, Weight: p.weight, Values: scores})
		for j, x := range scores {
			if x != framework.NoScore {
				r.Totals[j] += p.weight * x
			}
		}
	}
	return nil
}

// scoreAll asks one plugin for the scores of the feasible clusters and lets it normalize them.
func scoreAll(ctx context.Context, r *Result, p scorer, scores []int64) *framework.Status {
	pl := r.Snapshot.Subject.Placement
	for j, cluster := range r.Feasible {
		x, status := p.Score(ctx, r.State, pl, cluster)
		if status != nil {
			switch status.Code() {
			case framework.Success:
			case framework.Skip:
				x = framework.NoScore
			default:
				return unexpected(p, "Score", status)
			}
		}
		scores[j] = x
	}
	if n, ok := p.ScorePlugin.(framework.NormalizeScorer); ok {
		if status := n.NormalizeScore(ctx, r.State, pl, scores); !status.IsSuccess() {
			return unexpected(p, "NormalizeScore", status)
		}
	}
	return nil
}

// unexpected turns a code that a point does not know into an Error, and lets an Error be what it is.
func unexpected(p framework.Plugin, point string, status *framework.Status) *framework.Status {
	if status.Code() == framework.Error {
		return status.WithPlugin(p.Name())
	}
	return framework.AsStatus(fmt.Errorf("%s answered %s: %s", point, status.Code(), status.Reason())).WithPlugin(p.Name())
}

// Forget drops what plugins remember of a Placement that is gone.
func (s *Scheduler) Forget(key types.NamespacedName) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	for _, p := range s.profile.PreFilter {
		if f, ok := p.(framework.Forgetter); ok {
			f.Forget(key)
		}
	}
}
