package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// maxAhead is how many inputs may lie between a decision and the last input that it depended on,
// maxAheadSize how many bytes of text they may have.
const (
	maxAhead     = 200_000
	maxAheadSize = 128 << 20
)

// maxSize is how many bytes of text the inputs of all runs may have that are kept at one time, so
// that a small file cannot fill the memory. Only tests change it.
var maxSize int64 = 512 << 20

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
	ahead     []aheadInput
	aheadSize int
	applied   int64
	// reduced are the objects of which only a reduced state was applied, shares the numbers of them
	// by share.
	reduced map[object]bool
	shares  map[string]int
	// segment and part are the numbers of the last file, ended is true after its last entry.
	segment, part int
	ended         bool
	// noInputs are the shares of which the file has no inputs. removed is true if that is why the
	// contents are unknown.
	noInputs []string
	removed  bool
	// continues is true if the current segment continues the one before it, known if the contents
	// are known.
	continues, known bool
	// contents is the number of the last input of the last checkpoint.
	contents int64
	// inContents is true if the last input was one of those of a checkpoint.
	inContents bool
	// problem is why decisions cannot be made; empty if they can.
	problem string
}

// object names an object.
type object struct {
	kind string
	inventory.Key
}

// aheadInput is an input that was not applied yet.
type aheadInput struct {
	inventory.Input
	object  object
	reduced bool
	size    int
}

