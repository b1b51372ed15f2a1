package model

import (
	"fmt"
	"maps"
	"slices"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// World is everything outside the controller's memory that an attempt depends on.
type World struct {
	Now       time.Time
	Placement Placement
	// Clusters are those that exist, by name.
	Clusters map[string]Cluster
	// GoneReady are clusters that do not exist any more, but are reported as ready.
	GoneReady map[string]bool
	// Policies select the Placement.
	Policies []berthv1alpha1.DisruptionPolicySpec
	// Records are those of the Placement, by revision.
	Records []Record
	// Pages are as they are now, also if a user edited or deleted them.
	Pages
	// Observed is the generation in the status if no change is pending there; else 0.
	Observed int64
	// Denies says which plugin denies changes; empty for none.
	Denies Denial
}

// Pages are the clusters that pages list, sorted, and the revision of the change that published
// them.
type Pages struct {
	Listed   []string
	Revision int64
}

func (p Pages) String() string { return fmt.Sprintf("%v, revision %d", p.Listed, p.Revision) }

// Denial is a plugin that denies changes.
type Denial string

// The denials: in Reserve, or in Permit. InPermitOfOthers does not deny a change that only removes
// revoked clusters.
const (
	InReserve        Denial = "Reserve"
	InPermit         Denial = "Permit"
	InPermitOfOthers Denial = "Permit of others"
)

// Placement is what the user asks for.
type Placement struct {
	// Number is numberOfClusters; negative if absent.
	Number     int
	Generation int64
	// Tolerates: it tolerates the taint of Cluster.Tainted.
	Tolerates bool
	// Pinned is the pinned revision; 0 if there is none.
	Pinned int64
}

// Cluster is a cluster as the Placement sees it.
type Cluster struct {
	// Matches: the predicate matches. Usable: the namespace may use a set of the cluster.
	Matches, Usable, Deleting bool
	// The taints: Drained by berth.dev/drain, Unavailable by that of an unavailable cluster,
	// Tainted by another NoSelect taint, OnlyOld by a NoSelectIfNew taint. Only Tainted may be
	// tolerated.
	Drained, Unavailable, Tainted, OnlyOld bool
	// UnavailableSince and TaintedSince are the times of the taints.
	UnavailableSince, TaintedSince time.Time
	// Evicted: a PlacementEviction excludes the cluster now.
	Evicted bool
	// Ready: all readiness sources of the policies say so. Unknown: one cannot be read, and the
	// others say so.
	Ready, Unknown bool
}

// Record is a PlacementChange.
type Record struct {
	Revision, Generation int64
	// Published is the generation for which the clusters before the change were decided; 0 if
	// unknown.
	Published int64
	From, To  string
	// Forced are the removed clusters that the Placement could not keep when the record was
	// written, before the change.
	Added, Removed, Forced []string
	Phase                  berthv1alpha1.ChangePhase
	Approval               berthv1alpha1.ApprovalDecision
	// Uses: the approval of an earlier record of the same change is used for it.
	Uses bool
	// Holds are the plugins that hold the change, with the end of the hold if it is known.
	Holds map[string]time.Time
	// Permitted, Progress and Completed are zero if the record does not have them.
	Started, Permitted, Progress, Completed time.Time
	// LeftAdded and LeftRemoved are status.remaining: all without a status, 0 if that has none.
	LeftAdded, LeftRemoved int
}

func (r Record) open() bool {
	return r.Phase == "" || r.Phase == berthv1alpha1.PhaseHeld || r.Phase == berthv1alpha1.PhaseProgressing
}

func (r Record) permitted() bool { return !r.Permitted.IsZero() }

// Memory is what a restart forgets.
type Memory struct {
	// Last is what was published last. Nil after a restart: the pages say it then.
	Last *Pages
	// Target is the digest of the last target, Since when it was first seen.
	Target string
	Since  time.Time
	// Unchanged is when the target was published last.
	Unchanged time.Time
	// ReadySince has the clusters that were added while the Placement had a policy; zero if not
	// ready. Nil before the first attempt with a policy.
	ReadySince map[string]time.Time
	// LastStep is when a step of a change was published last.
	LastStep time.Time
	// Published is the generation for which the published clusters were decided; 0 if unknown.
	Published int64
	// Known: an attempt has published a change since the start. A missing record of it is then
	// written soon.
	Known bool
	// Generation is the one that attempts decide, DecidedSince the time of the first of them.
	Generation   int64
	DecidedSince time.Time
	// Unwritten is a held change, whether its record could be written or not.
	Unwritten *Record
}

// Outcome is how an attempt ends.
type Outcome string

// The outcomes, named as in the engine.
const (
	Unchanged   Outcome = "Unchanged"
	Undecided   Outcome = "Undecided"
	Published   Outcome = "Published"
	Progressing Outcome = "Progressing"
	Held        Outcome = "Held"
	Waiting     Outcome = "Waiting"
	Denied      Outcome = "Denied"
	Rejected    Outcome = "Rejected"
	Expired     Outcome = "Expired"
)

// Prediction is what an attempt does.
type Prediction struct {
	Outcome Outcome
	// Target is the selected set; nil if nothing was decided.
	Target []string
	// Before are the records written before the pages, After those written later, in order.
	Before, After []Record
	// Pages are those afterwards. Unrecorded are listed instead, with the same revision, if a
	// record of Before cannot be written; nil if the pages stay as they are then. Restored are
	// those that were edited, as they are restored then; nil if none were.
	Pages
	Unrecorded []string
	Restored   *Pages
	// Again: the next attempt is due at once.
	Again  bool
	Memory Memory
}

// attempt is one attempt while it is predicted.
type attempt struct {
	World
	memory Memory
	policy policy
	target []string
	result Prediction
	// paused: removals wait for minAvailable. decided: there is a target.
	paused, decided bool
}

// Attempt predicts an attempt. Pages that a user edited change nothing in it: what was published
// last is decided from and restored, also if the change has to wait.
func Attempt(w World, m Memory) Prediction {
	if m.Last != nil {
		w.Pages = *m.Last
	}
	m.ReadySince = maps.Clone(m.ReadySince)
	a := &attempt{World: w, memory: m, policy: strictest(w.Policies)}
	a.result = Prediction{Pages: w.Pages, Restored: m.Last}
	target, decided := a.selectTarget()
	if decided && a.memory.Generation != a.Placement.Generation {
		a.memory.Generation, a.memory.DecidedSince = a.Placement.Generation, a.Now
	}
	a.measureReady(func(name string) bool { return !decided || slices.Contains(target, name) })
	var c *change
	if decided {
		a.target, a.result.Target, a.decided = target, target, true
		c = a.changeTo(target, false)
	}
	c, outcome, holds := a.makeChange(c, decided)
	a.result.Outcome = outcome
	a.record(outcome, c, holds)
	a.rememberHeld(outcome, c)
	if outcome == Unchanged {
		a.memory.Unchanged = a.Now
	}
	if decided && slices.Equal(a.result.Listed, target) && (outcome == Unchanged || outcome == Published) {
		a.memory.Published = a.Placement.Generation
	}
	if slices.Equal(a.result.Listed, a.Listed) {
		a.result.Unrecorded = a.Listed
	}
	a.memory.Last = &a.result.Pages
	a.result.Memory = a.memory
	return a.result
}

// makeChange makes the rest of the change in progress, the change to the target, or what may be
// done while that waits. It returns the change that was made or asked for.
func (a *attempt) makeChange(c *change, decided bool) (*change, Outcome, map[string]time.Time) {
	outcome, holds := Undecided, map[string]time.Time(nil)
	rest := a.rest(c)
	first := a.goesFirst(rest, c)
	switch {
	case first:
	case c != nil:
		outcome, holds = a.permit(c)
	case rest != nil && a.unstable(&change{from: a.Listed, to: a.target}):
		outcome = Waiting
	case decided:
		outcome = Unchanged
	}
	if decided {
		a.rememberTarget()
	}
	switch {
	case first:
		return rest, a.transition(rest, true), holds
	case outcome == Published:
		return c, a.transition(c, false), holds
	case outcome != Unchanged:
		return a.meanwhile(c, rest, outcome, holds)
	}
	return c, outcome, holds
}

// meanwhile is what happens while a change may not begin: the change in progress goes on, or
// clusters that the Placement cannot keep are removed, as a change of their own.
func (a *attempt) meanwhile(c, rest *change, outcome Outcome, holds map[string]time.Time) (*change, Outcome, map[string]time.Time) {
	forcedGoAhead := outcome == Waiting || onlyWindows(holds)
	if rest != nil && (outcome == Waiting || forcedGoAhead && !keepsLeaving(c, rest)) {
		return rest, a.transition(rest, true), nil
	}
	revoked := a.revoked()
	tries := [][]string{revoked}
	if forcedGoAhead {
		tries = [][]string{a.forced(), revoked}
	}
	for _, removed := range tries {
		if len(removed) == 0 {
			continue
		}
		alone := a.changeTo(minus(a.Listed, removed), true)
		if slices.Equal(removed, revoked) {
			a.revokes(alone)
		}
		answer, why := a.permit(alone)
		if answer == Published {
			made, published := a.publishRemoval(alone, outcome)
			return made, published, nil
		}
		if outcome == Undecided && !a.keepsOpen() {
			// While nothing is decided, there is no other change to report.
			return alone, answer, why
		}
	}
	return c, outcome, holds
}

// publishRemoval publishes a permitted removal: while nothing is decided, as a step of the change
// in progress, else as a change of its own.
func (a *attempt) publishRemoval(alone *change, outcome Outcome) (*change, Outcome) {
	if old := a.inProgress(); outcome == Undecided && old != nil {
		if rest := a.towards(old, alone.removed); rest != nil {
			a.result.Unrecorded = a.withoutForced(rest)
			a.publish(rest, alone.to)
			a.result.Again, a.memory.LastStep = true, a.Now
			return rest, Progressing
		}
	}
	a.publish(alone, alone.to)
	a.result.Again = !a.decided || !slices.Equal(alone.to, a.target)
	alone.forced = a.result.Again // Else it is the change to the target.
	return alone, Published
}

// rest is the rest of the change in progress, if it can go on instead of another one, or of none if
// the target is published. Clusters that the Placement cannot keep are removed beside it, if that
// is permitted alone; then it goes on under a record of its own. Otherwise it goes on with revoked
// ones, and others end it.
func (a *attempt) rest(c *change) *change {
	old := a.inProgress()
	if !a.decided || old == nil || c != nil && c.open == old || a.Denies == InReserve {
		return nil
	}
	rest := a.towards(old, nil)
	if rest == nil {
		return nil
	}
	lost, revoked := minus(a.forced(), rest.removed), minus(a.revoked(), rest.removed)
	if len(lost) == 0 {
		return rest
	}
	alone, onlyRevoked := a.changeTo(minus(a.Listed, lost), true), slices.Equal(lost, revoked)
	if onlyRevoked {
		a.revokes(alone)
	}
	switch answer, _ := a.permit(alone); {
	case answer == Published:
		return a.towards(old, lost)
	case onlyRevoked:
		return rest
	}
	return nil
}

// keepsLeaving: a change keeps a cluster that the rest of the change in progress removes.
func keepsLeaving(c, rest *change) bool {
	return !slices.Equal(minus(rest.removed, c.to), rest.removed)
}

// goesFirst: the rest of a change is made before the change to the target, which has all that the
// rest adds, and nothing that it removes. It publishes a step, is suspended, or waits for clusters
// to become ready and is not stuck.
func (a *attempt) goesFirst(rest, c *change) bool {
	if rest == nil || c == nil || keepsLeaving(c, rest) || len(minus(rest.added, a.target)) > 0 {
		return false
	}
	if !slices.Equal(a.step(rest, a.minAvailable(rest)), a.Listed) {
		return true
	}
	if a.policy.suspended {
		return true
	}
	unready := func(name string) bool { return !a.ready(name, rest) }
	return slices.Equal(a.step(rest, 0), a.Listed) && slices.ContainsFunc(minus(a.Listed, rest.removed), unready) &&
		a.Now.Before(a.lastProgress(rest).Add(a.policy.deadline))
}

// publish lists clusters with the revision of a change.
func (a *attempt) publish(c *change, listed []string) {
	a.result.Listed, a.result.Revision, a.memory.Known = listed, c.revision, true
}

// rememberTarget continues the time for which the target has been the same.
func (a *attempt) rememberTarget() {
	if target := digest(a.target); a.memory.Target != target {
		a.memory.Target, a.memory.Since = target, a.Now
	}
}

// rememberHeld keeps the revision and the deadlines of a held change whose record may not be
// written. Attempts that say nothing about it keep it.
func (a *attempt) rememberHeld(outcome Outcome, c *change) {
	switch outcome {
	case Undecided:
	case Held:
		a.memory.Unwritten = &Record{Revision: c.revision, Generation: a.generationOf(c), From: digest(c.from), To: digest(c.to), Holds: c.holds}
	case Waiting:
		if c.open == nil || len(c.open.Holds) == 0 {
			a.memory.Unwritten = nil
		}
	default:
		a.memory.Unwritten = nil
	}
}

func digest(names []string) string { return berthv1alpha1.Digest(names) }

// minus returns the sorted names that are in a and not in b.
func minus(a, b []string) []string {
	left := []string{}
	for _, name := range a {
		if !slices.Contains(b, name) {
			left = append(left, name)
		}
	}
	return left
}

// plus returns the names of both, sorted, without duplicates.
func plus(a, b []string) []string {
	all := append(append([]string{}, a...), b...)
	slices.Sort(all)
	return slices.Compact(all)
}
