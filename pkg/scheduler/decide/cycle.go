package decide

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// Decider runs steps 2 to 4. Only Validate, ValidatePolicy, ProfileOf, Reads and Release may run
// beside its other methods. Set the fields before the first call.
type Decider struct {
	// Profiles are by name. A Placement selects one by annotation; the default is
	// v1alpha1.DefaultProfile.
	Profiles map[string]*plugins.Profile
	Timer    Timer

	// ChunkSize is how many candidates one goroutine processes at a time; 0 means 16384.
	ChunkSize int

	// scratch has the buffers of finished cycles.
	scratch sync.Pool
}

// Request is what a Decision is made from.
type Request struct {
	Snapshot *framework.Snapshot
	// Failure is why nothing can be decided; nil if it can. An unknown profile counts more, unless
	// a later attempt continues.
	Failure *framework.Status
	// Deadline ends the cycle; nil for never.
	Deadline *limits.Deadline
	// TotalsOnly omits Scores, so that AddOn coordinates can share a buffer. A Trial reports no
	// conditions of ReportSelection.
	TotalsOnly, Trial bool

	// without are filters that exclude nothing. bonus is added to the totals of clusters, by index.
	without []string
	bonus   map[int]int64
}

// Decide runs steps 2 to 4: Filter, Score, Select. Release the Decision.
func (s *Decider) Decide(ctx context.Context, q Request) *Decision {
	snapshot := q.Snapshot
	profile, mistake := s.ProfileOf(snapshot.Subject.Placement)
	r := &Decision{
		Snapshot: snapshot, State: framework.NewCycleState(snapshot), Profile: profile, Deadline: q.Deadline, Demand: selection.DemandOf(snapshot.Subject.Placement, snapshot.Limit),
		totalsOnly: q.TotalsOnly, chunkSize: cmp.Or(s.ChunkSize, defaultChunk), without: q.without, candidates: snapshot.Candidates(), policyMissing: snapshot.Subject.MissingPolicy(),
	}
	if r.scratch, _ = s.scratch.Get().(*scratch); r.scratch == nil {
		r.scratch = &scratch{}
	}
	if r.Failure = q.Failure; mistake != nil && !r.Failure.IsUnfinished() {
		r.Failure = misconfigured(mistake)
	}
	if r.Failure != nil {
		return r
	}
	q.Deadline.Limit(r.State)
	if r.Failure = s.decide(ctx, r, q.bonus); !q.Trial {
		r.reportSelection(ctx)
	}
	return r
}

// decide returns why nothing is decided; nil if clusters are selected.
func (s *Decider) decide(ctx context.Context, r *Decision, bonus map[int]int64) *framework.Status {
	pl := r.Snapshot.Subject.Placement
	if timedOut := r.Deadline.Timeout("Snapshot", ""); timedOut != nil {
		return timedOut
	}
	if failure := s.preEnqueue(ctx, r); failure != nil {
		return failure
	}
	if failure := r.readPlacement(pl); failure != nil {
		return failure
	}
	// 2. Filter. PreFilter also runs without candidates, to report a misconfiguration.
	admitted, skipped, failure := s.preFilter(ctx, r)
	if failure != nil {
		return r.requeueWaiting(failure)
	}
	scorers, failure := r.readScorers(pl)
	switch {
	case failure != nil:
		return failure
	case r.policyMissing != "":
		return framework.NewStatus(framework.Unschedulable, r.policyMissing)
	}
	r.filtered = true
	if failure := s.filter(ctx, r, admitted, skipped); failure != nil {
		return failure
	}
	if failure := s.postFilter(ctx, r); failure != nil {
		return failure
	}
	// 3. Score.
	if failure := s.score(ctx, r, scorers); failure != nil {
		return r.requeueWaiting(failure)
	}
	r.addMissingScores()
	r.addBonus(bonus)
	// 4. Select.
	failure = r.selectClusters()
	if timedOut := r.Deadline.Timeout("Select", ""); timedOut != nil {
		failure, r.Selected = timedOut, nil
	}
	r.requeueAtExpiry()
	return failure
}

// WaitingInterval is the time until the next attempt after a plugin returned Pending without
// RequeueAt.
const WaitingInterval = 10 * time.Second

