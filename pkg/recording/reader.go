package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-dev/berth/pkg/boundedfile"
)

// maxLine is the longest line that a reader accepts, in bytes. Objects are far smaller.
const maxLine = 16 << 20

// Reader reads the segments of a recording, oldest first. It ends a segment where a crash cut it
// off, or where it is damaged, and continues with the next one.
type Reader struct {
	files []segmentFile
	at    int
	file  *os.File
	zip   *zstd.Decoder
	lines *bufio.Reader
	line  []byte
	ended bool
	read  int64
	// Damaged are the files that ended early.
	Damaged []Damage
	// NoDecisions are the shares whose decisions were removed from a file, with the time at which
	// the last such file begins.
	NoDecisions map[string]time.Time
}

// Damage describes a segment that ended early.
type Damage struct {
	// Path is the file; its first Entries entries were read.
	Path    string
	Entries int64
	// Cut is true if the file ends before the end of the segment, as after a crash or while it is
	// being written; Err is the error of the last line.
	Cut bool
	Err error
}

// Open returns a reader of a folder, or of a single segment.
func Open(path string) (*Reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return &Reader{files: []segmentFile{{path, info.Size(), info.ModTime()}}}, nil
	}
	files, err := segments(path)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no recording: no file is named *%s", path, suffix)
	}
	return &Reader{files: files}, nil
}

// Size is the size of all segments in bytes. Done is the size of those that were read.
func (r *Reader) Size() (size, done int64) {
	for i, f := range r.files {
		if size += f.size; i < r.at {
			done += f.size
		}
	}
	return size, done
}

// Since skips, for each run, the segments before the one in which a time lies.
func (r *Reader) Since(at time.Time) {
	if at.IsZero() {
		return
	}
	name := filepath.Join(filepath.Dir(r.files[0].path), segmentName(at, "~", 0, 0))
	last := map[string]string{}
	for _, f := range r.files {
		if f.path < name && isFirstPart(f.path) {
			last[runOf(f.path)] = f.path
		}
	}
	r.files = slices.DeleteFunc(r.files, func(f segmentFile) bool { return f.path < last[runOf(f.path)] })
}

// Skip skips the rest of the segment.
func (r *Reader) Skip() {
	if r.file != nil {
		r.Close()
		r.at++
	}
}

// Close closes the open segment.
func (r *Reader) Close() {
	if r.file != nil {
		r.zip.Close()
		_ = r.file.Close()
		r.file = nil
	}
}

// LastTime is the time of the last entry of the last segment that can be read. It does not change
// what Entries returns.
func (r *Reader) LastTime() (last time.Time, err error) {
	for at := len(r.files) - 1; at >= 0 && last.IsZero(); at-- {
		one := &Reader{files: r.files[at : at+1]}
		for e, err := range one.Entries() {
			if err != nil {
				return last, err
			}
			if !e.Time.IsZero() {
				last = e.Time
			}
		}
		one.Close()
	}
	return last, nil
}

// Entries returns the entries that were not read yet. An error, of opening a file, is the last.
func (r *Reader) Entries() iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		for {
			e, err := r.next()
			if errors.Is(err, io.EOF) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// next returns the next entry; io.EOF after the last one. Its text stays in line until the next
// call.
func (r *Reader) next() (*Entry, error) {
	for {
		if r.file == nil {
			if r.at == len(r.files) {
				return nil, io.EOF
			}
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		e, err := r.entry()
		if err == nil {
			r.read++
			r.ended = e.Type == TypeEnd
			r.addRemoved(e)
			return e, nil
		}
		if !errors.Is(err, io.EOF) || !r.ended {
			d := Damage{Path: r.files[r.at].path, Entries: r.read, Err: err}
			d.Cut = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			r.Damaged = append(r.Damaged, d)
		}
		r.Close()
		r.at++
	}
}

// addRemoved stores which shares have no decisions in a file.
func (r *Reader) addRemoved(e *Entry) {
	if e.Header == nil {
		return
	}
	for _, share := range e.Header.NoDecisions {
		if r.NoDecisions == nil {
			r.NoDecisions = map[string]time.Time{}
		}
		r.NoDecisions[share] = e.Time
	}
}

func (r *Reader) open() error {
	file, err := boundedfile.Open(r.files[r.at].path, false)
	if err != nil {
		return err
	}
	zip, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8*window), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r.file, r.zip, r.read, r.ended = file, zip, 0, false
	r.lines = bufio.NewReaderSize(zip, 64<<10)
	return nil
}

// entry reads one entry.
func (r *Reader) entry() (*Entry, error) {
	r.line = r.line[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		r.line = append(r.line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(r.line) > maxLine {
				return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
			}
			continue
		}
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(r.line)) > 0 {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		break
	}
	e := &Entry{Size: len(r.line)}
	if err := json.Unmarshal(r.line, e); err != nil {
		return nil, err
	}
	return e, nil
}
