package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// run runs steps 2 to 4: Filter, Score, Select. An explanation passes bonus, which is added to the
// totals of clusters, by index.
func (s *Scheduler) run(ctx context.Context, r *Result, bonus map[int]int64) *Result {
	snapshot, pl := r.Snapshot, r.Snapshot.Subject.Placement
	r.State, r.candidates, r.scratch, r.deadline = framework.NewCycleState(snapshot), snapshot.Candidates(), s.scratch.get(), deadlineOf(ctx)
	r.Demand, r.policyMissing = demandOf(snapshot), snapshot.Subject.MissingPolicy()
	profile, mistake := s.profileOf(pl)
	r.profile = profile
	if r.revokedOnly {
		r.Failure = framework.Unfinished(waitingReason)
		return r
	}
	if r.Failure = cmp.Or(misconfigured(mistake), r.loadFailure, s.prepare.takeFailure(snapshot.Subject.Key())); r.Failure != nil {
		return r
	}
	if r.deadline != nil {
		r.State.YieldWhen(r.deadline.halfTimePassed)
		r.State.PauseWhen(r.deadline.partPassed)
	}
	if r.Failure = r.timeout("Snapshot", ""); r.Failure != nil {
		return r
	}
	if r.Failure = s.preEnqueue(ctx, r); r.Failure != nil {
		return r
	}
	if r.Failure = r.readPlacement(pl); r.Failure != nil {
		return r
	}
	// 2. Filter. PreFilter also runs without candidates, to report a misconfiguration.
	admitted, skipped, failure := s.preFilter(ctx, r)
	if r.Failure = r.requeuePending(failure); failure != nil {
		return r
	}
	scorers, failure := r.readScorers(pl)
	if r.Failure = failure; failure != nil {
		return r
	}
	if r.policyMissing != "" {
		r.Failure = framework.NewStatus(framework.Unschedulable, r.policyMissing)
		return r
	}
	r.filtered = true
	if r.Failure = s.filter(ctx, r, admitted, skipped); r.Failure != nil {
		return r
	}
	if r.Failure = s.postFilter(ctx, r); r.Failure != nil {
		return r
	}
	// 3. Score.
	if r.Failure = r.requeuePending(s.score(ctx, r, scorers)); r.Failure != nil {
		return r
	}
	r.addMissingScores()
	r.addBonus(bonus)
	// 4. Select.
	failure = r.selectClusters()
	if late := r.timeout("Select", ""); late != nil {
		failure, r.Selected = late, nil
	}
	r.Failure = failure
	r.requeueAtExpiry()
	return r
}

// requeuePending asks for another attempt soon if a plugin returned Pending. It returns failure.
func (r *Result) requeuePending(failure *framework.Status) *framework.Status {
	if failure.Code() == framework.Pending && r.State.Requeue().IsZero() {
		r.State.RequeueAt(r.Snapshot.Now.Add(pendingInterval))
	}
	return failure
}

// readScorers reads the SelectionPolicy and returns the prioritizers.
func (r *Result) readScorers(pl *v1alpha1.Placement) ([]scorer, *framework.Status) {
	if failure := r.readSelectionPolicy(); failure != nil {
		return nil, failure
	}
	scorers, spread, mistake := r.profile.scorersFor(pl)
	if mistake != nil {
		return nil, misconfigured(mistake)
	}
	r.Demand.SpreadWeight = spread
	r.scorers = r.addPreference(scorers)
	return r.scorers, misconfigured(validate(pl))
}

