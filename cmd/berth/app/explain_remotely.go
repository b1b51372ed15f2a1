package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// explainTimeout is how long the controller may take to answer a PlacementExplanation, and
	// explainInterval how often the answer is looked for.
	explainTimeout  = time.Minute
	explainInterval = 200 * time.Millisecond
)

// ask has the controller explain the Placement, for a user that may not list the fleet. forbidden
// is the error of the list.
func (o *explainOptions) ask(
	ctx context.Context, hub client.Client, key types.NamespacedName, forbidden error,
) (*explained, error) {
	if o.config != "" {
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
	if err := awaitExplanation(ctx, hub, e); err != nil {
		return nil, err
	}
	return explanationOf(e)
}

// awaitExplanation waits for the answer.
func awaitExplanation(ctx context.Context, hub client.Client, e *berthv1alpha1.PlacementExplanation) error {
	err := wait.PollUntilContextTimeout(ctx, explainInterval, explainTimeout, false, func(ctx context.Context) (bool, error) {
		if err := hub.Get(ctx, client.ObjectKeyFromObject(e), e); err != nil {
			return false, fmt.Errorf("reading PlacementExplanation %s: %w", client.ObjectKeyFromObject(e), err)
		}
		c := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationExplained)
		return c != nil && c.Status != metav1.ConditionUnknown, nil
	})
	if !wait.Interrupted(err) || ctx.Err() != nil {
		return err
	}
	if c := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationThrottled); c != nil && c.Status == metav1.ConditionTrue {
		return errors.New(c.Message)
	}
	return fmt.Errorf("the controller did not answer PlacementExplanation %s within %s", client.ObjectKeyFromObject(e), explainTimeout)
}

// explanationOf returns the answer of the controller.
func explanationOf(e *berthv1alpha1.PlacementExplanation) (*explained, error) {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Placement}
	condition := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationExplained)
	switch {
	case condition.Reason == berthv1alpha1.ReasonPlacementNotFound:
		return nil, fmt.Errorf("there is no Placement %s", key)
	case condition.Status != metav1.ConditionTrue:
		return nil, fmt.Errorf("explaining %s: %s", key, condition.Message)
	}
	report := explanation.ReportOf(e)
	if condition.Reason == berthv1alpha1.ReasonLeftAlone {
		return &explained{Report: &simulator.Report{Placement: report.Placement, Skipped: condition.Message}}, nil
	}
	_, note, _ := strings.Cut(condition.Message, "; ")
	return &explained{report, note}, nil
}
