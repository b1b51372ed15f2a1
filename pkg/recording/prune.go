package recording

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/berth-dev/berth/pkg/boundedfile"
	"github.com/berth-dev/berth/pkg/inventory"
)

// usage is how many bytes shares use, by class.
type usage map[string]*[framing]int64

func (u usage) add(share string, c class, n int64) {
	if u[share] == nil {
		u[share] = &[framing]int64{}
	}
	u[share][c] += n
}

// A segment ends with the bytes of the shares, in a frame that the decompression skips: its header
// (RFC 8878, 3.1.2), compressed JSON, the length of that, and usageMark.
const (
	skippedFrame = 0x184D2A50
	usageMark    = "BRTH"
	maxUsage     = 64 << 20
)

// frame returns the bytes of the frame.
func (u usage) frame() []byte {
	text, err := json.Marshal(u)
	zip, zipErr := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil || zipErr != nil {
		return nil // The segment is read again when its shares are needed.
	}
	text = zip.EncodeAll(text, nil)
	frame := binary.LittleEndian.AppendUint32(nil, skippedFrame)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(text)+8))
	frame = binary.LittleEndian.AppendUint32(append(frame, text...), uint32(len(text)))
	return append(frame, usageMark...)
}

// usageOf returns how many bytes each share uses in a segment.
func usageOf(path string) (usage, error) {
	file, err := boundedfile.Open(path, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // Only read from: closing cannot lose anything.
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	tail := make([]byte, 8)
	if _, err := file.ReadAt(tail, info.Size()-8); err == nil && string(tail[4:]) == usageMark {
		if n := int64(binary.LittleEndian.Uint32(tail)); n <= min(maxUsage, info.Size()-16) {
			text := make([]byte, n)
			if _, err := file.ReadAt(text, info.Size()-8-n); err != nil {
				return nil, err
			}
			if u, err := parseUsage(text); err == nil {
				return u, nil
			}
		}
	}
	return readUsage(path, info.Size())
}

func parseUsage(text []byte) (usage, error) {
	zip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxUsage))
	if err != nil {
		return nil, err
	}
	defer zip.Close()
	if text, err = zip.DecodeAll(text, nil); err != nil {
		return nil, err
	}
	u := usage{}
	err = json.Unmarshal(text, &u)
	maps.DeleteFunc(u, func(_ string, bytes *[framing]int64) bool { return bytes == nil })
	return u, err
}

// readUsage reads a segment that a crash cut off, which has no frame of its shares.
func readUsage(path string, size int64) (usage, error) {
	u, sum := usage{}, int64(0)
	r := &Reader{files: []segmentFile{{path: path}}}
	defer r.Close()
	for e, err := range r.Entries() {
		if err != nil {
			return nil, err
		}
		sum += int64(len(r.line))
		if share, class := e.share(); class != framing {
			u.add(share, class, int64(len(r.line)))
		}
	}
	for _, bytes := range u {
		for c := range bytes {
			bytes[c] = bytes[c] * size / max(sum, 1)
		}
	}
	return u, nil
}

// rewritten is the prefix of files that replace a segment.
const rewritten = ".rewritten-"

