package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// progress describes a change that is published in steps.
type progress struct {
	// added and removed are the clusters of the whole change. leftAdded and leftRemoved are still
	// to be added and removed after this step.
	added, removed, leftAdded, leftRemoved int
	// why is what the next step waits for; empty if it follows at once.
	why string
	// paused is the reason of the condition if a user must act; empty if not. holds are set if an
	// approval is enough.
	paused string
	holds  []berthv1alpha1.ChangeHold
	// pinned is the revision to which the Placement is pinned; 0 if it is not.
	pinned int64
	// stuckSince is the time of the last progress if the deadline has passed since; else zero.
	stuckSince time.Time
}

// String is the message of the condition DecisionProgressing.
func (p *progress) String() string {
	text := fmt.Sprintf("%d of %d added, %d of %d removed", p.added-p.leftAdded, p.added, p.removed-p.leftRemoved, p.removed)
	if !p.stuckSince.IsZero() {
		text += "; no progress since " + p.stuckSince.UTC().Format(time.RFC3339)
	}
	if p.why != "" {
		text += "; " + p.why
	}
	if p.pinned > 0 {
		text += fmt.Sprintf("; pinned to revision %d", p.pinned)
	}
	return text
}

// nextStep runs step 8 for a permitted change. It sets Step: the target, or the part of the change
// that is published now; nil if nothing can be published now. Plugins count the whole change until
// it is published, or until nothing changes any more.
func (s *Scheduler) nextStep(ctx context.Context, a *Attempt, dry bool) {
	t, failure := s.transitionPlugins(ctx, a)
	switch {
	case failure != nil:
		a.setVerdict(failedResult(failure))
		if !dry {
			s.unreserve(ctx, a, a.Change.Proposal, false)
		}
		return
	case a.goesOn != "":
		if t == nil {
			t = &framework.Transition{Added: a.Change.Added, Removed: a.Change.Removed}
		}
		t.Why = cmp.Or(t.Why, a.goesOn)
	case t == nil || len(t.Added) == len(a.Change.Added) && len(t.Removed) == len(a.Change.Removed):
		a.Step = a.Target
		return
	}
	a.Outcome = Progressing
	a.progress = &progress{
		why: t.Why, paused: t.Paused,
		leftAdded:   len(changes.Minus(a.Change.Clusters, a.Snapshot.Subject.LastNames())) - len(t.Added),
		leftRemoved: len(a.Change.Removed) - len(t.Removed),
	}
	if t.Approvable {
		a.progress.holds = []berthv1alpha1.ChangeHold{{Plugin: a.pausedBy, Reason: v1alpha1.CutText(t.Why, maxReason)}}
		a.progress.why += ". To approve it: " + a.approveCommand()
	}
	a.progress.added, a.progress.removed = a.wholeChange()
	if a.pin != nil {
		a.progress.pinned = a.pin.revision
	}
	if len(t.Added)+len(t.Removed) == 0 {
		a.checkDeadline(t)
		return
	}
	a.Step = a.part(t)
	a.State.RequeueAt(a.Snapshot.Now)
}

// goOn lets the change in progress go on while the change to a new target is Waiting, for example
// for the stabilization window, or is held only by windows of policies. Clusters that no longer
// qualify are not added. Forced removals supersede the change in progress, and so does the end of
// the wait, and a target that keeps a cluster that the change in progress would remove.
func (s *Scheduler) goOn(ctx context.Context, a *Attempt, dry bool) {
	subject := a.Snapshot.Subject
	open := changes.History(subject.Records).Open()
	if open == nil || open == a.Change.open || open.Status.Phase != berthv1alpha1.PhaseProgressing || len(a.forcedRemovals()) > 0 {
		return
	}
	p := a.toward(open)
	if p == nil || len(changes.Minus(p.Removed, a.Target.Clusters)) < len(p.Removed) {
		return
	}
	m := &Move{Proposal: p, open: open}
	v := s.permitChange(ctx, a, m, dry)
	if v.Outcome != Published {
		return
	}
	a.goesOn = fmt.Sprintf("change %d follows: it waits for %s", a.Change.Revision, cmp.Or(a.why, a.holdText()))
	a.Change = m
	a.setVerdict(v)
}

