package simulator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// Comparison is the effect of a change on all Placements of a hub.
type Comparison struct {
	Summary Summary `json:"summary"`
	// Changes are the Placements that differ; empty if nothing changes. Those that lose all their
	// clusters come first, then those that lose most, then by namespace and name.
	Changes []Change `json:"changes"`
	// OutOfDate are the Placements whose published clusters differ from the decision without the
	// change. Their own change is held or in progress, or something that makes no Placement
	// affected, such as other decisions, would now change the result.
	OutOfDate []OutOfDate `json:"outOfDate"`
	// Misconfigured are the Placements that are misconfigured with the change.
	Misconfigured []Misconfigured `json:"misconfigured,omitempty"`
	// Notes say what the comparison leaves out.
	Notes []string `json:"notes,omitempty"`
}

// Summary has the totals of a Comparison.
type Summary struct {
	// Placements were compared, Changed of them differ.
	Placements int `json:"placements"`
	Changed    int `json:"changed"`
	// Added and Removed are clusters, counted once for each Placement that gets or loses them;
	// Pages are PlacementDecisions.
	Added   int `json:"added"`
	Removed int `json:"removed"`
	Pages   int `json:"pages"`
}

// Operations on a Placement or a page.
const (
	Created = "Created"
	Updated = "Updated"
	Deleted = "Deleted"
)

// Change is the difference for one Placement.
type Change struct {
	Placement string `json:"placement"`
	// Operation is Created, Updated (the decision changes, with or without the text) or Deleted.
	Operation string `json:"operation"`
	// Before and After count the clusters without and with the change, Published those that are
	// published now: others than Before while a change of the Placement itself is not complete.
	Before    int      `json:"before"`
	Published int      `json:"published"`
	After     int      `json:"after"`
	Added     []string `json:"added"`
	Removed   []string `json:"removed"`
	// Pages are the PlacementDecisions that are written, by name.
	Pages []PageChange `json:"pages"`
	// Conditions are those that differ in status, reason or message; counts in the message do not
	// matter.
	Conditions []ConditionChange `json:"conditions"`
	// NeedsApproval is true if the change would be held until a user approves it.
	NeedsApproval bool `json:"needsApproval,omitempty"`
}

// emptied is the number of clusters of a Placement that loses all of them; 0 for others.
func (c *Change) emptied() int {
	if c.After > 0 {
		return 0
	}
	return c.Before
}

// PageChange is a PlacementDecision that is Created, Updated or Deleted.
type PageChange struct {
	Name      string `json:"name"`
	Operation string `json:"operation"`
}

// ConditionChange is a condition before and after the change; nil if it does not exist.
type ConditionChange struct {
	Type   string     `json:"type"`
	Before *Condition `json:"before"`
	After  *Condition `json:"after"`
}

// OutOfDate is a Placement whose decision differs from the published one, also without the change.
type OutOfDate struct {
	Placement string `json:"placement"`
	// Held is true if its own change is held.
	Held bool `json:"held"`
}

// Misconfigured is a Placement that cannot be decided.
type Misconfigured struct {
	Placement string `json:"placement"`
	Message   string `json:"message"`
	// Before is true if it is misconfigured without the change, too.
	Before bool `json:"before"`
}

