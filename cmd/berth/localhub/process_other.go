//go:build unix && !linux

package localhub

import (
	"os/exec"
	"strconv"
	"syscall"
)

// processAttributes cannot tie a child's life to the hub's here: killStale does it at the next
// start.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// commandLine returns a process's arguments separated by spaces, or nothing if there is no such
// process.
func commandLine(pid int) string {
	output, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return string(output)
}
