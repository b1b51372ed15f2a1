package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/berth-dev/berth/pkg/inventory"
)

// The limits of a recorder.
const (
	// bufferSize is the number of entries that wait for the disk. If there are more, they are lost.
	bufferSize = 16384
	// flushInterval is how much a crash can lose.
	flushInterval = time.Second
	// retryInterval is the time between attempts to write after an error of the disk.
	retryInterval = 30 * time.Second
	// A segment ends after segmentAge or segmentSize bytes before compression.
	segmentAge  = time.Hour
	segmentSize = 64 << 20
)

// Default limits of a recording.
const (
	DefaultMaxSize = 1 << 30
	DefaultMaxAge  = 168 * time.Hour
	// MinSize is the smallest MaxSize.
	MinSize = 16 << 20
)

// Options are the settings of a Recorder.
type Options struct {
	// Dir is the folder. It is created with mode 0700, its files have mode 0600.
	Dir string
	// MaxSize, in bytes, and MaxAge limit the recording. The oldest segments are removed.
	MaxSize int64
	MaxAge  time.Duration
	// Version, Commit and Config describe the program in headers.
	Version, Commit string
	Config          json.RawMessage
	// Now is the clock of decisions.
	Now func() time.Time
	Log logr.Logger
}

// Recorder writes a recording. Its methods never block: entries go to a bounded buffer, which Run
// writes to disk. If the buffer is full, or the disk fails, all entries are lost until it works
// again; then a new segment begins, with a gap and all objects.
type Recorder struct {
	options Options
	run     string
	queue   chan *item

	mu sync.Mutex
	// contents returns the contents of the inventory; nil before Begin.
	contents func(emit func(int64, []inventory.Input))
	// stopped is true while entries are not taken. gap describes those that were lost.
	stopped bool
	gap     Gap

	// The rest is used by Run only, except the totals.
	segment  *segmentWriter
	number   int
	counts   map[string]any
	encoder  *Encoder
	retryAt  time.Time
	failures atomic.Int64
	entries  atomic.Int64
	lost     atomic.Int64
	size     atomic.Int64
	cpu      atomic.Int64
}

// item is an entry that waits for the disk.
type item struct {
	at       time.Time
	input    *inventory.Input
	decision *Decision
	// counts are those of the plugins before the decision.
	counts map[string]any
	// checkpoint is nil for other entries.
	checkpoint *checkpoint
}

// checkpoint has the contents of the inventory after input number, and what was lost before it.
type checkpoint struct {
	number   int64
	contents []inventory.Input
	gap      Gap
}

// New returns a recorder. It returns an error if the folder cannot be written.
func New(o Options) (*Recorder, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of the recording: %w", err)
	}
	probe, err := os.CreateTemp(o.Dir, ".probe-")
	if err != nil {
		return nil, fmt.Errorf("writing to the folder of the recording: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("writing to the folder of the recording: %w", err)
	}
	o.MaxSize, o.MaxAge = max(cmp.Or(o.MaxSize, DefaultMaxSize), MinSize), cmp.Or(o.MaxAge, DefaultMaxAge)
	return &Recorder{options: o, run: rand.String(8), queue: make(chan *item, bufferSize), stopped: true}, nil
}

// Begin starts the recording with a checkpoint of the inventory. Call it once, after the initial
// listing and before the first decision. A nil Recorder does nothing.
func (r *Recorder) Begin(inv *inventory.Inventory) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.contents = inv.Contents
	r.mu.Unlock()
	r.checkpoint()
}

// checkpoint puts the contents of the inventory into the buffer, and takes entries from then on.
func (r *Recorder) checkpoint() {
	r.contents(func(number int64, contents []inventory.Input) {
		r.mu.Lock()
		defer r.mu.Unlock()
		c := &checkpoint{number: number, contents: contents}
		it := &item{at: r.options.Now(), checkpoint: c}
		if r.stopped {
			c.gap = r.gap
			c.gap.Until = it.at
		}
		select {
		case r.queue <- it:
			r.stopped, r.gap = false, Gap{}
		default:
			r.loseLocked(it.at)
		}
	})
}

// OnInput is for inventory.Options: it records the inputs of the inventory. It is nil for a nil
// Recorder.
func (r *Recorder) OnInput() func(inventory.Input) {
	if r == nil {
		return nil
	}
	return func(in inventory.Input) { r.put(&item{input: &in}) }
}

