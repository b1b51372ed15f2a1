package world

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/pkg/simulator"
)

var (
	first = flag.Uint64("world.seed", 1, "the first seed")
	seeds = flag.Int("world.seeds", 15, "how many seeds")
	hours = flag.Float64("world.hours", 1, "simulated hours of each seed")
	turns = flag.Bool("world.trace", false, "print each turn of the first seed")
)

// TestMain removes what a bubble cannot hold: the backoff of apimachinery for errors remembers the
// time of the last one for the whole process.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func listOf(list client.ObjectList) (objects simulator.Objects, err error) {
	items, err := meta.ExtractList(list)
	for _, item := range items {
		objects = append(objects, item.(client.Object))
	}
	return objects, err
}

// TestWorld runs a world for each seed. A seed that breaks a law is made shorter, and its story is
// printed.
func TestWorld(t *testing.T) {
	length := time.Duration(*hours * float64(time.Hour))
	faults, writes := map[string]int{}, int64(0)
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		if *turns {
			trace = func(line string) { fmt.Println(line) }
		}
		steps := script(seed, length)
		began := time.Now()
		h := run(t, seed, steps)
		if testing.Verbose() {
			fmt.Printf("seed %d: %d steps, %d turns, %d writes, %s\n", seed, len(steps), h.turns, h.writes, time.Since(began))
		}
		for kind, n := range h.faults {
			faults[kind] += n
		}
		writes += h.writes
		if len(h.broken) > 0 {
			trace = nil
			short := shrink(t, seed, steps)
			last := run(t, seed, short)
			t.Fatalf("seed %d breaks a law after %d of %d steps:\n%s", seed, len(short), len(steps), last.String())
		}
	}
	t.Logf("%d worlds of %s: %d writes, faults %v", *seeds, length, writes, faults)
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