// requeueWaiting asks for another attempt soon if a plugin returned Pending. It returns failure.
func (r *Decision) requeueWaiting(failure *framework.Status) *framework.Status {
	if failure.Code() == framework.Pending && r.State.Requeue().IsZero() {
		r.State.RequeueAt(r.Snapshot.Now.Add(WaitingInterval))
	}
	return failure
}

// readScorers reads the SelectionPolicy and returns the prioritizers.
func (r *Decision) readScorers(pl *v1alpha1.Placement) ([]scorer, *framework.Status) {
	if failure := r.readSelectionPolicy(); failure != nil {
		return nil, failure
	}
	scorers, spread, mistake := scorersFor(r.Profile, pl)
	if mistake != nil {
		return nil, misconfigured(mistake)
	}
	r.Demand.SpreadWeight = spread
	r.scorers = r.addPreference(scorers)
	return r.scorers, misconfigured(validate(pl))
}

// requeueAtExpiry asks for an attempt when the toleration or the score of a selected cluster
// expires, and stores the cause. The plugin Eviction asks for those at which exclusions end.
func (r *Decision) requeueAtExpiry() {
	for _, e := range r.Snapshot.Subject.Evictions {
		if e.Until.After(r.Snapshot.Now) {
			r.expiresAt("PlacementEviction "+e.Name+": ended", e.Until)
		}
	}
	for _, chosen := range r.Selected {
		if t := r.State.FilterExpiry(chosen.Cluster.Index); !t.IsZero() {
			r.State.RequeueAt(t)
			r.expiresAt("toleration expired", t)
		}
		if t := r.State.RankExpiry(chosen.Cluster.Index); !t.IsZero() {
			r.State.AttemptAt(t)
			r.expiresAt("AddOnPlacementScore expired", t)
		}
	}
}

// expiresAt stores the cause of the earliest expiry.
func (r *Decision) expiresAt(cause string, t time.Time) {
	if r.expiry.IsZero() || t.Before(r.expiry) {
		r.expiry, r.expiryCause = t, cause
	}
}

// Timer is called when an attempt starts an extension point; the returned function, when it ends.
// Both are called once per extension point, not per plugin or cluster.
type Timer func(profile, point string) (end func())

// Start calls the Timer, unless it is nil.
func (t Timer) Start(profile *plugins.Profile, point string) (end func()) {
	if t == nil {
		return func() {}
	}
	return t(profile.Name, point)
}

// addBonus adds bonus to the totals of clusters, by index.
func (r *Decision) addBonus(bonus map[int]int64) {
	if len(bonus) == 0 {
		return
	}
	for i, c := range r.Feasible {
		r.Totals[i] += bonus[c.Index]
	}
}

// addMissingScores adds an Intent that names the scores that no candidate has.
func (r *Decision) addMissingScores() {
	if names := r.State.MissingScores(); len(names) > 0 {
		r.Intents = append(r.Intents, framework.Intent{
			Plugin: string(v1alpha1.ScoreCoordinateTypeAddOn), Reason: "ScoreMissing", Note: "no candidate has the score " + listNames(names) + ", which counts as 0",
		})
	}
}

// preEnqueue ends the attempt of a Placement that is not admitted yet, and selects no cluster for a
// Placement that no queue accepts.
func (s *Decider) preEnqueue(ctx context.Context, r *Decision) *framework.Status {
	if len(r.Profile.PreEnqueue) == 0 {
		return nil
	}
	defer s.Timer.Start(r.Profile, "PreEnqueue")()
	for _, p := range r.Profile.PreEnqueue {
		status := plugins.Call(ctx, "PreEnqueue", p, func() *framework.Status { return p.PreEnqueue(ctx, r.State, r.Snapshot.Subject.Placement) })
		if timedOut := r.Deadline.Timeout("PreEnqueue", p.Name()); timedOut != nil {
			return timedOut
		}
		switch status.Code() {
		case framework.Success:
		case framework.Unschedulable, framework.UnschedulableAndUnresolvable:
			r.candidates = nil
			r.refused = cmp.Or(r.refused, status.WithPlugin(p.Name()))
			if status.Code() == framework.Unschedulable {
				return status.WithPlugin(p.Name())
			}
			// The decision is: no cluster. The attempt continues without candidates.
		default:
			return plugins.Unexpected(p, "PreEnqueue", status)
		}
	}
	return nil
}

