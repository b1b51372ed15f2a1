package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// maxAhead is how many inputs may lie between a decision and the last input that it depended on.
const maxAhead = 200_000

// maxRuns is how many runs may be interleaved: those of the replicas that share a folder.
const maxRuns = 8

// Player applies the entries of a recording in their order, each run to an inventory of its own.
type Player struct {
	// Plugins are the out-of-tree plugins that the configuration may name.
	Plugins framework.Registry
	// Config is another configuration; nil for the recorded one.
	Config *config.PlacementSchedulerConfiguration
	// Visit is called for each recorded decision, with the Snapshot that it was made on and an
	// engine. The Snapshot is nil if it is unknown; why says so. An error ends Play.
	Visit func(ctx context.Context, d *recording.Decision, engine *scheduler.Scheduler, snapshot *framework.Snapshot, why string) error
	// OnEntry is called for each entry before it is applied; may be nil. ReadOnly applies none.
	OnEntry  func(e *recording.Entry)
	ReadOnly bool
	// Until ends a segment before an entry for which it returns true; may be nil.
	Until func(e *recording.Entry) bool

	runs map[string]*run
	// current is the run of the segment; decider that of the last decision.
	current, decider *run
}

// run is the state of one run of the controller.
type run struct {
	inventory *inventory.Inventory
	engine    *scheduler.Scheduler
	config    json.RawMessage
	decoder   *recording.Decoder
	counts    map[string]any
	// ahead are inputs that no decision has needed yet. applied is the number of the last applied
	// one.
	ahead   []inventory.Input
	applied int64
	// segment is the number of the last segment, ended is true after its last entry.
	segment int
	ended   bool
	// continues is true if the current segment continues the one before it, known if the contents
	// are known.
	continues, known bool
	// contents is the number of inputs of the checkpoint that follow.
	contents int
	// problem is why decisions cannot be made; empty if they can.
	problem string
}

// Play reads all entries.
func (p *Player) Play(ctx context.Context, r *recording.Reader) error {
	p.runs = map[string]*run{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if p.Until != nil && p.Until(e) {
			r.Skip()
			continue
		}
		if p.OnEntry != nil {
			p.OnEntry(e)
		}
		if p.ReadOnly {
			continue
		}
		if err := p.apply(ctx, e); err != nil {
			return err
		}
	}
}

func (p *Player) apply(ctx context.Context, e *recording.Entry) error {
	if e.Type == recording.TypeHeader && e.Header != nil {
		return p.begin(ctx, e.Header)
	}
	run := p.current
	if run == nil {
		return nil
	}
	switch e.Type {
	case recording.TypeGap:
		run.continues = false
	case recording.TypeCheckpoint:
		if e.Checkpoint != nil {
			run.beginContents(e.Number, e.Checkpoint.Inputs)
		}
	case recording.TypeCounts:
		run.setCounts(e.Counts)
	case recording.TypeDecision:
		if e.Decision != nil {
			p.decider = run
			return p.decide(ctx, run, e.Decision)
		}
	case recording.TypeEnd:
		run.ended = true
	default:
		run.input(e)
	}
	return nil
}

// begin begins a segment: the next one of its run, or one whose earlier entries are unknown.
func (p *Player) begin(ctx context.Context, h *recording.Header) error {
	old := p.runs[h.Run]
	if old != nil && old.ended && old.segment+1 == h.Segment && string(old.config) == string(h.Config) {
		p.current = old
		old.segment, old.ended, old.continues, old.contents, old.counts = h.Segment, false, true, 0, nil
		return nil
	}
	next := &run{config: h.Config, segment: h.Segment}
	if len(p.runs) > maxRuns {
		clear(p.runs)
	}
	p.runs[h.Run], p.current = next, next
	if old != nil && string(old.config) == string(h.Config) {
		next.engine = old.engine
	}
	if next.engine == nil {
		engine, err := p.newEngine(ctx, h.Config)
		if err != nil {
			return err
		}
		next.engine = engine
	}
	return nil
}

func (p *Player) newEngine(ctx context.Context, recorded json.RawMessage) (*scheduler.Scheduler, error) {
	configuration := p.Config
	if configuration == nil && len(recorded) > 0 {
		configuration = &config.PlacementSchedulerConfiguration{}
		if err := json.Unmarshal(recorded, configuration); err != nil {
			return nil, fmt.Errorf("reading the recorded configuration: %w", err)
		}
	}
	registry := builtin.Registry()
	if err := registry.Merge(p.Plugins); err != nil {
		return nil, err
	}
	// With Assume, plugins behave as in a controller, not as in a simulation that decides once.
	handle := &framework.Handle{Assume: func(*v1alpha1.PlacementDecision, bool) {}}
	profiles, err := scheduler.NewProfiles(ctx, configuration, builtin.DefaultProfile(), registry, handle)
	if err != nil {
		return nil, fmt.Errorf("building the profiles: %w", err)
	}
	return scheduler.New(profiles, nil), nil
}

