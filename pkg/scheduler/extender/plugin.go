package extender

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// New returns the plugin of an extender in a profile. It is a Filter plugin if the extender has a
// filterVerb, and a Score plugin if it has a prioritizeVerb.
func New(profile string, e *config.Extender, handle *framework.Handle) framework.Plugin {
	p := &plugin{name: e.Name, key: framework.ExtenderKey{Profile: profile, Name: e.Name}, ttl: e.Lifetime(), policy: e.Policy()}
	if handle != nil {
		p.ask = handle.AskExtender
	}
	switch {
	case e.PrioritizeVerb == "":
		return &filter{p}
	case e.FilterVerb == "":
		return &scorer{p}
	}
	return &filterAndScorer{&filter{p}, &scorer{p}}
}

// plugin reads the answers for one attempt.
type plugin struct {
	name   string
	key    framework.ExtenderKey
	ttl    time.Duration
	policy string
	// ask is nil where nothing may be asked.
	ask func(*framework.ExtenderQuestion)
}

// Name implements framework.Plugin.
func (p *plugin) Name() string { return p.name }

// Reads implements framework.ClusterReader: a changed cluster is not asked for again before the TTL
// is over.
func (p *plugin) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// mode is how the answers count in an attempt.
type mode int

const (
	// use: the answers count. wait: there are none yet. ignore: as if there were no extender. fail:
	// nothing can be decided.
	use mode = iota
	wait
	ignore
	fail
)

// waitInterval is when an attempt without answers is repeated, in case that an answer was lost.
const waitInterval = time.Minute

// state is the CycleState entry of a plugin.
type state struct {
	mode   mode
	answer *framework.ExtenderAnswer
	// askAll is true if all candidates are asked for, not only those that are not known.
	askAll bool
	// seen are the indexes of the clusters that passed the filters before this one. Filter runs
	// concurrently, each goroutine on other words.
	seen framework.Bitset
}

// Clone implements framework.StateData.
func (s *state) Clone() framework.StateData {
	copied := *s
	copied.seen = s.seen.Clone()
	return &copied
}

// PreFilter implements framework.PreFilterPlugin.
func (p *plugin) PreFilter(_ context.Context, cycle *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	snapshot := cycle.Snapshot()
	s := &state{answer: snapshot.Subject.Extenders[p.key.String()], seen: make(framework.Bitset, len(snapshot.Candidates()))}
	s.mode, s.askAll = p.modeOf(s.answer, pl.Generation, snapshot.Now)
	cycle.Write(p.stateKey(), s)
	return nil, nil
}

func (p *plugin) stateKey() framework.StateKey { return framework.StateKey("extender/" + p.name) }

// modeOf returns how the answers count, and whether to ask for all candidates.
func (p *plugin) modeOf(a *framework.ExtenderAnswer, generation int64, now time.Time) (m mode, askAll bool) {
	if a == nil {
		return wait, true
	}
	current := a.Generation == generation && !a.Time.IsZero()
	failure := a.Failure
	if failure != nil && failure.Generation != generation {
		failure = nil
	}
	if failure != nil {
		askAll = !now.Before(failure.RetryAt)
	} else {
		askAll = !current || !now.Before(a.Time.Add(p.ttl))
	}
	switch {
	case failure == nil && current:
		return use, askAll
	case failure == nil:
		return wait, askAll
	case p.policy == config.Ignore:
		return ignore, askAll
	case p.policy == config.UseLast && !a.Time.IsZero():
		return use, askAll
	}
	return fail, askAll
}

// finish asks for what is missing, sets when the attempt is repeated, and returns Pending if
// nothing can be decided. seen are the candidates.
func (p *plugin) finish(cycle *framework.CycleState, pl *v1alpha1.Placement, s *state, seen framework.Bitset) *framework.Status {
	snapshot := cycle.Snapshot()
	asked := seen
	if !s.askAll {
		asked = p.unknown(snapshot, s, seen)
	}
	asks := asked.Len() > 0 && !snapshot.Trial
	if asks && p.ask != nil {
		p.ask(&framework.ExtenderQuestion{
			Extender: p.key, Placement: pl, Clusters: asked.Clone(), Fleet: snapshot.Fleet, All: s.askAll, Before: s.answer,
		})
	}
	p.repeat(cycle, s.answer, snapshot.Now)
	failure := s.failure(pl.Generation)
	switch {
	case s.mode == ignore || s.mode == use:
		if failure != nil {
			cycle.Warn(p.name, fmt.Sprintf("the extender %s does not answer: %s", p.name, p.failureText(failure, s.answer)))
		}
		return nil
	case seen.Len() == 0:
		return nil
	case s.mode == fail:
		if failure.RetryAt.After(snapshot.Now) {
			cycle.RequeueAt(failure.RetryAt)
		}
		return framework.NewStatus(framework.Pending, fmt.Sprintf("the extender %s does not answer: %s", p.name, p.failureText(failure, nil)))
	}
	if p.ask != nil {
		// The answer triggers an attempt.
		cycle.RequeueAt(snapshot.Now.Add(waitInterval))
	}
	return framework.NewStatus(framework.Pending, fmt.Sprintf("waiting for the first answer of the extender %s", p.name))
}

func (s *state) failure(generation int64) *framework.ExtenderFailure {
	if s.answer == nil || s.answer.Failure == nil || s.answer.Failure.Generation != generation {
		return nil
	}
	return s.answer.Failure
}

