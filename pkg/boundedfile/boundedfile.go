package boundedfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Open opens a regular file, or a named pipe if pipes is true. It refuses everything else, because
// a device may be endless, and opening a named pipe waits for a writer.
func Open(path string, pipes bool) (*os.File, error) {
	if info, err := os.Stat(path); err == nil {
		switch mode := info.Mode(); {
		case mode&fs.ModeNamedPipe != 0 && pipes:
		case mode&fs.ModeNamedPipe != 0:
			return nil, fmt.Errorf("%s is a named pipe, not a file", path)
		case mode&fs.ModeSocket != 0:
			return nil, fmt.Errorf("%s is a socket, not a file", path)
		case mode.IsDir():
			return nil, fmt.Errorf("%s is a folder, not a file", path)
		case !mode.IsRegular():
			return nil, fmt.Errorf("%s is a device, not a file", path)
		}
	}
	return os.Open(path)
}

// ReadFile returns the content of a file or a named pipe of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	file, err := Open(path, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // Only read from: closing cannot lose anything.
	return ReadAll(file, path, limit)
}

// ErrTooLarge is in the errors of what is larger than its limit.
var ErrTooLarge = errors.New("too large")

// tooLarge is an ErrTooLarge with a message of its own.
type tooLarge string

func (e tooLarge) Error() string      { return string(e) }
func (tooLarge) Is(target error) bool { return target == ErrTooLarge }

// ReadAll reads at most limit bytes to the end. name is for the error if there are more.
func ReadAll(from io.Reader, name string, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(text)) > limit {
		return nil, tooLarge(fmt.Sprintf("%s is larger than %d bytes", name, limit))
	}
	return text, err
}

// Unzip returns a reader that decompresses gzip, which it knows by its first bytes, independent of
// the file's name. Others are read as they are.
func Unzip(from io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(from)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}
