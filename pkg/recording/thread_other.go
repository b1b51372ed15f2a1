//go:build !linux

package recording

import "time"

var begun = time.Now()

// threadTime is the elapsed time: there is no clock of the thread.
func threadTime() time.Duration { return time.Since(begun) }
