package plan

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// diff compares the selected clusters with those published last. If nothing was decided, it returns
// nil and the published decision stays. If nothing was published yet either, it proposes an empty
// page, unless the next attempt continues this one, the Placement's name is too long for a label,
// or the SelectionPolicy that it requires is missing or invalid.
func (a *planner) diff() *framework.Proposal {
	subject := a.Snapshot.Subject
	last := subject.Last
	if a.Failure != nil && !a.needsEmptyPage() {
		return nil
	}
	p := &framework.Proposal{Selected: a.Selected, Clusters: make([]string, len(a.Selected)), From: emptyDigest}
	for i, s := range a.Selected {
		p.Clusters[i] = s.Cluster.Name
	}
	slices.Sort(p.Clusters)
	p.Digest = framework.DigestOf(p.Clusters)
	if last == nil {
		if !a.repeatsRecord(p) {
			p.Added = changes.Minus(p.Clusters, nil)
		}
		return p
	}
	p.From, p.LastScores, p.Revision = last.Digest, last.ScoresAt, last.Revision
	p.Edited = a.editsSince().edited
	if !a.repeatsRecord(p) {
		p.Added, p.Removed = changes.Minus(p.Clusters, last.Names), changes.Minus(last.Names, p.Clusters)
	}
	if last.SinceStart && last.Scores != nil && last.Digest == p.Digest {
		reads, panicked := a.ReadsCounts()
		a.recovered(panicked)
		if reads {
			p.Selected = a.withPublishedScores()
		}
	}
	return p
}

// needsEmptyPage reports whether an attempt that decided nothing publishes an empty page.
func (a *planner) needsEmptyPage() bool {
	subject := a.Snapshot.Subject
	pl := subject.Placement
	return !a.Failure.IsUnfinished() && subject.Last == nil && len(subject.OwnPages()) == 0 && !HadClusters(pl) &&
		len(pl.Name) <= v1alpha1.MaxLabelValueLength && !a.LacksPolicy()
}

// withPublishedScores returns the selected clusters with their published scores, best first.
func (a *planner) withPublishedScores() []framework.SelectedCluster {
	demoted, selected := a.State.Demoted(), slices.Clone(a.Selected)
	for i, s := range selected {
		if score, known := a.Snapshot.Subject.Last.Scores[s.Cluster.Name]; known {
			selected[i].Score = score
		}
	}
	isDemoted := func(s framework.SelectedCluster) int {
		if demoted.Has(s.Cluster.Index) {
			return 1
		}
		return 0
	}
	slices.SortFunc(selected, func(x, y framework.SelectedCluster) int {
		return cmp.Or(cmp.Compare(isDemoted(x), isDemoted(y)), cmp.Compare(y.Score, x.Score), cmp.Compare(x.Cluster.Name, y.Cluster.Name))
	})
	return selected
}

var emptyDigest = framework.DigestOf(nil)

// repeatsRecord reports whether the target is that of the newest Published record, but the pages
// were edited or deleted while no controller ran. It then sets that record's revision.
func (a *planner) repeatsRecord(p *framework.Proposal) bool {
	subject := a.Snapshot.Subject
	last := subject.Last
	if last != nil && (!last.FromPages || last.Digest == p.Digest) {
		return false
	}
	newest := changes.History(subject.Records).Latest(subject.LastRevision())
	if newest == nil || newest.Spec.To != p.Digest {
		return false
	}
	p.Revision = newest.Spec.Revision
	return true
}

// IsChange reports whether clusters are added or removed.
func IsChange(p *framework.Proposal) bool {
	return p != nil && len(p.Added)+len(p.Removed) > 0
}

// Move is one way in which the published decision can change, with what is known of the change: its
// open record, the record of the same change that was rejected or expired, and plugins' answers.
type Move struct {
	*framework.Proposal
	Open, ended *berthv1alpha1.PlacementChange
	// predecessor is the record of the change in progress whose rest this is, if it goes on under
	// another record.
	predecessor *berthv1alpha1.PlacementChange
	answers     framework.Answers
	// generation is that of the Placement for which the clusters are published after the change.
	generation int64
}

