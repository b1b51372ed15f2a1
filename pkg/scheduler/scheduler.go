package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Scheduler decides and publishes. Steps 1 to 8 of attempts are serial; publishing is not. Fields
// are set before the first attempt.
type Scheduler struct {
	// Timer hears of each extension point that an attempt reaches, when it begins and, by what it
	// returns, when it ends: once, however many plugins and clusters there are.
	Timer func(profile, point string) (end func())
	// CycleTimeout is how long an attempt may hold the cycle lock, from when it takes it. 0 is no
	// limit. Decide and Explain have none.
	CycleTimeout time.Duration
	// Clock measures how long attempts take; it is not the clock of decisions. New sets the real
	// one.
	Clock clock.WithDelayedExecution
	// LockHeld is told how long each attempt held the cycle lock, and its outcome.
	LockHeld func(profile, outcome string, held time.Duration)
	// RecordFirst writes the records that must exist before step 9 publishes. Without it, changes
	// have no records.
	RecordFirst func(ctx context.Context, a *Attempt) error
	// Remember keeps what was published, for the next Snapshot.
	Remember func(subject *framework.Subject, last *framework.Published)

	profiles map[string]*Profile
	waiting  *HeldChanges
	// timers are by Placement; those of another UID are another Placement's.
	timers  map[types.NamespacedName]timers
	scratch scratchPool
	shares  shares
	cycle   sync.Mutex
	prepare sync.Mutex
}

// timers are what is measured from attempt to attempt for one Placement.
type timers struct {
	framework.Timers
	uid types.UID
}

// New is a scheduler with profiles by name. A Placement chooses one by annotation,
// v1alpha1.DefaultProfile otherwise. A scheduler that never publishes needs no HeldChanges.
func New(profiles map[string]*Profile, waiting *HeldChanges) *Scheduler {
	return &Scheduler{Clock: clock.RealClock{}, profiles: profiles, waiting: waiting, timers: map[types.NamespacedName]timers{}}
}

// Recount has the plugins that count start from the records of all Placements. It is called once,
// before the first attempt.
func (s *Scheduler) Recount(records []*berthv1alpha1.PlacementChange) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		for _, counter := range s.profiles[name].counters() {
			counter.Recount(records)
		}
	}
}

// Forget drops what the engine and plugins remember of a Placement that is gone.
func (s *Scheduler) Forget(key types.NamespacedName) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	s.forget(key)
}

func (s *Scheduler) forget(key types.NamespacedName) {
	delete(s.timers, key)
	s.waiting.forget(key)
	s.shares.forget(key)
	for _, profile := range s.profiles {
		for _, plugin := range profile.all() {
			if f, ok := plugin.(framework.Forgetter); ok {
				f.Forget(key)
			}
		}
	}
}

// profileOf is the profile that a Placement chooses. With one that does not exist comes the default
// one, so that there are plugins which can publish that the Placement was seen.
func (s *Scheduler) profileOf(pl *v1alpha1.Placement) (*Profile, *framework.Status) {
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
	return fallback, misconfigured(fmt.Sprintf("metadata.annotations[%s]: there is no profile %q; there are %s",
		v1alpha1.ProfileAnnotation, name, strings.Join(slices.Sorted(maps.Keys(s.profiles)), ", ")))
}
