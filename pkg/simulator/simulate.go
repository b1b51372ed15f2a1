package simulator

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/builtin"
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

// Decide answers one Placement; every one is decided against the same snapshot.
func (s *Simulator) Decide(ctx context.Context, key types.NamespacedName) (*Report, error) {
	return s.Explain(ctx, key, "")
}

// Explain is Decide with the verdict on one cluster only, unless its name is empty.
func (s *Simulator) Explain(ctx context.Context, key types.NamespacedName, cluster string) (*Report, error) {
	snapshot := s.inventory.Snapshot(key, s.now)
	if snapshot == nil {
		return nil, fmt.Errorf("no Placement %s in the input", key)
	}
	if skipped := scheduler.Skipped(snapshot.Subject.Placement); skipped != "" {
		return &Report{Placement: key.String(), Skipped: skipped}, nil
	}
	if s.queues != nil {
		s.queues.Seat(snapshot)
	}
	result := s.scheduler.Schedule(ctx, snapshot)
	report := newReport(key.String(), result, s.scheduler.Explain(ctx, result, cluster))
	proposal := result.Proposal()
	if proposal == nil {
		report.published(snapshot.Subject)
		return report, nil
	}
	plan, err := lifecycle.Plan(result.State, proposal)
	if err != nil {
		return nil, fmt.Errorf("planning the pages of %s: %w", key, err)
	}
	// The writes are taken as done.
	proposal.Outcome = lifecycle.OutcomeOf(plan)
	for _, w := range plan.Writes {
		proposal.Writes = append(proposal.Writes, lifecycle.Written(snapshot.Subject.Placement, w))
	}
	report.planned(snapshot.Subject.Placement, plan, result, proposal)
	return report, nil
}