// toward proposes the rest of an open change, without additions that no longer qualify. It returns
// nil if the published clusters are not between the start and the target of the change, are the
// target, or are of a later change.
func (a *Attempt) toward(open *berthv1alpha1.PlacementChange) *framework.Proposal {
	names := a.Snapshot.Subject.LastNames()
	_, errBefore := changes.Before(open, names)
	target, errTarget := changes.Target(open, names)
	if errBefore != nil || errTarget != nil || slices.Equal(target, names) || a.Snapshot.Subject.LastRevision() > open.Spec.Revision {
		return nil
	}
	// Selected has the clusters that stay, too: quotas count them.
	p := a.republish(changes.Minus(names, target))
	p.Forced, p.Restores = false, false
	p.Clusters, p.Digest, p.Revision, p.Cause, p.Approved = target, open.Spec.To, open.Spec.Revision, open.Spec.Cause, approved(open) || approvedBefore(open)
	last := a.Snapshot.Subject.Last
	p.Edited = open.Spec.Edited || last != nil && last.Generation != 0 && (last.Generation != open.Spec.PlacementGeneration || last.Profile != open.Spec.Profile)
	missing := changes.Minus(target, names)
	for _, i := range a.Ranking() {
		if _, found := slices.BinarySearch(missing, a.Feasible[i].Name); found {
			if limit := a.Snapshot.Limit; limit >= 0 && len(p.Selected) >= limit {
				break
			}
			p.Added = append(p.Added, a.Feasible[i].Name)
			p.Selected = append(p.Selected, framework.Selection{Cluster: a.Feasible[i], Score: a.Totals[i]})
		}
	}
	slices.Sort(p.Added)
	return p
}

