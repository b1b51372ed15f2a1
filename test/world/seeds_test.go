package world

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

var (
	first = flag.Uint64("world.seed", 1, "the first seed")
	seeds = flag.Int("world.seeds", 200, "how many seeds")
	hours = flag.Float64("world.hours", 1, "simulated hours of each seed")
	calm  = flag.Int("world.calm", 1, "by how much the pauses between steps, and so the hours, are longer")
	parts = flag.Int("world.parts", 1, "in how many processes the worlds run")
	part  = flag.Int("world.part", 0, "the worlds that run in this process, from 0")
	turns = flag.Bool("world.trace", false, "print each turn of the first seed")
)

// TestMain removes what a bubble cannot hold: the backoff of apimachinery for errors remembers the
// time of the last one for the whole process. On one processor, goroutines run in one order.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	framework.ContentKey = ""
	utilruntime.ErrorHandlers = nil
	metrics.Registry.Unregister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // reads files
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	ctrl.NewManager = newNameless
	os.Exit(m.Run())
}

func listOf(list client.ObjectList) (objects simulator.Objects, err error) {
	items, err := meta.ExtractList(list)
	for _, item := range items {
		objects = append(objects, item.(client.Object))
	}
	return objects, err
}

// worlds is the sum of some worlds.
type worlds struct {
	Worlds, Turns, Attempts, Rested, Violations int
	// Repeated are the recorded decisions that were made again.
	Repeated int
	Writes   int64
	Lasted   time.Duration
	Faults   map[string]int
}

func (s *worlds) add(other worlds) {
	s.Worlds += other.Worlds
	s.Turns += other.Turns
	s.Attempts += other.Attempts
	s.Rested += other.Rested
	s.Violations += other.Violations
	s.Repeated += other.Repeated
	s.Writes += other.Writes
	s.Lasted += other.Lasted
	for kind, n := range other.Faults {
		s.Faults[kind] += n
	}
}

// worldsOf describes one world.
func worldsOf(h *history) worlds {
	s := worlds{Worlds: 1, Turns: h.turns, Attempts: h.attempts, Violations: len(h.broken), Writes: h.writes, Lasted: h.lasted, Faults: h.faults}
	if h.rested {
		s.Rested = 1
	}
	if h.verified != nil {
		s.Repeated = h.verified.Same
	}
	return s
}

const year = 365 * 24 * time.Hour

// String is the report.
func (s *worlds) String() string {
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%d worlds, %.4f simulated years: %d attempts, %d writes, %d requests and events, %d recorded decisions made again, no attempt at rest in %d worlds, %d violations; faults:",
		s.Worlds, s.Lasted.Hours()/year.Hours(), s.Attempts, s.Writes, s.Turns, s.Repeated, s.Rested, s.Violations)
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		_, _ = fmt.Fprintf(&text, " %d %s,", s.Faults[kind], kind)
	}
	return strings.TrimSuffix(text.String(), ",")
}

