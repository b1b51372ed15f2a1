package bench

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"
)

func newFleet(b *testing.B, clusters, sets, placements int) *Fleet {
	f, err := NewFleet(clusters, sets, placements)
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// BenchmarkFleet is internet scale. all decides every Placement with a new scheduler, after a
// hundredth of the clusters changed. one decides the Placements whose answer one cluster's change
// may change, of the 110 that read it.
func BenchmarkFleet(b *testing.B) { fleet(b, 100_000, 100, 10_000) }

func fleet(b *testing.B, clusters, sets, placements int) {
	forgetPeak()
	f := newFleet(b, clusters, sets, placements)
	all := f.Inventory.Placements()
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		var used time.Duration
		for b.Loop() {
			b.StopTimer()
			for range clusters / 100 {
				f.Change()
			}
			if err := f.Restart(); err != nil {
				b.Fatal(err)
			}
			before := CPUTime()
			b.StartTimer()
			if err := f.Decide(all); err != nil {
				b.Fatal(err)
			}
			used += CPUTime() - before
		}
		b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(all)), "µs/placement")
		b.ReportMetric(Peak(), "peak-MB")
	})
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for range 2 {
			// The first decisions publish, and only those that change nothing are skipped later.
			if err := f.Decide(all); err != nil {
				b.Fatal(err)
			}
		}
		touched, longest, before := 0, time.Duration(0), CPUTime()
		for b.Loop() {
			start := time.Now()
			woken := f.Change()
			if err := f.Decide(woken); err != nil {
				b.Fatal(err)
			}
			touched += len(woken)
			longest = max(longest, time.Since(start))
		}
		b.ReportMetric(float64((CPUTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		b.ReportMetric(float64(touched)/float64(b.N), "placements/op")
		b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
	})
}

// forgetPeak resets the kernel's peak of resident memory, where that is possible.
func forgetPeak() {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		fmt.Fprintln(os.Stderr, "the peak of memory is the whole process's:", err)
	}
}
