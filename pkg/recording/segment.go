package recording

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// suffix is that of the names of segments: JSON lines, compressed with zstd.
const suffix = ".jsonl.zst"

// window is how far back the compression looks for repetitions, and what a reader keeps in memory.
const window = 1 << 20

// segmentWriter writes one segment, or one part of it. What was flushed can be read after a crash.
type segmentWriter struct {
	path string
	file *os.File
	zip  *zstd.Encoder
	text *bufio.Writer
	// line is the buffer for one entry.
	line []byte
	// size is the number of bytes before compression, zipped that after it.
	size, zipped int64
	// used are the bytes after compression, by share. waiting are those before compression of which
	// it is not known yet, waitingSize is their sum, and counted is how much of zipped is in used.
	used, waiting        usage
	waitingSize, counted int64
	// flushed is true if nothing was written since the last flush.
	flushed bool
}

// countInterval is after how many bytes what was compressed is divided among the shares. It is the
// size of a block of the compression.
const countInterval = 128 << 10

// segmentName sorts by time.
func segmentName(at time.Time, run string, number, part int) string {
	return fmt.Sprintf("%s-%s-%06d.%06d%s", at.UTC().Format("20060102T150405.000000000Z"), run, number, part, suffix)
}

// isFirstPart reports whether a segment begins with this file.
func isFirstPart(path string) bool {
	name := strings.TrimSuffix(filepath.Base(path), suffix)
	return !strings.Contains(name[strings.LastIndex(name, "-")+1:], ".") || strings.HasSuffix(name, ".000000")
}

func newSegment(dir, name string) (*segmentWriter, error) {
	path := filepath.Join(dir, name)
	// The folder may have been removed since the start.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := &segmentWriter{path: path, file: file, used: usage{}, waiting: usage{}, flushed: true}
	if s.zip, err = newCompressor(s); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s.text = bufio.NewWriterSize(s.zip, 64<<10)
	return s, nil
}

// compressors are those of segments that ended. Each has several MB of memory, and while the disk
// is full, a segment begins every retryInterval.
var compressors sync.Pool

func newCompressor(w io.Writer) (*zstd.Encoder, error) {
	if used, ok := compressors.Get().(*zstd.Encoder); ok {
		used.Reset(w)
		return used, nil
	}
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
}

// releaseCompressor gives the memory of the compression to other segments.
func (s *segmentWriter) releaseCompressor() {
	s.zip.Reset(nil)
	compressors.Put(s.zip)
}

// Write writes what was compressed. Only the compression calls it.
func (s *segmentWriter) Write(zipped []byte) (int, error) {
	n, err := s.file.Write(zipped)
	s.zipped += int64(n)
	return n, err
}

func (s *segmentWriter) write(e *Entry) error { return s.writeObject(&Written{Entry: e}) }

func (s *segmentWriter) writeObject(e *Written) (err error) {
	if s.line, err = appendEntry(s.line[:0], e); err != nil {
		return err
	}
	share, class := e.share()
	return s.writeLine(s.line, share, class)
}

// writeLine writes the text of an entry.
func (s *segmentWriter) writeLine(line []byte, share string, class class) error {
	s.flushed = false
	s.size += int64(len(line))
	if class != framing {
		s.waiting.add(share, class, int64(len(line)))
	}
	if s.waitingSize += int64(len(line)); s.waitingSize >= countInterval {
		s.count()
	}
	_, err := s.text.Write(line)
	return err
}

// count divides what was compressed since the last time among the shares that wrote it.
func (s *segmentWriter) count() {
	if s.zipped == s.counted {
		return
	}
	for share, bytes := range s.waiting {
		for c, n := range bytes {
			s.used.add(share, class(c), n*(s.zipped-s.counted)/s.waitingSize)
		}
	}
	clear(s.waiting)
	s.counted, s.waitingSize = s.zipped, 0
}

// flush makes everything readable that was written.
func (s *segmentWriter) flush() error {
	if s.flushed {
		return nil
	}
	s.flushed = true
	err := s.text.Flush()
	if err == nil {
		err = s.zip.Flush()
	}
	s.count()
	return err
}

// end writes the last entry and closes the segment.
func (s *segmentWriter) end(at time.Time) error {
	return errors.Join(s.write(&Entry{Type: TypeEnd, Time: at}), s.close())
}

// close closes the segment. The compressed stream ends with a checksum; the shares follow it.
func (s *segmentWriter) close() error {
	err := errors.Join(s.text.Flush(), s.zip.Close())
	s.count()
	if err == nil {
		_, err = s.file.Write(s.used.frame())
	}
	s.releaseCompressor()
	return errors.Join(err, s.file.Sync(), s.file.Close())
}

// abandon closes the file after an error.
func (s *segmentWriter) abandon() {
	s.releaseCompressor()
	_ = s.file.Close()
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
		if !strings.HasSuffix(entry.Name(), suffix) || strings.HasPrefix(entry.Name(), rewritten) || !entry.Type().IsRegular() {
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

// runOf returns the run in the name of a segment, or the whole name if it has none.
func runOf(path string) string {
	if parts := strings.Split(filepath.Base(path), "-"); len(parts) == 3 {
		return parts[1]
	}
	return path
}
