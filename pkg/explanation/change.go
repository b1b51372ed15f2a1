package explanation

import (
	"encoding/json"
	"fmt"

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
func changeOf(a *Result) *berthv1alpha1.ExplainedChange {
	if a.Change == nil {
		return nil
	}
	c := &berthv1alpha1.ExplainedChange{
		Operation: operationUnchanged, ClustersBefore: int32(len(a.Change.Before)), ClustersAfter: int32(len(a.Change.After)),
		Before: cutNames(a.Change.Before), After: cutNames(a.Change.After), Undecided: v1alpha1.CutMessage(a.Undecided),
	}
	if o := a.Change.OutOfDate; o != nil {
		c.OutOfDate, c.Held = true, o.Held
	}
	if m := a.Change.Misconfigured; m != nil {
		c.Misconfigured, c.MisconfiguredBefore = v1alpha1.CutMessage(m.Message), m.Before
	}
	change := a.Change.Change
	if change == nil {
		return c
	}
	c.Operation, c.NeedsApproval = change.Operation, change.NeedsApproval
	for _, page := range change.Pages[:min(len(change.Pages), berthv1alpha1.MaxChangedPages)] {
		c.Pages = append(c.Pages, berthv1alpha1.ChangedPage(page))
	}
	for _, one := range change.Conditions[:min(len(change.Conditions), berthv1alpha1.MaxChangedConditions)] {
		c.Conditions = append(c.Conditions, berthv1alpha1.ChangedCondition{Type: one.Type, Before: stateOf(one.Before), After: stateOf(one.After)})
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

func stateOf(c *simulator.Condition) *berthv1alpha1.ConditionState {
	if c == nil {
		return nil
	}
	return &berthv1alpha1.ConditionState{Status: c.Status, Reason: c.Reason, Message: v1alpha1.CutText(c.Message, maxText)}
}

// ComparedOf returns what status.change says about a Placement, or an error if its lists are cut.
func ComparedOf(key types.NamespacedName, c *berthv1alpha1.ExplainedChange) (simulator.Compared, error) {
	if c == nil {
		return simulator.Compared{}, fmt.Errorf("the PlacementExplanation of Placement %s has no status.change", key)
	}
	if len(c.Before) < int(c.ClustersBefore) || len(c.After) < int(c.ClustersAfter) || len(c.Pages) == berthv1alpha1.MaxChangedPages {
		return simulator.Compared{}, fmt.Errorf("the change of Placement %s from %d to %d clusters is too large for a PlacementExplanation", key, c.ClustersBefore, c.ClustersAfter)
	}
	one := simulator.Compared{Before: c.Before, After: c.After}
	if c.OutOfDate {
		one.OutOfDate = &simulator.OutOfDate{Placement: key.String(), Held: c.Held}
	}
	if c.Misconfigured != "" {
		one.Misconfigured = &simulator.Misconfigured{Placement: key.String(), Message: c.Misconfigured, Before: c.MisconfiguredBefore}
	}
	if c.Operation == operationUnchanged {
		return one, nil
	}
	change := &simulator.Change{
		Placement: key.String(), Operation: c.Operation, Before: len(c.Before), After: len(c.After),
		Added: append([]string{}, changes.Minus(c.After, c.Before)...), Removed: append([]string{}, changes.Minus(c.Before, c.After)...),
		Pages: []simulator.PageChange{}, Conditions: []simulator.ConditionChange{}, NeedsApproval: c.NeedsApproval,
	}
	for _, page := range c.Pages {
		change.Pages = append(change.Pages, simulator.PageChange(page))
	}
	for _, o := range c.Conditions {
		change.Conditions = append(change.Conditions, simulator.ConditionChange{Type: o.Type, Before: conditionOf(o.Type, o.Before), After: conditionOf(o.Type, o.After)})
	}
	one.Change = change
	return one, nil
}

func conditionOf(kind string, s *berthv1alpha1.ConditionState) *simulator.Condition {
	if s == nil {
		return nil
	}
	return &simulator.Condition{Type: kind, Status: s.Status, Reason: s.Reason, Message: s.Message}
}

// resilienceOf returns status.resilience; nil unless it was asked for.
func resilienceOf(a *Result) *berthv1alpha1.ExplainedResilience {
	p := a.Resilience
	if p == nil {
		return nil
	}
	r := &berthv1alpha1.ExplainedResilience{
		Message: v1alpha1.CutText(p.Message, maxText), Satisfied: p.Satisfied, Why: v1alpha1.CutText(p.Why, maxText), Misconfigured: p.Misconfigured,
		Selected: int32(p.Selected), Domains: int32(p.Domains), Survived: int32(p.Survived), WithoutDomain: int32(p.WithoutDomain),
	}
	if p.Wanted != nil {
		r.Wanted = new(int32(*p.Wanted))
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
		Placement: key.String(), Satisfied: r.Satisfied, Why: r.Why, Misconfigured: r.Misconfigured, Selected: int(r.Selected),
		Domains: int(r.Domains), Survived: int(r.Survived), WithoutDomain: int(r.WithoutDomain), Losses: []resilience.Loss{}, Message: r.Message,
	}
	if r.Wanted != nil {
		p.Wanted = new(int(*r.Wanted))
	}
	for _, l := range r.Losses {
		p.Losses = append(p.Losses, resilience.Loss{
			Domain: l.Domain, Clusters: int(l.Clusters), Lost: int(l.Lost), Satisfied: l.Satisfied, Missing: int(l.Missing),
			Why: l.Why, Added: int(l.Added), Removed: int(l.Removed),
		})
	}
	return p, nil
}
