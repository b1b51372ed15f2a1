package world

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopInterruptions stops a thread of a child process until it ends: the one with which Go
// interrupts goroutines that run for long, and goes on with others while one is in a system call.
// It sleeps between its looks. A thread that is stopped asleep holds no lock of the runtime.
func stopInterruptions(pid int) error {
	stopped := make(chan error, 1)
	go func() {
		// A thread goes on when the one that stopped it ends.
		runtime.LockOSThread()
		thread, err := stopFirst(pid)
		stopped <- err
		if err != nil {
			return
		}
		// A process does not end before a thread that was stopped is awaited.
		for ended := false; !ended; {
			var status unix.WaitStatus
			_, err := unix.Wait4(thread, &status, unix.WALL, nil)
			ended = err == nil && (status.Exited() || status.Signaled()) || err != nil && !errors.Is(err, unix.EINTR)
		}
	}()
	return <-stopped
}

// patience is how long a thread is looked for and stopped.
const patience = 10 * time.Second

// stopFirst stops the thread that the runtime of a process started first, when it sleeps, and
// returns its number.
func stopFirst(pid int) (thread int, err error) {
	if _, err := os.ReadFile(callOf(pid, pid)); err != nil {
		return 0, err
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if thread == 0 {
			if thread = firstThread(pid); thread == 0 {
				continue
			}
			if err := unix.PtraceSeize(thread); err != nil {
				return 0, err
			}
		}
		if err := unix.PtraceInterrupt(thread); err != nil {
			return 0, err
		}
		if _, err := unix.Wait4(thread, nil, unix.WALL, nil); err != nil {
			return 0, err
		}
		if sleeps(pid, thread) {
			return thread, nil
		}
		if err := unix.PtraceCont(thread, 0); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no thread of process %d sleeps", pid)
}

// firstThread returns the thread that a process started first; 0 if there is none. Others can
// sleep for a moment, too.
func firstThread(pid int) (first int) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, path := range threads {
		thread, err := strconv.Atoi(filepath.Base(path))
		// Numbers grow, and begin again after the largest one.
		if err == nil && thread != pid && (first == 0 || uint32(thread-pid) < uint32(first-pid)) {
			first = thread
		}
	}
	return first
}

// sleeps reports whether a thread is in the system call with which Go's runtime sleeps.
func sleeps(pid, thread int) bool {
	call, _ := os.ReadFile(callOf(pid, thread))
	return strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_NANOSLEEP, " "))
}

// callOf is the file that says in which system call a thread is.
func callOf(pid, thread int) string { return fmt.Sprintf("/proc/%d/task/%d/syscall", pid, thread) }
