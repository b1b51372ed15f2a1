package bench

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/shadow"
	"github.com/berth-dev/berth/test/fixture"
)

// BenchmarkShadow decides one Placement on 10,000 clusters after one changed, without and with a
// shadow profile, whose worker decides meanwhile. decided-ns is the time to pass the decision on.
func BenchmarkShadow(b *testing.B) { shadowed(b, 10_000) }

func shadowed(b *testing.B, clusters int) {
	for _, on := range []bool{false, true} {
		name := "off"
		if on {
			name = "on"
		}
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			inv, engine := newHub(clusters, fixture.Placement("ns", "p").Number(10)), newScheduler(b)
			var s *shadow.Shadows
			if on {
				s = newShadow(ctx, b)
			}
			flipped, passing := false, time.Duration(0)
			b.ReportAllocs()
			for b.Loop() {
				flipped = !flipped
				inv.Update(cluster(7, flipped))
				end := s.AttemptWaits()
				snapshot := inv.Snapshot(key, fixture.Now, nil)
				end()
				a := engine.Decide(ctx, snapshot)
				if a.Failure != nil {
					b.Fatal(a.Failure.Err())
				}
				began := time.Now()
				s.Decided(a)
				passing += time.Since(began)
				engine.Release(a.Result)
			}
			b.StopTimer()
			b.ReportMetric(float64(passing.Nanoseconds())/float64(b.N), "decided-ns")
			for _, t := range s.Totals() {
				b.ReportMetric(float64(t.Compared)/float64(b.N), "compared/op")
			}
		})
	}
}

func newShadow(ctx context.Context, b *testing.B) *shadow.Shadows {
	c := &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{Name: "new", ShadowOf: config.DefaultProfile}}}
	s, err := shadow.New(1, logr.Discard(), func() (map[string]*scheduler.Profile, error) {
		return scheduler.NewProfiles(ctx, c, builtin.DefaultProfile(), builtin.Registry(), &framework.Handle{})
	})
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Start(ctx) }()
	return s
}
