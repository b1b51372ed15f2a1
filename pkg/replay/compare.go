package replay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// Comparison is how the recorded decisions would have been under another configuration. It compares
// targets: at each recorded decision, each Placement decides from its own last target, and moves
// there at once. What decisions read of other Placements, such as the counts of Balance, is real.
// Attempts that the controller skipped were not recorded, so they are not compared.
type Comparison struct {
	// Decisions were recorded. Failed could not be made under the other configuration.
	Decisions int `json:"decisions"`
	Failed    int `json:"failed"`
	// Skipped are the numbers of decisions that could not be made again, by the reason.
	Skipped map[string]int `json:"skipped,omitempty"`
	// Moves is the number of clusters that were added and removed; RealMoves is that of the
	// controller.
	Moves     int `json:"moves"`
	RealMoves int `json:"realMoves"`
	// Placements are those that would have had other clusters at some time, sorted by how many more
	// clusters would have moved.
	Placements []*PlacementComparison `json:"placements"`
}

// PlacementComparison is the part of one Placement.
type PlacementComparison struct {
	Placement string `json:"placement"`
	// Decisions were compared, Differ of them select other clusters.
	Decisions int `json:"decisions"`
	Differ    int `json:"differ"`
	Failed    int `json:"failed,omitempty"`
	Moves     int `json:"moves"`
	RealMoves int `json:"realMoves"`
	// Held is the number of changes that a plugin would have held or denied, RealHeld of those that
	// one did.
	Held     int `json:"held"`
	RealHeld int `json:"realHeld"`
	// OnlyReal and OnlyHere are the clusters at the end that only one of both has.
	OnlyReal []string `json:"onlyReal,omitempty"`
	OnlyHere []string `json:"onlyHere,omitempty"`

	key    types.NamespacedName
	uid    types.UID
	names  []string
	timers framework.Timers
	// heldDigest and realHeldDigest are the targets of the last held changes.
	heldDigest, realHeldDigest string
}

// comparer compares while a Player plays.
type comparer struct {
	player     *Player
	result     *Comparison
	placements map[types.NamespacedName]*PlacementComparison
	since      time.Time
	progress   func(*Comparison)
}

// Compare makes the recorded decisions since a time under another configuration.
func Compare(ctx context.Context, r *recording.Reader, plugins framework.Registry, with *config.PlacementSchedulerConfiguration, since time.Time, progress func(*Comparison)) (*Comparison, error) {
	c := &comparer{result: &Comparison{Skipped: map[string]int{}}, placements: map[types.NamespacedName]*PlacementComparison{}, since: since, progress: progress}
	c.player = &Player{Plugins: plugins, Config: with, OnEntry: c.countMoves, Visit: c.visit}
	r.Since(since)
	if err := c.player.Play(ctx, r); err != nil {
		return nil, err
	}
	for key, p := range c.placements {
		if snapshot, _, _ := c.player.Snapshot(key, time.Time{}); snapshot != nil && snapshot.Subject.Placement.UID == p.uid {
			p.OnlyReal, p.OnlyHere = onlyIn(snapshot.Subject.LastNames(), p.names), onlyIn(p.names, snapshot.Subject.LastNames())
		}
		c.result.Moves, c.result.RealMoves, c.result.Failed = c.result.Moves+p.Moves, c.result.RealMoves+p.RealMoves, c.result.Failed+p.Failed
		if p.Differ+p.Failed+len(p.OnlyReal)+len(p.OnlyHere) > 0 || p.Held != p.RealHeld {
			c.result.Placements = append(c.result.Placements, p)
		}
	}
	slices.SortFunc(c.result.Placements, func(a, b *PlacementComparison) int {
		return cmp.Or(cmp.Compare(b.Moves-b.RealMoves, a.Moves-a.RealMoves), cmp.Compare(a.Placement, b.Placement))
	})
	return c.result, nil
}

func onlyIn(a, b []string) (only []string) {
	for _, name := range a {
		if _, found := slices.BinarySearch(b, name); !found {
			only = append(only, name)
		}
	}
	return only
}

// countMoves counts the clusters that the controller added and removed.
func (c *comparer) countMoves(e *recording.Entry) {
	if e.Published == nil || e.Published.Restored || e.Time.Before(c.since) || c.player.inContents() {
		return
	}
	if p := c.placements[inventory.Key{Namespace: e.Namespace, Name: e.Name}]; p != nil {
		p.RealMoves += len(e.Published.Added) + len(e.Published.Removed)
	}
}

func (c *comparer) visit(ctx context.Context, d *recording.Decision, engine *scheduler.Scheduler, snapshot *framework.Snapshot, why string) error {
	if d.Now.Before(c.since) {
		return nil
	}
	if c.result.Decisions++; c.progress != nil && c.result.Decisions%100 == 0 {
		c.progress(c.result)
	}
	if why == "" && d.EndedEarly {
		why = "it ended at its time limit"
	}
	if why != "" {
		c.result.Skipped[why]++
		return nil
	}
	p := c.placements[d.Key()]
	if p == nil || p.uid != d.UID {
		// Moves are counted from here on, as those of the controller are.
		p = &PlacementComparison{Placement: d.Key().String(), key: d.Key(), uid: d.UID, names: snapshot.Subject.LastNames()}
		p.timers = framework.Timers{Tiers: snapshot.Timers.Tiers, TiersOf: snapshot.Timers.TiersOf}
		c.placements[d.Key()] = p
	}
	p.decide(ctx, d, engine, snapshot)
	return nil
}

// decide decides from the own last target, and moves there.
func (p *PlacementComparison) decide(ctx context.Context, d *recording.Decision, engine *scheduler.Scheduler, snapshot *framework.Snapshot) {
	p.Decisions++
	if plan.Outcome(d.Outcome) == plan.Held && d.Target != p.realHeldDigest {
		p.RealHeld++
		p.realHeldDigest = d.Target
	}
	a := engine.Decide(ctx, snapshot.WithPublished(p.names, p.timers))
	if a.Outcome == plan.Waiting && a.Target != nil {
		// The question is what a plugin answers when the change has stayed the same long enough.
		engine.Release(a.Decision)
		settled := p.timers
		settled.Change = framework.Stability{Digest: a.Target.Digest, Since: snapshot.Now.Add(-longAgo), RemovingSince: snapshot.Now.Add(-longAgo)}
		a = engine.Decide(ctx, snapshot.WithPublished(p.names, settled))
	}
	defer engine.Release(a.Decision)
	if a.Target == nil || a.Failure != nil {
		if d.Failure == "" {
			p.Failed++
		}
		return
	}
	if a.Target.Digest != d.Target {
		p.Differ++
	}
	if (a.Outcome == plan.Held || a.Outcome == plan.Denied) && a.Target.Digest != p.heldDigest {
		p.Held++
		p.heldDigest = a.Target.Digest
	}
	p.Moves += len(onlyIn(a.Target.Clusters, p.names)) + len(onlyIn(p.names, a.Target.Clusters))
	p.names, p.timers = slices.Clone(a.Target.Clusters), framework.Timers{Tiers: a.Timers.Tiers, TiersOf: a.Timers.TiersOf}
}

// longAgo is longer than plugins wait until a change has stayed the same.
const longAgo = 24 * time.Hour