// Decided records a decision. counts are those of the plugins in its Snapshot; they must not change
// afterwards.
func (r *Recorder) Decided(d *Decision, counts map[string]any) {
	r.put(&item{decision: d, counts: counts})
}

func (r *Recorder) put(it *item) {
	it.at = r.options.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		if r.contents != nil {
			r.loseLocked(it.at)
		}
		return
	}
	select {
	case r.queue <- it:
	default:
		r.loseLocked(it.at)
	}
}

// loseLocked counts a lost entry; those after it are lost, too. The lock is held.
func (r *Recorder) loseLocked(at time.Time) {
	r.stopped = true
	if r.gap.Lost++; r.gap.Since.IsZero() {
		r.gap.Since = at
	}
	r.lost.Add(1)
}

// Run writes entries until the context ends, and then those in the buffer. A nil Recorder does
// nothing.
func (r *Recorder) Run(ctx context.Context) {
	if r == nil {
		return
	}
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			r.finish()
			return
		case it := <-r.queue:
			r.measure(func() { r.writeAll(it) })
		case <-ticker.C:
			r.measure(r.tick)
		}
	}
}

// maxBatch is how many entries are written at once, so that flushes are not delayed.
const maxBatch = 256

// writeAll writes an entry and those that wait behind it.
func (r *Recorder) writeAll(it *item) {
	for range maxBatch {
		r.write(it)
		select {
		case it = <-r.queue:
		default:
			return
		}
	}
	r.write(it)
}

// measure adds the processor time of call to the totals.
func (r *Recorder) measure(call func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := threadTime()
	call()
	r.cpu.Add(int64(threadTime() - begin))
}

// tick flushes, continues after a gap, and ends a segment that is large or old enough.
func (r *Recorder) tick() {
	if r.segment != nil {
		err := r.segment.flush()
		if err == nil && r.segment.removed() {
			err = fmt.Errorf("%s was removed", r.segment.path)
		}
		if err != nil {
			r.failed(err)
		}
	}
	r.mu.Lock()
	stopped := r.stopped && r.contents != nil
	r.mu.Unlock()
	switch {
	case stopped:
		if len(r.queue) == 0 && !time.Now().Before(r.retryAt) {
			// The disk may be full of old segments.
			r.prune()
			r.checkpoint()
		}
	case r.segment != nil && r.segment.isFull(r.options.Now(), r.options.MaxSize):
		r.checkpoint()
	}
}

// isFull reports whether the next segment is due. It needs at least as many new entries as its
// checkpoint has, so that a large fleet does not fill the disk with checkpoints. An idle controller
// writes nothing.
func (s *segmentWriter) isFull(now time.Time, maxSize int64) bool {
	return s.written && (s.size-s.contents >= max(min(segmentSize, maxSize/4), s.contents) || now.Sub(s.begun) >= segmentAge)
}

// finish writes what is in the buffer and ends the segment.
func (r *Recorder) finish() {
	for {
		select {
		case it := <-r.queue:
			r.write(it)
			continue
		default:
		}
		r.mu.Lock()
		r.stopped = true // what comes now is lost
		gap := r.gap
		r.mu.Unlock()
		if r.segment != nil {
			var err error
			if gap.Lost > 0 {
				gap.Until = r.options.Now()
				err = r.segment.write(&Entry{Type: TypeGap, Time: gap.Until, Gap: &gap})
			}
			if err = errors.Join(err, r.segment.close(r.options.Now())); err != nil {
				r.options.Log.Error(err, "The recording could not be completed")
			}
			r.segment = nil
		}
		return
	}
}

// write writes one entry. After an error, entries are lost until the next checkpoint.
func (r *Recorder) write(it *item) {
	var err error
	switch {
	case it.checkpoint != nil:
		err = r.writeCheckpoint(it.checkpoint, it.at)
	case r.segment == nil:
		r.drop()
	case it.input != nil:
		err = r.writeInput(*it.input, it.at)
	default:
		err = r.writeDecision(it)
	}
	if err != nil {
		if it.checkpoint != nil {
			r.keepGap(it.checkpoint.gap)
		}
		r.failed(err)
		return
	}
	r.entries.Add(1)
}

// keepGap adds a gap that could not be written to the current one.
func (r *Recorder) keepGap(gap Gap) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if gap.Lost == 0 {
		return
	}
	if r.gap.Lost == 0 || gap.Since.Before(r.gap.Since) {
		r.gap.Since = gap.Since
	}
	r.gap.Lost += gap.Lost
}

func (r *Recorder) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loseLocked(r.options.Now())
}