// beginContents begins the contents of a checkpoint. Where the contents are known, they are
// skipped.
func (r *run) beginContents(number int64, inputs int) {
	r.contents = inputs
	if r.continues && r.known && r.problem == "" {
		return
	}
	r.continues = false
	r.inventory = inventory.New(inventory.Options{Reads: r.engine.Reads})
	r.decoder, r.ahead, r.applied, r.counts, r.problem, r.known = recording.NewDecoder(), nil, number, nil, "", true
}

// inContents reports whether the next input belongs to a checkpoint.
func (p *Player) inContents() bool { return p.current != nil && p.current.contents > 0 }

// input applies an input of a checkpoint; another one waits for the decision that depends on it.
func (r *run) input(e *recording.Entry) {
	inContents := r.contents > 0
	if inContents {
		r.contents--
		if r.continues {
			return
		}
	}
	if !r.known || r.problem != "" {
		return
	}
	in, ok, err := r.decoder.Input(e)
	if err != nil {
		r.problem = err.Error()
		return
	}
	switch {
	case !ok:
	case inContents:
		r.inventory.Apply(in)
	default:
		r.ahead = append(r.ahead, in)
		if len(r.ahead) > maxAhead {
			r.applyUntil(r.ahead[len(r.ahead)/2].Number)
		}
	}
}

// applyUntil applies the inputs up to a number.
func (r *run) applyUntil(number int64) {
	n := 0
	for n < len(r.ahead) && r.ahead[n].Number <= number {
		r.inventory.Apply(r.ahead[n])
		r.applied = r.ahead[n].Number
		n++
	}
	r.ahead = r.ahead[n:]
}

func (r *run) setCounts(changed map[string]json.RawMessage) {
	next := map[string]any{}
	maps.Copy(next, r.counts)
	for plugin, text := range changed {
		if string(text) == "null" {
			delete(next, plugin)
			continue
		}
		counts, err := r.engine.DecodeCounts(plugin, text)
		if err != nil {
			// Another configuration may not have the plugin.
			delete(next, plugin)
			continue
		}
		next[plugin] = counts
	}
	r.counts = next
}

// decide restores the Snapshot of a recorded decision.
func (p *Player) decide(ctx context.Context, r *run, d *recording.Decision) error {
	why := ""
	switch {
	case !r.known:
		why = "the recording has a gap before it"
	case r.problem != "":
		why = r.problem
	case d.Input < r.applied:
		why = "it depends on entries before the recording"
	}
	if why != "" {
		return p.Visit(ctx, d, r.engine, nil, why)
	}
	r.applyUntil(d.Input)
	snapshot := r.inventory.Snapshot(d.Key(), d.Now, d.Queue)
	if snapshot == nil || snapshot.Subject.Placement.UID != d.UID {
		return p.Visit(ctx, d, r.engine, nil, "the recording has no such Placement")
	}
	snapshot.Cause, snapshot.Timers, snapshot.PluginCounts = d.Cause, d.Timers, r.counts
	if d.Answers != nil {
		snapshot.Answers = *d.Answers
	}
	return p.Visit(ctx, d, r.engine, snapshot, "")
}

// Inventory returns the inventory after the last entry; nil if its contents are unknown. why says
// so.
func (p *Player) Inventory() (inv *inventory.Inventory, why string) {
	r, why := p.last()
	if why != "" {
		return nil, why
	}
	return r.inventory, ""
}

// last applies all inputs of the last run.
func (p *Player) last() (r *run, why string) {
	r = cmp.Or(p.decider, p.current)
	switch {
	case r == nil:
		return nil, "the recording begins later"
	case !r.known:
		return nil, "the recording has a gap there"
	case r.problem != "":
		return nil, r.problem
	}
	for len(r.ahead) > 0 {
		r.applyUntil(r.ahead[0].Number)
	}
	return r, ""
}

// Snapshot returns what a decision about a Placement would be made on after the last entry until a
// time. The Snapshot is nil if it is unknown; why says so.
func (p *Player) Snapshot(key inventory.Key, at time.Time) (snapshot *framework.Snapshot, engine *scheduler.Scheduler, why string) {
	r, why := p.last()
	if why != "" {
		return nil, nil, why
	}
	if snapshot = r.inventory.Snapshot(key, at, nil); snapshot == nil {
		return nil, nil, "the Placement did not exist"
	}
	snapshot.PluginCounts = r.counts
	return snapshot, r.engine, ""
}
