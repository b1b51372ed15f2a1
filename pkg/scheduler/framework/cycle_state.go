package framework

import (
	"errors"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotFound is what Read answers for a key nobody wrote.
var ErrNotFound = errors.New("not found in the cycle state")

// StateKey names an entry of the CycleState; use Key to get a typed one.
type StateKey string

// StateData is an entry of the CycleState.
type StateData interface{ Clone() StateData }

// CycleState is one attempt's scratchpad: plugins hand data from point to point through it, and
// tell the engine what the answer depends on beside the objects. It is valid for one attempt. It
// may be written concurrently; no plugin is protected from another.
type CycleState struct {
	snapshot *Snapshot
	// entries are few and read once a cluster: a list that is replaced on each write beats a map.
	entries  atomic.Pointer[[]entry]
	writing  sync.Mutex
	warnings []Warning
	requeue  time.Time
	// wake asks for a new attempt without being a Requeue; ranks says until when the rank of a
	// cluster is right.
	wake    time.Time
	demoted Bitset
	holds   map[int]time.Time
	ranks   map[int]time.Time
	yield   func() bool
}

type entry struct {
	key  StateKey
	data StateData
}

// Warning is what a plugin says about an answer that stands all the same.
type Warning struct{ Plugin, Message string }

// NewCycleState begins an attempt on a snapshot.
func NewCycleState(snapshot *Snapshot) *CycleState { return &CycleState{snapshot: snapshot} }

// Snapshot is the fleet this attempt is decided on. It is off-limits from Bind on.
func (s *CycleState) Snapshot() *Snapshot { return s.snapshot }

func (s *CycleState) list() []entry {
	if p := s.entries.Load(); p != nil {
		return *p
	}
	return nil
}

// Read returns an entry, or ErrNotFound.
func (s *CycleState) Read(key StateKey) (StateData, error) {
	for _, e := range s.list() {
		if e.key == key {
			return e.data, nil
		}
	}
	return nil, ErrNotFound
}

// Write stores an entry.
func (s *CycleState) Write(key StateKey, data StateData) { s.replace(key, &entry{key, data}) }

// Delete forgets an entry.
func (s *CycleState) Delete(key StateKey) { s.replace(key, nil) }

func (s *CycleState) replace(key StateKey, with *entry) {
	s.writing.Lock()
	defer s.writing.Unlock()
	old := s.list()
	kept := make([]entry, 0, len(old)+1)
	for _, e := range old {
		if e.key != key {
			kept = append(kept, e)
		}
	}
	if with != nil {
		kept = append(kept, *with)
	}
	s.entries.Store(&kept)
}

// Clone copies the state, entry by entry.
func (s *CycleState) Clone() *CycleState {
	c := &CycleState{snapshot: s.snapshot, requeue: s.requeue, wake: s.wake, demoted: s.demoted.Clone(), holds: maps.Clone(s.holds), ranks: maps.Clone(s.ranks), yield: s.yield}
	c.warnings = append(c.warnings, s.warnings...)
	for _, e := range s.list() {
		c.Write(e.key, e.data.Clone())
	}
	return c
}

// ReadAs reads an entry of a known type; false when it is missing or of another type.
func ReadAs[T StateData](s *CycleState, key StateKey) (T, bool) {
	v, _ := s.Read(key)
	t, ok := v.(T)
	return t, ok
}

// ShouldYield says that half of the cycle's time is over. A PreFilter plugin that can continue its
// work in a later attempt then answers Unfinished; each attempt has to get some of the work done,
// however late it is. It costs a look at the clock. Always false where a cycle has no deadline, as
// in a simulation.
func (s *CycleState) ShouldYield() bool { return s.yield != nil && s.yield() }

// YieldWhen is for the engine: it sets what ShouldYield asks.
func (s *CycleState) YieldWhen(over func() bool) { s.yield = over }

// RequeueAt asks for a new attempt at t; the earliest of all wins.
func (s *CycleState) RequeueAt(t time.Time) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.requeue = earlier(s.requeue, t)
}

// Requeue is the earliest time asked for; zero when none.
func (s *CycleState) Requeue() time.Time { return s.requeue }

// WakeAt asks for a new attempt at t without changing Requeue. The earliest time wins.
func (s *CycleState) WakeAt(t time.Time) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.wake = earlier(s.wake, t)
}

// Wake is when the next attempt is due: the earliest time that RequeueAt or WakeAt asked for; zero
// when none.
func (s *CycleState) Wake() time.Time {
	if s.requeue.IsZero() {
		return s.wake
	}
	return earlier(s.wake, s.requeue)
}

// earlier is the earlier of two times; a zero old time is none.
func earlier(old, t time.Time) time.Time {
	if old.IsZero() || t.Before(old) {
		return t
	}
	return old
}

// HoldsUntil says that the verdict on a cluster is right until t only. It asks for a new attempt if
// the cluster is selected.
func (s *CycleState) HoldsUntil(cluster int, t time.Time) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.holds == nil {
		s.holds = make(map[int]time.Time)
	}
	s.holds[cluster] = earlier(s.holds[cluster], t)
}

// Expiry is when the verdict on a cluster ends; zero when it does not.
func (s *CycleState) Expiry(cluster int) time.Time { return s.holds[cluster] }

// RanksUntil says that the rank of a cluster is right until t only. It asks for a new attempt if
// the cluster is selected.
func (s *CycleState) RanksUntil(cluster int, t time.Time) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.ranks == nil {
		s.ranks = make(map[int]time.Time)
	}
	s.ranks[cluster] = earlier(s.ranks[cluster], t)
}

// RankExpiry is when the rank of a cluster ends; zero when it does not.
func (s *CycleState) RankExpiry(cluster int) time.Time { return s.ranks[cluster] }

// Demote ranks a cluster after every one that is not demoted, whatever the scores.
func (s *CycleState) Demote(cluster int) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.demoted = s.demoted.Set(cluster)
}

// Demoted are the clusters that Demote named.
func (s *CycleState) Demoted() Bitset { return s.demoted }

// Warn attaches a warning to the answer. It is shown with the decision's event.
func (s *CycleState) Warn(plugin, message string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.warnings = append(s.warnings, Warning{Plugin: plugin, Message: message})
}

// Warnings are in the order they were given.
func (s *CycleState) Warnings() []Warning { return s.warnings }

// MaxScore and MinScore bound what NormalizeScore may leave behind.
const (
	MaxScore int64 = 100
	MinScore int64 = -100
)

// NoScore stands in a list of scores for a cluster without one; it counts as 0.
const NoScore int64 = math.MinInt64