func (r *Recorder) writeInput(in inventory.Input, at time.Time) error {
	entry, err := r.encoder.Encode(in)
	if err != nil {
		// No object of the API server; nothing else can be done with it.
		r.options.Log.Error(err, "An input cannot be recorded")
		return nil
	}
	entry.Time = at
	r.segment.written = true
	return r.segment.writeObject(&entry)
}

func (r *Recorder) writeDecision(it *item) error {
	changed := map[string]json.RawMessage{}
	for plugin, counts := range it.counts {
		if before, known := r.counts[plugin]; known && same(before, counts) {
			continue
		}
		text, err := json.Marshal(counts)
		if err != nil {
			r.options.Log.Error(err, "Counts cannot be recorded", "plugin", plugin)
			continue
		}
		changed[plugin] = text
	}
	for plugin := range r.counts {
		if _, has := it.counts[plugin]; !has {
			changed[plugin] = json.RawMessage("null")
		}
	}
	r.counts = maps.Clone(it.counts)
	r.segment.written = true
	if len(changed) > 0 {
		if err := r.segment.write(&Entry{Type: TypeCounts, Time: it.at, Counts: changed}); err != nil {
			return err
		}
	}
	return r.segment.write(&Entry{Type: TypeDecision, Time: it.at, Decision: it.decision})
}

// same reports whether two counts are the same value. Counts never change, so pointers suffice.
func same(a, b any) bool {
	return a != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}

// writeCheckpoint begins a segment.
func (r *Recorder) writeCheckpoint(c *checkpoint, at time.Time) error {
	if r.segment != nil {
		if err := r.segment.close(at); err != nil {
			return err
		}
		r.segment = nil
	}
	r.number++
	segment, err := newSegment(r.options.Dir, segmentName(at, r.run, r.number), at)
	if err != nil {
		return err
	}
	r.segment, r.counts, r.encoder = segment, nil, NewEncoder()
	err = segment.write(&Entry{Type: TypeHeader, Time: at, Header: &Header{
		Format: Format, Run: r.run, Segment: r.number, Version: r.options.Version, Commit: r.options.Commit, Config: r.options.Config,
	}})
	if err == nil && c.gap.Lost > 0 {
		err = segment.write(&Entry{Type: TypeGap, Time: at, Gap: &c.gap})
	}
	if err == nil {
		err = segment.write(&Entry{Type: TypeCheckpoint, Time: at, Number: c.number, Checkpoint: &Checkpoint{Inputs: len(c.contents)}})
	}
	for _, in := range c.contents {
		if err != nil {
			return err
		}
		err = r.writeInput(in, at)
	}
	if err == nil {
		err = segment.flush()
	}
	if err != nil {
		return err
	}
	segment.written, segment.contents = false, segment.size
	r.prune()
	return nil
}

// prune removes the oldest segments. A file that cannot be removed does not end the recording.
func (r *Recorder) prune() {
	current := ""
	if r.segment != nil {
		current = r.segment.path
	}
	size, err := prune(r.options.Dir, current, r.options.MaxSize-r.options.MaxSize/4, time.Now().Add(-r.options.MaxAge))
	r.size.Store(size)
	if err != nil {
		r.options.Log.Error(err, "An old part of the recording could not be removed")
	}
}

// failed gives up the segment after an error of the disk. Start tries again later.
func (r *Recorder) failed(err error) {
	r.failures.Add(1)
	if r.segment != nil {
		r.segment.abandon()
		r.segment = nil
	}
	r.retryAt = time.Now().Add(retryInterval)
	r.mu.Lock()
	r.loseLocked(r.options.Now())
	r.gap.Why = err.Error()
	r.mu.Unlock()
	r.options.Log.Error(err, "The recording has a gap: it could not be written", "folder", filepath.Clean(r.options.Dir), "retryAfter", retryInterval)
}

// Stats are totals since the start.
type Stats struct {
	// Entries were written, Lost were not. Failures counts errors of the disk. Bytes is the size of
	// the recording when the last segment began.
	Entries, Lost, Failures, Bytes int64
	// CPU is the processor time of encoding, compressing and writing.
	CPU time.Duration
}

// Dir is the folder of the recording.
func (r *Recorder) Dir() string { return r.options.Dir }

// Stats returns the totals. It may be called at any time.
func (r *Recorder) Stats() Stats {
	return Stats{Entries: r.entries.Load(), Lost: r.lost.Load(), Failures: r.failures.Load(), Bytes: r.size.Load(), CPU: time.Duration(r.cpu.Load())}
}
