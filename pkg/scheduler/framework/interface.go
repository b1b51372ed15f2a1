package framework

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Plugin is anything that runs at one or more extension points. One instance serves a profile; scheduling cycles are
// serial, but from Reserve on a plugin may meet itself in another Placement's attempt.
type Plugin interface {
	// Name is the name under which the Registry has the plugin.
	Name() string
}

// QueueSortPlugin orders the waiting Placements. There is exactly one, the same in all profiles. It runs outside cycles and
// concurrently.
type QueueSortPlugin interface {
	Plugin
	// Less says whether a is decided before b.
	Less(a, b *v1alpha1.Placement) bool
}

// PreFilterPlugin runs once an attempt, serially, candidates or not, so that a mistake in the Placement is always said.
type PreFilterPlugin interface {
	Plugin
	// PreFilter may narrow the candidates; the results of all plugins intersect, and an empty intersection is an empty
	// answer. Skip switches the plugin's Filter off for this attempt. Unschedulable: the remaining plugins still run, then
	// the attempt is parked. UnschedulableAndUnresolvable: the Placement is misconfigured, the attempt stops. Anything
	// else is an Error. Whatever is not Success or Skip leaves the published decision as it was.
	PreFilter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement) (*PreFilterResult, *Status)
}

// Forgetter is a PreFilterPlugin that remembers something of each Placement from attempt to attempt.
type Forgetter interface {
	// Forget is called once the Placement is gone; never during a cycle.
	Forget(key types.NamespacedName)
}

// PreFilterResult narrows the candidates.
type PreFilterResult struct {
	// Clusters are the candidates this plugin admits, by index.
	Clusters Bitset
	// Decides says that the result is the plugin's whole verdict: its Filter need not run on the clusters in it, only to
	// say why another one is not.
	Decides bool
}

// FilterPlugin judges one cluster.
type FilterPlugin interface {
	Plugin
	// Filter excludes the cluster with Unschedulable or UnschedulableAndUnresolvable; the first rejection ends that
	// cluster. Any other code but Success is an Error and ends the attempt.
	Filter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) *Status
}

// Relaxer is a FilterPlugin that can say what would make it think better of a cluster. It is asked to explain only; the
// engine proves what it says by deciding again.
type Relaxer interface {
	// Relax returns alternative changes, the smallest first; each alone makes Filter admit the cluster, and rank it as any other.
	Relax(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) []Relaxation
}

// Relaxation is a change to the Placement or to the cluster.
type Relaxation struct {
	// Text says the change in words: "tolerate gpu=true:NoSelect".
	Text string
	// Placement and Cluster are what they would be; nil for the one that stays.
	Placement *v1alpha1.Placement
	Cluster   *Cluster
}

// PostFilterPlugin runs when fewer clusters are feasible than wanted.
type PostFilterPlugin interface {
	Plugin
	// PostFilter may record intents; it never changes the answer. The plugins run until one does not answer Unschedulable.
	PostFilter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, feasible []*Cluster) *Status
}

// PreScorePlugin runs once an attempt with the feasible clusters.
type PreScorePlugin interface {
	Plugin
	// PreScore prepares. Skip switches the plugin's Score off; any other code but Success is an Error.
	PreScore(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, feasible []*Cluster) *Status
}

// ScorePlugin rates one feasible cluster.
type ScorePlugin interface {
	Plugin
	// Score is, after NormalizeScore, from MinScore to MaxScore. Skip says that the cluster has no score, which counts as
	// 0. Any other code but Success ends the attempt with an Error.
	Score(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) (int64, *Status)
}

// NormalizeScorer is a ScorePlugin that brings its own scores into range once it has seen them all.
type NormalizeScorer interface {
	// NormalizeScore changes scores in place; they are in the order of the feasible clusters, NoScore where there is none.
	NormalizeScore(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, scores []int64) *Status
}

// CoordinateScorer is a ScorePlugin that a Placement may list several times, each with a coordinate of its own.
type CoordinateScorer interface {
	// ForAddOn returns the scorer of one coordinate; its Name tells coordinates apart.
	ForAddOn(coordinate v1alpha1.AddOnScore) ScorePlugin
}

// ReservePlugin keeps account of what is on its way to the API server.
type ReservePlugin interface {
	Plugin
	// Reserve: the first failure stops the attempt and triggers Unreserve of all plugins, in reverse.
	Reserve(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
	// Unreserve undoes Reserve. It is called for plugins that never reserved, too, and must not fail.
	Unreserve(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal)
}

// PermitPlugin lets a Proposal pass, refuses it, or holds it.
type PermitPlugin interface {
	Plugin
	// Permit: Wait holds the Proposal for at most the duration; a rejection or an Error stops the attempt. The published
	// decision stays in force while a Proposal is held.
	Permit(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) (*Status, time.Duration)
}

// PreBindPlugin prepares the added clusters.
type PreBindPlugin interface {
	Plugin
	// PreBind must be idempotent. Any failure stops the attempt; it is retried with backoff.
	PreBind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
}

// BindPlugin publishes.
type BindPlugin interface {
	Plugin
	// Bind: the plugins run in order until one does not answer Skip; if all do, the attempt fails.
	Bind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
}

// PostBindPlugin is told what was published. It may be missed, by a crash for example.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal)
}
