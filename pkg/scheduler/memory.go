package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// Memory is what the engine remembers of each Placement from attempt to attempt. It implements
// framework.HeldChanges for the Handle of the plugins.
type Memory struct {
	mu         sync.Mutex
	placements map[types.NamespacedName]*remembered
	requeue    func(key types.NamespacedName)
}

// remembered is what is known of one Placement.
type remembered struct {
	// uid is empty before the first attempt. An entry with another UID belongs to an earlier
	// Placement of that name.
	uid    types.UID
	timers framework.Timers
	// at is the time of the last attempt, profile the one that it used.
	at      time.Time
	profile *plugins.Profile
	// reserved is true while Reserve plugins count a change.
	reserved bool
	// unrecorded are the last additions without a record; none if changes get no records.
	unrecorded additions
	// held is the held change, with the answers of plugins; nil if none is held. id identifies it.
	// ended is true once it was rejected or, without records, has expired.
	held     *framework.HeldChange
	id       framework.Answers
	allowed  map[string]struct{}
	rejected string
	ended    bool
	// unverified is the attempt whose last step failed; nil if it did not. Its writes may have
	// succeeded if only the response was lost.
	unverified *Attempt
}

// answers returns the answers to the held change; empty if none is held.
func (r *remembered) answers() framework.Answers {
	if r.held == nil {
		return framework.Answers{}
	}
	a := r.id
	a.Plugins, a.Allowed, a.Rejected = r.held.Plugins, r.allowed, r.rejected
	return a
}

// NewMemory returns an empty Memory. The Handle of the plugins and their Scheduler share it.
func NewMemory() *Memory { return &Memory{placements: map[types.NamespacedName]*remembered{}} }

// OnChange sets the function that is called after Allow or Reject. It must schedule a new attempt
// for the Placement.
func (m *Memory) OnChange(requeue func(key types.NamespacedName)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requeue = requeue
}

// List implements framework.HeldChanges. A nil Memory has none.
func (m *Memory) List() []framework.HeldChange {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []framework.HeldChange{}
	for _, r := range m.placements {
		if r.held != nil && !r.ended {
			list = append(list, *r.held)
		}
	}
	slices.SortFunc(list, func(a, b framework.HeldChange) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return list
}

// Allow implements framework.HeldChanges.
func (m *Memory) Allow(uid types.UID, plugin string) bool {
	return m.answer(uid, plugin, func(r *remembered) {
		// Snapshots have the old map.
		r.allowed = maps.Clone(r.allowed)
		if r.allowed == nil {
			r.allowed = map[string]struct{}{}
		}
		r.allowed[plugin] = struct{}{}
	})
}

// Reject implements framework.HeldChanges.
func (m *Memory) Reject(uid types.UID, plugin, reason string) bool {
	return m.answer(uid, plugin, func(r *remembered) { r.rejected, r.ended = plugin+": "+reason, true })
}

func (m *Memory) answer(uid types.UID, plugin string, change func(*remembered)) bool {
	m.mu.Lock()
	var of *remembered
	for _, r := range m.placements {
		if r.held != nil && r.uid == uid && !r.ended {
			if _, holds := r.held.Plugins[plugin]; holds {
				of = r
			}
		}
	}
	if of == nil {
		m.mu.Unlock()
		return false
	}
	change(of)
	key, requeue := of.held.Key, m.requeue
	m.mu.Unlock()
	if requeue != nil {
		requeue(key)
	}
	return true
}

// of returns what is known of a Placement.
func (m *Memory) of(key types.NamespacedName) remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.placements[key]; r != nil {
		return *r
	}
	return remembered{}
}

// entry returns the entry of a Placement, which it creates if there is none. The caller holds mu.
func (m *Memory) entry(key types.NamespacedName) *remembered {
	r := m.placements[key]
	if r == nil {
		r = &remembered{}
		m.placements[key] = r
	}
	return r
}