// Moving describes the clusters of a change that is published in steps, sorted by name; nil for
// other attempts.
func (a *Attempt) Moving() []berthv1alpha1.MovingCluster {
	if a.progress == nil {
		return nil
	}
	added, removed, since := a.Change.Added, a.Change.Removed, a.Snapshot.Now
	if open := a.Change.open; open != nil {
		if all, gone, err := changes.Lists(open); err == nil {
			added, removed = all, gone
		}
		if open.Status.PermittedTime != nil {
			since = open.Status.PermittedTime.Time
		}
	}
	before, after := a.Snapshot.Subject.LastNames(), a.listed()
	var all []berthv1alpha1.MovingCluster
	for _, name := range added {
		all = append(all, berthv1alpha1.MovingCluster{Cluster: name, State: a.stateOfAdded(name, before, after)})
	}
	for _, name := range removed {
		state := "removed"
		switch {
		case contains(after, name):
			state = "leaves since " + since.UTC().Format(time.RFC3339) + "; " + cmp.Or(a.progress.why, "the next step follows")
		case contains(before, name):
			state = "removed in this step"
		}
		all = append(all, berthv1alpha1.MovingCluster{Cluster: name, State: state})
	}
	slices.SortFunc(all, func(a, b berthv1alpha1.MovingCluster) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return all
}

func (a *Attempt) stateOfAdded(name string, before, after []string) string {
	switch since, ready := a.timers.ReadySince[name]; {
	case !contains(after, name):
		return "added later"
	case !contains(before, name):
		return "added in this step"
	case a.Snapshot.NotReady[name] != "":
		return "added, not ready: " + a.Snapshot.NotReady[name]
	case ready && since.Before(a.Snapshot.Now):
		return "added, ready since " + since.UTC().Format(time.RFC3339)
	}
	return "added, ready"
}

// wholeChange returns how many clusters the change adds and removes, with its earlier steps.
func (a *Attempt) wholeChange() (added, removed int) {
	if open := a.Change.open; open != nil {
		return int(open.Spec.AddedCount), int(open.Spec.RemovedCount)
	}
	return len(a.Change.Added), len(a.Change.Removed)
}

// checkDeadline reports a change without progress since the progress deadline.
func (a *Attempt) checkDeadline(t *framework.Transition) {
	if t.ProgressDeadline == 0 || t.Paused != "" {
		return
	}
	last := a.lastProgress()
	if deadline := last.Add(t.ProgressDeadline); a.Snapshot.Now.Before(deadline) {
		a.State.RequeueAt(deadline)
	} else {
		a.progress.stuckSince = last
	}
}

// lastProgress returns the time of the last step of the change, of its permission or of its last
// newly ready cluster; now for a change that begins.
func (a *Attempt) lastProgress() time.Time {
	var last time.Time
	if open := a.Change.open; open != nil {
		if at := cmp.Or(open.Status.LastProgressTime, open.Status.PermittedTime); at != nil {
			last = at.Time
		}
	}
	if last.IsZero() {
		return a.Snapshot.Now
	}
	for _, since := range a.timers.ReadySince {
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
func (a *Attempt) readySince() map[string]time.Time {
	if len(a.Snapshot.Subject.Policies) == 0 {
		return nil
	}
	now, before := a.Snapshot.Now, a.timers.ReadySince
	var added []string
	if before == nil {
		added = a.addedBefore()
	}
	since := map[string]time.Time{}
	for _, name := range a.Snapshot.Subject.LastNames() {
		at, known := before[name]
		switch {
		case !known && !contains(added, name) && (before != nil || !a.mayHaveWaited(name)):
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
func (a *Attempt) mayHaveWaited(name string) bool {
	return a.Snapshot.NotReady[name] != "" && (a.Target == nil || contains(a.Target.Clusters, name))
}

// addedBefore returns the clusters that were added before the measurement began, by a change that
// is not complete or ended less than minReadySeconds ago, sorted. If records do not say which, it
// returns all published clusters.
func (a *Attempt) addedBefore() []string {
	added, _ := a.changedInSteps()
	subject := a.Snapshot.Subject
	since := a.Snapshot.Now.Add(-changes.PolicyOf(subject.Policies).MinReady)
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
	if changes.EndOfSecond(a.timers.UnrecordedAt).After(since) {
		added = append(added, a.timers.Unrecorded...)
	}
	return changes.Sorted(added)
}

// StuckEvent returns the event for a change whose progress deadline has just passed; nil otherwise.
func (a *Attempt) StuckEvent() *Event {
	if a.progress == nil || a.progress.stuckSince.IsZero() {
		return nil
	}
	before := meta.FindStatusCondition(a.Snapshot.Subject.Placement.Status.Conditions, v1alpha1.PlacementConditionDecisionProgressing)
	if before != nil && before.Reason == v1alpha1.ReasonProgressDeadlineExceeded {
		return nil
	}
	return &Event{
		Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonProgressDeadlineExceeded, Action: "PublishStep",
		Note: CutNote(fmt.Sprintf("Change %d: %s", a.Change.Revision, a.progress)),
	}
}

// transitionPlugins runs the Transition plugins. It returns nil if the whole change is published.
func (s *Scheduler) transitionPlugins(ctx context.Context, a *Attempt) (*framework.Transition, *framework.Status) {
	if len(a.profile.Transition) == 0 {
		return nil, nil
	}
	defer s.startTimer(a.Result, "Transition")()
	change := framework.NewChange(a.Change.Proposal, a.leaving)
	change.ReadySince, change.LastProgress, change.Original = a.timers.ReadySince, a.lastProgress(), a.original()
	var step *framework.Transition
	for _, plugin := range a.profile.Transition {
		var t *framework.Transition
		status := guard(ctx, "Transition", plugin, func() (status *framework.Status) {
			t, status = plugin.Transition(ctx, a.State, a.Snapshot.Subject.Placement, change)
			return status
		})
		if late := a.timeout("Transition", plugin.Name()); late != nil {
			return nil, late
		}
		if !status.IsSuccess() {
			return nil, unexpected(plugin, "Transition", status)
		}
		if t != nil && t.Approvable {
			a.pausedBy = plugin.Name()
		}
		step = inBoth(step, t)
	}
	return step, nil
}

// inBoth returns the step that two plugins allow; nil allows everything.
func inBoth(a, b *framework.Transition) *framework.Transition {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	both := &framework.Transition{
		Added: changes.Minus(a.Added, changes.Minus(a.Added, b.Added)), Removed: changes.Minus(a.Removed, changes.Minus(a.Removed, b.Removed)),
		Paused: a.Paused, Approvable: a.Approvable, Why: a.Why, ProgressDeadline: cmp.Or(a.ProgressDeadline, b.ProgressDeadline),
	}
	if both.Why == "" || b.Paused != "" && a.Paused == "" {
		both.Paused, both.Approvable, both.Why = b.Paused, b.Approvable, b.Why
	}
	return both
}

// leaving describes the clusters that the change removes, and those that its earlier steps, or
// those of changes that it superseded, removed.
func (a *Attempt) leaving() []framework.Leaving {
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
	for _, e := range a.excluded {
		if leaving := byIndex[e.cluster.Index]; leaving != nil {
			leaving.OtherwiseQualifies = (a.pin == nil || a.pin.has(leaving.Name)) && slices.ContainsFunc(a.forcingFilters(), func(f framework.FilterPlugin) bool { return f.Name() == e.status.Plugin() })
		}
	}
	return all
}

// part proposes one step of the change.
func (a *Attempt) part(t *framework.Transition) *framework.Proposal {
	p := a.republish(t.Removed)
	p.Forced, p.Restores, p.Partial = false, false, true
	p.Added, p.Revision, p.Cause, p.Approved, p.Edited = t.Added, a.Change.Revision, a.Change.Cause, a.Change.Approved, a.Change.Edited
	for _, selection := range a.Change.Selected {
		if _, added := slices.BinarySearch(t.Added, selection.Cluster.Name); added {
			p.Selected = append(p.Selected, selection)
		}
	}
	slices.SortStableFunc(p.Selected, func(a, b framework.Selection) int { return cmp.Compare(b.Score, a.Score) })
	p.Clusters = changes.Sorted(slices.Concat(p.Clusters, t.Added))
	p.Digest = framework.DigestOf(p.Clusters)
	return p
}
