package preview

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Asker asks the controller, one PlacementExplanation at a time.
type Asker struct {
	Hub client.Client
	// Forbidden is why the fleet is not listed.
	Forbidden error
}

// Ask returns the answered PlacementExplanation, which it has deleted. The error wraps
// actions.ErrNoPreview if the user may not create one.
func (a *Asker) Ask(ctx context.Context, namespace string, spec berthv1alpha1.PlacementExplanationSpec) (*berthv1alpha1.PlacementExplanation, error) {
	e := &berthv1alpha1.PlacementExplanation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "berth-explain-"}, Spec: spec,
	}
	switch err := a.Hub.Create(ctx, e); {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %w (and the hub serves no PlacementExplanations)", actions.ErrNoPreview, a.Forbidden)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: %w; %w", actions.ErrNoPreview, a.Forbidden, err)
	case err != nil:
		return nil, fmt.Errorf("creating a PlacementExplanation: %w", err)
	}
	// The controller deletes it after some minutes if this fails.
	defer func() { _ = a.Hub.Delete(context.WithoutCancel(ctx), e) }()
	return e, explanation.Await(ctx, a.Hub, e)
}

// Compare asks for Placements without and with edits: for those that the edits name and, if they
// change clusters, all of a namespace. It calls progress, unless nil, with the number of Placements
// done and in total.
func (a *Asker) Compare(ctx context.Context, namespace string, edits []simulator.Edit, progress func(done, all int)) (*simulator.Comparison, error) {
	w, err := a.newWhatIf(ctx, edits)
	if err != nil {
		return nil, err
	}
	keys, err := a.affected(ctx, namespace, w)
	if err != nil {
		return nil, err
	}
	c := simulator.NewComparison()
	for i, key := range keys {
		if progress != nil {
			progress(i, len(keys))
		}
		e, note, err := a.decided(ctx, key, w.spec(key))
		if err != nil {
			return nil, err
		}
		if note != "" && !slices.Contains(c.Notes, note) {
			c.Notes = append(c.Notes, note)
		}
		one, err := explanation.ComparedOf(key, &e.Status)
		if err != nil {
			return nil, a.tooLarge(err)
		}
		c.Add(one)
	}
	c.Sort()
	if len(w.clusters) > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("Only the Placements of namespace %s are compared: %v", namespace, a.Forbidden))
	}
	return c, nil
}

// Resilience asks which domains Placements can lose. It calls progress as Compare does.
func (a *Asker) Resilience(ctx context.Context, by resilience.Key, keys []types.NamespacedName, progress func(done, all int)) (*resilience.Report, error) {
	report := &resilience.Report{By: by.String(), Placements: []resilience.Placement{}}
	for i, key := range keys {
		if progress != nil {
			progress(i, len(keys))
		}
		e, _, err := a.decided(ctx, key, berthv1alpha1.PlacementExplanationSpec{Placement: key.Name, Limit: 1, Domains: by.String()})
		if err != nil {
			return nil, err
		}
		p := resilience.Placement{Placement: key.String(), Losses: []resilience.Loss{}}
		if r := e.Status.Resilience; r == nil {
			p.Skipped = meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationExplained).Message
			p.Finish(by)
		} else if p, err = explanation.ResilienceOf(key, r); err != nil {
			return nil, a.tooLarge(err)
		}
		report.Placements = append(report.Placements, p)
	}
	report.Sort()
	return report, nil
}

// decided asks, and returns a note on the answer, or an error if there is no decision.
func (a *Asker) decided(
	ctx context.Context, key types.NamespacedName, spec berthv1alpha1.PlacementExplanationSpec,
) (e *berthv1alpha1.PlacementExplanation, note string, err error) {
	if e, err = a.Ask(ctx, key.Namespace, spec); err == nil {
		_, note, err = explanation.AnswerOf(e)
	}
	return e, note, err
}

func (a *Asker) tooLarge(err error) error {
	return fmt.Errorf("%w; the role berth-fleet-viewer permits to list the fleet instead: %w", err, a.Forbidden)
}

// After previews a Placement with edits, for actions.Prepared.Check.
func (a *Asker) After(edits []simulator.Edit) actions.Preview { return after{a, edits} }

type after struct {
	asker *Asker
	edits []simulator.Edit
}

// Selected implements actions.Preview.
func (p after) Selected(ctx context.Context, key client.ObjectKey) (names []string, undecided string, err error) {
	w, err := p.asker.newWhatIf(ctx, p.edits)
	if err != nil {
		return nil, "", err
	}
	e, _, err := p.asker.decided(ctx, key, w.spec(key))
	if err != nil {
		return nil, "", err
	}
	if _, err := explanation.ComparedOf(key, &e.Status); err != nil {
		return nil, "", p.asker.tooLarge(err)
	}
	return e.Status.Change.After, e.Status.Change.Undecided, nil
}

// WhyNot implements actions.Preview.
func (p after) WhyNot(ctx context.Context, key client.ObjectKey, cluster string) string {
	w, err := p.asker.newWhatIf(ctx, p.edits)
	if err != nil {
		return ""
	}
	spec := w.spec(key)
	spec.Clusters = []string{cluster}
	e, err := p.asker.Ask(ctx, key.Namespace, spec)
	if err != nil {
		return ""
	}
	report, _, err := explanation.AnswerOf(e)
	if err != nil {
		return ""
	}
	return report.WhyNot(cluster)
}