// compare decides Placements on both sides, each with its own snapshot, in the order of a
// controller. Those that the change moves are then decided one after the other, each with the pages
// that those before it publish, because decisions count.
func compare(ctx context.Context, before, after *Simulator, keys []types.NamespacedName, progress func(done, all int)) (*Comparison, error) {
	c := NewComparison()
	type moved struct {
		key types.NamespacedName
		was Outcome
	}
	var moving []moved
	for i, key := range after.InQueueOrder(keys) {
		if progress != nil {
			progress(i, len(keys))
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		was, err := before.outcome(ctx, key, false)
		if err != nil {
			return nil, err
		}
		if isEdited(before.inventory.Placement(key), after.inventory.Placement(key)) {
			was = was.AsPublished()
		}
		is, err := after.outcome(ctx, key, false)
		if err != nil {
			return nil, err
		}
		if one := Compare(key, was, is); slices.Equal(one.Before, one.After) {
			c.Add(one)
		} else {
			moving = append(moving, moved{key, was})
		}
	}
	for _, m := range moving {
		is, err := after.outcome(ctx, m.key, true)
		if err != nil {
			return nil, err
		}
		c.Add(Compare(m.key, m.was, is))
	}
	c.Sort()
	return c, nil
}

// isEdited reports whether a change edits a Placement.
func isEdited(before, after *v1alpha1.Placement) bool {
	return before != nil && after != nil && (!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !maps.Equal(before.Annotations, after.Annotations))
}

// Compared is the effect of a change on one Placement.
type Compared struct {
	// Change is nil if nothing changes.
	Change *Change
	// Before and After are the clusters without and with the change, sorted.
	Before, After []string
	// Published counts the clusters that are published now.
	Published int
	// OutOfDate and Misconfigured are nil if they do not apply.
	OutOfDate     *OutOfDate
	Misconfigured *Misconfigured
}

// Compare returns the difference between the outcomes without and with a change.
func Compare(key types.NamespacedName, was, is Outcome) Compared {
	one := Compared{Change: differ(key, was, is), Before: was.clusters, After: is.clusters, Published: len(was.published)}
	if was.exists && !slices.Equal(was.clusters, was.published) {
		one.OutOfDate = &OutOfDate{Placement: key.String(), Held: was.held}
	}
	if now := is.conditions.Misconfigured(); now != nil {
		one.Misconfigured = &Misconfigured{key.String(), now.Message, was.conditions.Misconfigured() != nil}
	}
	return one
}

// Add adds a Placement. Call Sort when all are added.
func (c *Comparison) Add(one Compared) {
	c.Summary.Placements++
	if one.OutOfDate != nil {
		c.OutOfDate = append(c.OutOfDate, *one.OutOfDate)
	}
	if one.Misconfigured != nil {
		c.Misconfigured = append(c.Misconfigured, *one.Misconfigured)
	}
	if change := one.Change; change != nil {
		c.Changes = append(c.Changes, *change)
		c.Summary.Changed++
		c.Summary.Added += len(change.Added)
		c.Summary.Removed += len(change.Removed)
		c.Summary.Pages += len(change.Pages)
	}
}

// NewComparison returns a Comparison of no Placements.
func NewComparison() *Comparison { return &Comparison{Changes: []Change{}, OutOfDate: []OutOfDate{}} }

// Sort sorts the changes by the clusters that are lost, and all else by namespace and name.
func (c *Comparison) Sort() {
	slices.SortFunc(c.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.emptied(), a.emptied()), cmp.Compare(b.Before-b.After, a.Before-a.After),
			cmp.Compare(len(b.Removed), len(a.Removed)), strings.Compare(a.Placement, b.Placement))
	})
	slices.SortFunc(c.OutOfDate, func(a, b OutOfDate) int { return strings.Compare(a.Placement, b.Placement) })
	slices.SortFunc(c.Misconfigured, func(a, b Misconfigured) int { return strings.Compare(a.Placement, b.Placement) })
}

// Outcome is the part of a decision that a comparison needs. The zero value is that of a Placement
// that does not exist.
type Outcome struct {
	// exists is false if there is no such Placement; then all other fields are empty.
	exists bool
	// clusters are the decided ones, published those on pages; sorted, without duplicates.
	clusters, published []string
	held, needsApproval bool
	// pages are the decided ones, found those on the hub.
	pages, found map[string]*v1alpha1.PlacementDecision
	conditions   Conditions
}

// AsPublished returns the outcome with what is published, if anything is, instead of what is
// decided. An edit of a Placement is compared with it: it supersedes the Placement's own change.
func (o Outcome) AsPublished() Outcome {
	if len(o.found) > 0 {
		o.clusters, o.pages = o.published, o.found
	}
	return o
}

// outcome decides a Placement. If publishes is true, the decisions that follow see its pages.
func (s *Simulator) outcome(ctx context.Context, key types.NamespacedName, publishes bool) (Outcome, error) {
	if s.inventory.Placement(key) == nil {
		return Outcome{}, nil
	}
	d, err := s.decide(ctx, key)
	if err != nil {
		return Outcome{}, err
	}
	if publishes && d.Attempt != nil && d.Step != nil {
		for _, w := range d.Step.Writes {
			if w.Deleted {
				s.inventory.Delete(w.Page)
			} else {
				s.inventory.Update(w.Page)
			}
		}
		published := framework.PublishedOn(s.inventory.Subject(key).OwnPages())
		published.Revision = d.Step.Revision
		s.inventory.SetPublished(d.subject, published)
	}
	return OutcomeOf(d.subject, d.Attempt)
}

