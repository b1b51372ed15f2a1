package recording

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of the thread.
func threadTime() time.Duration {
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		return 0
	}
	return time.Duration(used.Nano())
}
