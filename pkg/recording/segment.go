package recording

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// suffix is that of the names of segments: JSON lines, compressed with zstd.
const suffix = ".jsonl.zst"

// window is how far back the compression looks for repetitions, and what a reader keeps in memory.
const window = 1 << 20

// segmentWriter writes one segment. What was flushed can be read after a crash.
type segmentWriter struct {
	path string
	file *os.File
	zip  *zstd.Encoder
	text *bufio.Writer
	// line is the buffer for one entry.
	line []byte
	// begun is the time of the first entry. size is the number of bytes before compression,
	// contents that of the checkpoint.
	begun          time.Time
	size, contents int64
	// flushed is true if nothing was written since the last flush.
	flushed bool
	// written is true after the first entry that is not part of the checkpoint.
	written bool
}

// segmentName sorts by time.
func segmentName(at time.Time, run string, number int) string {
	return fmt.Sprintf("%s-%s-%06d%s", at.UTC().Format("20060102T150405.000000000Z"), run, number, suffix)
}

func newSegment(dir, name string, at time.Time) (*segmentWriter, error) {
	path := filepath.Join(dir, name)
	// The folder may have been removed since the start.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	zip, err := zstd.NewWriter(file, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := &segmentWriter{path: path, file: file, zip: zip, begun: at, flushed: true}
	s.text = bufio.NewWriterSize(zip, 64<<10)
	return s, nil
}

func (s *segmentWriter) write(e *Entry) error { return s.writeObject(&Written{Entry: e}) }

func (s *segmentWriter) writeObject(e *Written) (err error) {
	if s.line, err = appendEntry(s.line[:0], e); err != nil {
		return err
	}
	s.flushed = false
	s.size += int64(len(s.line))
	_, err = s.text.Write(s.line)
	return err
}

// flush makes everything readable that was written.
func (s *segmentWriter) flush() error {
	if s.flushed {
		return nil
	}
	s.flushed = true
	if err := s.text.Flush(); err != nil {
		return err
	}
	return s.zip.Flush()
}

// close ends the segment. The compressed stream ends with a checksum.
func (s *segmentWriter) close(at time.Time) error {
	return errors.Join(s.write(&Entry{Type: TypeEnd, Time: at}), s.text.Flush(), s.zip.Close(), s.file.Sync(), s.file.Close())
}

// abandon closes the file after an error. It removes a segment without a complete checkpoint, which
// nothing can begin with.
func (s *segmentWriter) abandon() {
	s.zip.Reset(nil)
	_ = s.file.Close()
	if s.contents == 0 {
		_ = os.Remove(s.path)
	}
}

// removed reports whether the file was removed.
func (s *segmentWriter) removed() bool {
	_, err := os.Stat(s.path)
	return errors.Is(err, os.ErrNotExist)
}

// segmentFile is a segment in a folder.
type segmentFile struct {
	path string
	size int64
	// changed is the time of the last write.
	changed time.Time
}

// segments lists the segments of a folder, oldest first.
func segments(dir string) ([]segmentFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []segmentFile
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), suffix) || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, segmentFile{filepath.Join(dir, entry.Name()), info.Size(), info.ModTime()})
	}
	slices.SortFunc(all, func(a, b segmentFile) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// prune removes the oldest segments until the rest fits into maxSize, and those whose last write is
// older than oldest. It keeps the current one, and the newest one of each other run unless it is
// that old: another replica may be writing it.
func prune(dir, current string, maxSize int64, oldest time.Time) (size int64, err error) {
	all, err := segments(dir)
	if err != nil {
		return 0, err
	}
	newest := map[string]string{}
	for _, s := range all {
		size += s.size
		newest[runOf(s.path)] = s.path
	}
	for _, s := range all {
		old := s.changed.Before(oldest)
		if s.path == current || !old && (size <= maxSize || newest[runOf(s.path)] == s.path) {
			continue
		}
		if failure := os.Remove(s.path); failure != nil && !errors.Is(failure, os.ErrNotExist) {
			err = errors.Join(err, failure)
			continue
		}
		size -= s.size
	}
	return size, err
}

// runOf returns the run in the name of a segment, or the whole name if it has none.
func runOf(path string) string {
	if parts := strings.Split(filepath.Base(path), "-"); len(parts) == 3 {
		return parts[1]
	}
	return path
}
