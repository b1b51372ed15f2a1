package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Progress describes a change that is published in steps.
type Progress struct {
	// Added and Removed are the clusters of the whole change. LeftAdded and LeftRemoved are still
	// to be added and removed after this step.
	Added, Removed, LeftAdded, LeftRemoved int
	// Why is what the next step waits for; empty if it follows at once.
	Why string
	// Paused is the reason of the condition if a user must act; empty if not. holds are set if an
	// approval is enough.
	Paused string
	holds  []berthv1alpha1.ChangeHold
	// pinned is the revision to which the Placement is pinned; 0 if it is not.
	pinned int64
	// StuckSince is the time of the last progress if the deadline has passed since; else zero.
	StuckSince time.Time
}

// String is the message of the condition DecisionProgressing.
func (p *Progress) String() string {
	text := fmt.Sprintf("%d of %d added, %d of %d removed", p.Added-p.LeftAdded, p.Added, p.Removed-p.LeftRemoved, p.Removed)
	if !p.StuckSince.IsZero() {
		text += "; no progress since " + p.StuckSince.UTC().Format(time.RFC3339)
	}
	if p.Why != "" {
		text += "; " + p.Why
	}
	if p.pinned > 0 {
		text += fmt.Sprintf("; pinned to revision %d", p.pinned)
	}
	return text
}

// nextStep runs step 8 for a permitted change: it publishes the target, or the part of the change
// that is published now, or nothing. Plugins count the whole change until it is published, or until
// nothing changes any more.
func (a *planner) nextStep(ctx context.Context) {
	step := a.step
	if step == nil {
		step = a.runTransitionPlugins(ctx)
	}
	t := step.Transition
	switch {
	case step.failure != nil:
		v := failed(step.failure)
		if !a.in.Dry {
			v = a.endReserve(ctx, a.Change, v, false)
		}
		a.setChange(a.Change, v)
		return
	case a.Change.Kind == framework.Continuation: // Progressing also if all of it is published: Target is not.
		if t == nil {
			t = &framework.Transition{Added: a.Change.Added, Removed: a.Change.Removed}
		}
		if a.Deferred != nil && a.Deferred.Digest != a.Change.Digest {
			t.Why = strings.Trim(t.Why+"; "+a.Deferred.describe(), "; ")
		}
	case t == nil || len(t.Added) == len(a.Change.Added) && len(t.Removed) == len(a.Change.Removed):
		a.Outcome = Published
		a.Publish = a.Target
		return
	}
	a.Outcome = Progressing
	a.Progress = &Progress{
		Why: t.Why, Paused: t.Paused, pinned: a.PinnedRevision(),
		LeftAdded:   len(changes.Minus(a.Change.Clusters, a.Snapshot.Subject.LastNames())) - len(t.Added),
		LeftRemoved: len(a.Change.Removed) - len(t.Removed),
	}
	if t.Approvable {
		a.Progress.holds = []berthv1alpha1.ChangeHold{{Plugin: step.pausedBy, Reason: v1alpha1.CutText(t.Why, maxReason)}}
		a.Progress.Why += ". To approve it: " + a.approveCommand()
	}
	a.Progress.Added, a.Progress.Removed = a.wholeChange()
	if len(t.Added)+len(t.Removed) == 0 {
		a.checkDeadline(t)
		return
	}
	a.Publish = a.proposeStep(t)
	a.State.RequeueAt(a.Snapshot.Now)
}

// inProgress returns the record of the change in progress; nil without one. After a crash the open
// record may be a newer one, which was created to replace it.
func (a *planner) inProgress() *berthv1alpha1.PlacementChange {
	return changes.History(a.Snapshot.Subject.Records).Newest(berthv1alpha1.PhaseProgressing)
}

