package recording

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	// bufferSize is how many bytes of memory may wait for the disk. More are lost. Of a share that
	// has more than shareOfBuffer of them, objects are reduced.
	bufferSize    = 64 << 20
	shareOfBuffer = bufferSize / 4
	// flushInterval is how much a crash can lose.
	flushInterval = time.Second
	// retryInterval is the time between attempts to write after an error of the disk, and between
	// the looks at a file to which nothing is written.
	retryInterval = 30 * time.Second
	// A segment ends after segmentAge, a part of it after partSize bytes before compression.
	segmentAge = time.Hour
	partSize   = 64 << 20
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
	// MaxSize, in bytes, and MaxAge limit the recording. What is older is removed. Beyond MaxSize,
	// the share that uses the most loses its oldest entries (ShareOf).
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
	// wake signals that entries wait.
	wake chan struct{}

	mu     sync.Mutex
	buffer buffer
	// contents returns the contents of the inventory; nil before Begin.
	contents func(emit func(int64, []inventory.Input))
	// stopped is true while entries are not taken. gap describes those that were lost.
	stopped bool
	gap     Gap

	// The rest is used by Run only, except the totals.
	segment *segmentWriter
	// number is that of the segment, part that of its current part. begun is the time of the
	// checkpoint, written is true after the first entry after it. touched is when the current part
	// got its time of change while nothing was written.
	number, part   int
	begun, touched time.Time
	written        bool
	counts         map[string]any
	encoder        *Encoder
	retryAt        time.Time
	failures       atomic.Int64
	entries        atomic.Int64
	lost           atomic.Int64
	size           atomic.Int64
	cpu            atomic.Int64
}

// item is an entry that waits for the disk.
type item struct {
	at    time.Time
	share string
	size  int64
	// reduced is true if the object of the input is.
	reduced  bool
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
	return &Recorder{options: o, run: rand.String(8), wake: make(chan struct{}, 1), buffer: buffer{byShare: map[string]int64{}}, stopped: true}, nil
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
		it.size = itemSize
		r.addLocked(it)
		r.stopped, r.gap = false, Gap{}
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
	it.at, it.share, it.size = r.options.Now(), shareOfItem(it), sizeOfItem(it)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		if r.contents != nil {
			r.loseLocked(it.at)
		}
		return
	}
	if r.buffer.byShare[it.share]+it.size > shareOfBuffer {
		it.reduce()
	}
	if r.buffer.size+it.size > bufferSize {
		r.loseLocked(it.at)
		return
	}
	r.addLocked(it)
}

// addLocked adds an item to the buffer. The lock is held.
func (r *Recorder) addLocked(it *item) {
	r.buffer.add(it)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take takes the first item from the buffer; nil if there is none.
func (r *Recorder) take() *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.take()
}

// reduce reduces the object of an item, if it is of such a kind.
func (it *item) reduce() {
	if it.input == nil || it.input.Kind != inventory.InputObject {
		return
	}
	if reduced, ok := reduce(it.input.Object); ok {
		it.input.Object, it.input.TaintTimes, it.reduced = reduced, nil, true
		it.size = sizeOfItem(it)
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
	rests := false
	timer := time.NewTimer(flushInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.finish()
			return
		case <-r.wake:
			if r.measure(r.writeAll); rests {
				rests = false
				timer.Reset(flushInterval)
			}
		case <-timer.C:
			r.measure(r.tick)
			if rests = r.rests(); rests {
				timer.Reset(retryInterval)
			} else {
				timer.Reset(flushInterval)
			}
		}
	}
}

// rests reports whether nothing is to be flushed, or nothing can be written.
func (r *Recorder) rests() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped || r.segment != nil && r.segment.flushed
}

// maxBatch is how many entries are written at once, so that flushes are not delayed.
const maxBatch = 256

// writeAll writes entries that wait.
func (r *Recorder) writeAll() {
	for range maxBatch {
		it := r.take()
		if it == nil {
			return
		}
		r.write(it)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
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
	stopped, waiting := r.stopped && r.contents != nil, r.buffer.size > 0
	r.mu.Unlock()
	switch now := r.options.Now(); {
	case stopped:
		if !waiting && !time.Now().Before(r.retryAt) {
			// The disk may be full of old segments.
			r.prune()
			r.checkpoint()
		}
	case r.segment == nil:
	case r.written && now.Sub(r.begun) >= segmentAge:
		r.checkpoint()
	case time.Since(r.touched) >= segmentAge:
		// Other replicas remove files by their age. An idle controller writes nothing.
		r.touched = time.Now()
		if err := os.Chtimes(r.segment.path, r.touched, r.touched); err != nil {
			r.options.Log.Error(err, "The time of the recording could not be set")
		}
	}
}

// finish writes what is in the buffer and ends the segment.
func (r *Recorder) finish() {
	for it := r.take(); it != nil; it = r.take() {
		r.write(it)
	}
	r.mu.Lock()
	r.stopped = true // what comes now is lost
	gap := r.gap
	r.mu.Unlock()
	if r.segment == nil {
		return
	}
	var err error
	if gap.Lost > 0 {
		gap.Until = r.options.Now()
		err = r.segment.write(&Entry{Type: TypeGap, Time: gap.Until, Gap: &gap})
	}
	if err = errors.Join(err, r.segment.end(r.options.Now())); err != nil {
		r.options.Log.Error(err, "The recording could not be completed")
	}
	r.segment = nil
}

// Stats are totals since the start.
type Stats struct {
	// Entries were written, Lost were not. Failures counts errors of the disk. Bytes is the size of
	// the recording when the last file began.
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
