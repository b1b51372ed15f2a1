package main

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// patience is how long a decision may take on a busy machine; most take milliseconds.
const patience = 30 * time.Second

// start runs a program until stop is called, or the test ends, and returns once the program has
// printed a line with ready.
func start(t *testing.T, ready string, words ...string) (stop func()) {
	t.Helper()
	program := exec.Command(words[0], words[1:]...)
	printed, out := io.Pipe()
	program.Stdout, program.Stderr = out, out
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- program.Wait()
		out.Close()
	}()
	stop = sync.OnceFunc(func() {
		_ = program.Process.Signal(syscall.SIGTERM) // it may have ended, which is said below
		if err := <-ended; err != nil {
			t.Errorf("%s ended: %v", strings.Join(words, " "), err)
		}
	})
	t.Cleanup(stop)
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		if strings.Contains(lines.Text(), ready) {
			go io.Copy(io.Discard, printed) //nolint:errcheck // nothing reads what comes now
			return stop
		}
		t.Log(lines.Text())
	}
	t.Fatalf("%s ended before it said %q", strings.Join(words, " "), ready)
	return nil
}

// kubectl runs a command of kubectl. If it shows output, kubectl repeats it until it prints that:
// decisions follow changes after a moment.
func kubectl(t *testing.T, s step) {
	t.Helper()
	if s.output == "" {
		run(t, s)
		return
	}
	var got string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		out, _ := exec.CommandContext(ctx, "bash", "-c", s.command).CombinedOutput() // a failure prints something else
		got = string(out)
		return got == s.output, nil
	})
	if err != nil {
		t.Fatalf("%s prints %q, want %q: %v", s.command, got, s.output, err)
	}
}
