package simulator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Simulator decides Placements offline with the engine that the controller runs.
type Simulator struct {
	inventory *inventory.Inventory
	scheduler *scheduler.Scheduler
	queues    *admission.Queues // nil where none are configured
	now       time.Time
}

// Options are what the controller would be told.
type Options struct {
	// Config is the scheduler's configuration file; nil is the default profile. Plugins are those out of the tree that it may name.
	Config  *config.PlacementSchedulerConfiguration
	Plugins framework.Registry
	// UserLabel is the key of the label that names a user, for the queues; default tenancy.DefaultUserLabel.
	UserLabel string
}

// New takes in objects as a hub would have them at an instant.
func New(ctx context.Context, objects Objects, now time.Time, o Options) (*Simulator, error) {
	registry := builtin.Registry()
	if err := registry.Merge(o.Plugins); err != nil {
		return nil, err
	}
	profiles, err := scheduler.NewProfiles(ctx, o.Config, builtin.DefaultProfile(), registry, &framework.Handle{})
	if err != nil {
		return nil, fmt.Errorf("building the profiles: %w", err)
	}
	inv := inventory.New(inventory.Options{})
	for _, o := range objects.Sets {
		inv.Update(o)
	}
	for _, o := range objects.Bindings {
		inv.Update(o)
	}
	for _, o := range objects.Clusters {
		inv.Update(o)
	}
	for _, o := range objects.Scores {
		inv.Update(o)
	}
	for _, o := range objects.Placements {
		inv.Update(o)
	}
	for _, o := range objects.Decisions {
		inv.Update(o)
	}
	queues, err := queuesOf(objects, inv, now, o.UserLabel)
	if err != nil {
		return nil, err
	}
	return &Simulator{inventory: inv, scheduler: scheduler.New(profiles, nil), queues: queues, now: now}, nil
}

// Placements are the keys of all Placements, in order of namespace and name.
func (s *Simulator) Placements() []types.NamespacedName { return s.inventory.Placements() }

// Decide answers one Placement; every one is decided against the same snapshot, but for what the quotas of queues have left after those
// decided before.
func (s *Simulator) Decide(ctx context.Context, key types.NamespacedName) (*Report, error) {
	return s.Explain(ctx, key, "")
}

// Explain is Decide with the verdict on one cluster only, unless its name is empty.
func (s *Simulator) Explain(ctx context.Context, key types.NamespacedName, cluster string) (*Report, error) {
	return s.report(ctx, key, func(r *scheduler.Result) []framework.Verdict { return s.scheduler.Explain(ctx, r, cluster) })
}

// Outline is Decide without verdicts, which cost more than all the rest.
func (s *Simulator) Outline(ctx context.Context, key types.NamespacedName) (*Report, error) {
	return s.report(ctx, key, func(*scheduler.Result) []framework.Verdict { return nil })
}

func (s *Simulator) report(
	ctx context.Context, key types.NamespacedName, verdicts func(*scheduler.Result) []framework.Verdict,
) (*Report, error) {
	d, err := s.decide(ctx, key)
	if err != nil {
		return nil, err
	}
	if d.skipped != "" {
		return &Report{Placement: key.String(), Skipped: d.skipped}, nil
	}
	report := newReport(key.String(), d.result, verdicts(d.result))
	switch {
	case d.proposal == nil:
		report.published(d.subject)
	case d.attempt.Pending != nil:
		report.published(d.subject)
		report.pending(d.subject.Placement, d.attempt)
	default:
		report.planned(d.subject.Placement, d.plan, d.result, d.proposal)
	}
	return report, nil
}

// decided is one Placement's answer as the engine has it.
type decided struct {
	subject *framework.Subject
	// skipped says why the Placement is left alone; then there is no result.
	skipped string
	result  *scheduler.Result
	// proposal is nil where nothing was decided, and what is published stays. The writes of its plan are taken as done.
	proposal *framework.Proposal
	plan     decisions.Plan
	// attempt says whether the Proposal would be held.
	attempt *scheduler.Attempt
}

func (s *Simulator) decide(ctx context.Context, key types.NamespacedName) (*decided, error) {
	snapshot := s.inventory.Snapshot(key, s.now)
	if snapshot == nil {
		return nil, fmt.Errorf("no Placement %s in the input", key)
	}
	d := &decided{subject: snapshot.Subject, skipped: scheduler.Skipped(snapshot.Subject.Placement)}
	if d.skipped != "" {
		return d, nil
	}
	if s.queues != nil {
		s.queues.Seat(snapshot)
	}
	d.result = s.scheduler.Schedule(ctx, snapshot)
	if d.proposal = d.result.Proposal(); d.proposal == nil {
		return d, nil
	}
	if queue := snapshot.Queue; queue != nil {
		queue.Took(len(d.proposal.Selected))
	}
	attempt, failure := s.scheduler.Foresee(ctx, d.result, d.proposal)
	if err := failure.Err(); err != nil {
		return nil, fmt.Errorf("asking for leave to publish %s: %w", key, err)
	}
	d.attempt = attempt
	var err error
	if d.plan, err = lifecycle.Plan(d.result.State, d.proposal); err != nil {
		return nil, fmt.Errorf("planning the pages of %s: %w", key, err)
	}
	d.proposal.Outcome = lifecycle.OutcomeOf(d.plan)
	for _, w := range d.plan.Writes {
		d.proposal.Writes = append(d.proposal.Writes, lifecycle.Written(d.subject.Placement, w))
	}
	return d, nil
}