// remainingChange returns the rest of the change in progress; nil if that is the change to Target
// itself (instead). Clusters that the rest keeps and the Placement cannot keep are removed beside
// it, once that is permitted: the rest then goes on under a record of its own, because lists of
// records do not change. If their removal is held, revoked ones stay, and others end the rest, so
// that a user can approve it.
func (a *planner) remainingChange(ctx context.Context, instead *Move) *Move {
	open := a.inProgress()
	if open == nil || isSame(open, instead.Open) {
		return nil
	}
	rest := a.restWithout(open, nil)
	if rest == nil {
		return nil
	}
	lost, revoked := changes.Minus(a.forcedRemovals(), rest.Removed), changes.Minus(revokedClusters(a.Snapshot), rest.Removed)
	if len(lost) == 0 {
		return rest
	}
	onlyRevoked := len(lost) == len(revoked)
	switch answer := a.permitBeside(ctx, lost, onlyRevoked); {
	case answer == Permitted:
		return a.restWithout(open, lost)
	case onlyRevoked || answer == Failed || answer == Waiting && len(lost) == len(a.forcedRemovals()):
		return rest
	}
	return nil
}

// restWithout returns the rest of an open change, without clusters that are removed beside it. It
// returns nil if the published clusters are not between the start and the target of the change, are
// the target, or are of a later change.
func (a *planner) restWithout(open *berthv1alpha1.PlacementChange, removed []string) *Move {
	p := a.proposeRemaining(open, nil)
	if p == nil {
		return nil
	}
	if beside := changes.Minus(removed, p.Removed); len(beside) > 0 {
		return &Move{Proposal: a.proposeRemaining(open, beside), predecessor: open}
	}
	return &Move{Proposal: p, Open: open}
}

// keepsLeaving reports whether a change keeps a cluster that the rest of the change in progress
// removes.
func keepsLeaving(next, rest *Move) bool {
	return len(changes.Minus(rest.Removed, next.Clusters)) < len(rest.Removed)
}

// restFirst makes the rest of the change in progress before the change to Target, if that has
// all that the rest adds and nothing that it removes. The rest must publish a step, or wait: for
// clusters to become ready or a Reserve plugin, until its progress deadline, or for the end of a
// suspension. Otherwise the change to Target supersedes it.
func (a *planner) restFirst(ctx context.Context, next, rest *Move) bool {
	if rest == nil || keepsLeaving(next, rest) || len(changes.Minus(changes.Minus(rest.Clusters, a.Snapshot.Subject.LastNames()), next.Clusters)) > 0 {
		return false
	}
	switch v := a.permitChange(ctx, rest); v.Answer {
	case Permitted:
		a.setRest(rest, v, &Deferred{Move: next})
	case Waiting, Failed:
		if v.Answer == Waiting && a.isStuck(rest, changes.PolicyOf(a.Snapshot.Subject.DisruptionPolicies).ProgressDeadline) {
			return false
		}
		a.setChange(rest, v)
		return true
	default:
		return false
	}
	if a.step = a.runTransitionPlugins(ctx); a.step.failure != nil || a.makesProgress(a.step.Transition) {
		return true
	}
	if !a.in.Dry {
		a.unreserve(ctx, rest.Proposal, false)
	}
	a.step, a.Deferred = nil, nil
	return false
}

func (a *planner) makesProgress(t *framework.Transition) bool {
	switch {
	case t == nil:
		// A quota may leave no room for what the rest would add.
		return len(a.Change.Added)+len(a.Change.Removed) > 0
	case len(t.Added)+len(t.Removed) > 0:
		return true
	}
	if t.Paused != "" {
		// A suspension would keep the change to Target, too.
		return !t.Approvable
	}
	return t.AwaitsReadiness && !a.isStuck(a.Change, t.ProgressDeadline)
}

// setRest makes the rest of the change in progress, which is permitted, instead of another change.
func (a *planner) setRest(rest *Move, v Verdict, instead *Deferred) {
	if rest.predecessor != nil {
		instead.Revision = rest.Revision + 1
	}
	a.Deferred = instead
	a.setChange(rest, v)
}

// restBeside makes the rest of the change in progress, if it is permitted, while another change
// must wait. That keeps its claim.
func (a *planner) restBeside(ctx context.Context, rest *Move, instead *Deferred) {
	waits, reserved := instead.Answer.keepsReservation() && !a.in.Dry, a.Claim
	switch v := a.permitChange(ctx, rest); {
	case v.Answer == Permitted:
		if a.setRest(rest, v, instead); waits {
			a.Claim = a.Claim.with(reserved)
		}
	case v.Answer == Waiting || v.Answer == Failed:
		if a.setChange(rest, v); waits && v.Answer == Waiting {
			a.Claim = a.Claim.with(reserved)
		}
	case waits && IsChange(instead.Proposal):
		a.reserveChange(ctx)
	}
}

