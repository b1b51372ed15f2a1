package localhub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is one process of the hub.
type child struct {
	name    string
	log     string
	pidFile string
	command *exec.Cmd
	exited  chan struct{} // closed when the process is gone and reaped
}

// spawner starts children from one locked OS thread. On Linux the kernel kills a child when the
// thread that started it ends, and Go may end any thread that no goroutine has locked.
type spawner struct {
	work chan func()
	end  chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), end: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		for {
			select {
			case f := <-s.work:
				f()
			case <-s.end:
				return
			}
		}
	}()
	return s
}

// close ends the thread. On Linux this kills any remaining child.
func (s *spawner) close() { close(s.end) }

// start runs a program in its own process group. So a terminal's Ctrl-C reaches only the hub, which
// then stops its children in order.
func (s *spawner) start(files layout, name, program string, args []string) (*child, error) {
	c := &child{
		name:    name,
		log:     files.path("logs", name+".log"),
		pidFile: files.path("run", name+".pid"),
		command: exec.Command(program, args...),
		exited:  make(chan struct{}),
	}
	log, err := openLog(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.command.Stdout, c.command.Stderr = log, log
	c.command.Dir = files.root
	c.command.SysProcAttr = processAttributes()

	started := make(chan error)
	s.work <- func() { started <- c.command.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		_ = c.command.Wait() // the outcome is in ProcessState
		_ = os.Remove(c.pidFile)
		close(c.exited)
	}()
	if err := writeFile(c.pidFile, []byte(strconv.Itoa(c.command.Process.Pid)+"\n")); err != nil {
		c.stop(hurried)
		return nil, err
	}
	return c, nil
}

// openLog opens a new log and renames that of the previous run to NAME.log.old.
func openLog(path string) (*os.File, error) {
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

func (c *child) hasExited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// stop signals the process to end and kills it after patience. It returns when the process has
// ended.
func (c *child) stop(patience time.Duration) {
	_ = c.command.Process.Signal(syscall.SIGTERM) // fails only if the process has ended
	select {
	case <-c.exited:
		return
	case <-time.After(patience):
	}
	_ = c.command.Process.Kill()
	<-c.exited
}

// exitError describes how a process ended, for an error.
func (c *child) exitError() error {
	return fmt.Errorf("%s (pid %d) ended unexpectedly: %s%s", c.name, c.command.Process.Pid, c.command.ProcessState, c.logTail())
}

// logTail is the end of the log, to be appended to an error.
func (c *child) logTail() string {
	const lines, size = 8, 4096
	file, err := os.Open(c.log)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > size {
		if _, err := file.Seek(-size, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(file, size))
	data = bytes.TrimSpace(data)
	if err != nil || len(data) == 0 {
		return fmt.Sprintf("; its log %s is empty", c.log)
	}
	last := strings.Split(string(data), "\n")
	if len(last) > lines {
		last = last[len(last)-lines:]
	}
	return fmt.Sprintf("; the last lines of %s:\n  %s", c.log, strings.Join(last, "\n  "))
}

// killStale kills processes of an earlier run that still run because the hub was killed. It trusts
// a pid only if the command line of the process names this data directory.
func killStale(files layout) error {
	pidFiles, err := filepath.Glob(files.path("run", "*.pid"))
	if err != nil {
		return err
	}
	for _, pidFile := range pidFiles {
		data, err := os.ReadFile(pidFile)
		if err != nil {
			return err
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && pid > 1 && isOurs(files, pid) {
			if err := kill(files, pid); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSuffix(filepath.Base(pidFile), ".pid"), err)
			}
		}
		if err := os.Remove(pidFile); err != nil {
			return err
		}
	}
	return nil
}

func isOurs(files layout, pid int) bool {
	return strings.Contains(commandLine(pid), "="+files.root+string(filepath.Separator))
}

func kill(files layout, pid int) error {
	const limit = 10 * time.Second
	if err := killProcess(pid); err != nil {
		return err
	}
	for end := time.Now().Add(limit); isOurs(files, pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("pid %d still runs %s after it was killed", pid, limit)
		}
	}
	return nil
}
