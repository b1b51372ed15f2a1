package simulator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// Simulator decides Placements offline with the engine that the controller runs.
type Simulator struct {
	inventory *inventory.Inventory
	scheduler *scheduler.Scheduler
	queues    *admission.Queues // nil where none are configured
	now       time.Time
	options   Options
	// reserved are the Placements for whose open change something is reserved.
	reserved map[types.NamespacedName]bool
}

// Options are the settings of the controller.
type Options struct {
	// Config is the scheduler's configuration file; nil is the default profile. Plugins are those
	// out of the tree that it may name.
	Config  *config.PlacementSchedulerConfiguration
	Plugins framework.Registry
	// UserLabel is the key of the label that names a user, for the queues; default
	// identity.DefaultUserLabel.
	UserLabel string
	// Alone decides each Placement as if the decisions before it did not exist.
	Alone bool
}

// New returns a Simulator of a hub with the given objects at a given time.
func New(ctx context.Context, objects Objects, now time.Time, o Options) (*Simulator, error) {
	engine, err := newEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	inv := inventory.New(inventory.Options{Reads: engine.Reads})
	byKind := map[string]Objects{}
	for _, o := range objects {
		if kind, ok := kinds.Of(o); ok {
			byKind[kind.Name] = append(byKind[kind.Name], o)
		}
	}
	byKind["AddOnPlacementScore"] = caches.FirstScores(byKind["AddOnPlacementScore"])
	for _, kind := range kinds.All() {
		for _, o := range byKind[kind.Name] {
			inv.Update(o)
		}
	}
	checkEvictions(byKind["PlacementEviction"], inv, now)
	failReadiness(byKind["DisruptionPolicy"], inv)
	queues, err := queuesOf(objects, inv, now, o.UserLabel)
	if err != nil {
		return nil, err
	}
	s := &Simulator{inventory: inv, scheduler: engine, queues: queues, now: now, options: o, reserved: map[types.NamespacedName]bool{}}
	s.reserveOpenChanges(ctx)
	return s, nil
}

// reserveOpenChanges reserves for open changes, as the controller does at its start, until their
// Placements are decided.
func (s *Simulator) reserveOpenChanges(ctx context.Context) {
	if s.options.Alone {
		return
	}
	s.scheduler.StoreClaim = s.inventory.StoreClaim
	s.scheduler.StoreQuota = func(subject *framework.Subject, clusters int) { s.queues.SetClusters(subject.Key(), clusters) }
	s.scheduler.ReserveOpenChanges(ctx, s.inventory.OpenChanges(), func(key types.NamespacedName) *framework.Snapshot {
		t, err := s.Take(key)
		if err != nil {
			return nil
		}
		s.reserved[key] = true
		return t.snapshot
	})
}

// newEngine returns an engine that only decides.
func newEngine(ctx context.Context, o Options) (*scheduler.Scheduler, error) {
	registry := builtin.Registry()
	if err := registry.Merge(o.Plugins); err != nil {
		return nil, err
	}
	profiles, err := builtin.Profiles(ctx, o.Config, registry, &framework.Handle{})
	if err != nil {
		return nil, fmt.Errorf("building the profiles: %w", err)
	}
	return scheduler.New(profiles, nil), nil
}

// Placements returns the keys of all Placements, in order of namespace and name.
func (s *Simulator) Placements() []types.NamespacedName { return s.inventory.Placements() }

// Decide decides one Placement on the objects and, unless Options.Alone is set, on the Placements
// that it decided before: the free quotas of queues, the clusters of Placements that had none, and
// all clusters in namespaces with requests or affinity in a SelectionPolicy count.
func (s *Simulator) Decide(ctx context.Context, key types.NamespacedName) (*Report, error) {
	t, err := s.Take(key)
	if err != nil {
		return nil, err
	}
	return t.report(ctx, func(r *decide.Decision) []framework.ClusterVerdict { return s.scheduler.Explain(ctx, r, "") })
}

// nearest is for how many clusters Explain looks for changes if too many were not selected.
const nearest = 20

// Explain is Decide with the verdict on one cluster only, unless its name is empty. If too many
// clusters were not selected, it looks for changes for those nearest to the cut.
func (s *Simulator) Explain(ctx context.Context, key types.NamespacedName, cluster string) (*Report, error) {
	t, err := s.Take(key)
	if err != nil {
		return nil, err
	}
	return t.Explain(ctx, cluster)
}

// Explain is Simulator.Explain on the state that was taken.
func (t *Taken) Explain(ctx context.Context, cluster string) (*Report, error) {
	s, noCandidate := t.simulator, ""
	report, err := t.report(ctx, func(r *decide.Decision) []framework.ClusterVerdict {
		verdicts := s.scheduler.Explain(ctx, r, cluster)
		if cluster != "" {
			noCandidate = r.WhyNoCandidate(cluster)
		}
		if cluster != "" || r.Failure != nil || r.Candidates()-len(r.Selected) <= decide.MaxSelectedWith {
			return verdicts
		}
		changes := map[string]string{}
		for _, v := range s.scheduler.ExplainSome(ctx, r, r.NearestToCut(nearest)).Verdicts {
			changes[v.Cluster] = v.SelectedWith
		}
		for i := range verdicts {
			verdicts[i].SelectedWith = changes[verdicts[i].Cluster]
		}
		return verdicts
	})
	if report != nil && report.Answer != nil {
		report.NoCandidate = noCandidate
	}
	return report, err
}