// preFilter returns the results that narrow the candidates, and the names of the Filter plugins
// that need not run.
func (s *Decider) preFilter(ctx context.Context, r *Decision) (admitted []preFilterResult, skipped map[string]bool, failure *framework.Status) {
	defer s.Timer.Start(r.Profile, "PreFilter")()
	skipped = make(map[string]bool, len(r.Profile.PreFilter))
	r.unused = make([]string, 0, len(r.Profile.PreFilter))
	for _, p := range r.Profile.PreFilter {
		var result *framework.PreFilterResult
		status := plugins.Call(ctx, "PreFilter", p, func() (status *framework.Status) {
			result, status = p.PreFilter(ctx, r.State, r.Snapshot.Subject.Placement)
			return status
		})
		// An Unfinished answer decides nothing, so it is valid after the deadline, too.
		if timedOut := r.Deadline.Timeout("PreFilter", p.Name()); timedOut != nil && !status.IsUnfinished() {
			return nil, nil, timedOut
		}
		switch status.Code() {
		case framework.Success:
		case framework.Skip:
			skipped[p.Name()] = true
			r.unused = append(r.unused, p.Name())
		case framework.Unschedulable:
			if failure == nil {
				failure = status.WithPlugin(p.Name())
			}
		case framework.UnschedulableAndUnresolvable, framework.Error, framework.Pending:
			r.policyInvalid = r.Profile.Traits(p.Name()).PolicyMistakes
			return nil, nil, status.WithPlugin(p.Name())
		default:
			return nil, nil, plugins.Unexpected(p, "PreFilter", status)
		}
		if slices.Contains(r.without, p.Name()) {
			skipped[p.Name()], result = true, nil
		}
		if result != nil {
			admitted = append(admitted, preFilterResult{plugin: p.Name(), clusters: result.Clusters})
			if result.SkipFilter {
				skipped[p.Name()] = true
			}
		}
	}
	return admitted, skipped, failure
}

// preFilterResult is the result of one PreFilter plugin.
type preFilterResult struct {
	plugin   string
	clusters framework.Bitset
}

func (s *Decider) filter(ctx context.Context, r *Decision, admitted []preFilterResult, skipped map[string]bool) *framework.Status {
	defer s.Timer.Start(r.Profile, "Filter")()
	left := r.candidates
	r.narrowed = make([]narrowing, 0, len(admitted))
	for i, a := range admitted {
		if i == 0 {
			left = left.Clone()
		}
		r.narrowed = append(r.narrowed, narrowing{plugin: a.plugin, excluded: left.Without(a.clusters)})
		left.And(a.clusters)
	}
	active := make([]framework.FilterPlugin, 0, len(r.Profile.Filter))
	for _, p := range r.Profile.Filter {
		if !skipped[p.Name()] && !slices.Contains(r.without, p.Name()) {
			active = append(active, p)
		}
	}
	return r.runFilterPlugins(ctx, left, active)
}

func (s *Decider) postFilter(ctx context.Context, r *Decision) *framework.Status {
	feasible := len(r.Feasible)
	if r.Demand.Wanted(feasible) <= feasible {
		return nil
	}
	defer s.Timer.Start(r.Profile, "PostFilter")()
	filtered := framework.Filtered{Feasible: r.Feasible, Excluded: r.ExcludedBy()}
	for _, p := range r.Profile.PostFilter {
		var intents []framework.Intent
		status := plugins.Call(ctx, "PostFilter", p, func() (status *framework.Status) {
			intents, status = p.PostFilter(ctx, r.State, r.Snapshot.Subject.Placement, filtered)
			return status
		})
		if timedOut := r.Deadline.Timeout("PostFilter", p.Name()); timedOut != nil {
			return timedOut
		}
		for _, intent := range intents {
			intent.Plugin = p.Name()
			r.Intents = append(r.Intents, intent)
		}
		switch status.Code() {
		case framework.Unschedulable:
		case framework.Success, framework.UnschedulableAndUnresolvable:
			return nil
		default:
			return plugins.Unexpected(p, "PostFilter", status)
		}
	}
	return nil
}