// requeueAtExpiry asks for an attempt when the toleration or the score of a selected cluster
// expires, and stores the cause. The plugin Eviction asks for those at which exclusions end.
func (r *Result) requeueAtExpiry() {
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
func (r *Result) expiresAt(cause string, t time.Time) {
	if r.expiry.IsZero() || t.Before(r.expiry) {
		r.expiry, r.expiryCause = t, cause
	}
}

// startTimer starts the Timer of an extension point. The caller calls end when the point ends.
func (s *Scheduler) startTimer(r *Result, point string) (end func()) {
	if s.Timer == nil {
		return func() {}
	}
	return s.Timer(r.profile.Name, point)
}

// addBonus adds bonus to the totals of clusters, by index.
func (r *Result) addBonus(bonus map[int]int64) {
	if len(bonus) == 0 {
		return
	}
	for i, c := range r.Feasible {
		r.Totals[i] += bonus[c.Index]
	}
}

// addMissingScores adds an Intent that names the scores that no candidate has.
func (r *Result) addMissingScores() {
	if names := r.State.MissingScores(); len(names) > 0 {
		r.Intents = append(r.Intents, framework.Intent{
			Plugin: string(v1alpha1.ScoreCoordinateTypeAddOn), Reason: "ScoreMissing", Note: "no candidate has the score " + listNames(names) + ", which counts as 0",
		})
	}
}

// preEnqueue ends the attempt of a Placement that is not admitted yet, and selects no cluster for a
// Placement that no queue accepts.
func (s *Scheduler) preEnqueue(ctx context.Context, r *Result) *framework.Status {
	if len(r.profile.PreEnqueue) == 0 {
		return nil
	}
	defer s.startTimer(r, "PreEnqueue")()
	for _, p := range r.profile.PreEnqueue {
		status := guard(ctx, "PreEnqueue", p, func() *framework.Status { return p.PreEnqueue(ctx, r.State, r.Snapshot.Subject.Placement) })
		if late := r.timeout("PreEnqueue", p.Name()); late != nil {
			return late
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
			return unexpected(p, "PreEnqueue", status)
		}
	}
	return nil
}

// preFilter returns the results that narrow the candidates, and the names of the Filter plugins
// that need not run.
func (s *Scheduler) preFilter(ctx context.Context, r *Result) (admitted []preFilterResult, skipped map[string]bool, failure *framework.Status) {
	defer s.startTimer(r, "PreFilter")()
	skipped = make(map[string]bool, len(r.profile.PreFilter))
	r.unused = make([]string, 0, len(r.profile.PreFilter))
	for _, p := range r.profile.PreFilter {
		var result *framework.PreFilterResult
		status := guard(ctx, "PreFilter", p, func() (status *framework.Status) {
			result, status = p.PreFilter(ctx, r.State, r.Snapshot.Subject.Placement)
			return status
		})
		// An Unfinished answer decides nothing, so it is valid after the deadline, too.
		if late := r.timeout("PreFilter", p.Name()); late != nil && !status.IsUnfinished() {
			return nil, nil, late
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
			r.policyInvalid = r.profile.traits(p.Name()).PolicyMistakes
			return nil, nil, status.WithPlugin(p.Name())
		default:
			return nil, nil, unexpected(p, "PreFilter", status)
		}
		if r.isWithout(p.Name()) {
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

func (s *Scheduler) filter(ctx context.Context, r *Result, admitted []preFilterResult, skipped map[string]bool) *framework.Status {
	defer s.startTimer(r, "Filter")()
	left := r.candidates
	r.narrowed = make([]narrowing, 0, len(admitted))
	for i, a := range admitted {
		if i == 0 {
			left = left.Clone()
		}
		r.narrowed = append(r.narrowed, narrowing{plugin: a.plugin, before: left.Clone()})
		left.And(a.clusters)
	}
	active := make([]framework.FilterPlugin, 0, len(r.profile.Filter))
	for _, p := range r.profile.Filter {
		if !skipped[p.Name()] && !r.isWithout(p.Name()) {
			active = append(active, p)
		}
	}
	return r.runFilterPlugins(ctx, left, active)
}

func (s *Scheduler) postFilter(ctx context.Context, r *Result) *framework.Status {
	feasible := len(r.Feasible)
	if r.Demand.Wanted(feasible) <= feasible {
		return nil
	}
	defer s.startTimer(r, "PostFilter")()
	filtered := framework.Filtered{Feasible: r.Feasible, Excluded: r.ExcludedBy()}
	for _, p := range r.profile.PostFilter {
		var intents []framework.Intent
		status := guard(ctx, "PostFilter", p, func() (status *framework.Status) {
			intents, status = p.PostFilter(ctx, r.State, r.Snapshot.Subject.Placement, filtered)
			return status
		})
		if late := r.timeout("PostFilter", p.Name()); late != nil {
			return late
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
			return unexpected(p, "PostFilter", status)
		}
	}
	return nil
}

// unexpected returns an Error for a code that the extension point does not allow. It returns an
// Error unchanged.
func unexpected(p framework.Plugin, point string, status *framework.Status) *framework.Status {
	if status.Code() == framework.Error {
		return status.WithPlugin(p.Name())
	}
	return framework.AsStatus(fmt.Errorf("%s returned %s: %s", point, status.Code(), status.Reason())).WithPlugin(p.Name())
}
