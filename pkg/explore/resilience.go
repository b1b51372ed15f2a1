package explore

import (
	"context"
	"time"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Resilience says which domains the Placements can lose, for the hub of the last Matrix.
type Resilience struct {
	// By is the key of the domains; empty if none was asked for.
	By string `json:"by"`
	// Done is true once Placements, or Error, are known.
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
	// Placements are the results by Placement.
	Placements map[string]Survival `json:"placements,omitempty"`
}

// Survival is the result for one Placement.
type Survival struct {
	// Critical is true if the loss of a domain leaves the Placement unsatisfied.
	Critical bool   `json:"critical,omitempty"`
	Message  string `json:"message"`
}

// startSurvey computes Resilience in the background, and ends the computation for an earlier state
// of the hub. The caller holds the lock.
func (s *Server) startSurvey(objects simulator.Objects, now time.Time) {
	if s.stopSurvey != nil {
		s.stopSurvey()
	}
	if s.By == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stopSurvey, s.resilience = cancel, &Resilience{By: s.By.String()}
	go func() {
		defer cancel()
		result := survey(ctx, objects, now, s.Options, *s.By)
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil {
			s.resilience = result
		}
	}()
}

// survey has a Simulator of its own, because that of the view is used meanwhile.
func survey(ctx context.Context, objects simulator.Objects, now time.Time, o simulator.Options, by resilience.Key) *Resilience {
	r := &Resilience{By: by.String(), Done: true, Placements: map[string]Survival{}}
	simulated, err := simulator.New(ctx, objects, now, o)
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

// latestResilience returns what is known; By is empty if no key is set.
func (s *Server) latestResilience() *Resilience {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resilience == nil {
		return &Resilience{Done: true}
	}
	return s.resilience
}