// newMove finds the records of a change and sets its revision, holds, approval and times.
func (a *planner) newMove(p *framework.Proposal, before framework.Stability) *Move {
	history := changes.History(a.Snapshot.Subject.Records)
	c := a.ChangeOf(p)
	m := a.withRecords(p, history, &c)
	m.generation = c.Generation
	p.Cause = c.Cause
	if record := cmp.Or(m.Open, m.ended); record != nil {
		p.Cause, p.Edited = record.Spec.Cause, p.Edited || record.Spec.Edited
	}
	p.Approved = isApproved(m.Open) || isApproved(m.ended)
	switch {
	case m.ended != nil && !p.Approved && m.ended.Status.Phase == berthv1alpha1.PhaseExpired:
		p.ExpiredBy = holders(m.ended)
	case m.Open == nil && m.ended == nil && p.Kind == framework.RevokedRemoval:
		p.ExpiredBy = holdersOf(history, p)
	}
	a.setRevision(m, history)
	if answers := a.Snapshot.Answers; answers.Revision == p.Revision && answers.Digest == p.Digest && answers.Generation == c.Generation {
		m.answers = answers
	}
	stability := stabilityOf(before, p, a.Snapshot.Now)
	p.Since, p.RemovingSince = stability.Since, stability.RemovingSince
	return m
}

// withRecords returns a Move with its open record, whose holds it has, and the one that ended. No
// answer to a record keeps revoked clusters: whose clusters they are is the platform's decision.
func (a *planner) withRecords(p *framework.Proposal, history changes.History, c *changes.Change) *Move {
	subject, m := a.Snapshot.Subject, &Move{Proposal: p, ended: history.Ended(c)}
	if open := history.Open(); open != nil && changes.Continues(open, c, subject.LastNames(), subject.LastRevision()) {
		m.Open = open
	}
	revoked := p.Kind == framework.RevokedRemoval
	if ended := m.ended; revoked && ended != nil && wasRejected(ended) && !isApproved(ended) {
		m.ended = nil
	}
	switch {
	case m.Open == nil:
	case revoked && rejected(m.Open):
		m.Open = nil
	default:
		p.HeldBy = deadlinesOf(m.Open.Status.Holds)
		if rejected(m.Open) {
			// This answer is newer than that to an earlier record.
			m.ended = nil
		}
	}
	return m
}

// setRevision sets the revision of the change's record or, without a record, the next one.
func (a *planner) setRevision(m *Move, history changes.History) {
	m.Revision = a.nextRevision(history)
	unwritten := m.Open == nil || m.Open.Status.Phase == ""
	switch {
	case m.Open != nil:
		m.Revision = m.Open.Spec.Revision
	case m.ended != nil && m.ended.Spec.Revision == m.Revision-1:
		m.Revision, unwritten = m.ended.Spec.Revision, false
	}
	answers := a.Snapshot.Answers
	if unwritten && answers.Revision == m.Revision && answers.Digest == m.Digest && answers.From == m.From && answers.Generation == m.generation {
		// The change is held, but its record could not be written yet.
		m.HeldBy = answers.Plugins
	}
}

// holdersOf returns the plugins that hold a change, or held it until it expired, which removes the
// same clusters as a removal alone: what it adds does not make that smaller. An answer ends this.
func holdersOf(history changes.History, alone *framework.Proposal) (plugins []string) {
	for _, record := range slices.Backward(history) {
		phase := record.Status.Phase
		if phase != berthv1alpha1.PhaseHeld && phase != berthv1alpha1.PhaseExpired || record.Spec.From != alone.From {
			continue
		}
		if _, removed, err := changes.Lists(record); err != nil || !slices.Equal(removed, alone.Removed) {
			continue
		}
		if changes.ApprovalOf(record) == nil {
			plugins = holders(record)
		}
		return plugins
	}
	return nil
}

func holders(record *berthv1alpha1.PlacementChange) (plugins []string) {
	for _, hold := range record.Status.Holds {
		plugins = append(plugins, hold.Plugin)
	}
	return plugins
}

// deadlinesOf returns the deadlines of holds, by plugin; zero for none.
func deadlinesOf(holds []berthv1alpha1.ChangeHold) map[string]time.Time {
	deadlines := map[string]time.Time{}
	for _, hold := range holds {
		deadlines[hold.Plugin] = time.Time{}
		if hold.Until != nil {
			deadlines[hold.Plugin] = hold.Until.Time
		}
	}
	return deadlines
}

