package recording

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"time"
)

// write writes one entry. After an error, entries are lost until the next checkpoint.
func (r *Recorder) write(it *item) {
	var err error
	switch {
	case it.checkpoint != nil:
		err = r.writeCheckpoint(it.checkpoint, it.at)
	case r.segment == nil:
		r.drop()
	case it.input != nil:
		err = r.writeInput(it)
	default:
		err = r.writeDecision(it)
	}
	if err == nil && r.segment != nil && it.checkpoint == nil && r.segment.size >= min(partSize, r.options.MaxSize/8) {
		err = r.nextPart(it.at)
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

func (r *Recorder) writeInput(it *item) error {
	entry, err := r.encoder.encode(*it.input, it.reduced)
	if err != nil {
		// No object of the API server; nothing else can be done with it.
		r.options.Log.Error(err, "An input cannot be recorded")
		return nil
	}
	entry.Time, r.written = it.at, true
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
	r.written = true
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

// newFile ends the current file and begins the next one.
func (r *Recorder) newFile(at time.Time) error {
	if current := r.segment; current != nil {
		r.segment = nil
		if err := current.end(at); err != nil {
			return err
		}
	}
	segment, err := newSegment(r.options.Dir, segmentName(at, r.run, r.number, r.part))
	if err != nil {
		return err
	}
	r.segment, r.touched = segment, time.Now()
	return segment.write(&Entry{Type: TypeHeader, Time: at, Header: &Header{
		Format: Format, Run: r.run, Segment: r.number, Part: r.part, Version: r.options.Version, Commit: r.options.Commit, Config: r.options.Config,
	}})
}

// nextPart continues the segment in another file, so that what is written can be pruned.
func (r *Recorder) nextPart(at time.Time) error {
	r.part++
	err := r.newFile(at)
	if err == nil {
		r.prune()
	}
	return err
}

// writeCheckpoint begins a segment.
func (r *Recorder) writeCheckpoint(c *checkpoint, at time.Time) error {
	r.number, r.part, r.begun = r.number+1, 0, at
	r.counts, r.encoder = nil, NewEncoder()
	err := r.newFile(at)
	if err == nil && c.gap.Lost > 0 {
		err = r.segment.write(&Entry{Type: TypeGap, Time: at, Gap: &c.gap})
	}
	if err == nil {
		err = r.segment.write(&Entry{Type: TypeCheckpoint, Time: at, Number: c.number, Checkpoint: &Checkpoint{Inputs: len(c.contents)}})
	}
	for i := range c.contents {
		if err != nil {
			break
		}
		err = r.writeInput(&item{at: at, input: &c.contents[i]})
	}
	if err == nil {
		err = r.segment.flush()
	}
	if err != nil {
		// Nothing can begin with a segment without a complete checkpoint.
		if r.segment != nil {
			_ = os.Remove(r.segment.path)
		}
		return err
	}
	r.written = false
	r.prune()
	return nil
}

// prune removes the oldest part of the recording. A file that cannot be removed does not end the
// recording.
func (r *Recorder) prune() {
	current, used := "", usage{}
	if r.segment != nil {
		current, used = r.segment.path, r.segment.used
	}
	removeTemporary(r.options.Dir)
	size, err := prune(r.options.Dir, current, used, r.options.MaxSize, time.Now().Add(-r.options.MaxAge))
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
