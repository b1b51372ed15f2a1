//go:build unix

package localhub

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// supported tells whether a hub can run on this system.
const supported = true

// flock locks an open file, or returns EWOULDBLOCK if another process holds its lock.
func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// killProcess kills a process, which may have ended.
func killProcess(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// ownerOf returns the ID of the user who owns a file.
func ownerOf(info fs.FileInfo) (user int, known bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
