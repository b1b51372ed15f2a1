//go:build unix

package world

import (
	"os/signal"
	"syscall"
)

// limitFiles makes writes of this process fail that would make a file larger than this, as a full
// disk does; negative ends that.
func limitFiles(size int64) {
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	if limit.Cur = limit.Max; size >= 0 {
		limit.Cur = uint64(size)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
}
