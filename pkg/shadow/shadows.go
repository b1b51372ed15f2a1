package shadow

import (
	"context"
	"hash/fnv"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// maxQueued bounds the decisions that wait for one worker.
const maxQueued = 10_000

// Shadows receives the decisions of the controller and decides the same Placements with the shadows
// of their profiles. Nothing waits for it: a decision for which there is no time is skipped. The
// methods may be called concurrently, and on nil, which has no shadows.
type Shadows struct {
	// OnShadow, if set, is called after each decision of a shadow, by its worker. Set it before
	// Start.
	OnShadow func(Decision)

	log       logr.Logger
	workers   []*worker
	maxQueued int
	// waiting counts attempts that wait for the cycle lock of the engine that publishes.
	waiting atomic.Int64

	mu sync.Mutex
	// shadows are by the profile beside which they decide, sorted by name.
	shadows map[string][]*totals
	// placements are by namespace, then name.
	placements map[string]map[string]*placement
}

// New returns the Shadows of a configuration, with a number of workers, at least 1; nil if it has
// no shadow profiles. profiles is called once for each worker, which needs its own plugins.
func New(workers int, log logr.Logger, profiles func() (map[string]*scheduler.Profile, error)) (*Shadows, error) {
	s := &Shadows{log: log, maxQueued: maxQueued, shadows: map[string][]*totals{}, placements: map[string]map[string]*placement{}}
	for range workers {
		all, err := profiles()
		if err != nil {
			return nil, err
		}
		w := newWorker(all)
		if len(w.engines) == 0 {
			return nil, nil
		}
		s.workers = append(s.workers, w)
	}
	for name, engine := range s.workers[0].engines {
		s.shadows[engine.of] = append(s.shadows[engine.of], &totals{profile: engine.of, shadow: name})
	}
	for _, shadows := range s.shadows {
		sortTotals(shadows)
	}
	return s, nil
}

// Start runs the workers until the context ends. It does not wait for a plugin that never returns.
func (s *Shadows) Start(ctx context.Context) error {
	for _, w := range s.workers {
		go s.work(ctx, w)
	}
	<-ctx.Done()
	return nil
}

// AttemptWaits says that an attempt waits for the cycle lock, until end is called. No shadow begins
// to decide meanwhile.
func (s *Shadows) AttemptWaits() (end func()) {
	if s == nil {
		return func() {}
	}
	s.waiting.Add(1)
	return func() {
		if s.waiting.Add(-1) == 0 {
			for _, w := range s.workers {
				w.notify()
			}
		}
	}
}

// Decided queues a decision for the shadows of the Placement's profile. It takes constant time. The
// caller may release the attempt, but not change its Snapshot and Target.
func (s *Shadows) Decided(a *scheduler.Attempt) {
	if s == nil {
		return
	}
	pl := a.Snapshot.Subject.Placement
	profile := scheduler.ProfileName(pl)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := a.Snapshot.Subject.Key()
	known := s.placements[key.Namespace][key.Name]
	if known != nil && (known.uid != pl.UID || known.profile != profile) {
		s.drop(key)
		known = nil
	}
	shadows := s.shadows[profile]
	if len(shadows) == 0 || a.Failure != nil || a.Target == nil {
		return
	}
	if known == nil {
		known = newPlacement(a.Snapshot, profile, shadows)
		if s.placements[key.Namespace] == nil {
			s.placements[key.Namespace] = map[string]*placement{}
		}
		s.placements[key.Namespace][key.Name] = known
	}
	w := s.workerOf(key)
	for _, c := range known.comparisons {
		s.queue(w, c, &decided{snapshot: a.Snapshot, target: a.Target.Clusters})
	}
	w.notify()
}

// queue adds the newest decision for a comparison. It replaces one that waits; if the queue is
// full, the decision is skipped.
func (s *Shadows) queue(w *worker, c *comparison, d *decided) {
	c.setResult(Pending)
	c.behind = false
	switch {
	case c.waiting != nil:
		c.skip()
		c.waiting = d
		// The clusters in the queue stay in the order of their Snapshots, which caches of plugins
		// need.
		w.queue.MoveToBack(c.queued)
	case w.queue.Len() >= s.maxQueued:
		c.skip()
		c.behind = true
	default:
		c.waiting, c.queued = d, w.queue.PushBack(c)
	}
}

// Forget drops what is known of a deleted Placement.
func (s *Shadows) Forget(key types.NamespacedName) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
}

func (s *Shadows) drop(key types.NamespacedName) {
	known := s.placements[key.Namespace][key.Name]
	if known == nil {
		return
	}
	delete(s.placements[key.Namespace], key.Name)
	if len(s.placements[key.Namespace]) == 0 {
		delete(s.placements, key.Namespace)
	}
	w := s.workerOf(key)
	for _, c := range known.comparisons {
		if c.waiting != nil {
			c.skip()
			w.queue.Remove(c.queued)
			c.waiting, c.queued = nil, nil
		}
		c.setResult("")
		c.dropped = true
		if c.begun {
			w.dropped = append(w.dropped, c)
		}
	}
	w.notify()
}

// workerOf returns the worker of a Placement, always the same one.
func (s *Shadows) workerOf(key types.NamespacedName) *worker {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key.Namespace + "/" + key.Name))
	return s.workers[h.Sum32()%uint32(len(s.workers))]
}

// decided is a decision of the engine that publishes.
type decided struct {
	snapshot *framework.Snapshot
	target   []string
}