// endWaits makes the rest of the change in progress, if it is permitted, while its end must wait:
// Target is published, and a Permit plugin returned Pending for the change without clusters.
func (a *planner) endWaits(ctx context.Context) bool {
	if a.Failure != nil || a.inProgress() == nil {
		return false
	}
	end := *a.Target
	m := a.newMove(&end, a.Timers.Change)
	rest := a.remainingChange(ctx, m)
	if rest == nil {
		return false
	}
	switch v := a.permit(ctx, m); v.Answer {
	case Waiting:
		a.restBeside(ctx, rest, &Deferred{m, v})
	case Failed:
		a.keepsReserved = a.in.Reserved
		a.setChange(m, v)
	}
	return a.Change != nil
}

// proposeRemaining proposes the rest of an open change, without additions that no longer qualify,
// and the removals beside it; see restWithout.
func (a *planner) proposeRemaining(open *berthv1alpha1.PlacementChange, beside []string) *framework.Proposal {
	names := a.Snapshot.Subject.LastNames()
	_, errBefore := changes.Before(open, names)
	target, errTarget := changes.Target(open, names)
	if errBefore != nil || errTarget != nil || slices.Equal(target, names) || a.Snapshot.Subject.LastRevision() > open.Spec.Revision {
		return nil
	}
	digest, revision := open.Spec.To, open.Spec.Revision
	if len(beside) > 0 {
		target = changes.Minus(target, beside)
		digest, revision = framework.DigestOf(target), a.nextRevision(a.Snapshot.Subject.Records)
	}
	// Selected has the clusters that stay, too: quotas count them.
	p := a.lastWithout(changes.Minus(names, target))
	p.Kind = framework.Continuation
	p.Clusters, p.Digest, p.Revision, p.Cause, p.Approved = target, digest, revision, open.Spec.Cause, isApproved(open)
	last := a.Snapshot.Subject.Last
	p.Edited = open.Spec.Edited || last != nil && last.Generation != 0 && (last.Generation != open.Spec.PlacementGeneration || last.Profile != open.Spec.Profile)
	missing := changes.Minus(target, names)
	for _, i := range a.Ranking() {
		if _, found := slices.BinarySearch(missing, a.Feasible[i].Name); found {
			if limit := a.Snapshot.Limit; limit >= 0 && len(p.Selected) >= limit {
				break
			}
			p.Added = append(p.Added, a.Feasible[i].Name)
			p.Selected = append(p.Selected, framework.SelectedCluster{Cluster: a.Feasible[i], Score: a.Totals[i]})
		}
	}
	slices.Sort(p.Added)
	return p
}

// describe says that the change comes next, and what it waits for.
func (d *Deferred) describe() string {
	text := fmt.Sprintf("change %d follows", d.Revision)
	if !IsChange(d.Proposal) {
		text = "the selected clusters are published, and end the change"
	}
	if why := cmp.Or(d.Reason, holdText(d.Holds, func(string) bool { return false })); why != "" {
		text += ": it waits for " + why
	}
	return text
}

// wholeChange returns how many clusters the change adds and removes, with its earlier steps.
func (a *planner) wholeChange() (added, removed int) {
	if open := a.Change.Open; open != nil {
		return int(open.Spec.AddedCount), int(open.Spec.RemovedCount)
	}
	// An addition that no longer qualifies is none any more.
	return len(changes.Minus(a.Change.Clusters, a.Snapshot.Subject.LastNames())), len(a.Change.Removed)
}

// checkDeadline reports a change without progress since the progress deadline.
func (a *planner) checkDeadline(t *framework.Transition) {
	switch last := a.lastProgress(a.Change); {
	case t.ProgressDeadline == 0 || t.Paused != "":
	case a.isStuck(a.Change, t.ProgressDeadline):
		a.Progress.StuckSince = last
	default:
		a.State.RequeueAt(last.Add(t.ProgressDeadline))
	}
}

