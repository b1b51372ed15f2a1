package simulator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission/validation"
	"github.com/berth-dev/berth/pkg/scheduler"
)

// Refuse checks the objects like the admission policies and the webhook of a hub with the stored
// ones. It returns an error with the file for the first refused object, and the mistakes for which
// a Placement is only misconfigured; in scenarios it adds refused objects to their steps. An object
// with a UID was exported from a hub: of it, and of a stored object, only new mistakes count.
func (in *Input) Refuse(ctx context.Context, o Options, stored Objects) (misconfigured []error, err error) {
	engine, err := newEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	r := refuser{engine: engine, stored: map[identity]client.Object{}, checked: map[client.Object]refusal{}}
	for _, object := range stored {
		r.stored[identityOf(object)] = object
	}
	for _, object := range in.Objects {
		got, err := r.check(ctx, object)
		if err == nil && got.why != "" {
			err = errors.New(got.why)
		}
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", in.files[object], nameOf(object), err)
		}
		switch {
		case err != nil && got.misconfigured:
			misconfigured = append(misconfigured, err)
		case err != nil:
			return nil, err
		}
	}
	for _, scenario := range in.Scenarios {
		for i := range scenario.Steps {
			if err := r.checkStep(ctx, &scenario.Steps[i]); err != nil {
				return nil, fmt.Errorf("scenario %s: steps[%d]: %w", scenario.ID, i, err)
			}
		}
	}
	return misconfigured, nil
}

// refuser checks objects.
type refuser struct {
	engine *scheduler.Scheduler
	stored map[identity]client.Object
	// checked has the results, because steps of scenarios share objects.
	checked map[client.Object]refusal
}

// refusal is why an object is refused; why is empty if it is not. A misconfigured Placement is
// refused by the webhook alone: a decision reports it in the same words, as on a hub whose webhook
// did not answer.
type refusal struct {
	why           string
	misconfigured bool
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
		got, err := r.check(ctx, object)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if got.why != "" && !got.misconfigured {
			step.Refused = append(step.Refused, Refusal{Object: name, Error: got.why})
		}
	}
	return nil
}

// check checks an object once.
func (r *refuser) check(ctx context.Context, object client.Object) (refusal, error) {
	kind, ok := kinds.Of(object)
	old, has := r.stored[identityOf(object)]
	if !ok || !has && object.GetUID() != "" {
		return refusal{}, nil
	}
	got, known := r.checked[object]
	if known {
		return got, nil
	}
	got, err := r.refusal(ctx, kind, object, old)
	r.checked[object] = got
	return got, err
}

func (r *refuser) refusal(ctx context.Context, kind kinds.Kind, object, old client.Object) (refusal, error) {
	all, err := policies()
	if err != nil {
		return refusal{}, err
	}
	for _, policy := range all {
		if message, err := policy.deny(ctx, kind, object, old); message != "" || err != nil {
			return refusal{why: message}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, validationTime)
	defer cancel()
	_, isPlacement := object.(*v1alpha1.Placement)
	mistakes := validation.Mistakes(ctx, r.engine.Validate, r.engine.ValidatePolicy, object, old)
	return refusal{why: describe(mistakes), misconfigured: isPlacement && len(mistakes) > 0}, nil
}

// validationTime is how long the expressions of one object may be compiled. What is not checked in
// time is decided: a mistake is then a condition.
const validationTime = 10 * time.Second

func nameOf(object client.Object) string { return identityOf(object).String() }
