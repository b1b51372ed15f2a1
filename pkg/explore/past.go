package explore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// maxTicks is how many ticks a Timeline has.
	maxTicks = 1000
	// maxStates is how many states in the past are kept.
	maxStates = 3
	// timelineAge is how old a Timeline may be before the recording is read again.
	timelineAge = 5 * time.Second
)

// worldAt is the prefix of worlds in the past.
const worldAt = "at-"

// past shows the states of a recording.
type past struct {
	dir     string
	plugins framework.Registry

	mu       sync.Mutex
	timeline *Timeline
	reading  bool
	read     time.Time
	// replaying is held while a state is read; states are the last ones.
	replaying sync.Mutex
	states    []pastState
}

type pastState struct {
	at    time.Time
	fixed *fixedWorld
}

// replayed decides on a state of a recording.
type replayed struct{ *replay.State }

func (r replayed) begin(key types.NamespacedName) (taken, error) { return replayedOne{r, key}, nil }

type replayedOne struct {
	replayed
	key types.NamespacedName
}

func (r replayedOne) outline(ctx context.Context) (*simulator.Report, error) {
	return r.report(ctx, func(*scheduler.Attempt, *scheduler.Scheduler) []framework.ClusterVerdict { return nil })
}

func (r replayedOne) explain(ctx context.Context, cluster string) (*simulator.Report, error) {
	noCandidate := ""
	report, err := r.report(ctx, func(a *scheduler.Attempt, engine *scheduler.Scheduler) []framework.ClusterVerdict {
		noCandidate = a.WhyNoCandidate(cluster)
		return engine.Explain(ctx, a.Decision, cluster)
	})
	if report != nil && report.Answer != nil {
		report.NoCandidate = noCandidate
	}
	return report, err
}

func (r replayedOne) report(
	ctx context.Context, verdicts func(*scheduler.Attempt, *scheduler.Scheduler) []framework.ClusterVerdict,
) (report *simulator.Report, err error) {
	skipped, err := r.Decide(ctx, r.key, func(a *scheduler.Attempt, engine *scheduler.Scheduler) error {
		var err error
		report, err = simulator.ReportOf(a, verdicts(a, engine))
		return err
	})
	if skipped != "" {
		report = &simulator.Report{Placement: r.key.String(), Skipped: skipped}
	}
	return report, err
}

func (r replayedOne) attempt(ctx context.Context, visit func(*scheduler.Attempt)) (skipped string, err error) {
	return r.Decide(ctx, r.key, func(a *scheduler.Attempt, _ *scheduler.Scheduler) error {
		visit(a)
		return nil
	})
}

// state returns the state at the time of a world.
func (p *past) state(ctx context.Context, name string) (*fixedWorld, error) {
	at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(name, worldAt))
	if err != nil {
		return nil, fmt.Errorf("world: %w: %q is not a time in RFC 3339, such as at-2026-06-01T12:00:00Z", errInvalid, name)
	}
	p.replaying.Lock()
	defer p.replaying.Unlock()
	for _, s := range p.states {
		if s.at.Equal(at) {
			return s.fixed, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := recording.Open(p.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the recording: %w", err)
	}
	defer r.Close()
	s, err := replay.StateAt(ctx, r, p.plugins, at)
	if err != nil {
		return nil, err
	}
	w := newWorld(s.Inventory, replayed{s}, func() time.Time { return at })
	w.notRecorded = s.NotRecorded
	v := newFixedWorld(w)
	if p.states = append(p.states, pastState{at, v}); len(p.states) > maxStates {
		p.states = p.states[1:]
	}
	return v, nil
}

// line returns the Timeline, and reads the recording in the background if that is too old.
func (p *past) line() *Timeline {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reading && time.Since(p.read) > timelineAge {
		p.reading = true
		go func() {
			t := p.readLine()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.timeline, p.reading, p.read = t, false, time.Now()
		}()
	}
	if p.timeline == nil {
		return &Timeline{Ticks: []Tick{}}
	}
	t := *p.timeline
	t.Done = !p.reading
	return &t
}

func (p *past) readLine() *Timeline {
	t := &Timeline{Done: true, Ticks: []Tick{}}
	r, err := recording.Open(p.dir)
	if err != nil {
		t.Error = fmt.Sprintf("opening the recording: %v", err)
		return t
	}
	defer r.Close()
	for e, err := range r.Entries() {
		if err != nil {
			t.Error = err.Error()
			break
		}
		t.add(e)
	}
	return t
}

// add adds an entry of a recording.
func (t *Timeline) add(e *recording.Entry) {
	if !e.Time.IsZero() {
		if t.First.IsZero() {
			t.First = e.Time
		}
		t.Last = e.Time
	}
	d := e.Decision
	if d == nil || len(d.Added)+len(d.Removed) == 0 {
		return
	}
	t.Ticks = append(t.Ticks, Tick{Time: e.Time, Placement: d.Key().String(), Changes: 1, Added: len(d.Added), Removed: len(d.Removed), Cause: d.Cause})
	if len(t.Ticks) >= 2*maxTicks {
		t.join()
	}
}

// join joins neighbours, so that half of the ticks are left.
func (t *Timeline) join() {
	joined := t.Ticks[:0]
	for i := 0; i+1 < len(t.Ticks); i += 2 {
		a, b := t.Ticks[i], t.Ticks[i+1]
		joined = append(joined, Tick{Time: b.Time, Changes: a.Changes + b.Changes, Added: a.Added + b.Added, Removed: a.Removed + b.Removed})
	}
	t.Ticks = joined
}
