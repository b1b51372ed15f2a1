package filters

import (
	"context"
	"math"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// skip is the Status of a filter that a Placement does not use.
var skip = framework.NewStatus(framework.Skip, "")

// matcher keeps which candidates match selectors, and evaluates only new and changed candidates.
// Equal selectors share a cache.
type matcher struct {
	// caches are by the text of the selectors.
	caches map[string]*matchCache
	// prepares is true if other Placements wait for a cycle, unlike in a simulation: long work is
	// then done outside cycles. slice is the maximum cost of one cycle for selectors that are
	// charged.
	prepares bool
	slice    uint64
	// mu protects costly, what evaluateOutside does next for a Placement.
	mu     sync.Mutex
	costly map[types.NamespacedName]*costlyWork
}

// costlyWork are evaluations that are too long for a cycle.
type costlyWork struct {
	matches  *selectorMatches
	snapshot *framework.Snapshot
	running  bool
}

// isFor reports whether the work was left for this state of a Placement's or SelectionPolicy's
// spec.
func (w *costlyWork) isFor(owner metav1.Object) bool {
	subject := w.snapshot.Subject
	same := func(o metav1.Object) bool {
		return o.GetUID() == owner.GetUID() && o.GetGeneration() == owner.GetGeneration()
	}
	policy := subject.SelectionPolicy()
	return same(subject.Placement) || policy != nil && same(policy)
}

func newMatcher(handle *framework.Handle) *matcher {
	m := &matcher{caches: map[string]*matchCache{}, slice: math.MaxUint64, costly: map[types.NamespacedName]*costlyWork{}}
	if handle != nil && handle.Client != nil {
		m.prepares, m.slice = true, cycleCost
	}
	return m
}

// selectorMatches are compiled selectors and the candidates that at least one of them matches.
type selectorMatches struct {
	predicates []predicate
	// charged is true if the cost of evaluations counts against the budget. requirements is their
	// number in all selectors.
	charged      bool
	requirements uint64

	// cache is used if evaluations are not charged, evaluationState otherwise.
	cache *matchCache
	evaluationState
}

func newSelectorMatches(predicates []predicate) *selectorMatches {
	m := &selectorMatches{predicates: predicates, cache: &matchCache{}}
	expressions := 0
	for i := range predicates {
		m.requirements += predicates[i].requirements
		expressions += len(predicates[i].expressions)
	}
	if m.charged = expressions > 0 || m.requirements > freeRequirements; !m.charged {
		m.cache.text = textOf(predicates)
	}
	return m
}

// trial returns a copy for a trial Snapshot, whose change log has an entry that the inventory's log
// does not have. It has no results while evaluateOutside changes them.
func (m *matcher) trial(key types.NamespacedName, s *selectorMatches) *selectorMatches {
	own := &selectorMatches{predicates: s.predicates, charged: s.charged, requirements: s.requirements, cache: s.cache.clone()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if w := m.costly[key]; w == nil || !w.running || w.matches != s {
		own.evaluationState = s.clone()
	}
	return own
}

// share makes selectors use the cache of equal ones.
func (m *matcher) share(s *selectorMatches) {
	if s.charged {
		return
	}
	if others := m.caches[s.cache.text]; others != nil {
		s.cache = others
	} else {
		m.caches[s.cache.text] = s.cache
	}
	s.cache.users++
}

// release undoes share and drops a cache without users.
func (m *matcher) release(s *selectorMatches) {
	if s.charged {
		return
	}
	if s.cache.users--; s.cache.users == 0 {
		delete(m.caches, s.cache.text)
	}
}

// update returns the candidates that match. The caller must not change them. A Status means that
// they are not known yet, or cost too much. Work that an earlier cycle left is done here, or left
// again: clusters may have changed since.
func (m *matcher) update(ctx context.Context, state *framework.CycleState, s *selectorMatches) (framework.Bitset, *framework.Status) {
	snapshot := state.Snapshot()
	if !s.charged {
		if !s.cache.update(snapshot, s.selectorsMatch, state.ShouldPause) {
			state.RequeueAt(snapshot.Now.Add(shortPause))
			return nil, unfinishedEvaluation()
		}
		return s.cache.matches, nil
	}
	if snapshot.Trial {
		// Its time is limited, and it is not continued.
		if status := s.updateMatches(ctx, state, math.MaxUint64, false); status != nil {
			return nil, status
		}
		return s.matches, nil
	}
	if !m.takeBack(snapshot.Subject.Key()) {
		state.RequeueAt(snapshot.Now.Add(shortPause))
		return nil, unfinishedEvaluation()
	}
	status := s.updateMatches(ctx, state, m.slice, m.prepares)
	switch {
	case status.Code() != framework.Pending:
	case m.prepares:
		state.RequeueAt(snapshot.Now.Add(shortPause))
		m.continueOutside(s, snapshot)
	default:
		state.RequeueAt(snapshot.Now.Add(slicePause))
	}
	if status != nil {
		return nil, status
	}
	return s.matches, nil
}

// continueOutside leaves what a cycle has not evaluated to evaluateOutside.
func (m *matcher) continueOutside(s *selectorMatches, snapshot *framework.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.costly[snapshot.Subject.Key()] = &costlyWork{matches: s, snapshot: snapshot}
}

// hasCostlyWork reports whether evaluateOutside has work for a Placement.
func (m *matcher) hasCostlyWork(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.costly[key]
	return w != nil && !w.running
}

// evaluateOutside continues the evaluation that a cycle of the Placement left, without the cycle
// lock. It does a part of the work, at least one evaluation; the next cycle continues. It drops
// work that is not for owner, the Placement or its SelectionPolicy as it is now.
func (m *matcher) evaluateOutside(key types.NamespacedName, owner metav1.Object, yield func() bool) {
	m.mu.Lock()
	w := m.costly[key]
	if w != nil && !w.running && !w.isFor(owner) {
		delete(m.costly, key)
		w = nil
	}
	if w == nil || w.running {
		m.mu.Unlock()
		return
	}
	w.running = true
	m.mu.Unlock()
	// Also after a panic, after which the next cycle starts another evaluation.
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.costly, key)
	}()
	v := newEvaluation(w.matches, w.snapshot, sliceCost, yield)
	// The status is that of the next cycle, too.
	_ = v.evaluateDue(context.Background())
}