// TestWorld runs a world for each seed, in a process for each processor. A seed that breaks a law
// is made shorter, and its story is printed.
func TestWorld(t *testing.T) {
	began := time.Now()
	sum := worlds{Faults: map[string]int{}}
	if isSteadyChild() {
		defer func() {
			text, _ := json.Marshal(sum)
			fmt.Println(sumPrefix + string(text))
		}()
		runSeeds(t, &sum)
		return
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	processes := min(runtime.NumCPU(), *seeds)
	for i := range processes {
		args := []string{"-test.run=^TestWorld$", fmt.Sprint("-test.v=", testing.Verbose()), fmt.Sprint("-world.seed=", *first), fmt.Sprint("-world.seeds=", *seeds),
			fmt.Sprint("-world.hours=", *hours), fmt.Sprint("-world.calm=", *calm), fmt.Sprint("-world.trace=", *turns), fmt.Sprint("-world.parts=", processes), fmt.Sprint("-world.part=", i)}
		all.Go(func() {
			out, err := runSteady(t.Context(), args...)
			mu.Lock()
			defer mu.Unlock()
			for line := range strings.Lines(string(out)) {
				var of worlds
				if text, ok := strings.CutPrefix(line, sumPrefix); ok && json.Unmarshal([]byte(text), &of) == nil {
					sum.add(of)
				}
			}
			if err != nil {
				t.Errorf("%v: %v\n%s", args, err, out)
			} else if testing.Verbose() || *turns {
				fmt.Print(string(out))
			}
		})
	}
	all.Wait()
	fmt.Printf("%s: %s\n", time.Since(began).Round(time.Second), sum.String())
}

const sumPrefix = "sum of worlds: "

// timedSeed is a seed and the simulated hours of its world.
type timedSeed struct {
	seed  uint64
	hours float64
}

// found are seeds that broke a law, and belong to the worlds from the first seed on: in
// simulations, the quota of held changes and of a move that was not published; a revoked cluster
// that stayed; a record that began too early; and in more hours attempts without end beside a
// record that waited, a write of only the revision that failed unseen, a place in a queue that a
// start gave to another Placement, and writes of a leader that was giving its lease back.
var found = []timedSeed{
	{8176, 1}, {5449, 1}, {1001635, 1}, {1001071, 1}, {1005147, 4}, {1005649, 4}, {1006013, 4}, {1006402, 4},
}

// runSeeds runs the worlds of this process.
func runSeeds(t *testing.T, sum *worlds) {
	var all []timedSeed
	for i := range *seeds {
		all = append(all, timedSeed{*first + uint64(i), *hours})
	}
	if *first == 1 && !*turns {
		all = append(all, found...)
	}
	for i, w := range all {
		if i%*parts != *part {
			continue
		}
		if *turns {
			trace = func(line string) { fmt.Println(line) }
		}
		seed, steps := w.seed, script(w.seed, time.Duration(w.hours*float64(time.Hour)))
		began := time.Now()
		h := run(t, seed, steps)
		of := worldsOf(&h)
		if testing.Verbose() {
			fmt.Printf("seed %d: %d steps, %d turns, %d writes, %d attempts, %d made again, %s\n", seed, len(steps), of.Turns, of.Writes, of.Attempts, of.Repeated, time.Since(began))
		}
		sum.add(of)
		if len(h.broken) > 0 {
			trace = nil
			fmt.Printf("seed %d breaks a law, and is made shorter: %s\n", seed, h.broken[0])
			short := shrink(t, seed, steps)
			last := run(t, seed, short)
			t.Fatalf("seed %d breaks a law after %d of %d steps:\n%s", seed, len(short), len(steps), last.String())
		}
	}
}

// TestOneSeedOneHistory: a seed that runs twice makes the same requests with the same contents at
// the same times, gets the same answers, and records the same. Worlds 52 and 193 had two histories.
func TestOneSeedOneHistory(t *testing.T) {
	if !isSteadyChild() {
		// A full disk would be one for the log of go test, too.
		if out, err := runSteady(t.Context(), "-test.run=^TestOneSeedOneHistory$"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	defer func() { trace = nil }()
	for _, seed := range []uint64{1, 2, 3, 52, 193} {
		var histories [2][]string
		for i := range histories {
			trace = func(line string) { histories[i] = append(histories[i], line) }
			h := run(t, seed, script(seed, time.Hour))
			histories[i] = slices.Concat(histories[i], h.story, h.recorded)
			if len(h.broken) > 0 {
				t.Errorf("seed %d: %s", seed, h.String())
			}
		}
		if diff := cmp.Diff(histories[0], histories[1]); diff != "" {
			t.Errorf("seed %d (-first +second):\n%s", seed, diff)
		}
	}
}

// maxShrinkRuns bounds the time that shrinking takes.
const maxShrinkRuns = 60

// shrink leaves out steps as long as a law is broken.
func shrink(t *testing.T, seed uint64, steps []step) []step {
	runs := 0
	for size := max(1, len(steps)/2); size >= 1; size /= 2 {
		for i := 0; i < len(steps) && runs < maxShrinkRuns; runs++ {
			fewer := slices.Concat(steps[:i], steps[min(i+size, len(steps)):])
			if h := run(t, seed, fewer); len(h.broken) > 0 {
				steps = fewer
				continue
			}
			i += size
		}
	}
	return steps
}