func approved(record *berthv1alpha1.PlacementChange) bool {
	return record != nil && record.Spec.Approval != nil && record.Spec.Approval.Decision == berthv1alpha1.Approved
}

// isApproved reports whether a record, or an earlier one of the same change, was approved.
func isApproved(record *berthv1alpha1.PlacementChange) bool {
	return approved(record) || record != nil && record.Status.Approval != nil && !rejected(record)
}

func rejected(record *berthv1alpha1.PlacementChange) bool {
	return record != nil && record.Spec.Approval != nil && record.Spec.Approval.Decision == berthv1alpha1.Rejected
}

// nextRevision is the highest known revision plus 1. The last published decision includes the
// revision on the pages.
func (a *planner) nextRevision(history changes.History) int64 {
	next := history.Last() + 1
	if last := a.Snapshot.Subject.Last; last != nil {
		next = max(next, last.Revision+1)
	}
	return next
}

// ChangeOf returns the change of a Proposal, as in its record.
func (p *Plan) ChangeOf(of *framework.Proposal) changes.Change {
	pl := p.Snapshot.Subject.Placement
	c := changes.Change{
		From: of.From, To: of.Digest, Clusters: len(of.Clusters), Added: of.Added, Removed: of.Removed,
		Cause: p.cause(), Generation: pl.Generation, Profile: decide.ProfileName(pl), Edited: of.Edited,
		PublishedGeneration: p.Snapshot.Subject.PublishedGeneration(),
	}
	if queue := p.Snapshot.Queue; queue != nil && queue.Admitted {
		c.Queue = queue.Annotation
	}
	if of.Kind.Forced() {
		// What stays published was decided for the generation before.
		c.Forced, c.Generation = of.Removed, cmp.Or(c.PublishedGeneration, c.Generation)
		return c
	}
	p.addEdit(&c)
	return c
}

// cause returns the attempt's trigger: an event, the time that the last attempt asked for, or a
// retry.
func (p *Plan) cause() string {
	s := p.Snapshot
	switch {
	case s.Cause != "":
		return s.Cause
	case !s.Timers.NextAttempt.IsZero() && !s.Now.Before(s.Timers.NextAttempt):
		return s.Timers.NextAttemptCause
	}
	return "retry"
}

// stabilityOf continues the measurement with the next Proposal.
func stabilityOf(before framework.Stability, p *framework.Proposal, now time.Time) framework.Stability {
	next := framework.Stability{Digest: p.Digest, Since: now}
	if before.Digest == p.Digest {
		next.Since = before.Since
	}
	if len(p.Removed) > 0 {
		next.RemovingSince = now
		if !before.RemovingSince.IsZero() {
			next.RemovingSince = before.RemovingSince
		}
	}
	return next
}

// revokedClusters returns the published clusters whose sets are no longer bound to the namespace,
// sorted. Deleted clusters are not included: an accidental deletion must not bypass an approval.
func revokedClusters(snapshot *framework.Snapshot) []string {
	last := snapshot.Subject.Last
	if last == nil {
		return nil
	}
	var names []string
	for _, name := range last.Names {
		if c := snapshot.Cluster(name); c != nil && c.DeletionTimestamp.IsZero() && !snapshot.IsUsable(c) {
			names = append(names, name)
		}
	}
	return names
}

// forcedRemovals returns the published clusters that the Placement cannot keep, sorted.
func (a *planner) forcedRemovals() []string { return a.forcedOf(a.Snapshot.Subject.LastNames()) }

// forcedOf returns which of the clusters, sorted, the Placement cannot keep.
func (a *planner) forcedOf(names []string) (forced []string) {
	for _, leaving := range a.describeLeaving(names) {
		if leaving.Forced {
			forced = append(forced, leaving.Name)
		}
	}
	return forced
}

func (a *planner) forcingFilters() []framework.FilterPlugin {
	var filters []framework.FilterPlugin
	for _, plugin := range a.Profile.Filter {
		if a.Profile.Traits(plugin.Name()).ForcesRemoval != nil {
			filters = append(filters, plugin)
		}
	}
	return filters
}

