package simulator

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/admission/validation"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// Refuse checks the objects like the admission policies and the webhook of a hub that stores others.
// It returns an error with the file for the first refused object; in scenarios it adds refused
// objects to their steps. An object with a UID was exported from a hub: of it, and of a stored
// object, only new mistakes are refused.
func (in *Input) Refuse(ctx context.Context, o Options, stored Objects) error {
	engine, err := newEngine(ctx, o)
	if err != nil {
		return err
	}
	r := refuser{engine: engine, stored: map[identity]client.Object{}, checked: map[client.Object]string{}}
	for _, object := range stored {
		r.stored[identityOf(object)] = object
	}
	for _, object := range in.Objects {
		why, err := r.check(ctx, object)
		if err != nil || why != "" {
			at := fmt.Sprintf("%s: %s", in.files[object], nameOf(object))
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			return fmt.Errorf("%s: %s", at, why)
		}
	}
	for _, scenario := range in.Scenarios {
		for i := range scenario.Steps {
			if err := r.checkStep(ctx, &scenario.Steps[i]); err != nil {
				return fmt.Errorf("scenario %s: steps[%d]: %w", scenario.ID, i, err)
			}
		}
	}
	return nil
}

// refuser checks objects.
type refuser struct {
	engine *scheduler.Scheduler
	stored map[identity]client.Object
	// checked has the results, because steps of scenarios share objects.
	checked map[client.Object]string
}

func (r *refuser) checkStep(ctx context.Context, step *Step) error {
	refused := map[string]bool{}
	for _, refusal := range step.Refused {
		refused[refusal.Object] = true
	}
	for _, object := range step.Objects {
		name := nameOf(object)
		if refused[name] {
			continue // The schema is checked first.
		}
		why, err := r.check(ctx, object)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if why != "" {
			step.Refused = append(step.Refused, Refusal{Object: name, Error: why})
		}
	}
	return nil
}

// check returns why an object is refused; empty if it is not.
func (r *refuser) check(ctx context.Context, object client.Object) (string, error) {
	kind, ok := kinds.Of(object)
	if !ok {
		return "", nil
	}
	old, has := r.stored[identityOf(object)]
	if !has && object.GetUID() != "" {
		return "", nil
	}
	if why, known := r.checked[object]; known {
		return why, nil
	}
	why, err := r.refusal(ctx, kind, object, old)
	r.checked[object] = why
	return why, err
}

func (r *refuser) refusal(ctx context.Context, kind kinds.Kind, object, old client.Object) (string, error) {
	all, err := policies()
	if err != nil {
		return "", err
	}
	for _, policy := range all {
		if message, err := policy.deny(ctx, kind, object, old); message != "" || err != nil {
			return message, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, validationTime)
	defer cancel()
	return describe(validation.Mistakes(ctx, r.engine.Validate, r.engine.ValidatePolicy, object, old)), nil
}

// validationTime is how long the expressions of one object may be compiled. What is not checked in
// time is decided: a mistake is then a condition.
const validationTime = 10 * time.Second

func nameOf(object client.Object) string {
	id := identityOf(object)
	if id.namespace != "" {
		return id.kind + " " + id.namespace + "/" + id.name
	}
	return id.kind + " " + id.name
}

