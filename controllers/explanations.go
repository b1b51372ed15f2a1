package controllers

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// explanationEngine returns the engine for explanations. It is not the one that publishes, so that
// no explanation delays a decision.
func explanationEngine(ctx context.Context, mgr ctrl.Manager, placements *feed, o Options) (*scheduler.Scheduler, error) {
	registry := builtin.Registry()
	if err := registry.Merge(o.Plugins); err != nil {
		return nil, err
	}
	profiles, err := newProfiles(ctx, mgr, o.Config, registry, &framework.Handle{Client: mgr.GetClient(), Activate: placements.activate})
	if err != nil {
		return nil, err
	}
	engine := scheduler.New(profiles, nil)
	engine.CycleTimeout = o.Config.Timeout()
	return engine, nil
}

// addExplanations adds what answers PlacementExplanations and OCM's debugger.
func addExplanations(ctx context.Context, mgr ctrl.Manager, placements *feed, served servedKinds, o Options) error {
	engine, err := explanationEngine(ctx, mgr, placements, o)
	if err != nil {
		return err
	}
	explainer := &explanation.Explainer{Inventory: placements.inventory, Queues: placements.queues, Scheduler: engine, Now: o.Now}
	if o.MetricsSecure {
		handler := newDebugHandler(explainer, func() bool { return isClosed(placements.synced) }, o.Log.WithName("debugger"))
		if err := mgr.AddMetricsServerExtraHandler(debugPath, handler); err != nil {
			return fmt.Errorf("serving %s: %w", debugPath, err)
		}
	}
	if !served.explanations {
		o.Log.Info("PlacementExplanations are not answered: the hub does not serve them", "group", berthv1alpha1.GroupVersion.Group)
		return nil
	}
	r := &ExplanationReconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Explainer: explainer, Synced: placements.synced, Now: o.Now,
	}
	if err := r.SetUp(ctx, mgr); err != nil {
		return fmt.Errorf("setting up placementexplanation: %w", err)
	}
	return nil
}
