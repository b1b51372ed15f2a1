package framework

import (
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotFound is the error of Read for a key without an entry.
var ErrNotFound = errors.New("not found in the cycle state")

// StateKey is the name of an entry of the CycleState. ReadAs reads a typed entry.
type StateKey string

// StateData is an entry of the CycleState.
type StateData interface{ Clone() StateData }

// CycleState passes data between the extension points of one attempt, and times and warnings to the
// engine. It is valid for one attempt. Concurrent writes are safe; a plugin can overwrite another's
// entries.
type CycleState struct {
	snapshot *Snapshot
	// entries are few and read once per cluster, so copy-on-write of a list is faster than a map.
	entries  atomic.Pointer[[]entry]
	writing  sync.Mutex
	warnings []Warning
	// missingScores are the names of MissScore.
	missingScores []string
	requeue       time.Time
	// nextAttempt is the earliest time of AttemptAt. filterExpiry and rankExpiry are by cluster
	// index.
	nextAttempt  time.Time
	demoted      Bitset
	filterExpiry map[int]time.Time
	rankExpiry   map[int]time.Time
	yield, pause func() bool
}

type entry struct {
	key  StateKey
	data StateData
}

// Warning is a plugin's message about a decision that is nevertheless valid.
type Warning struct{ Plugin, Message string }

// NewCycleState returns the empty state of an attempt on a Snapshot.
func NewCycleState(snapshot *Snapshot) *CycleState { return &CycleState{snapshot: snapshot} }

// Snapshot is the input of this attempt. From PreBind on it may be older than the hub.
func (s *CycleState) Snapshot() *Snapshot { return s.snapshot }

func (s *CycleState) list() []entry {
	if p := s.entries.Load(); p != nil {
		return *p
	}
	return nil
}

// Read returns the entry of a key, or ErrNotFound.
func (s *CycleState) Read(key StateKey) (StateData, error) {
	for _, e := range s.list() {
		if e.key == key {
			return e.data, nil
		}
	}
	return nil, ErrNotFound
}

// Write stores an entry and replaces an earlier one.
func (s *CycleState) Write(key StateKey, data StateData) {
	s.writing.Lock()
	defer s.writing.Unlock()
	old := s.list()
	kept := make([]entry, 0, len(old)+1)
	for _, e := range old {
		if e.key != key {
			kept = append(kept, e)
		}
	}
	kept = append(kept, entry{key, data})
	s.entries.Store(&kept)
}

// Clone returns a copy, with clones of all entries.
func (s *CycleState) Clone() *CycleState {
	c := &CycleState{snapshot: s.snapshot, requeue: s.requeue, nextAttempt: s.nextAttempt, demoted: s.demoted.Clone(), filterExpiry: maps.Clone(s.filterExpiry), rankExpiry: maps.Clone(s.rankExpiry), yield: s.yield, pause: s.pause}
	c.warnings, c.missingScores = slices.Clone(s.warnings), slices.Clone(s.missingScores)
	for _, e := range s.list() {
		c.Write(e.key, e.data.Clone())
	}
	return c
}

// ReadAs reads an entry of a known type. It returns false if the entry is missing or has another
// type.
func ReadAs[T StateData](s *CycleState, key StateKey) (T, bool) {
	v, _ := s.Read(key)
	t, ok := v.(T)
	return t, ok
}

// ShouldYield reports whether half of cycleTimeout has passed; always false without a deadline, as
// in a simulation. Work that is useful in part then ends. Each call reads the clock.
func (s *CycleState) ShouldYield() bool { return s.yield != nil && s.yield() }

// ShouldPause reports whether an eighth of cycleTimeout has passed; always false without a
// deadline. A PreFilter plugin that can continue later then returns Unfinished. Each attempt must
// still do some of the work. Each call reads the clock.
func (s *CycleState) ShouldPause() bool { return s.pause != nil && s.pause() }

// YieldWhen sets the function behind ShouldYield, PauseWhen the one behind ShouldPause. Only the
// engine calls them.
func (s *CycleState) YieldWhen(over func() bool) { s.yield = over }

// PauseWhen sets the function behind ShouldPause.
func (s *CycleState) PauseWhen(over func() bool) { s.pause = over }

// RequeueAt asks for a new attempt at t, instead of the engine's default time after Pending. The
// earliest time wins.
func (s *CycleState) RequeueAt(t time.Time) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.requeue = earlier(s.requeue, t)
}

