package explore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Resilience says which domains the Placements can lose: GET api/resilience.
type Resilience struct {
	// By is the key of the domains; empty if none was asked for.
	By string `json:"by"`
	// Done is true once Placements, or Error, are known. At is the time of the state.
	Done  bool      `json:"done"`
	At    time.Time `json:"at,omitzero"`
	Error string    `json:"error,omitempty"`
	// Placements are the results by Placement.
	Placements map[string]Survival `json:"placements,omitempty"`
}

// Survival is the result for one Placement.
type Survival struct {
	// Critical is true if the loss of a domain leaves the Placement unsatisfied.
	Critical bool   `json:"critical,omitempty"`
	Message  string `json:"message"`
}

// surveyAge is how old a result may be before it is computed again.
const surveyAge = time.Minute

// survey computes Resilience in the background.
type survey struct {
	mu      sync.Mutex
	latest  *Resilience
	running bool
	stop    context.CancelFunc
}

// get returns what is known of the state now, and begins to compute it again if it is too old.
func (s *survey) get(v anyWorld, o simulator.Options, by *resilience.Key) *Resilience {
	if by == nil {
		return &Resilience{Done: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running && (s.latest == nil || time.Since(s.latest.At) > surveyAge) {
		ctx, cancel := context.WithCancel(context.Background())
		s.running, s.stop = true, cancel
		go func() {
			defer cancel()
			result := computeResilience(ctx, v, o, *by)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running, s.latest = false, result
		}()
	}
	if s.latest == nil {
		return &Resilience{By: by.String()}
	}
	return s.latest
}

// close ends the computation.
func (s *survey) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
}

// computeResilience has a Simulator of its own, because that of the world is in use. It
// returns nil if the hub is still being read.
func computeResilience(ctx context.Context, v anyWorld, o simulator.Options, by resilience.Key) *Resilience {
	r := &Resilience{By: by.String(), Done: true, At: time.Now(), Placements: map[string]Survival{}}
	var objects simulator.Objects
	err := v.use(func(w *world, _ int64) error {
		if _, local := w.decider.(simulated); !local {
			return fmt.Errorf("resilience: %w: it needs permission to list everything that decisions depend on", errInvalid)
		}
		objects = objectsOf(w.inventory)
		return nil
	})
	if errors.Is(err, errNotRead) {
		return nil
	}
	if err != nil {
		r.Error = err.Error()
		return r
	}
	simulated, err := simulator.New(ctx, objects, r.At, o)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	report, err := simulated.Resilience(ctx, by, simulated.Placements(), nil)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	for i := range report.Placements {
		p := &report.Placements[i]
		r.Placements[p.Placement] = Survival{Critical: p.Satisfied && p.Survived < p.Domains, Message: p.Message}
	}
	return r
}
