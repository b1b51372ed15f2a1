package explanation

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
)

// operationUnchanged is the operation of a Placement whose decision does not change.
const operationUnchanged = "Unchanged"

// changeOf returns status.change; nil for a question without edits.
func changeOf(a *Result, now time.Time) *berthv1alpha1.ExplainedChange {
	if a.Change == nil {
		return nil
	}
	c := &berthv1alpha1.ExplainedChange{
		Operation: operationUnchanged, Before: cutNames(a.Change.Before), After: cutNames(a.Change.After),
		Published: int32(a.Change.Published), Undecided: v1alpha1.CutMessage(a.Undecided), OutOfDate: a.Change.OutOfDate != nil,
	}
	c.Truncated = len(c.Before) < len(a.Change.Before) || len(c.After) < len(a.Change.After)
	change := a.Change.Change
	if change == nil {
		return c
	}
	c.NeedsApproval = change.NeedsApproval
	c.Operation, c.Truncated = change.Operation, c.Truncated || len(change.Pages) > berthv1alpha1.MaxChangedPages
	for _, page := range change.Pages[:min(len(change.Pages), berthv1alpha1.MaxChangedPages)] {
		c.Pages = append(c.Pages, berthv1alpha1.ChangedPage(page))
	}
	for _, one := range change.Conditions[:min(len(change.Conditions), berthv1alpha1.MaxChangedConditions)] {
		if after := one.After; after != nil {
			v1alpha1.SetCondition(&c.Conditions, metav1.Condition{
				Type: one.Type, Status: after.Status, Reason: after.Reason, Message: v1alpha1.CutText(after.Message, maxText), LastTransitionTime: metav1.Time{Time: now},
			})
		}
	}
	return c
}

// cutNames returns the first names.
func cutNames(names []string) []string {
	bytes := 0
	for i, name := range names[:min(len(names), berthv1alpha1.MaxChangedClusters)] {
		if bytes += len(name); bytes > berthv1alpha1.MaxChangedNames {
			return names[:i]
		}
	}
	return names[:min(len(names), berthv1alpha1.MaxChangedClusters)]
}

// ComparedOf returns the difference that the answer to a question with edits describes, or an error
// if it is not whole.
func ComparedOf(key types.NamespacedName, status *berthv1alpha1.PlacementExplanationStatus) (simulator.Compared, error) {
	c := status.Change
	switch {
	case c == nil:
		return simulator.Compared{}, fmt.Errorf("the PlacementExplanation of Placement %s has no status.change", key)
	case c.Truncated:
		return simulator.Compared{}, fmt.Errorf("the change of Placement %s is too large for a PlacementExplanation", key)
	}
	one := simulator.Compared{Before: c.Before, After: c.After, Published: int(c.Published)}
	if c.OutOfDate {
		one.OutOfDate = &simulator.OutOfDate{Placement: key.String()}
	}
	mistake := meta.FindStatusCondition(status.Conditions, v1alpha1.PlacementConditionMisconfigured)
	if mistake != nil && mistake.Status == metav1.ConditionTrue {
		isNew := c.Operation == simulator.Created || meta.FindStatusCondition(c.Conditions, mistake.Type) != nil
		one.Misconfigured = &simulator.Misconfigured{Placement: key.String(), Message: mistake.Message, Before: !isNew}
	}
	if c.Operation == operationUnchanged {
		return one, nil
	}
	change := &simulator.Change{
		Placement: key.String(), Operation: c.Operation, Before: len(c.Before), Published: one.Published, After: len(c.After),
		Added: append([]string{}, changes.Minus(c.After, c.Before)...), Removed: append([]string{}, changes.Minus(c.Before, c.After)...),
		Pages: []simulator.PageChange{}, Conditions: []simulator.ConditionChange{}, NeedsApproval: c.NeedsApproval,
	}
	for _, page := range c.Pages {
		change.Pages = append(change.Pages, simulator.PageChange(page))
	}
	for _, after := range c.Conditions {
		change.Conditions = append(change.Conditions, simulator.ConditionChange{
			Type: after.Type, After: &simulator.Condition{Type: after.Type, Status: after.Status, Reason: after.Reason, Message: after.Message},
		})
	}
	one.Change = change
	return one, nil
}

// resilienceOf returns status.resilience; nil unless it was asked for.
func resilienceOf(a *Result) *berthv1alpha1.ExplainedResilience {
	p := a.Resilience
	if p == nil {
		return nil
	}
	r := &berthv1alpha1.ExplainedResilience{
		Message: v1alpha1.CutText(p.Message, maxText), Satisfied: p.Satisfied, Selected: int32(p.Selected), Domains: int32(p.Domains),
		Survived: int32(p.Survived), WithoutDomain: int32(p.WithoutDomain),
	}
	bytes := 0
	for _, l := range p.Losses[:min(len(p.Losses), berthv1alpha1.MaxLosses)] {
		one := berthv1alpha1.DomainLoss{
			Domain: l.Domain, Clusters: int32(l.Clusters), Lost: int32(l.Lost), Satisfied: l.Satisfied, Missing: int32(l.Missing),
			Why: v1alpha1.CutText(l.Why, maxText), Added: int32(l.Added), Removed: int32(l.Removed),
		}
		text, err := json.Marshal(one)
		if bytes += len(text); err != nil || bytes > berthv1alpha1.MaxLossBytes {
			break
		}
		r.Losses = append(r.Losses, one)
	}
	r.LeftOut = int32(len(p.Losses) - len(r.Losses) + a.DomainsLeft)
	return r
}

// ResilienceOf returns what status.resilience says about a Placement, or an error if domains are
// left out.
func ResilienceOf(key types.NamespacedName, r *berthv1alpha1.ExplainedResilience) (resilience.Placement, error) {
	if r.LeftOut > 0 {
		return resilience.Placement{}, fmt.Errorf("the PlacementExplanation of Placement %s has no time or no space for %d of its domains", key, r.LeftOut)
	}
	p := resilience.Placement{
		Placement: key.String(), Satisfied: r.Satisfied, Selected: int(r.Selected), Domains: int(r.Domains), Survived: int(r.Survived),
		WithoutDomain: int(r.WithoutDomain), Losses: []resilience.Loss{}, Message: r.Message,
	}
	for _, l := range r.Losses {
		p.Losses = append(p.Losses, resilience.Loss{
			Domain: l.Domain, Clusters: int(l.Clusters), Lost: int(l.Lost), Satisfied: l.Satisfied, Missing: int(l.Missing),
			Why: l.Why, Added: int(l.Added), Removed: int(l.Removed),
		})
	}
	return p, nil
}