// Requeue is the earliest time of RequeueAt; zero if there is none.
func (s *CycleState) Requeue() time.Time { return s.requeue }

// AttemptAt asks for a new attempt at t, in addition to RequeueAt and the engine's default time
// after Pending. The earliest time wins.
func (s *CycleState) AttemptAt(t time.Time) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.nextAttempt = earlier(s.nextAttempt, t)
}

// NextAttempt is the time of the next attempt: the earliest of RequeueAt and AttemptAt; zero if
// there is none.
func (s *CycleState) NextAttempt() time.Time {
	if s.requeue.IsZero() {
		return s.nextAttempt
	}
	return earlier(s.nextAttempt, s.requeue)
}

// earlier returns the earlier of two times; t if old is zero.
func earlier(old, t time.Time) time.Time {
	if old.IsZero() || t.Before(old) {
		return t
	}
	return old
}

// SetFilterExpiry declares that the result of Filter for a cluster, by index, is valid until t. If
// the cluster is selected, a new attempt runs at t. The earliest time wins.
func (s *CycleState) SetFilterExpiry(cluster int, t time.Time) {
	s.setExpiry(&s.filterExpiry, cluster, t)
}

// FilterExpiry returns the time of SetFilterExpiry for a cluster; zero if there is none.
func (s *CycleState) FilterExpiry(cluster int) time.Time { return s.filterExpiry[cluster] }

// SetRankExpiry declares that the rank of a cluster, by index, is valid until t. If the cluster is
// selected, a new attempt runs at t. The earliest time wins.
func (s *CycleState) SetRankExpiry(cluster int, t time.Time) { s.setExpiry(&s.rankExpiry, cluster, t) }

// RankExpiry returns the time of SetRankExpiry for a cluster; zero if there is none.
func (s *CycleState) RankExpiry(cluster int) time.Time { return s.rankExpiry[cluster] }

func (s *CycleState) setExpiry(of *map[int]time.Time, cluster int, t time.Time) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if *of == nil {
		*of = make(map[int]time.Time)
	}
	(*of)[cluster] = earlier((*of)[cluster], t)
}

// Expires reports whether the result of Filter or the rank of any cluster is valid only for some
// time.
func (s *CycleState) Expires() bool { return len(s.filterExpiry)+len(s.rankExpiry) > 0 }

// Demote ranks a cluster, by index, after all that are not demoted, regardless of scores.
func (s *CycleState) Demote(cluster int) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.demoted = s.demoted.Set(cluster)
}

// Demoted returns the indexes of the clusters that were passed to Demote.
func (s *CycleState) Demoted() Bitset { return s.demoted }

// Warn adds a warning to the decision. The event about the decision shows it.
func (s *CycleState) Warn(plugin, message string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.warnings = append(s.warnings, Warning{Plugin: plugin, Message: message})
}

// Warnings are the warnings of Warn, in the order of the calls.
func (s *CycleState) Warnings() []Warning { return s.warnings }

// MissScore declares that no candidate has a score. An event and an explanation name it.
func (s *CycleState) MissScore(name string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.missingScores = append(s.missingScores, name)
}

// MissingScores are the names of MissScore, in the order of the calls.
func (s *CycleState) MissingScores() []string { return s.missingScores }

// MaxScore and MinScore are the bounds of scores after NormalizeScore.
const (
	MaxScore int64 = 100
	MinScore int64 = -100
)

// NoScore marks a cluster without a score in a list of scores. It counts as 0.
const NoScore int64 = math.MinInt64
