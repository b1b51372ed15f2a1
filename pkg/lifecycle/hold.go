package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Hold implements framework.Holder: held pages are brought to say what waits, or are deleted. They are no part of what is
// published, so that their order does not matter: until all of them are written they do not come to their digest, and are no hold.
func (p *DecisionPublisher) Hold(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement, hold *framework.Hold) *framework.Status {
	if p.handle == nil || p.handle.Pages == nil {
		return framework.AsStatus(errors.New("there is no hub to hold a change on"))
	}
	subject := state.Snapshot().Subject
	old := map[string]*v1alpha1.PlacementDecision{}
	for _, page := range subject.HeldPages {
		old[page.Name] = page
	}
	var wanted []*v1alpha1.PlacementDecision
	if hold != nil {
		published := map[string]bool{}
		for _, page := range subject.Pages {
			published[page.Name] = true
		}
		var err error
		if wanted, err = hold.Pages(pl, func(name string) bool { return published[name] || old[name] == nil && subject.Taken(name) }); err != nil {
			return framework.AsStatus(err)
		}
	}
	for _, page := range wanted {
		if err := p.writeHeld(ctx, old[page.Name], page); err != nil {
			return framework.AsStatus(fmt.Errorf("holding a change in PlacementDecision %s/%s: %w", page.Namespace, page.Name, err))
		}
		delete(old, page.Name)
	}
	for _, page := range subject.HeldPages {
		if old[page.Name] == nil {
			continue
		}
		if err := p.handle.Pages.Delete(ctx, page); err != nil {
			return framework.AsStatus(fmt.Errorf("deleting the held PlacementDecision %s/%s: %w", page.Namespace, page.Name, err))
		}
		p.assume(page, true)
	}
	return nil
}

func (p *DecisionPublisher) writeHeld(ctx context.Context, old, page *v1alpha1.PlacementDecision) error {
	write := p.handle.Pages.Create
	if old != nil {
		if old.Annotations[v1alpha1.HoldAnnotation] == page.Annotations[v1alpha1.HoldAnnotation] &&
			equality.Semantic.DeepEqual(old.Labels, page.Labels) &&
			equality.Semantic.DeepEqual(old.Status.Decisions, page.Status.Decisions) {
			return nil
		}
		page.UID, page.ResourceVersion = old.UID, old.ResourceVersion
		write = p.handle.Pages.Update
	}
	written, err := write(ctx, page)
	if err == nil {
		p.assume(written, false)
	}
	return err
}

func (p *DecisionPublisher) assume(page *v1alpha1.PlacementDecision, deleted bool) {
	if p.handle.Assume != nil {
		p.handle.Assume(page, deleted)
	}
}
