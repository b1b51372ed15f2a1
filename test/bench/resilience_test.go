package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
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

// BenchmarkResilientCondition decides a Placement of 3 among 5,000 clusters in 20 regions, without
// and with the plugin Resilience.
func BenchmarkResilientCondition(b *testing.B) {
	for name, args := range map[string]string{"off": "{}", "on": `{key: "label:region"}`} {
		b.Run(name, func(b *testing.B) { resilientCycles(b, args, 5_000, 20) })
	}
}

func resilientCycles(b *testing.B, args string, clusters, regions int) {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s1"))
	inv.Update(fixture.Binding("ns", "s1"))
	for n := range clusters {
		c := cluster(n, false)
		c.Labels["region"] = fmt.Sprintf("region-%02d", n%regions)
		inv.Update(c)
	}
	inv.Update(threeOf("ns", "p").Obj())
	c, err := config.Load([]byte(`{apiVersion: config.berth.dev/v1alpha1, kind: PlacementSchedulerConfiguration, profiles: [{pluginConfig: [{name: Resilience, args: ` + args + `}]}]}`))
	if err != nil {
		b.Fatal(err)
	}
	profiles, err := builtin.Profiles(context.Background(), c, builtin.Registry(), &framework.Handle{})
	if err != nil {
		b.Fatal(err)
	}
	engine := scheduler.New(profiles, nil)
	snapshot := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
	b.ReportAllocs()
	for b.Loop() {
		a := engine.Decide(context.Background(), snapshot)
		if reported := len(a.Conditions()) == 3; reported != (args != "{}") {
			b.Fatalf("%d conditions", len(a.Conditions()))
		}
		engine.Release(a.Decision)
	}
}