// OutcomeOf returns the outcome of an attempt; nil stands for a Placement that is not decided.
func OutcomeOf(subject *framework.Subject, a *scheduler.Attempt) (Outcome, error) {
	o := Outcome{exists: true, pages: map[string]*v1alpha1.PlacementDecision{}}
	for _, page := range subject.OwnPages() {
		o.pages[page.Name] = page
	}
	o.published, o.found = clustersOn(o.pages), maps.Clone(o.pages)
	if a != nil {
		o.held, o.needsApproval = a.Outcome == plan.Held, a.NeedsApproval()
		for _, c := range a.Conditions() {
			o.conditions = append(o.conditions, Condition{c.Type, c.Status, c.Reason, c.Message})
		}
		if err := addTarget(a, o.pages); err != nil {
			return Outcome{}, err
		}
	}
	o.clusters = clustersOn(o.pages)
	return o, nil
}

// addTarget replaces the published pages by those of the selected clusters, even if the change may
// not be published yet. Without a decision the pages stay.
func addTarget(a *scheduler.Attempt, pages map[string]*v1alpha1.PlacementDecision) error {
	if a.Target == nil {
		return nil
	}
	subject := a.Snapshot.Subject
	plan, err := lifecycle.Plan(a.State, a.Target)
	if err != nil {
		return fmt.Errorf("planning the pages of %s: %w", subject.Key(), err)
	}
	clear(pages)
	for _, page := range plan.Pages {
		object := page.Object(subject.Placement)
		pages[object.Name] = object
	}
	return nil
}

func clustersOn(pages map[string]*v1alpha1.PlacementDecision) []string {
	var names []string
	for _, page := range pages {
		for _, decision := range page.Status.Decisions {
			names = append(names, decision.ClusterName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// differ returns the change between two outcomes; nil if they are equal.
func differ(key types.NamespacedName, was, is Outcome) *Change {
	change := &Change{
		Placement: key.String(), Operation: Updated, Before: len(was.clusters), Published: len(was.published), After: len(is.clusters),
		Added: append([]string{}, changes.Minus(is.clusters, was.clusters)...), Removed: append([]string{}, changes.Minus(was.clusters, is.clusters)...),
		Pages: pageChanges(was.pages, is.pages), Conditions: conditionChanges(was.conditions, is.conditions),
	}
	switch {
	case !was.exists:
		change.Operation = Created
	case !is.exists:
		change.Operation = Deleted
	case len(change.Added)+len(change.Removed)+len(change.Pages)+len(change.Conditions) == 0:
		return nil
	}
	change.NeedsApproval = is.needsApproval && len(change.Added)+len(change.Removed) > 0
	return change
}

// pageLabels are the labels of a page that consumers read.
var pageLabels = []string{v1alpha1.PlacementLabel, v1alpha1.DecisionGroupNameLabel, v1alpha1.DecisionGroupIndexLabel}

func pageChanges(was, is map[string]*v1alpha1.PlacementDecision) []PageChange {
	changes := []PageChange{}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		old, next := was[name], is[name]
		switch {
		case old == nil:
			changes = append(changes, PageChange{name, Created})
		case !equality.Semantic.DeepEqual(old.Status.Decisions, next.Status.Decisions) ||
			slices.ContainsFunc(pageLabels, func(label string) bool { return old.Labels[label] != next.Labels[label] }):
			changes = append(changes, PageChange{name, Updated})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if is[name] == nil {
			changes = append(changes, PageChange{name, Deleted})
		}
	}
	slices.SortStableFunc(changes, func(a, b PageChange) int { return strings.Compare(a.Name, b.Name) })
	return changes
}

func conditionChanges(was, is Conditions) []ConditionChange {
	changes := []ConditionChange{}
	for _, next := range is {
		if old := was.Get(next.Type); old == nil || withoutCounts(*old) != withoutCounts(next) {
			changes = append(changes, ConditionChange{next.Type, old, &next})
		}
	}
	for _, old := range was {
		if is.Get(old.Type) == nil {
			changes = append(changes, ConditionChange{old.Type, &old, nil})
		}
	}
	return changes
}

var count = regexp.MustCompile(`\b\d+\b`)

// withoutCounts returns a condition without the counts in its message. Numbers in the message of a
// misconfiguration are values of the spec.
func withoutCounts(c Condition) Condition {
	if c.Type != v1alpha1.PlacementConditionMisconfigured {
		c.Message, _, _ = strings.Cut(c.Message, ": of ")
		c.Message = count.ReplaceAllString(c.Message, "N")
	}
	return c
}
