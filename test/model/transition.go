package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// inProgress returns the newest record that is Progressing; nil without one.
func (a *attempt) inProgress() *Record {
	for i := range slices.Backward(a.Records) {
		if r := &a.Records[i]; r.Phase == berthv1alpha1.PhaseProgressing {
			return r
		}
	}
	return nil
}

// towards returns the rest of a change in progress, without clusters that are removed beside it;
// nil if it is done or does not apply any more.
func (a *attempt) towards(r *Record, without []string) *change {
	to := targetOf(r, a.Listed)
	if a.Revision > r.Revision || digest(to) != r.To || digest(beforeOf(r, a.Listed)) != r.From || slices.Equal(to, a.Listed) {
		return nil
	}
	rest := &change{
		from: a.Listed, to: to, added: minus(to, a.Listed), removed: minus(a.Listed, to), revision: r.Revision, open: r, approved: isApproved(r),
	}
	if beside := minus(without, rest.removed); len(beside) > 0 {
		rest.to, rest.removed = minus(rest.to, beside), plus(rest.removed, beside)
		rest.open, rest.resumed = nil, r
		a.number(rest)
	}
	return rest
}

// transition publishes the part of a permitted change that may be published now. One that goes on
// while another target waits stays in progress: clusters that no longer qualify are not added.
func (a *attempt) transition(c *change, goesOn bool) Outcome {
	listed := a.step(c, a.minAvailable(c))
	if !goesOn && slices.Equal(listed, c.to) {
		a.publish(c, listed)
		return Published
	}
	a.result.Unrecorded = a.withoutForced(c)
	if !slices.Equal(listed, a.Listed) {
		a.publish(c, listed)
		a.result.Again, a.memory.LastStep = true, a.Now
	} else if !a.policy.suspended {
		a.paused = !slices.Equal(listed, a.step(c, 0))
	}
	return Progressing
}

// step is one pass of the rolling update. It returns the clusters to publish. available of the
// original clusters stay.
func (a *attempt) step(c *change, available int) []string {
	missing := slices.DeleteFunc(a.qualifying(), func(name string) bool { return !slices.Contains(c.added, name) })
	if !a.policy.any {
		return plus(minus(c.from, c.removed), missing)
	}
	// 1. Forced removals.
	stay := a.withoutForced(c)
	if a.policy.suspended {
		return stay
	}
	desired := a.desired(c)
	unavailable, surge := a.budget(desired)
	// 2. Additions, best first.
	listed := stay
	for _, name := range missing {
		if len(listed) < desired+surge {
			listed = plus(listed, []string{name})
		}
	}
	// 3. Voluntary removals.
	least, original := desired-unavailable, a.original(c)
	for _, name := range a.leaving(stay, c) {
		if slices.Contains(original, name) && len(stay)-len(minus(stay, original)) <= available {
			continue
		}
		if a.mayLeave(name, stay, original, least, c) {
			listed, stay = minus(listed, []string{name}), minus(stay, []string{name})
		}
	}
	return listed
}

// withoutForced are the published clusters but for those that the change removes and the Placement
// cannot keep.
func (a *attempt) withoutForced(c *change) []string {
	return minus(a.Listed, minus(c.removed, minus(c.removed, a.forced())))
}

// mayLeave reports whether one more of the published clusters may leave.
func (a *attempt) mayLeave(name string, stay, original []string, least int, c *change) bool {
	others, ready, inUse := minus(stay, []string{name}), 0, 0
	for _, other := range others {
		if a.ready(other, c) {
			ready, inUse = ready+1, inUse+1
		} else if a.Clusters[other].Ready && slices.Contains(original, other) {
			inUse++
		}
	}
	switch {
	case a.ready(name, c), a.Clusters[name].Unknown:
		return ready >= least
	case a.Clusters[name].Ready:
		return inUse >= least
	}
	return len(others) >= least
}

// leaving returns the clusters of a set that are not in the target, in the order in which they
// leave.
func (a *attempt) leaving(listed []string, c *change) []string {
	names, ranked := minus(listed, c.to), a.qualifying()
	class := func(name string) int {
		switch {
		case slices.Contains(ranked, name):
			return 2
		case a.drained(name):
			return 0
		}
		return 1
	}
	readiness := func(name string) int {
		switch {
		case a.ready(name, c):
			return 2
		case a.Clusters[name].Ready:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(readiness(x), readiness(y)), cmp.Compare(class(x), class(y)),
			cmp.Compare(slices.Index(ranked, y), slices.Index(ranked, x)))
	})
	return names
}

// drained: the cluster is drained, evicted, or unavailable and to be replaced first.
func (a *attempt) drained(name string) bool {
	c := a.Clusters[name]
	return c.Drained || c.Evicted || c.Unavailable && a.policy.replaceFirst
}

// minAvailable is how many of the original clusters stay, if the change is not approved.
func (a *attempt) minAvailable(c *change) (available int) {
	if c.approved {
		return 0
	}
	for _, s := range a.policy.specs {
		available = max(available, number(s.MinAvailable, "0", len(a.original(c)), 99))
	}
	return available
}

// original are the clusters that were published when the change began, or the first of those that
// it superseded.
func (a *attempt) original(c *change) []string {
	names := a.Listed
	for _, r := range a.sinceComplete(c) {
		names = beforeOf(r, names)
	}
	return names
}

