package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// timerVariable is set for a process that only waits for a timer.
const timerVariable = "BERTH_LOAD_TIMER"

// timerInterval is the time between two events of its timer.
const timerInterval = time.Millisecond

// startTimer runs this program again, as one that only waits for a timer. How late it wakes up is
// what a program without any work waits for a processor on this machine.
func startTimer(dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), timerVariable+"=1")
	return startCommand(command, filepath.Join(dir, "timer.log"))
}

// runTimerIfAsked measures until a signal ends the process, if startTimer started it, and prints
// how late the timer was at most.
func runTimerIfAsked() bool {
	if os.Getenv(timerVariable) == "" {
		return false
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	longest := time.Duration(0)
	for ctx.Err() == nil {
		began := time.Now()
		time.Sleep(timerInterval)
		longest = max(longest, time.Since(began)-timerInterval)
	}
	fmt.Println(longest)
	return true
}

// stopTimer ends the process and returns how late its timer was at most.
func stopTimer(p *process) (time.Duration, error) {
	p.stop()
	text, err := os.ReadFile(p.log)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(string(text[:max(0, len(text)-1)]))
}
