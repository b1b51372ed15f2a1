package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// BenchmarkRecordedDay records a day of 5,000 clusters and 1,000 Placements: each cluster sends a
// heartbeat every minute, and 1,000 times an hour one changes. It reports the size on disk.
func BenchmarkRecordedDay(b *testing.B) {
	const clusters, changes, hours = 5000, 1000, 24
	for b.Loop() {
		var fleet *Fleet
		now := func() time.Time {
			if fleet == nil {
				return fixture.Now
			}
			return fleet.now
		}
		r, err := recording.New(recording.Options{Dir: filepath.Join(b.TempDir(), "recording"), Now: now, Log: logr.Discard()})
		if err != nil {
			b.Fatal(err)
		}
		if fleet, err = newFleetWith(clusters, 100, 1000, inventory.Options{OnInput: r.OnInput()}); err != nil {
			b.Fatal(err)
		}
		decisions := 0
		fleet.decided = func(p *plan.Plan) { decisions++; r.Decided(replay.DecisionOf(p), nil) }
		fleet.Inventory.Started()
		r.Begin(fleet.Inventory)
		ctx, end := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.Run(ctx)
		}()
		if err := fleet.Decide(fleet.Inventory.Placements()); err != nil {
			b.Fatal(err)
		}
		for n := range hours * changes {
			fleet.now = fleet.now.Add(time.Hour / changes)
			if n%(changes/60) == 0 {
				fleet.heartbeats()
			}
			if err := fleet.Decide(fleet.Change()); err != nil {
				b.Fatal(err)
			}
		}
		end()
		<-ended
		if lost := r.Stats().Lost; lost > 0 {
			b.Fatalf("%d entries were lost", lost)
		}
		b.ReportMetric(float64(sizeOf(b, r.Dir()))/1e6, "MB/day")
		b.ReportMetric(float64(decisions), "decisions/day")
		b.ReportMetric(r.Stats().CPU.Seconds(), "recorder-s/day")
	}
}

// heartbeats renews all clusters.
func (f *Fleet) heartbeats() {
	for n, c := range f.clusters {
		beat := *c
		f.version++
		beat.ResourceVersion = strconv.Itoa(f.version)
		f.clusters[n] = &beat
		f.Inventory.Update(&beat)
	}
}

func sizeOf(b *testing.B, dir string) (size int64) {
	b.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			b.Fatal(err)
		}
		size += info.Size()
	}
	return size
}
