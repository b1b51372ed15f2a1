package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/explanation"
)

// ask asks the controller to explain the Placement, for a user who may not list the fleet.
// forbidden is the error of the list.
func (o *explainOptions) ask(
	ctx context.Context, hub client.Client, key types.NamespacedName, forbidden error,
) (*explained, error) {
	if o.simulation.config != "" {
		return nil, fmt.Errorf("%w (without that permission the controller explains with its own configuration: leave out --config)", forbidden)
	}
	e := &berthv1alpha1.PlacementExplanation{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, GenerateName: "berth-explain-"},
		Spec:       berthv1alpha1.PlacementExplanationSpec{Placement: key.Name},
	}
	switch {
	case o.all:
		e.Spec.Limit = berthv1alpha1.MaxVerdicts
	case o.cluster != "":
		e.Spec.Clusters = []string{o.cluster}
	}
	switch err := hub.Create(ctx, e); {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w (and the hub serves no PlacementExplanations)", forbidden)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w; %w", forbidden, err)
	case err != nil:
		return nil, fmt.Errorf("creating a PlacementExplanation: %w", err)
	}
	// The controller deletes it after some minutes if this fails.
	defer func() { _ = hub.Delete(context.WithoutCancel(ctx), e) }()
	if err := explanation.Await(ctx, hub, e); err != nil {
		return nil, err
	}
	report, note, err := explanation.AnswerOf(e)
	if err != nil {
		return nil, err
	}
	return &explained{report, note}, nil
}
