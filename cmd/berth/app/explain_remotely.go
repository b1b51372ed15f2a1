package app

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	ctx context.Context, hub client.Client, key types.NamespacedName, forbidden error, progress *progress, out io.Writer,
) error {
	if o.config != "" {
		return fmt.Errorf("%w (without that permission the controller explains with its own configuration: leave out --config)", forbidden)
	}
	e := &berthv1alpha1.PlacementExplanation{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, GenerateName: "berth-explain-"},
		Spec:       berthv1alpha1.PlacementExplanationSpec{Placement: key.Name},
	}
	if o.cluster != "" {
		e.Spec.Clusters = []string{o.cluster}
	}
	switch err := hub.Create(ctx, e); {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return fmt.Errorf("%w (and the hub serves no PlacementExplanations)", forbidden)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; %w", forbidden, err)
	case err != nil:
		return fmt.Errorf("creating a PlacementExplanation: %w", err)
	}
	// The controller deletes it after some minutes if this fails.
	defer func() { _ = hub.Delete(context.WithoutCancel(ctx), e) }()
	progress.say("waiting for the controller")
	if err := awaitExplanation(ctx, hub, e); err != nil {
		return err
	}
	progress.stop()
	return o.printExplanation(out, e)
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

func (o *explainOptions) printExplanation(out io.Writer, e *berthv1alpha1.PlacementExplanation) error {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Placement}
	explained := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationExplained)
	switch {
	case explained.Reason == berthv1alpha1.ReasonPlacementNotFound:
		return fmt.Errorf("there is no Placement %s", key)
	case explained.Status != metav1.ConditionTrue:
		return fmt.Errorf("explaining %s: %s", key, explained.Message)
	}
	report := explanation.ReportOf(e)
	if explained.Reason == berthv1alpha1.ReasonLeftAlone {
		report = &simulator.Report{Placement: report.Placement, Skipped: explained.Message}
	}
	if o.output == "json" || o.output == "yaml" {
		return printObject(out, o.output, report)
	}
	shown := report
	if o.cluster != "" && report.Answer != nil && len(report.AvailableClusters) == 0 {
		// The verdict "not a candidate" is said in a sentence.
		answer := *report.Answer
		answer.Verdicts = nil
		shown = &simulator.Report{Placement: report.Placement, Answer: &answer}
	}
	if err := printReport(out, shown, o.output == "wide"); err != nil {
		return err
	}
	if report.Answer != nil && o.cluster == "" && len(report.Verdicts) > 0 && report.Candidates > len(report.Verdicts) {
		say(out, "  %d more candidates are not shown: --cluster shows one.\n", report.Candidates-len(report.Verdicts))
	}
	if _, note, ok := strings.Cut(explained.Message, "; "); ok {
		say(out, "  %s\n", note)
	}
	return o.sayIfNoCandidate(out, report)
}