// Play reads all entries.
func (p *Player) Play(ctx context.Context, r *recording.Reader) error {
	p.runs = map[string]*run{}
	for e, err := range r.Entries() {
		if err = cmp.Or(ctx.Err(), err); err != nil {
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
	return nil
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
			return p.beginContents(ctx, run, e.Number)
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
		p.input(run, e)
	}
	return nil
}

// begin begins a segment: the next one of its run, or one whose earlier entries are unknown.
func (p *Player) begin(ctx context.Context, h *recording.Header) error {
	old := p.runs[h.Run]
	if old != nil && old.continuedBy(h) {
		p.current = old
		if h.Part == 0 {
			old.continues, old.counts = true, nil
		}
		old.segment, old.part, old.ended = h.Segment, h.Part, false
		old.setNoInputs(h.NoInputs)
		return nil
	}
	next := &run{config: h.Config, segment: h.Segment, part: h.Part}
	next.setNoInputs(h.NoInputs)
	if len(p.runs) > maxRuns {
		clear(p.runs)
	}
	p.runs[h.Run], p.current = next, next
	var err error
	next.engine, err = p.newEngine(ctx, h.Config)
	return err
}

// continuedBy reports whether a file continues the last one of the run without a gap.
func (r *run) continuedBy(h *recording.Header) bool {
	if !r.ended || string(r.config) != string(h.Config) {
		return false
	}
	return r.segment+1 == h.Segment && h.Part == 0 || r.segment == h.Segment && r.part+1 == h.Part
}

// setNoInputs stores the shares of which a file has no inputs. Then the contents are unknown until
// a checkpoint in another file.
func (r *run) setNoInputs(shares []string) {
	if r.noInputs = shares; len(shares) > 0 {
		r.known, r.removed, r.inventory, r.ahead, r.aheadSize = false, true, nil, nil, 0
	}
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
	profiles, err := builtin.Profiles(ctx, configuration, registry, handle)
	if err != nil {
		return nil, fmt.Errorf("building the profiles: %w", err)
	}
	return scheduler.New(profiles, nil), nil
}

// beginContents begins the contents of a checkpoint. Where the contents are known, they are
// skipped. Otherwise they need another engine, because an engine keeps results by the indexes that
// one inventory gives to clusters.
func (p *Player) beginContents(ctx context.Context, r *run, number int64) (err error) {
	r.contents = number
	if r.continues && r.known && r.problem == "" {
		return nil
	}
	if r.decoder != nil {
		if r.engine, err = p.newEngine(ctx, r.config); err != nil {
			return err
		}
	}
	r.continues, r.known, r.removed = false, len(r.noInputs) == 0, len(r.noInputs) > 0
	r.inventory = inventory.New(inventory.Options{Reads: r.engine.Reads})
	r.decoder, r.ahead, r.aheadSize, r.applied, r.counts, r.problem = recording.NewDecoder(), nil, 0, number, nil, ""
	r.reduced, r.shares = map[object]bool{}, map[string]int{}
	return nil
}

// inContents reports whether the last input belongs to a checkpoint.
func (p *Player) inContents() bool { return p.current != nil && p.current.inContents }

// input applies an input of a checkpoint; another one waits for the decision that depends on it.
func (p *Player) input(r *run, e *recording.Entry) {
	r.inContents = e.Number <= r.contents
	if !r.known || r.problem != "" || r.inContents && r.continues && !r.completes(e) {
		return
	}
	in, ok, err := r.decoder.Input(e)
	if err != nil {
		r.problem = err.Error()
		return
	}
	if !ok {
		return
	}
	next := aheadInput{in, object{e.Kind, inventory.Key{Namespace: e.Namespace, Name: e.Name}}, r.decoder.IsReduced(e), e.Size}
	if r.inContents && !r.continues {
		r.apply(next)
	} else {
		r.ahead = append(r.ahead, next)
		if r.aheadSize += e.Size; len(r.ahead) > maxAhead || r.aheadSize > maxAheadSize {
			r.applyUntil(r.ahead[len(r.ahead)/2].Number)
		}
	}
	p.checkSize(r)
}

// completes reports whether an entry of a checkpoint has an object of which only a reduced state is
// known.
func (r *run) completes(e *recording.Entry) bool { return !e.Reduced && r.decoder.IsReduced(e) }

// checkSize ends a run if those that are kept need too much memory.
func (p *Player) checkSize(r *run) {
	size := int64(r.aheadSize)
	for _, other := range p.runs {
		if other.decoder != nil {
			size += other.decoder.Size()
		}
	}
	if size > maxSize {
		r.problem = fmt.Sprintf("the recorded objects have more than %d MiB of text", maxSize>>20)
		r.inventory, r.decoder, r.ahead, r.aheadSize = nil, nil, nil, 0
	}
}

// apply applies an input.
func (r *run) apply(in aheadInput) {
	r.inventory.Apply(in.Input)
	if in.Object == nil || in.reduced == r.reduced[in.object] {
		return
	}
	share := recording.ShareOf(in.object.kind, in.object.Namespace, in.object.Name)
	if in.reduced {
		r.reduced[in.object] = true
		r.shares[share]++
		return
	}
	delete(r.reduced, in.object)
	if r.shares[share]--; r.shares[share] == 0 {
		delete(r.shares, share)
	}
}

// applyUntil applies the inputs up to a number.
func (r *run) applyUntil(number int64) {
	n := 0
	for n < len(r.ahead) && r.ahead[n].Number <= number {
		r.apply(r.ahead[n])
		r.applied = max(r.applied, r.ahead[n].Number)
		r.aheadSize -= r.ahead[n].size
		n++
	}
	r.ahead = r.ahead[n:]
}

const specNotRecorded = "the Placement's spec at that time is not recorded"

// notRecorded returns what of the input of a decision is not recorded; empty if all is.
func (r *run) notRecorded(snapshot *framework.Snapshot) string {
	pl := snapshot.Subject.Placement
	if len(r.reduced) == 0 {
		return ""
	}
	if r.reduced[object{"Placement", inventory.Key{Namespace: pl.Namespace, Name: pl.Name}}] {
		return specNotRecorded
	}
	if r.shares[pl.Namespace] > 0 {
		return "objects of the Placement's namespace at that time are not recorded"
	}
	for share := range r.shares {
		if name, ok := recording.ClusterOf(share); ok && mayBeIn(snapshot, snapshot.Cluster(name)) {
			return "a cluster in the Placement's cluster sets, as it was at that time, is not recorded"
		}
	}
	return ""
}

// mayBeIn reports whether a cluster, whose labels are not known except that of its set, may be in
// a set of a Snapshot.
func mayBeIn(snapshot *framework.Snapshot, c *framework.Cluster) bool {
	return c != nil && slices.ContainsFunc(snapshot.Bound, func(s *framework.ClusterSet) bool { return s.Selector != nil || s.Matches(c) })
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
		why = r.whyUnknown("the recording has a gap before it")
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
	if why := r.notRecorded(snapshot); why != "" {
		return p.Visit(ctx, d, r.engine, nil, why)
	}
	snapshot.Cause, snapshot.Timers, snapshot.PluginCounts = d.Cause, d.Timers, r.counts
	if d.Answers != nil {
		snapshot.Answers = *d.Answers
	}
	return p.Visit(ctx, d, r.engine, snapshot, "")
}

// whyUnknown returns why the contents are unknown.
func (r *run) whyUnknown(gap string) string {
	if r.removed {
		return "the recording no longer has all objects of that time"
	}
	return gap
}

// Inventory returns the inventory after the last entry; nil if its contents are unknown. why says
// so.
func (p *Player) Inventory() (inv *inventory.Inventory, why string) {
	r, why := p.last()
	if why != "" {
		return nil, why
	}
	for o := range r.reduced {
		if o.kind == "ManagedCluster" {
			return nil, "a ManagedCluster, as it was at that time, is not recorded"
		}
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
		return nil, r.whyUnknown("the recording has a gap there")
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
	if why := r.notRecorded(snapshot); why != "" {
		return nil, nil, why
	}
	snapshot.PluginCounts = r.counts
	return snapshot, r.engine, ""
}