// prune removes segments whose last write is older than oldest. If the rest comes near maxSize, the
// share that uses the most loses its oldest objects, after all of them its oldest decisions, and
// then the rest, until all fits. prune does not change the current segment, whose shares are used,
// and the newest one of each other run, unless it is that old: another replica may be writing it.
func prune(dir, current string, used usage, maxSize int64, oldest time.Time) (size int64, err error) {
	all, err := segments(dir)
	if err != nil {
		return 0, err
	}
	newest := map[string]string{}
	for _, s := range all {
		newest[runOf(s.path)] = s.path
	}
	var closed []segmentFile
	for _, s := range all {
		switch {
		case s.path == current || newest[runOf(s.path)] == s.path && !s.changed.Before(oldest):
			size += s.size
		case s.changed.Before(oldest):
			err = errors.Join(err, removeFile(s.path))
		default:
			size += s.size
			closed = append(closed, s)
		}
	}
	if size <= maxSize-maxSize/8 {
		return size, err
	}
	// Each time it removes more than the next file needs.
	for maxSize -= maxSize / 4; size > maxSize; {
		plan := planRemovals(closed, used, size-maxSize)
		for i := range closed {
			if removals := plan[closed[i].path]; removals != nil {
				before := closed[i].size
				err = errors.Join(err, closed[i].rewrite(removals))
				size += closed[i].size - before
			}
		}
		if len(plan) > 0 {
			continue
		}
		// What is left cannot be divided: damaged files, and the frames of others.
		if len(closed) == 0 {
			break
		}
		err = errors.Join(err, removeFile(closed[0].path))
		size -= closed[0].size
		closed = closed[1:]
	}
	return size, err
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// removals are the shares that lose entries in a segment, and up to which class.
type removals map[string]class

// removable is what a share has in a segment.
type removable struct {
	path  string
	class class
	bytes int64
}

// planRemovals returns what to remove from closed segments, by path, so that they get smaller by
// excess bytes. used are the shares of the current segment. A file that cannot be read has none.
func planRemovals(closed []segmentFile, used usage, excess int64) map[string]removals {
	totals, queues := map[string]int64{}, map[string][]removable{}
	for share, bytes := range used {
		for _, n := range bytes {
			totals[share] += n
		}
	}
	for _, s := range closed {
		u, err := usageOf(s.path)
		if err != nil {
			continue
		}
		for share, bytes := range u {
			for c, n := range bytes {
				if n > 0 {
					totals[share] += n
					queues[share] = append(queues[share], removable{s.path, class(c), n})
				}
			}
		}
	}
	for _, queue := range queues { // closed is in the order of time
		slices.SortStableFunc(queue, func(a, b removable) int { return cmp.Compare(a.class, b.class) })
	}
	shares := sharesBySize{}
	for share, queue := range queues {
		shares = append(shares, shareSize{share, totals[share], queue})
	}
	heap.Init(&shares)
	plan := map[string]removals{}
	for excess > 0 && len(shares) > 0 {
		largest := &shares[0]
		first := largest.queue[0]
		if plan[first.path] == nil {
			plan[first.path] = removals{}
		}
		plan[first.path][largest.share] = max(plan[first.path][largest.share], first.class)
		excess -= first.bytes
		largest.total -= first.bytes
		if largest.queue = largest.queue[1:]; len(largest.queue) == 0 {
			heap.Pop(&shares)
		} else {
			heap.Fix(&shares, 0)
		}
	}
	return plan
}

// shareSize is how much a share uses, and what it can lose, in that order.
type shareSize struct {
	share string
	total int64
	queue []removable
}

// sharesBySize implements heap.Interface. The largest share is the first.
type sharesBySize []shareSize

func (s sharesBySize) Len() int      { return len(s) }
func (s sharesBySize) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s sharesBySize) Less(i, j int) bool {
	return s[i].total > s[j].total || s[i].total == s[j].total && s[i].share < s[j].share
}
func (s *sharesBySize) Push(x any) { *s = append(*s, x.(shareSize)) }
func (s *sharesBySize) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// rewrite replaces a segment by one without what shares lose. If that fails, as on a full disk, it
// removes the segment.
func (s *segmentFile) rewrite(lose removals) error {
	path, err := s.writeWithout(lose)
	if err == nil {
		err = os.Rename(path, s.path)
	}
	if err != nil {
		s.size = 0
		return errors.Join(err, removeFile(path), removeFile(s.path))
	}
	info, err := os.Stat(s.path)
	if err == nil {
		s.size = info.Size()
	}
	return err
}

// writeWithout writes a segment without what shares lose to a new file.
func (s *segmentFile) writeWithout(lose removals) (path string, err error) {
	name := rewritten + rand.String(8) + "-" + filepath.Base(s.path)
	path = filepath.Join(filepath.Dir(s.path), name)
	w, err := newSegment(filepath.Dir(s.path), name)
	if err != nil {
		return path, err
	}
	r := &Reader{files: []segmentFile{*s}}
	defer r.Close()
	err = errors.Join(copyEntries(w, r, lose), w.close())
	// Its age is that of the entries.
	return path, errors.Join(err, os.Chtimes(path, s.changed, s.changed))
}

// copyEntries copies what the shares keep.
func copyEntries(w *segmentWriter, r *Reader, lose removals) error {
	reduced := map[objectKey][]byte{}
	for e, err := range r.Entries() {
		if err != nil {
			return err
		}
		share, c := e.share()
		upTo, loses := lose[share]
		switch {
		case e.Type == TypeHeader && e.Header != nil:
			for share, upTo := range lose {
				e.Header.omit(share, upTo)
			}
			err = w.write(e)
		case !loses || c > upTo:
			err = w.writeLine(r.line, share, c)
		case c == objects && upTo < shared:
			err = w.writeReduced(e, reduced)
		}
		if e.Type == string(inventory.InputDeleted) {
			delete(reduced, keyOf(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// omit stores what a share has lost in a segment.
func (h *Header) omit(share string, upTo class) {
	if upTo >= decisions && !slices.Contains(h.NoDecisions, share) {
		h.NoDecisions = slices.Sorted(slices.Values(append(h.NoDecisions, share)))
	}
	if upTo >= shared && !slices.Contains(h.NoInputs, share) {
		h.NoInputs = slices.Sorted(slices.Values(append(h.NoInputs, share)))
	}
}

// writeReduced writes the reduced object of an entry, unless it is the same as before.
func (s *segmentWriter) writeReduced(e *Entry, before map[objectKey][]byte) error {
	if e.Type == TypeStatus {
		return nil
	}
	w, err := reduceEntry(e)
	if err != nil || w == nil {
		return err
	}
	key := keyOf(e)
	object, err := json.Marshal(w.Object)
	if err != nil || bytes.Equal(object, before[key]) {
		return err
	}
	before[key] = object
	return s.writeObject(w)
}

// removeTemporary removes what crashes left of rewritten segments.
func removeTemporary(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), rewritten) {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}
