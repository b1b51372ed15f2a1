package bench

import (
	"flag"
	"testing"
)

// TestBenchmarks runs every benchmark once, the fleet a small one: that they decide what they
// should, not how fast.
func TestBenchmarks(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime").Value
	old := benchtime.String()
	if err := benchtime.Set("1x"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := benchtime.Set(old); err != nil {
			t.Error(err)
		}
	}()
	benchmarks := map[string]func(*testing.B){
		"cycle": BenchmarkCycle, "candidates": BenchmarkCandidates, "heartbeat": BenchmarkHeartbeat,
		"selection policy": func(b *testing.B) { selectionCycles(b, "all parts", 200) }, "requests": BenchmarkRequests,
		"resilience": func(b *testing.B) { losses(b, 200, 10, 4) },
		"condition":  func(b *testing.B) { resilientCycles(b, `{key: "label:region"}`, 200, 4) },
		"fleet":      func(b *testing.B) { fleet(b, 200, 4, 40) },
	}
	for name, benchmark := range benchmarks {
		t.Run(name, func(t *testing.T) {
			failed := true
			testing.Benchmark(func(b *testing.B) {
				defer func() { failed = b.Failed() }()
				benchmark(b)
			})
			if failed {
				t.Error("failed")
			}
		})
	}
}