// save stores what the next attempt must know, also if this one then publishes nothing. It keeps
// the answers if the same change was held before. hasRecords is true if changes get records.
func (m *Memory) save(p *plan.Plan, hasRecords bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	subject := p.Snapshot.Subject
	r := m.entry(subject.Key())
	r.uid, r.at, r.timers, r.profile, r.reserved = subject.Placement.UID, p.Snapshot.Now, p.Timers, p.Profile, p.Reserved
	if hasRecords {
		r.unrecorded = r.unrecorded.after(p)
	}
	if p.Held.Keep {
		return
	}
	next, id := p.Held.Change, p.Held.ID
	if hasRecords && p.Outcome == plan.Expired {
		next = nil // Its record says so. A change without one is held again, so that it gets one.
	}
	if r.held == nil || next == nil || r.held.Revision != next.Revision || r.id.Digest != id.Digest || r.id.Generation != id.Generation {
		r.allowed, r.rejected = nil, ""
	} else if r.held.Since.Before(next.Since) {
		next.Since = r.held.Since // Without a record, only memory has it.
	}
	if p.Outcome == plan.Held {
		r.rejected = "" // An approval counts more.
	}
	r.held, r.id, r.ended = next, id, p.Outcome == plan.Rejected || p.Outcome == plan.Expired
}

// reserve stores that Reserve plugins count a change since before the attempt.
func (m *Memory) reserve(subject *framework.Subject, profile *plugins.Profile) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(subject.Key())
	if r.uid != subject.Placement.UID {
		*r = remembered{uid: subject.Placement.UID}
	}
	r.profile, r.reserved = profile, true
}

// setReserved stores whether Reserve plugins count a change after the last attempt.
func (m *Memory) setReserved(subject *framework.Subject, reserved bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.placements[subject.Key()]; r != nil && r.uid == subject.Placement.UID {
		r.reserved = reserved
	}
}

// publishStep stores that a step was published: its readiness is measured from now on.
func (m *Memory) publishStep(subject *framework.Subject, step *framework.Proposal, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entry(subject.Key())
	if step.Partial {
		r.timers.LastStep = now
	}
	r.measureFrom(step.Added, now)
}

// setRefused stores whether the records could not be written that must come first.
func (m *Memory) setRefused(snapshot *framework.Snapshot, refused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := time.Time{}
	if refused {
		since = cmp.Or(snapshot.Timers.RefusedSince, snapshot.Now)
	}
	m.entry(snapshot.Subject.Key()).timers.RefusedSince = since
}

// measureAgain has the next attempt begin to measure again how long all clusters have been ready,
// and records refused, because none sees what happens until then.
func (m *Memory) measureAgain(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.placements[key]; r != nil {
		r.timers.RefusedSince = time.Time{}
		r.measureFrom(slices.Collect(maps.Keys(r.timers.ReadySince)), time.Time{})
	}
}

// measureFrom sets since when clusters have been ready; nothing without policies.
func (r *remembered) measureFrom(clusters []string, at time.Time) {
	if r.timers.ReadySince == nil || len(clusters) == 0 {
		return
	}
	// Attempts have the old map.
	r.timers.ReadySince = maps.Clone(r.timers.ReadySince)
	for _, name := range clusters {
		r.timers.ReadySince[name] = at
	}
}

func (m *Memory) putUnverified(a *Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entry(a.Snapshot.Subject.Key()).unverified = a
}

// keepTimer has the next attempt know the timer that caused one that failed.
func (m *Memory) keepTimer(snapshot *framework.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := &snapshot.Timers
	if r := m.placements[snapshot.Subject.Key()]; r != nil && !before.NextAttempt.IsZero() && !snapshot.Now.Before(before.NextAttempt) {
		r.timers.NextAttempt, r.timers.NextAttemptCause = before.NextAttempt, before.NextAttemptCause
	}
}

// takeUnverified removes and returns the attempt of the same Placement (same UID) whose last step
// failed; nil if there is none.
func (m *Memory) takeUnverified(subject *framework.Subject) *Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.placements[subject.Key()]
	if r == nil {
		return nil
	}
	a := r.unverified
	if r.unverified = nil; a == nil || a.Snapshot.Subject.Placement.UID != subject.Placement.UID {
		return nil
	}
	return a
}

func (m *Memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.placements, key)
}
