package simulator

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Resilience decides Placements again without the clusters of each domain, one domain at a time, on
// all processors. Other Placements keep the clusters that they have. It calls progress, unless nil,
// with the number of Placements done and in total.
func (s *Simulator) Resilience(ctx context.Context, by resilience.Key, keys []types.NamespacedName, progress func(done, all int)) (*resilience.Report, error) {
	keys = s.InQueueOrder(keys)
	report := &resilience.Report{By: by.String(), Placements: make([]resilience.Placement, len(keys))}
	snapshots := make([]*framework.Snapshot, len(keys))
	for i, key := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, err := s.decide(ctx, key)
		if err != nil {
			return nil, err
		}
		report.Placements[i] = resilience.Placement{Placement: key.String(), Skipped: d.skipped, Losses: []resilience.Loss{}}
		if d.Attempt != nil {
			snapshots[i] = d.Snapshot
		}
	}
	engines := make([]*scheduler.Scheduler, min(len(keys), runtime.GOMAXPROCS(0)))
	for i := range engines {
		engine, err := newEngine(ctx, s.options)
		if err != nil {
			return nil, err
		}
		engines[i] = engine
	}
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for _, engine := range engines {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(keys) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				p := &report.Placements[i]
				if snapshots[i] != nil {
					loseDomains(ctx, engine, snapshots[i], by, p)
				}
				if p.Finish(by); progress != nil {
					progress(int(done.Add(1)), len(keys))
				}
			}
		})
	}
	workers.Wait()
	report.Sort()
	return report, ctx.Err()
}

// loseDomains decides one Placement with all clusters, then without each domain.
func loseDomains(ctx context.Context, engine *scheduler.Scheduler, snapshot *framework.Snapshot, by resilience.Key, p *resilience.Placement) {
	before := engine.Select(ctx, snapshot)
	defer engine.Release(before)
	LoseDomains(ctx, engine, before, by, p)
}

// LoseDomains adds a Decision to p, then the Decision without each domain, one at a time, until ctx
// ends. It returns for how many domains there was no time.
func LoseDomains(ctx context.Context, engine *scheduler.Scheduler, before *decide.Decision, by resilience.Key, p *resilience.Placement) (left int) {
	snapshot := before.Snapshot
	p.Satisfied, p.Why = before.Satisfied()
	p.Misconfigured, p.Selected = before.Misconfigured(), len(before.Selected)
	if n := snapshot.Subject.Placement.Spec.NumberOfClusters; n != nil {
		p.Wanted = new(int(*n))
	}
	if !p.Satisfied {
		return 0
	}
	p.Why = ""
	domains, without := resilience.CandidateDomains(by, snapshot)
	p.WithoutDomain = without
	had := before.Selection().Clusters
	for i, domain := range domains {
		lost := domain.Set()
		after := engine.Select(ctx, snapshot.WithoutClusters(lost))
		// A Decision that ended early says nothing.
		if ctx.Err() != nil {
			engine.Release(after)
			return len(domains) - i
		}
		p.Add(lifecycle.LossOf(domain, lost, had, after.Selection()))
		engine.Release(after)
	}
	return 0
}
