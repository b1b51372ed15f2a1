package model

import (
	"slices"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// record predicts the records of an attempt, and remembers what was added.
func (a *attempt) record(outcome Outcome, c *change, holds map[string]time.Time) {
	before, after := &a.result.Before, &a.result.After
	own := c.own()
	switch outcome {
	case Undecided:
		*before = a.endedUndecided(c)
	case Unchanged, Waiting:
		*after = a.superseded(c)
	case Denied:
		*after = a.superseded(nil)
	case Held:
		used := c.usedApproval()
		if own == nil {
			held := a.newRecord(c, berthv1alpha1.PhaseHeld, holds)
			held.Uses = used != nil
			*before = append(append(a.superseded(c), held), used...)
			return
		}
		held := *own
		held.Uses = held.Uses || used != nil
		held.Phase, held.Holds, held.Completed = berthv1alpha1.PhaseHeld, holds, time.Time{}
		*before = append([]Record{held}, used...)
		*after = a.superseded(c)
	case Rejected, Expired:
		a.recordEnd(outcome, c, holds)
	case Published, Progressing:
		a.recordStep(outcome, c, own)
		for _, name := range minus(a.result.Listed, a.Listed) {
			if a.memory.ReadySince != nil {
				a.memory.ReadySince[name] = a.Now
			}
		}
	}
}

// recordEnd predicts the records of a change that was rejected or has expired.
func (a *attempt) recordEnd(outcome Outcome, c *change, holds map[string]time.Time) {
	own, phase := c.own(), berthv1alpha1.ChangePhase(outcome)
	if own == nil && c.ended == nil {
		// It was held, but its record could not be written.
		ended := a.newRecord(c, phase, holds)
		ended.Completed = a.Now
		a.result.Before = append(a.superseded(c), ended)
		return
	}
	if own != nil && own.Phase != phase {
		ended := *own
		ended.Phase, ended.Completed = phase, a.Now
		if outcome == Expired {
			ended.Holds = holds
		}
		a.result.Before = []Record{ended}
	}
	a.result.After = a.superseded(c)
}

// usedApproval is the record, as it ends, of the same change under an earlier revision, whose late
// approval is used; nothing if there is none.
func (c *change) usedApproval() []Record {
	if c.ended == nil || c.ended == c.own() || !isApproved(c.ended) {
		return nil
	}
	ended := *c.ended
	ended.Phase = berthv1alpha1.PhaseSuperseded
	return []Record{ended}
}

// own returns the record of a change; nil if it has none.
func (c *change) own() *Record {
	switch {
	case c == nil:
		return nil
	case c.open == nil && c.ended != nil && c.ended.Revision == c.revision:
		return c.ended
	}
	return c.open
}

// staysOpen reports whether an open record stays open although nothing is decided: it is not a held
// change that was rejected, or of an earlier spec, which cannot be approved any more. While a
// record is awaited, only one that was rejected, or whose time has passed, ends.
func (a *attempt) staysOpen(r Record) bool {
	if r.Phase == berthv1alpha1.PhaseRejected {
		return false
	}
	permitted := slices.ContainsFunc(a.Records, func(was Record) bool { return was.Revision == r.Revision && was.permitted() })
	return permitted || r.Generation == a.Placement.Generation || r.onlyForced() || a.awaitsRecord() && !a.passed(r)
}

// keepsOpen reports whether the open record stays open although nothing is decided.
func (a *attempt) keepsOpen() bool {
	return a.openRecord() != nil && len(a.endedUndecided(nil)) == 0
}

// onlyForced: the change only removes clusters that the Placement could not keep.
func (r *Record) onlyForced() bool {
	return len(r.Added) == 0 && len(r.Removed) > 0 && len(r.Forced) == len(r.Removed)
}

// endedUndecided are the records that end although nothing is decided.
func (a *attempt) endedUndecided(c *change) (ended []Record) {
	for _, r := range a.superseded(c) {
		if a.expires(r) {
			r.Phase = berthv1alpha1.PhaseExpired
		} else if a.staysOpen(r) {
			continue
		}
		ended = append(ended, r)
	}
	return ended
}

// expires reports whether a held change of this spec expires although nothing is decided: a hold of
// a plugin that does not renew it has ended.
func (a *attempt) expires(r Record) bool {
	return r.Phase == berthv1alpha1.PhaseSuperseded && (r.Generation == a.Placement.Generation || r.onlyForced()) && a.passed(r)
}

// passed reports whether the time of a held change without an answer has passed.
func (a *attempt) passed(r Record) bool {
	if r.permitted() || r.Approval != "" {
		return false
	}
	for _, until := range r.Holds {
		if !until.IsZero() && !until.After(a.Now) {
			return true
		}
	}
	return false
}

// recordStep predicts the records of a permitted change: one that has a record, uses the approval
// of an earlier one, or takes several steps is recorded before the pages are written.
func (a *attempt) recordStep(outcome Outcome, c *change, own *Record) {
	first := berthv1alpha1.PhaseHeld
	if outcome == Progressing {
		first = berthv1alpha1.PhaseProgressing
	}
	used := c.usedApproval()
	var recorded Record
	switch {
	case own != nil:
		if recorded = *own; !own.permitted() {
			recorded.Phase, recorded.Permitted, recorded.Completed, recorded.Uses = first, a.Now, time.Time{}, used != nil
			a.result.Before = []Record{recorded}
		}
	case used != nil || outcome == Progressing:
		recorded = a.newRecord(c, first, nil)
		recorded.Permitted, recorded.Uses = a.Now, used != nil || c.resumed != nil && isApproved(c.resumed)
		a.result.Before = append(a.superseded(c), recorded)
		if c.resumed != nil {
			recorded.Generation, recorded.Published = c.resumed.Generation, c.resumed.Published
			a.result.Before = a.continued(c, recorded)
		}
	default:
		a.result.After = append(a.superseded(c), a.history(c))
		return
	}
	a.result.Before = append(a.result.Before, used...)
	a.result.After = []Record{a.afterStep(recorded, outcome, c)}
	if own != nil {
		a.result.After = append(a.result.After, a.superseded(c)...)
	}
}

// continued returns what is written before the rest of a change goes on under a record of its own:
// that of the change before ends last, so that its permission is not lost.
func (a *attempt) continued(c *change, recorded Record) []Record {
	var others, resumed []Record
	for _, r := range a.superseded(c) {
		if r.Revision == c.resumed.Revision {
			resumed = append(resumed, r)
		} else {
			others = append(others, r)
		}
	}
	return append(append(others, recorded), resumed...)
}

// afterStep returns the record of a change after a step of it.
func (a *attempt) afterStep(r Record, outcome Outcome, c *change) Record {
	if outcome == Published || slices.Equal(a.result.Listed, c.to) {
		return a.complete(r)
	}
	r.Phase, r.Holds = berthv1alpha1.PhaseProgressing, nil
	if a.paused {
		r.Holds = map[string]time.Time{"Movement": {}}
	}
	r.LeftAdded, r.LeftRemoved = len(minus(c.to, a.result.Listed)), len(minus(a.result.Listed, c.to))
	if !slices.Equal(a.result.Listed, a.Listed) {
		r.Progress = a.Now
	}
	return r
}

// history is the record of a change that was published at once.
func (a *attempt) history(c *change) Record {
	r := a.newRecord(c, berthv1alpha1.PhasePublished, nil)
	r.Permitted, r.Forced = a.Now, nil
	return a.complete(r)
}

func (a *attempt) newRecord(c *change, phase berthv1alpha1.ChangePhase, holds map[string]time.Time) Record {
	return Record{
		Revision: c.revision, Generation: a.generationOf(c), Published: a.publishedGeneration(), Started: a.Now, From: digest(c.from), To: digest(c.to), Added: c.added, Removed: c.removed,
		Phase: phase, Holds: holds, LeftAdded: len(c.added), LeftRemoved: len(c.removed),
		Forced: slices.DeleteFunc(slices.Clone(c.removed), func(name string) bool { return !a.isForced(name) }),
	}
}

// complete returns a record whose change is published.
func (a *attempt) complete(r Record) Record {
	r.Phase, r.Holds, r.LeftAdded, r.LeftRemoved = berthv1alpha1.PhasePublished, nil, 0, 0
	r.Progress, r.Completed = a.Now, a.Now
	if !r.permitted() {
		r.Permitted = a.Now
	}
	return r
}

// completes reports whether the target of an open record is published.
func (a *attempt) completes(r Record) bool {
	return r.open() && r.To == digest(a.Listed) && (r.Phase == "" || r.permitted())
}

// superseded returns the open records of other changes as they end. One whose target is published
// is complete: only its last write was lost.
func (a *attempt) superseded(c *change) (ended []Record) {
	for _, r := range a.Records {
		if !r.open() || c != nil && c.open != nil && c.open.Revision == r.Revision {
			continue
		}
		if a.completes(r) {
			ended = append(ended, a.complete(r))
			continue
		}
		r.Phase, r.Completed = berthv1alpha1.PhaseSuperseded, a.Now
		if r.Approval == berthv1alpha1.Rejected && !r.permitted() {
			r.Phase = berthv1alpha1.PhaseRejected
		}
		if r.permitted() {
			r.LeftAdded, r.LeftRemoved = len(minus(r.Added, a.Listed)), len(r.Removed)-len(minus(r.Removed, a.Listed))
		}
		ended = append(ended, r)
	}
	return ended
}