// describeLeaving says of each cluster whether its removal is forced. names are sorted, and so is
// the result.
func (a *planner) describeLeaving(names []string) []framework.Leaving {
	all := make([]framework.Leaving, len(names))
	for i, name := range names {
		c := a.Snapshot.Cluster(name)
		all[i] = framework.Leaving{Name: name, Cluster: c, Forced: c == nil || !c.DeletionTimestamp.IsZero() || !a.Snapshot.IsUsable(c)}
	}
	for _, f := range a.forcingFilters() {
		forces := a.Profile.Traits(f.Name()).ForcesRemoval
		a.recovered(plugins.Call(context.Background(), "ForcesRemoval", f, func() *framework.Status {
			for i := range all {
				if all[i].Forced {
					continue
				}
				forcing := forces(a.State, a.Snapshot.Subject.Placement, all[i].Cluster)
				all[i].Forced = forcing.Forces && !a.causedByEdit(all[i].Name, forcing)
			}
			return nil
		}))
	}
	return all
}

// lastWithout proposes the last published decision without some of its clusters. It keeps the
// published scores.
func (a *planner) lastWithout(without []string) *framework.Proposal {
	last := a.Snapshot.Subject.Last
	if last == nil {
		last = &framework.Published{Digest: emptyDigest}
	}
	names := changes.Minus(last.Names, without)
	p := &framework.Proposal{
		Clusters: names, Digest: framework.DigestOf(names), From: last.Digest, Removed: without, Kind: framework.ForcedRemoval,
		LastScores: last.ScoresAt, Revision: last.Revision, Selected: make([]framework.SelectedCluster, 0, len(names)),
	}
	if len(without) == 0 {
		p.Kind = framework.Republication
	}
	unscored := map[int]int{} // positions in Selected by the index of the cluster
	for _, name := range names {
		c := clusterOf(a.Snapshot, name)
		score, scored := last.Scores[name]
		if !scored {
			unscored[c.Index] = len(p.Selected)
		}
		p.Selected = append(p.Selected, framework.SelectedCluster{Cluster: c, Score: score})
	}
	if len(unscored) > 0 {
		for i, total := range a.Totals {
			if at, found := unscored[a.Feasible[i].Index]; found {
				p.Selected[at].Score = total
			}
		}
	}
	slices.SortStableFunc(p.Selected, func(a, b framework.SelectedCluster) int { return cmp.Compare(b.Score, a.Score) })
	return p
}

// clusterOf returns a published cluster; one with only a name if it was deleted. Its removal is
// then part of the pending change.
func clusterOf(snapshot *framework.Snapshot, name string) *framework.Cluster {
	if c := snapshot.Cluster(name); c != nil {
		return c
	}
	return framework.NewCluster(&v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, -1)
}

// republish publishes the last published decision again if its pages were edited or deleted
// externally, and, while a change is pending, if its groups may be out of date. If nothing was
// published yet, it publishes an empty page.
func (a *planner) republish() {
	subject := a.Snapshot.Subject
	last := subject.Last
	switch {
	case last == nil && HadClusters(subject.Placement):
	case last != nil && !last.Damaged(subject) && !a.regroups():
	default:
		if a.Publish = a.lastWithout(nil); a.Progress != nil {
			a.Publish.Leaves = a.Change.Removed
		}
	}
}

// regroups reports whether the pages may need other groups than they have, because the Placement's
// spec or a cluster's labels changed: a decided Placement has, or had, decision groups.
func (a *planner) regroups() bool {
	pl := a.Snapshot.Subject.Placement
	groups := pl.Spec.DecisionStrategy.GroupStrategy
	per := groups.ClustersPerDecisionGroup
	return a.Failure == nil &&
		(len(pl.Status.DecisionGroups) > 1 || len(groups.DecisionGroups) > 0 || per != intstr.IntOrString{} && per.String() != v1alpha1.DefaultClustersPerDecisionGroup)
}

// HadClusters reports whether the status lists clusters as published. If all pages were deleted
// while no controller ran, consumers are safer without a page than with an empty one.
func HadClusters(pl *v1alpha1.Placement) bool {
	return slices.ContainsFunc(pl.Status.DecisionGroups, func(g v1alpha1.DecisionGroupStatus) bool { return g.ClusterCount > 0 })
}