// isStuck reports whether the progress deadline, if there is one, has passed since the last
// progress of a change.
func (a *planner) isStuck(m *Move, deadline time.Duration) bool {
	return deadline > 0 && !a.Snapshot.Now.Before(a.lastProgress(m).Add(deadline))
}

// lastProgress returns the time of the last step of a change, of its permission or of its last
// newly ready cluster; now for a change that begins.
func (a *planner) lastProgress(m *Move) time.Time {
	var last time.Time
	if open := m.Open; open != nil {
		if at := cmp.Or(open.Status.LastProgressTime, open.Status.PermittedTime); at != nil {
			last = at.Time
		}
	}
	if last.IsZero() {
		return a.Snapshot.Now
	}
	if a.Timers.LastStep.After(last) {
		// The record does not have it yet.
		last = a.Timers.LastStep
	}
	for _, since := range a.Timers.ReadySince {
		if since.After(last) {
			last = since
		}
	}
	return last
}

// longestMeasurement is the longest minReadySeconds and progressDeadlineSeconds.
const longestMeasurement = 24 * time.Hour

// readySince continues the measurement for the clusters that were added to a Placement with a
// DisruptionPolicy, until they have been ready for longestMeasurement. A cluster that is not ready
// has the zero time.
func (a *planner) readySince() map[string]time.Time {
	if len(a.Snapshot.Subject.DisruptionPolicies) == 0 {
		return nil
	}
	now, before := a.Snapshot.Now, a.Timers.ReadySince
	var added []string
	if before == nil {
		added = a.addedBefore()
	}
	since := map[string]time.Time{}
	for _, name := range a.Snapshot.Subject.LastNames() {
		at, known := before[name]
		switch {
		case !known && !changes.Contains(added, name) && (before != nil || !a.mayHaveWaited(name)):
		case a.Snapshot.NotReady[name] != "":
			since[name] = time.Time{}
		case at.IsZero():
			since[name] = now
		case now.Sub(at) < longestMeasurement:
			since[name] = at
		}
	}
	return since
}

// mayHaveWaited reports whether a cluster that stays is not ready when the measurement begins: an
// earlier process may have waited for it since it was added.
func (a *planner) mayHaveWaited(name string) bool {
	return a.Snapshot.NotReady[name] != "" && (a.Target == nil || changes.Contains(a.Target.Clusters, name))
}

// addedBefore returns the clusters that were added before the measurement began, by a change that
// is not complete or ended less than minReadySeconds ago, sorted. If records do not say which, it
// returns all published clusters.
func (a *planner) addedBefore() []string {
	added, _ := a.changedInSteps()
	subject := a.Snapshot.Subject
	since := a.Snapshot.Now.Add(-changes.PolicyOf(subject.DisruptionPolicies).MinReady)
	if changes.History(subject.Records).IncompleteUntil().After(since) {
		return subject.LastNames()
	}
	for _, record := range subject.Records {
		if !changes.Joins(record) || !changes.EndedSince(record, since) {
			continue
		}
		joined, err := changes.Joined(record)
		if err != nil {
			return subject.LastNames()
		}
		added = append(added, joined...)
	}
	if changes.EndOfSecond(a.Timers.UnrecordedAt).After(since) {
		added = append(added, a.Timers.Unrecorded...)
	}
	return changes.Sorted(added)
}

// step is what all Transition plugins allow a change to publish now: without a Transition, all of
// it.
type step struct {
	*framework.Transition
	// pausedBy is the plugin whose pause an approval ends.
	pausedBy string
	failure  *framework.Status
}

func (a *planner) runTransitionPlugins(ctx context.Context) *step {
	s := &step{}
	if len(a.Profile.Transition) == 0 {
		return s
	}
	defer a.in.Timer.Start(a.Profile, "Transition")()
	change := framework.NewChange(a.Change.Proposal, a.leaving)
	change.ReadySince, change.LastProgress, change.Original = a.Timers.ReadySince, a.lastProgress(a.Change), a.original()
	for _, plugin := range a.Profile.Transition {
		var t *framework.Transition
		status := plugins.Call(ctx, "Transition", plugin, func() (status *framework.Status) {
			t, status = plugin.Transition(ctx, a.State, a.Snapshot.Subject.Placement, change)
			return status
		})
		if timedOut := a.checkTimeout("Transition", plugin); timedOut != nil {
			return &step{failure: timedOut}
		}
		if !status.IsSuccess() {
			return &step{failure: plugins.Unexpected(plugin, "Transition", status)}
		}
		if t != nil && t.Approvable {
			s.pausedBy = plugin.Name()
		}
		s.Transition = inBoth(s.Transition, t)
	}
	if s.Transition != nil {
		s.Transition = a.bounded(s.Transition)
	}
	return s
}

