package simulator

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// Follow returns a Simulator of an empty hub, for Update and Delete. It decides each Placement on
// what the others have published: the order of decisions does not matter.
func Follow(ctx context.Context, now time.Time, o Options) (*Simulator, error) {
	engine, err := newEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	inv := inventory.New(inventory.Options{Reads: engine.Reads, Follows: true})
	o.Alone = true
	return &Simulator{inventory: inv, scheduler: engine, now: now, options: o}, nil
}

// Inventory is what the Simulator decides on.
func (s *Simulator) Inventory() *inventory.Inventory { return s.inventory }

// SetNow sets the time of the decisions that follow.
func (s *Simulator) SetNow(now time.Time) { s.now = now }

// Update processes an object that was added or changed. It returns the affected Placements.
func (s *Simulator) Update(object client.Object) []types.NamespacedName {
	switch object := object.(type) {
	case *v1alpha1.Placement:
		if s.queues != nil {
			s.queues.Update(object)
		}
	case *berthv1alpha1.DisruptionPolicy:
		failReadiness(Objects{object}, s.inventory)
	}
	return s.inventory.Update(object)
}

// Delete processes the deletion of an object. It returns the affected Placements.
func (s *Simulator) Delete(object client.Object) []types.NamespacedName {
	if pl, ok := object.(*v1alpha1.Placement); ok && s.queues != nil {
		s.queues.Delete(client.ObjectKeyFromObject(pl))
	}
	return s.inventory.Delete(object)
}

// SetQueues sets the queues from their ConfigMap and the Namespaces among the objects.
func (s *Simulator) SetQueues(objects Objects) error {
	for _, key := range s.inventory.Placements() {
		if pl := s.inventory.Placement(key); pl != nil {
			objects = append(objects, pl)
		}
	}
	queues, err := queuesOf(objects, s.inventory, s.now, s.options.UserLabel)
	if err != nil {
		return err
	}
	s.queues = queues
	s.reserveOpenChanges(context.Background())
	return nil
}

// Attempt decides the Placement, for callers to whom a Report is too much. visit must not keep the
// attempt. skipped says why it was not called: the Placement is not decided.
func (t *Taken) Attempt(ctx context.Context, visit func(*scheduler.Attempt)) (skipped string, err error) {
	d, err := t.decide(ctx)
	if err != nil {
		return "", err
	}
	if d.skipped != "" {
		return d.skipped, nil
	}
	defer t.simulator.scheduler.Release(d.Decision)
	visit(d.Attempt)
	return "", nil
}
