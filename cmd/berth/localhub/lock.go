package localhub

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RunningError is the error if another process runs a hub on the data directory.
type RunningError struct {
	DataDir string
	// PID is the pid in the lock file, or empty.
	PID string
}

func (e *RunningError) Error() string {
	pid := ""
	if e.PID != "" {
		pid = " (pid " + e.PID + ")"
	}
	return fmt.Sprintf("a hub is already running on %s%s: stop it, or choose another --data-dir", e.DataDir, pid)
}

// dirLock is held by an open file, so the kernel releases it when the process ends. The file is not
// removed, because two processes could then lock two files of the same name.
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := flock(file); err != nil {
		defer file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the data directory: %w", err)
		}
		pid, _ := os.ReadFile(file.Name()) // only makes the message better
		return nil, &RunningError{DataDir: dir, PID: strings.TrimSpace(string(pid))}
	}
	if err := errors.Join(file.Truncate(0), writeAt(file, fmt.Sprintln(os.Getpid()))); err != nil {
		file.Close()
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	return &dirLock{file: file}, nil
}

func (l *dirLock) release() {
	// An error can be ignored, because the lock ends with the file anyway.
	_ = l.file.Truncate(0)
	_ = l.file.Close()
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}