// bounded is a step without clusters that the change does not add or remove, and with the removals
// that cannot wait, whatever plugins say.
func (a *planner) bounded(t *framework.Transition) *framework.Transition {
	step := *t
	step.Added = changes.Both(a.Change.Added, changes.Sorted(t.Added))
	step.Removed = changes.Both(a.Change.Removed, changes.Sorted(slices.Concat(t.Removed, a.forcedRemovals())))
	return &step
}

// inBoth returns the step that two plugins allow; nil allows everything.
func inBoth(a, b *framework.Transition) *framework.Transition {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	both := &framework.Transition{
		Added: changes.Both(a.Added, b.Added), Removed: changes.Both(a.Removed, b.Removed),
		Paused: a.Paused, Approvable: a.Approvable, Why: a.Why, ProgressDeadline: cmp.Or(a.ProgressDeadline, b.ProgressDeadline),
		AwaitsReadiness: a.AwaitsReadiness || b.AwaitsReadiness,
	}
	if both.Why == "" || b.Paused != "" && a.Paused == "" {
		both.Paused, both.Approvable, both.Why = b.Paused, b.Approvable, b.Why
	}
	return both
}

// leaving describes the clusters that the change removes, and those that its earlier steps, or
// those of changes that it superseded, removed.
func (a *planner) leaving() []framework.Leaving {
	_, removed := a.changedInSteps()
	names := changes.Sorted(slices.Concat(a.Change.Removed, changes.Minus(removed, a.Change.Clusters)))
	all := a.describeLeaving(names)
	byIndex := make(map[int]*framework.Leaving, len(all))
	for i := range all {
		if c := all[i].Cluster; c != nil {
			byIndex[c.Index] = &all[i]
		}
	}
	if slices.ContainsFunc(a.Feasible, func(c *framework.Cluster) bool { return byIndex[c.Index] != nil }) {
		for rank, i := range a.Ranking() {
			if leaving := byIndex[a.Feasible[i].Index]; leaving != nil {
				leaving.Rank = rank + 1
			}
		}
	}
	for i := range all {
		if all[i].Cluster != nil {
			all[i].OtherwiseQualifies = a.onlyForced(all[i].Cluster)
		}
	}
	return all
}

// onlyForced reports whether only a filter that forces removals excludes a cluster.
func (a *planner) onlyForced(c *framework.Cluster) bool {
	by := a.ExcludedByPlugin(c.Index)
	return by != "" && a.MayPin(c.Name) && slices.ContainsFunc(a.forcingFilters(), func(f framework.FilterPlugin) bool { return f.Name() == by })
}

// proposeStep proposes one step of the change.
func (a *planner) proposeStep(t *framework.Transition) *framework.Proposal {
	p := a.lastWithout(t.Removed)
	p.Kind, p.Partial = a.Change.Kind, true
	p.Added, p.Revision, p.Cause, p.Approved, p.Edited = t.Added, a.Change.Revision, a.Change.Cause, a.Change.Approved, a.Change.Edited
	for _, selection := range a.Change.Selected {
		if _, added := slices.BinarySearch(t.Added, selection.Cluster.Name); added {
			p.Selected = append(p.Selected, selection)
		}
	}
	p.Leaves = changes.Minus(a.Change.Removed, t.Removed)
	leaves := func(s framework.SelectedCluster) int {
		if changes.Contains(p.Leaves, s.Cluster.Name) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.Selected, func(a, b framework.SelectedCluster) int {
		return cmp.Or(cmp.Compare(leaves(a), leaves(b)), cmp.Compare(b.Score, a.Score))
	})
	p.Clusters = changes.Sorted(slices.Concat(p.Clusters, t.Added))
	p.Digest = framework.DigestOf(p.Clusters)
	return p
}