// takeBack drops the work of a Placement, which is of an older Snapshot. It returns false while
// evaluateOutside does it.
func (m *matcher) takeBack(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.costly[key]
	if w == nil {
		return true
	}
	if !w.running {
		delete(m.costly, key)
	}
	return !w.running
}

// matchCache holds which clusters match selectors, for the clusters in evaluated. next is the
// number of the first entry of the inventory's change log that is not applied yet.
type matchCache struct {
	text string
	// users is the number of lists of selectors that share the cache.
	users              int
	matches, evaluated framework.Bitset
	next               uint64
}

// update evaluates the candidates that are new or have changed. It returns false if yield stopped
// it; the next update continues. Snapshots share matches, so it is copied before a change. Its bits
// for clusters that are not candidates are meaningless.
func (v *matchCache) update(snapshot *framework.Snapshot, fits func(*framework.Cluster) bool, yield func() bool) (done bool) {
	changes, known := snapshot.Log.Since(v.next)
	v.next = snapshot.Log.Next()
	if !known {
		v.evaluated = nil
	}
	for _, change := range changes {
		if change.Selectable {
			v.evaluated.Unset(change.Index)
		}
	}
	candidates := snapshot.Candidates()
	if v.evaluated.Covers(candidates) {
		return true
	}
	due := candidates.Without(v.evaluated)
	v.matches = v.matches.Clone()
	count := 0
	for i := range due.All {
		if count++; count%yieldEach == 0 && yield() {
			v.setEvaluated(due, i)
			return false
		}
		if fits(snapshot.Clusters.Get(i)) {
			v.matches = v.matches.Set(i)
		} else {
			v.matches.Unset(i)
		}
	}
	v.evaluated = v.evaluated.Or(due)
	return true
}

// setEvaluated stores that the due candidates with an index below end are evaluated.
func (v *matchCache) setEvaluated(due framework.Bitset, end int) {
	for i := range due.All {
		if i >= end {
			return
		}
		v.evaluated = v.evaluated.Set(i)
	}
}

func (v *matchCache) clone() *matchCache {
	c := *v
	c.evaluated = v.evaluated.Clone()
	return &c
}

func (m *selectorMatches) selectorsMatch(cluster *framework.Cluster) bool {
	for i := range m.predicates {
		if m.predicates[i].selectorsMatch(cluster) {
			return true
		}
	}
	return false
}