// failureText describes a failure, and which answers count if used is not nil.
func (p *plugin) failureText(failure *framework.ExtenderFailure, used *framework.ExtenderAnswer) string {
	text := failure.Message + ", since " + failure.Since.UTC().Format(time.RFC3339)
	switch {
	case p.policy == config.Ignore:
		return text + "; it does not count"
	case used != nil:
		return text + "; its answers of " + used.Time.UTC().Format(time.RFC3339) + " count"
	}
	return text + "; Berth asks again at " + failure.RetryAt.UTC().Format(time.RFC3339)
}

// unknown returns the candidates that the extender was not asked for.
func (p *plugin) unknown(snapshot *framework.Snapshot, s *state, seen framework.Bitset) framework.Bitset {
	if s.answer == nil || s.answer.Failure != nil {
		return nil
	}
	unknown := make(framework.Bitset, len(seen))
	for i := range seen.All {
		if !s.answer.Knows(snapshot.Clusters.Get(i).Name) {
			unknown = unknown.Set(i)
		}
	}
	return unknown
}

// repeat asks for an attempt when the extender is to be asked again.
func (p *plugin) repeat(cycle *framework.CycleState, a *framework.ExtenderAnswer, now time.Time) {
	if a == nil {
		return
	}
	at := a.Time.Add(p.ttl)
	if a.Failure != nil {
		at = a.Failure.RetryAt
	}
	if at.After(now) {
		cycle.AttemptAt(at)
	}
}

// filter excludes clusters.
type filter struct{ *plugin }

// Filter implements framework.FilterPlugin. A published cluster without an answer stays.
func (f *filter) Filter(_ context.Context, cycle *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	s, ok := framework.ReadAs[*state](cycle, f.stateKey())
	if !ok {
		return framework.AsStatus(framework.ErrNotFound)
	}
	if word := cluster.Index / 64; word < len(s.seen) {
		s.seen[word] |= 1 << (cluster.Index % 64)
	}
	if s.mode != use {
		return nil
	}
	answer := s.answer.Cluster(cluster.Name)
	switch {
	case answer == nil && cycle.Snapshot().Subject.Published.Has(cluster.Index):
		return nil
	case answer == nil && s.answer.Knows(cluster.Name):
		return framework.NewStatus(framework.Unschedulable, "the extender's answer does not have this cluster")
	case answer == nil:
		return framework.NewStatus(framework.Unschedulable, "the extender has not answered for this cluster yet")
	case answer.Excluded && answer.Reason != "":
		return framework.NewStatus(framework.Unschedulable, "excluded by the extender: "+answer.Reason)
	case answer.Excluded:
		return framework.NewStatus(framework.Unschedulable, "excluded by the extender")
	}
	return nil
}

// FinishFilter implements framework.FilterFinisher.
func (f *filter) FinishFilter(_ context.Context, cycle *framework.CycleState, pl *v1alpha1.Placement) *framework.Status {
	s, ok := framework.ReadAs[*state](cycle, f.stateKey())
	if !ok {
		return framework.AsStatus(framework.ErrNotFound)
	}
	return f.finish(cycle, pl, s, s.seen)
}

// scorer scores clusters.
type scorer struct{ *plugin }

// PreScore implements framework.PreScorePlugin. It asks, because this extender filters nothing.
func (r *scorer) PreScore(_ context.Context, cycle *framework.CycleState, pl *v1alpha1.Placement, feasible []*framework.Cluster) *framework.Status {
	s, ok := framework.ReadAs[*state](cycle, r.stateKey())
	if !ok {
		return framework.AsStatus(framework.ErrNotFound)
	}
	var seen framework.Bitset
	for _, c := range feasible {
		seen = seen.Set(c.Index)
	}
	if status := r.finish(cycle, pl, s, seen); status != nil {
		return status
	}
	return r.skips(s)
}

// skips returns Skip if no answer counts.
func (r *scorer) skips(s *state) *framework.Status {
	if s.mode != use {
		return skip
	}
	return nil
}

// Score implements framework.ScorePlugin.
func (r *scorer) Score(_ context.Context, cycle *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	s, ok := framework.ReadAs[*state](cycle, r.stateKey())
	if !ok {
		return 0, framework.AsStatus(framework.ErrNotFound)
	}
	if s.answer == nil {
		return 0, skip
	}
	answer := s.answer.Cluster(cluster.Name)
	if answer == nil || answer.Score == nil {
		return 0, skip
	}
	return int64(*answer.Score), nil
}

var skip = framework.NewStatus(framework.Skip, "")

// filterAndScorer asks when the filters have run.
type filterAndScorer struct {
	*filter
	score *scorer
}

// PreScore implements framework.PreScorePlugin.
func (b *filterAndScorer) PreScore(_ context.Context, cycle *framework.CycleState, _ *v1alpha1.Placement, _ []*framework.Cluster) *framework.Status {
	s, ok := framework.ReadAs[*state](cycle, b.stateKey())
	if !ok {
		return framework.AsStatus(framework.ErrNotFound)
	}
	return b.score.skips(s)
}

// Score implements framework.ScorePlugin.
func (b *filterAndScorer) Score(ctx context.Context, cycle *framework.CycleState, pl *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	return b.score.Score(ctx, cycle, pl, cluster)
}
