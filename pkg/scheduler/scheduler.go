package scheduler

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/turns"
)

// Scheduler decides and publishes. Steps 1 to 8 of attempts are serial; step 9 is concurrent. Set
// the fields before the first attempt.
type Scheduler struct {
	// Timer is called when an attempt starts an extension point; the returned function, when it
	// ends. Both are called once per extension point, not per plugin or cluster.
	Timer func(profile, point string) (end func())
	// CycleTimeout is how long an attempt may hold the cycle lock; 0 means no limit. Decide and
	// Explain have no limit.
	CycleTimeout time.Duration
	// Clock measures the duration of attempts; decisions use Snapshot.Now. New sets the real clock.
	Clock clock.WithDelayedExecution
	// LockHeld is called after each attempt with the time for which it held the cycle lock, and
	// with the outcome of the cycle (Cycle*).
	LockHeld func(profile, outcome string, held time.Duration)
	// WriteRecordsBefore writes the records that must exist before step 9 publishes. If nil,
	// changes have no records.
	WriteRecordsBefore func(ctx context.Context, a *Attempt) error
	// OnDecided is called after steps 1 to 8 of each attempt, with the cycle lock held; it must not
	// block. If nil, nothing is called.
	OnDecided func(a *Attempt)
	// StoreClaim stores the clusters that are being added to a Placement: each counts as a decision
	// until a page of the Placement lists it. StoreQuota stores how many clusters of its queue's
	// quota the Placement uses. Both are called at the end of steps 1 to 8, and after step 9 if it
	// changed that; either may be nil.
	StoreClaim func(placement types.NamespacedName, clusters []string)
	StoreQuota func(placement types.NamespacedName, clusters int)
	// StorePublished stores the published decision for the next Snapshot; nil if it is the same as
	// before.
	StorePublished func(subject *framework.Subject, last *framework.Published)

	profiles map[string]*Profile
	held     *HeldChanges
	// timers are by Placement. An entry with another UID belongs to an earlier Placement of that
	// name.
	timers map[types.NamespacedName]timers
	// uncounted are the failures of Recount by `<profile>/<plugin>`.
	uncounted map[string]*framework.Status
	scratch   scratchPool
	shares    shares
	// unverified are the attempts whose last step failed.
	unverified unverified
	// attempts runs the cycles of attempts; they wait for each other there, not for the lock.
	attempts turns.Turns
	cycle    sync.Mutex
	prepare  prepareTurns
}

// timers are the measurements across attempts for one Placement.
type timers struct {
	framework.Timers
	uid types.UID
	// profile is that of the last attempt.
	profile *Profile
	// reserved is true while Reserve plugins count a change.
	reserved bool
	// unrecorded are the last additions without a record.
	unrecorded additions
}

// New returns a scheduler with profiles by name. A Placement selects one by
// annotation; the default is v1alpha1.DefaultProfile. held may be nil for a scheduler that only
// decides.
func New(profiles map[string]*Profile, held *HeldChanges) *Scheduler {
	return &Scheduler{
		Clock: clock.RealClock{}, profiles: profiles, held: held,
		timers: map[types.NamespacedName]timers{}, uncounted: map[string]*framework.Status{},
	}
}

// Before reports whether the queue has a before b.
func (s *Scheduler) Before(a, b *v1alpha1.Placement) bool {
	return framework.Less(s.profiles[v1alpha1.DefaultProfile].QueueSort, a, b)
}

// Recount restores the counts of all Counters from the records of all Placements. Call it once,
// before the first attempt. It takes the cycle lock. If a Counter panics, all attempts with its
// profile fail, because a limit would not hold.
func (s *Scheduler) Recount(records []*berthv1alpha1.PlacementChange) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		for _, counter := range s.profiles[name].counters() {
			failure := guard(context.Background(), "Recount", counter, func() *framework.Status {
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
	for _, profile := range s.profiles {
		for _, counter := range profile.counters() {
			failure := guard(context.Background(), "NeedsRecords", counter, func() *framework.Status {
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
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		for _, counter := range s.profiles[name].counters() {
			if counter.Name() == plugin {
				var counts any
				failure := guard(context.Background(), "DecodeCounts", counter, func() *framework.Status {
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

// Forget drops the data of the engine and of plugins for a deleted Placement. It takes the cycle
// lock.
func (s *Scheduler) Forget(key types.NamespacedName) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	s.forget(key)
}

func (s *Scheduler) forget(key types.NamespacedName) {
	delete(s.timers, key)
	s.held.forget(key)
	s.shares.forget(key)
	s.unverified.forget(key)
	s.prepare.takeFailure(key)
	for _, profile := range s.profiles {
		for _, name := range slices.Sorted(maps.Keys(profile.plugins)) {
			forgetWith(profile.plugins[name].Plugin, key)
		}
	}
}

// forgetPrepared drops what the Preparers of a profile keep for a Placement that does not use the
// profile any more: they may keep an old Snapshot.
func (p *Profile) forgetPrepared(key types.NamespacedName) {
	for _, plugin := range p.PreFilter {
		_, prepares := plugin.(framework.Preparer)
		if prepares || p.traits(plugin.Name()).PreparePolicy != nil {
			forgetWith(plugin, key)
		}
	}
}

// forgetWith calls Forget of a Forgetter.
func forgetWith(plugin framework.Plugin, key types.NamespacedName) {
	if f, ok := plugin.(framework.Forgetter); ok {
		guard(context.Background(), "Forget", plugin, func() *framework.Status {
			f.Forget(key)
			return nil
		})
	}
}

// ProfileName is the name of the profile that decided.
func (r *Result) ProfileName() string { return r.profile.Name }

// profileOf returns the profile that a Placement selects. If it does not exist, it returns the
// default profile and an error: its plugins can still publish an empty page.
func (s *Scheduler) profileOf(pl *v1alpha1.Placement) (*Profile, *field.Error) {
	name, chosen := pl.Annotations[v1alpha1.ProfileAnnotation]
	if !chosen {
		name = v1alpha1.DefaultProfile
	}
	if profile := s.profiles[name]; profile != nil {
		return profile, nil
	}
	fallback := s.profiles[v1alpha1.DefaultProfile]
	if fallback == nil {
		fallback = &Profile{}
	}
	return fallback, field.NotSupported(field.NewPath("metadata", "annotations").Key(v1alpha1.ProfileAnnotation), name, slices.Sorted(maps.Keys(s.profiles)))
}
