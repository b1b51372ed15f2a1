package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// One seed has one history because goroutines run in one order, each until it waits. Two things
// would interrupt them at a moment that depends on the machine: Go's runtime, when a goroutine
// takes more than 10 ms or is in a system call, and the garbage collector, for which goroutines
// work and wait. So worlds run in a process without the first, whose garbage is collected between
// turns.

// steadyChild is set in a process of the suite in which worlds run. It begins when its input ends.
const steadyChild = "BERTH_WORLD_CHILD"

// isSteadyChild reports whether worlds run in this process. It returns when they may.
func isSteadyChild() bool {
	if os.Getenv(steadyChild) == "" {
		return false
	}
	began := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(began)
	}()
	for { // A process that does nothing is not looked at.
		select {
		case <-began:
			return true
		default:
			runtime.Gosched()
		}
	}
}

// runSteady runs this program again as a process in which worlds run, in a folder of its own.
func runSteady(ctx context.Context, args ...string) ([]byte, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "world-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var out bytes.Buffer
	child := exec.CommandContext(ctx, program, append(args, "-test.timeout=0")...)
	child.Dir = dir
	child.Env, child.Stdout, child.Stderr = append(os.Environ(), steadyChild+"=1"), &out, &out
	input, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	if err := stopInterruptions(child.Process.Pid); err != nil && testing.Verbose() {
		fmt.Println("goroutines may be interrupted, so that a seed can have two histories on a busy machine:", err)
	}
	_ = input.Close()
	err = child.Wait()
	return out.Bytes(), err
}

// maxGarbage is how many bytes of memory are used after a collection before the next one.
const maxGarbage = 100 << 20

// kept is how many bytes of memory were used after the last collection.
var kept uint64

// collectBetweenTurns collects garbage only when the returned function is called. It looks at the
// memory every 64 calls.
func collectBetweenTurns() (collect func()) {
	debug.SetGCPercent(-1)
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	used := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	calls := 0
	return func() {
		if calls++; calls%64 == 0 && used() > kept+maxGarbage {
			runtime.GC()
			kept = used()
		}
	}
}

// TestSteadyProcessesEnd: a process ends, because only the thread that interrupts goroutines is
// stopped. With another one, the process would wait for it without end.
func TestSteadyProcessesEnd(t *testing.T) {
	if isSteadyChild() {
		runtime.GC()
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 80 {
		if out, err := runSteady(ctx, "-test.run=^TestSteadyProcessesEnd$"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}
