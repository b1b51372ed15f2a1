package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// BenchmarkResilience decides 1,000 Placements without each of 20 regions, on 5,000 clusters.
func BenchmarkResilience(b *testing.B) { losses(b, 5_000, 1_000, 20) }

// losses decides Placements without each region. Every second Placement has a label predicate.
func losses(b *testing.B, clusters, placements, regions int) {
	objects := simulator.Objects{fixture.Set("s1"), fixture.Binding("ns", "s1")}
	for n := range clusters {
		c := cluster(n, false)
		c.Labels["region"] = fmt.Sprintf("region-%02d", n%regions)
		objects = append(objects, c)
	}
	for n := range placements {
		pl := threeOf("ns", fmt.Sprintf("p%04d", n))
		if n%2 == 0 {
			pl = pl.Predicate(fixture.MatchLabel("tier", "gold"))
		}
		objects = append(objects, pl.Obj())
	}
	by, err := resilience.ParseKey("label:region")
	if err != nil {
		b.Fatal(err)
	}
	s, err := simulator.New(context.Background(), objects, fixture.Now, simulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		report, err := s.Resilience(context.Background(), by, s.Placements(), nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range report.Placements {
			if p.Domains != regions || p.Survived != regions || len(p.Losses) == 0 {
				b.Fatalf("%+v", p)
			}
		}
	}
}