// sinceComplete are the records of changes that began since one was last completed, or ended
// because its target was no longer selected, newest first. Lost clusters that left as a change of
// their own complete none.
func (a *attempt) sinceComplete(c *change) (records []*Record) {
	for i := range slices.Backward(a.Records) {
		r := &a.Records[i]
		if r.permitted() && r.Permitted.Before(a.memory.Unchanged.Truncate(time.Second)) {
			break
		}
		if !r.onlyForced() && (r.Phase == berthv1alpha1.PhasePublished || a.completes(*r)) {
			break
		}
		if r == c.open || r.Phase == berthv1alpha1.PhaseProgressing || r.permitted() {
			records = append(records, r)
		}
	}
	// Nor did they belong to a change before which there was none.
	for len(records) > 0 && records[len(records)-1].Phase == berthv1alpha1.PhasePublished {
		records = records[:len(records)-1]
	}
	return records
}

// desired is numberOfClusters; without it, the target and those clusters of the set before the
// change that are missing only because they are drained or evicted.
func (a *attempt) desired(c *change) int {
	if a.Placement.Number >= 0 {
		return max(a.Placement.Number, len(c.to))
	}
	n := len(c.to)
	var pinned []string
	if a.Placement.Pinned > 0 {
		pinned, _ = a.at(a.Placement.Pinned)
	}
	for _, name := range minus(plus(a.Listed, a.removedBefore(c)), c.to) {
		only := a.drained(name) && !a.isForced(name) && a.qualifies(name, true)
		if only && (a.Placement.Pinned == 0 || slices.Contains(pinned, name)) {
			n++
		}
	}
	return n
}

// removedBefore returns the clusters that earlier steps removed, also those of changes that were
// superseded since a change was last completed.
func (a *attempt) removedBefore(c *change) (removed []string) {
	for _, r := range a.sinceComplete(c) {
		if r == c.open || r.Phase == berthv1alpha1.PhaseProgressing || r.Phase != berthv1alpha1.PhaseHeld && r.permitted() && r.LeftRemoved < len(r.Removed) {
			removed = plus(removed, r.Removed)
		}
	}
	return removed
}

// budget returns the lowest maxUnavailable and maxSurge of all policies.
func (a *attempt) budget(desired int) (unavailable, surge int) {
	for i, s := range a.policy.specs {
		u, m := number(s.MaxUnavailable, "0", desired, 0), number(s.MaxSurge, "25%", desired, 99)
		if i == 0 {
			unavailable, surge = u, m
		}
		unavailable, surge = min(unavailable, u), min(surge, m)
	}
	if unavailable == 0 && surge == 0 {
		surge = 1
	}
	return unavailable, surge
}

// number is a number or a percentage, to which up is added before it is rounded down.
func number(value *intstr.IntOrString, or string, of, up int) int {
	text := or
	if value != nil {
		text = value.String()
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if strings.HasSuffix(text, "%") {
		n = (n*of + up) / 100
	}
	return n
}

// measureReady continues the measurement of how long added clusters have been ready. After a
// restart, a cluster that stays and is not ready may be an added one. A day is the longest time
// that a policy can ask for.
func (a *attempt) measureReady(stays func(name string) bool) {
	if !a.policy.any {
		a.memory.ReadySince = nil
		return
	}
	first, since := a.memory.ReadySince == nil, map[string]time.Time{}
	for _, name := range a.Listed {
		at, known := a.memory.ReadySince[name]
		unready := !a.Clusters[name].Ready && !a.GoneReady[name]
		switch {
		case !known && (!first || !a.recentlyAdded(name) && (!unready || !stays(name))):
		case unready:
			since[name] = time.Time{}
		case at.IsZero():
			since[name] = a.Now
		case a.Now.Sub(at) < 24*time.Hour:
			since[name] = at
		}
	}
	a.memory.ReadySince = since
}

// recentlyAdded: after a restart, the records tell what was added by changes that ended within
// minReadySeconds, or are not complete. They have whole seconds. Lost clusters that left as a
// change of their own complete none.
func (a *attempt) recentlyAdded(name string) bool {
	complete := false
	for i := range slices.Backward(a.Records) {
		r := &a.Records[i]
		complete = complete || !r.onlyForced() && (r.Phase == berthv1alpha1.PhasePublished || a.completes(*r))
		began := r.Phase == "" || r.Phase == berthv1alpha1.PhaseProgressing || r.permitted()
		recent := began && (r.open() || a.Now.Sub(r.Completed) < a.policy.minReady+time.Second)
		if slices.Contains(r.Added, name) && (recent || !complete && r.permitted()) {
			return true
		}
	}
	return false
}

// ready reports whether a published cluster counts as ready.
func (a *attempt) ready(name string, c *change) bool {
	if a.policy.continues && slices.Contains(c.to, name) && !a.Now.Before(a.lastProgress(c).Add(a.policy.deadline)) {
		return true
	}
	since, added := a.memory.ReadySince[name]
	return a.Clusters[name].Ready && (!added || !a.Now.Before(since.Add(a.policy.minReady)))
}

// lastProgress is the time of the last step, or of the last newly ready cluster since.
func (a *attempt) lastProgress(c *change) time.Time {
	if c.open == nil || !c.open.permitted() {
		return a.Now
	}
	last := c.open.Permitted
	if !c.open.Progress.IsZero() {
		last = c.open.Progress
	}
	if a.memory.LastStep.After(last) {
		// The record does not say it, because it could not be written.
		last = a.memory.LastStep
	}
	for _, since := range a.memory.ReadySince {
		if since.After(last) {
			last = since
		}
	}
	return last
}