// Outline is Decide without verdicts, which cost more than all the rest.
func (s *Simulator) Outline(ctx context.Context, key types.NamespacedName) (*Report, error) {
	t, err := s.Take(key)
	if err != nil {
		return nil, err
	}
	return t.Outline(ctx)
}

// Outline is Simulator.Outline on the state that was taken.
func (t *Taken) Outline(ctx context.Context) (*Report, error) { return t.report(ctx, nil) }

// report also has advice if there are verdicts.
func (t *Taken) report(ctx context.Context, verdicts func(*decide.Decision) []framework.ClusterVerdict) (*Report, error) {
	d, err := t.decide(ctx)
	if err != nil {
		return nil, err
	}
	if d.skipped != "" {
		return &Report{Placement: d.subject.Key().String(), Skipped: d.skipped}, nil
	}
	if verdicts == nil {
		return reportOf(d.Attempt, d.plan, nil), nil
	}
	report := reportOf(d.Attempt, d.plan, verdicts(d.Decision))
	report.Intents = append(slices.Clone(report.Intents), t.simulator.scheduler.Advise(ctx, d.Decision)...)
	return report, nil
}

// ReportOf describes an attempt that published nothing: one of Decide or DecideInTime.
func ReportOf(a *scheduler.Attempt, verdicts []framework.ClusterVerdict) (*Report, error) {
	plan, err := planOf(a)
	if err != nil {
		return nil, err
	}
	return reportOf(a, plan, verdicts), nil
}

func reportOf(a *scheduler.Attempt, plan decisions.Plan, verdicts []framework.ClusterVerdict) *Report {
	subject := a.Snapshot.Subject
	report := newReport(subject.Key().String(), a.Decision, verdicts)
	if a.Step == nil {
		report.published(subject)
	} else {
		report.planned(subject.Placement, plan, a)
	}
	report.pending(subject.Placement, a)
	return report
}

// planOf plans the pages of the attempt's Step and takes all writes as done. It returns an error if
// the attempt failed.
func planOf(a *scheduler.Attempt) (decisions.Plan, error) {
	key := a.Snapshot.Subject.Key()
	switch {
	case a.Outcome == plan.Failed:
		return decisions.Plan{}, fmt.Errorf("deciding %s: %w", key, a.Err.Err())
	case a.Step == nil:
		return decisions.Plan{}, nil
	}
	plan, err := lifecycle.Plan(a.State, a.Step)
	if err != nil {
		return plan, fmt.Errorf("planning the pages of %s: %w", key, err)
	}
	a.Step.Result = lifecycle.OutcomeOf(plan)
	for _, w := range plan.Writes {
		a.Step.Writes = append(a.Step.Writes, lifecycle.PageWriteOf(a.Snapshot.Subject.Placement, w))
	}
	return plan, nil
}

// decided is the engine's result for one Placement.
type decided struct {
	// Attempt is nil for a Placement that is not decided; skipped is the reason.
	*scheduler.Attempt
	subject *framework.Subject
	skipped string
	// plan is the plan of the attempt's Step. Its writes are assumed to succeed.
	plan decisions.Plan
}

// Taken is one Placement and the state of the hub at the time of Take, on which it is decided. With
// Options.Alone, its methods may run while the Simulator is updated.
type Taken struct {
	simulator *Simulator
	snapshot  *framework.Snapshot
}

// Take takes the state for one decision.
func (s *Simulator) Take(key types.NamespacedName) (*Taken, error) {
	pl := s.inventory.Placement(key)
	if pl == nil {
		return nil, fmt.Errorf("no Placement %s in the input", key)
	}
	var queue *framework.QueueAdmission
	if s.queues != nil {
		queue = s.queues.Admission(pl, s.now)
	}
	return &Taken{s, s.inventory.Snapshot(key, s.now, queue)}, nil
}

func (s *Simulator) decide(ctx context.Context, key types.NamespacedName) (*decided, error) {
	t, err := s.Take(key)
	if err != nil {
		return nil, err
	}
	return t.decide(ctx)
}

func (t *Taken) decide(ctx context.Context) (*decided, error) {
	s, subject := t.simulator, t.snapshot.Subject
	key := subject.Key()
	d := &decided{subject: subject, skipped: framework.WhyNotDecided(subject.Placement)}
	if d.skipped != "" {
		s.giveBack(subject)
		return d, nil
	}
	d.Attempt = s.scheduler.Decide(ctx, t.snapshot)
	plan, err := planOf(d.Attempt)
	if err != nil {
		return nil, err
	}
	d.plan = plan
	if s.options.Alone {
		return d, nil
	}
	if d.Target == nil && d.OpenRecord() == nil {
		s.giveBack(subject)
	}
	if d.Target != nil && t.snapshot.Queue != nil {
		s.queues.SetClusters(key, max(len(d.Target.Selected), len(d.Listed())))
	}
	switch {
	case d.Target != nil && (s.reserved[key] || s.inventory.CountsClusters(key.Namespace)):
		s.inventory.Claim(key, d.Target.Clusters)
	case d.Step != nil && !hasClusters(subject):
		s.inventory.Claim(key, d.Step.Clusters)
	}
	return d, nil
}

// giveBack ends what is reserved for a Placement that is not decided.
func (s *Simulator) giveBack(subject *framework.Subject) {
	key := subject.Key()
	if !s.reserved[key] {
		return
	}
	s.inventory.Claim(key, nil)
	if s.queues != nil {
		s.queues.SetClusters(key, len(subject.LastNames()))
	}
}
