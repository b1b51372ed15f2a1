package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/turns"
)

// Scheduler decides and publishes. Steps 1 to 8 of attempts are serial; step 9 is concurrent. Set
// the fields before the first attempt. CycleTimeout does not limit Decide and Explain; Clock
// measures the duration of attempts, but decisions use Snapshot.Now.
type Scheduler struct {
	limits.Limits
	decide.Decider
	// LockHeld is called after each attempt with the time for which it held the cycle lock, and
	// with the outcome of the cycle (Cycle*).
	LockHeld func(profile, outcome string, held time.Duration)
	// WriteRecordsBefore writes the records that must exist before step 9 publishes. If nil,
	// changes have no records.
	WriteRecordsBefore func(ctx context.Context, a *Attempt) error
	// OnDecided is called after steps 1 to 8 of each attempt, with the cycle lock held; it must not
	// block. If nil, nothing is called.
	OnDecided func(p *plan.Plan)
	// StoreClaim stores the clusters that are being added to a Placement: each counts as a decision
	// until it is published. Unpermitted is true while their change may still be rejected: those
	// with the Placement follow it there only if it has no other clusters. StoreQuota stores how
	// many clusters of its queue's quota the Placement uses. Both are called at the end of steps 1
	// to 8, and after step 9 if it changed that; either may be nil.
	StoreClaim func(subject *framework.Subject, clusters []string, unpermitted bool)
	StoreQuota func(subject *framework.Subject, clusters int)
	// StorePublished stores the published decision for the next Snapshot; nil if it is the same as
	// before.
	StorePublished func(subject *framework.Subject, last *framework.Published)

	memory *Memory
	// uncounted are the failures of Recount by `<profile>/<plugin>`.
	uncounted map[string]*framework.Status
	// attempts runs the cycles of attempts; they wait for each other there, not for the lock.
	attempts turns.Turns
	cycle    sync.Mutex
}

// New returns a scheduler with profiles by name. memory is that of the Handle of their plugins; nil
// for a scheduler that only decides.
func New(profiles map[string]*plugins.Profile, memory *Memory) *Scheduler {
	if memory == nil {
		memory = NewMemory()
	}
	return &Scheduler{
		Limits: limits.Limits{Clock: clock.RealClock{}}, Decider: decide.Decider{Profiles: profiles},
		memory: memory, uncounted: map[string]*framework.Status{},
	}
}

// Before reports whether the queue has a before b.
func (s *Scheduler) Before(a, b *v1alpha1.Placement) bool {
	return framework.Less(s.Profiles[v1alpha1.DefaultProfile].QueueSort, a, b)
}

// Recount restores the counts of all Counters from the records of all Placements. Call it once,
// before the first attempt. It takes the cycle lock. If a Counter panics, all attempts with its
// profile fail, because a limit would not hold.
func (s *Scheduler) Recount(records []*berthv1alpha1.PlacementChange) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		for _, counter := range s.Profiles[name].Counters() {
			failure := plugins.Call(context.Background(), "Recount", counter, func() *framework.Status {
				counter.Recount(records)
				return nil
			})
			if failure != nil {
				s.uncounted[name+"/"+counter.Name()] = failure
			}
		}
	}
}

// NeedsRecords returns for how long the Counters of any profile need the records of removals. If
// one panics, all are needed.
func (s *Scheduler) NeedsRecords() time.Duration {
	var longest time.Duration
	for _, profile := range s.Profiles {
		for _, counter := range profile.Counters() {
			failure := plugins.Call(context.Background(), "NeedsRecords", counter, func() *framework.Status {
				longest = max(longest, counter.NeedsRecords())
				return nil
			})
			if failure != nil {
				return math.MaxInt64
			}
		}
	}
	return longest
}

// DecodeCounts reads back the recorded counts of a Counter of any profile.
func (s *Scheduler) DecodeCounts(plugin string, text []byte) (any, error) {
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		for _, counter := range s.Profiles[name].Counters() {
			if counter.Name() == plugin {
				var counts any
				failure := plugins.Call(context.Background(), "DecodeCounts", counter, func() *framework.Status {
					var err error
					counts, err = counter.DecodeCounts(text)
					return framework.AsStatus(err)
				})
				return counts, failure.Err()
			}
		}
	}
	return nil, fmt.Errorf("no profile has a plugin %s that counts", plugin)
}

// loadState adds the memory of the engine and of plugins to a new Snapshot. It returns the last
// panic of a plugin.
func (s *Scheduler) loadState(ctx context.Context, snapshot *framework.Snapshot) (failure *framework.Status) {
	subject := snapshot.Subject
	key := subject.Key()
	profile, mistake := s.ProfileOf(subject.Placement)
	before := s.memory.of(key)
	switch {
	case before.uid == "":
	case before.uid != subject.Placement.UID:
		// The Placement was deleted and created again without an attempt in between.
		s.forget(key)
		before = remembered{}
	case before.profile != profile || mistake != nil:
		before.profile.ForgetPrepared(key)
		if before.reserved && before.profile != profile {
			for _, panicked := range plan.Unreserve(ctx, before.profile, framework.NewCycleState(snapshot), &framework.Proposal{}, false) {
				failure = panicked
			}
			s.reserveOpenChange(ctx, snapshot, false)
		}
	}
	snapshot.Timers, snapshot.Answers = before.timers, before.answers()
	before.unrecorded.load(snapshot)
	if snapshot.Now.Before(before.at) {
		snapshot.Timers = snapshot.Timers.NotAfter(snapshot.Now)
	}
	for _, counter := range profile.Counters() {
		var counts any
		panicked := plugins.Call(ctx, "Counts", counter, func() *framework.Status {
			counts = counter.Counts()
			return nil
		})
		failure = cmp.Or(s.uncounted[profile.Name+"/"+counter.Name()], panicked, failure)
		if counts != nil {
			if snapshot.PluginCounts == nil {
				snapshot.PluginCounts = map[string]any{}
			}
			snapshot.PluginCounts[counter.Name()] = counts
		}
	}
	return failure
}

// Forget drops the data of the engine and of plugins for a deleted Placement. It takes the cycle
// lock.
func (s *Scheduler) Forget(key types.NamespacedName) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	s.forget(key)
}

func (s *Scheduler) forget(key types.NamespacedName) {
	s.memory.forget(key)
	s.Limits.Forget(key)
	for _, profile := range s.Profiles {
		profile.Forget(key)
	}
}
