package explanation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// answerTimeout is how long the controller may take to answer a PlacementExplanation, and
	// answerInterval how often the answer is looked for.
	answerTimeout  = time.Minute
	answerInterval = 200 * time.Millisecond
)

// Await waits for the answer of the controller to a PlacementExplanation.
func Await(ctx context.Context, hub client.Client, e *berthv1alpha1.PlacementExplanation) error {
	err := wait.PollUntilContextTimeout(ctx, answerInterval, answerTimeout, false, func(ctx context.Context) (bool, error) {
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
	return fmt.Errorf("the controller did not answer PlacementExplanation %s within %s", client.ObjectKeyFromObject(e), answerTimeout)
}

// AnswerOf returns the answer of the controller, with a note if it has not all verdicts, or an
// error if there is none.
func AnswerOf(e *berthv1alpha1.PlacementExplanation) (report *simulator.Report, note string, err error) {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Placement}
	condition := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationExplained)
	switch {
	case condition.Reason == berthv1alpha1.ReasonPlacementNotFound:
		return nil, "", fmt.Errorf("there is no Placement %s", key)
	case condition.Status != metav1.ConditionTrue:
		return nil, "", fmt.Errorf("explaining %s: %s", key, condition.Message)
	}
	report = ReportOf(e)
	if condition.Reason == berthv1alpha1.ReasonLeftAlone {
		return &simulator.Report{Placement: report.Placement, Skipped: condition.Message}, "", nil
	}
	_, note, _ = strings.Cut(condition.Message, "; ")
	return report, note, nil
}
