package framework

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Plugin is anything that runs at one or more extension points. One instance serves a profile;
// scheduling cycles are serial, but from Reserve on a plugin may meet itself in another Placement's
// attempt.
//
// From PreFilter to Permit the context ends when the cycle's deadline passes (cycleTimeout, 100 ms
// by default): whatever a plugin answers after that, the attempt has failed, the published decision
// stays, and the attempt is repeated with growing delays. A plugin that may wait for anything or
// work for long must return when its context ends.
type Plugin interface {
	// Name is the name under which the Registry has the plugin.
	Name() string
}

// QueueSortPlugin orders the waiting Placements. There is exactly one, the same in all profiles. It
// runs outside cycles and concurrently.
type QueueSortPlugin interface {
	Plugin
	// Less says whether a is decided before b.
	Less(a, b *v1alpha1.Placement) bool
}

// PreEnqueuePlugin keeps a Placement out, for example until its queue admits it. It runs first in a
// cycle.
type PreEnqueuePlugin interface {
	Plugin
	// PreEnqueue: Unschedulable parks the Placement, and the published decision stays;
	// UnschedulableAndUnresolvable means that it gets no cluster, which is an answer. Any other
	// code but Success is an Error.
	PreEnqueue(ctx context.Context, state *CycleState, pl *v1alpha1.Placement) *Status
}

// Counter is a plugin that counts what was published over several attempts, in Reserve, Unreserve
// and PostBind.
type Counter interface {
	Plugin
	// Counts returns what was counted so far. It becomes part of the next Snapshot and is not
	// changed any more; nil if the plugin counts nothing. It is called with the cycle lock held.
	Counts() any
	// Recount starts from the records of all Placements, after a restart. It is called once, before
	// the first attempt.
	Recount(records []*berthv1alpha1.PlacementChange)
}

// PreFilterPlugin runs once an attempt, serially, candidates or not, so that a mistake in the
// Placement is always said.
type PreFilterPlugin interface {
	Plugin
	// PreFilter may narrow the candidates; the results of all plugins intersect, and an empty
	// intersection is an empty answer. Skip switches the plugin's Filter off for this attempt.
	// Unschedulable: the remaining plugins still run, then the attempt is parked.
	// UnschedulableAndUnresolvable: the Placement is misconfigured, the attempt stops. Pending: the
	// attempt stops and is tried again soon. Anything else is an Error. Whatever is not Success or
	// Skip leaves the published decision as it was.
	PreFilter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement) (*PreFilterResult, *Status)
}

// Preparer is a PreFilterPlugin with work that depends on nothing but the Placement and may take
// long: compiling expressions, for example. It is done outside of cycles; PreFilter answers
// Unfinished for a Placement that is not prepared. Simulations do not prepare.
type Preparer interface {
	// Prepared may be called at any time.
	Prepared(pl *v1alpha1.Placement) bool
	// Prepare does some of the work, until yield returns true, and says whether all of it is done.
	// One Placement is prepared at a time.
	Prepare(pl *v1alpha1.Placement, yield func() bool) (done bool)
}

// Forgetter is a Plugin that remembers something of each Placement from attempt to attempt.
type Forgetter interface {
	// Forget is called once the Placement is gone; never during a cycle.
	Forget(key types.NamespacedName)
}

// PreFilterResult narrows the candidates.
type PreFilterResult struct {
	// Clusters are the candidates this plugin admits, by index.
	Clusters Bitset
	// Decides says that the result is the plugin's whole verdict: its Filter need not run on the
	// clusters in it, only to say why another one is not.
	Decides bool
}

// FilterPlugin judges one cluster. Several of an attempt may be judged at once.
type FilterPlugin interface {
	Plugin
	// Filter excludes the cluster with Unschedulable or UnschedulableAndUnresolvable; the first
	// rejection ends that cluster. Any other code but Success is an Error and ends the attempt.
	Filter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) *Status
}

// Relaxer is a FilterPlugin that can say what would make it think better of a cluster. It is asked
// to explain only; the engine proves what it says by deciding again.
type Relaxer interface {
	// Relax returns alternative changes, the smallest first; each alone makes Filter admit the
	// cluster, and rank it as any other.
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

// ClusterReader is a PreFilter, Filter or Score plugin that says what of a cluster its answers
// depend on, beside its sets, its taints and what the Placement's spec names: labels and claims of
// selectors and spread constraints, listed scores. A change of anything else decides no Placement
// anew for this plugin's sake. A plugin that does not say is taken to read everything, which makes
// every heartbeat of a cluster a cycle of each Placement that can see it.
type ClusterReader interface {
	// Reads must answer alike for equal Placements.
	Reads(pl *v1alpha1.Placement) Reads
}

// Reads are properties of a cluster.
type Reads struct {
	// Labels and Claims are names of them.
	Labels, Claims []string
	// CPU and Memory are the allocatable amounts, or the capacity where those are not known.
	CPU, Memory bool
	// Scores are names of AddOnPlacementScores.
	Scores []string
	// Everything stands for all of the object, and for all of its scores.
	Everything bool
}

// PostFilterPlugin runs when fewer clusters are feasible than wanted.
type PostFilterPlugin interface {
	Plugin
	// PostFilter may state intents; it never changes the answer. Success and
	// UnschedulableAndUnresolvable end the round, Unschedulable asks the next plugin, anything else
	// ends the attempt with an Error.
	PostFilter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, filtered Filtered) ([]Intent, *Status)
}

// Filtered is what the filters left, and what they took. Feasible is the next attempt's when this
// one has ended: not to be kept.
type Filtered struct {
	Feasible []*Cluster
	// Excluded counts the candidates that each Filter plugin excluded, in the order of the plugins.
	// A cluster is counted once, by the first that excluded it: those of the last plugin passed all
	// others.
	Excluded []ExcludedBy
}

// ExcludedBy is how many candidates one plugin excluded.
type ExcludedBy struct {
	Plugin   string
	Clusters int
}

// Intent is what a PostFilter plugin would have done so that more clusters fit. The controller says
// it in an event on the Placement; a simulation shows it.
type Intent struct {
	Plugin string `json:"plugin"`
	// Reason is a CamelCase word for machines, Note the words for people.
	Reason string `json:"reason"`
	Note   string `json:"note"`
}

// PreScorePlugin runs once an attempt with the feasible clusters, a slice that is the next
// attempt's when this one has ended: not to be kept.
type PreScorePlugin interface {
	Plugin
	// PreScore prepares. Skip switches the plugin's Score off; any other code but Success is an
	// Error.
	PreScore(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, feasible []*Cluster) *Status
}

// ScorePlugin rates one feasible cluster. Several of an attempt may be rated at once.
type ScorePlugin interface {
	Plugin
	// Score is, after NormalizeScore, from MinScore to MaxScore. Skip says that the cluster has no
	// score, which counts as
	// 0. Any other code but Success ends the attempt with an Error.
	Score(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) (int64, *Status)
}

// NormalizeScorer is a ScorePlugin that brings its own scores into range once it has seen them all.
type NormalizeScorer interface {
	// NormalizeScore changes scores in place; they are in the order of the feasible clusters,
	// NoScore where there is none.
	NormalizeScore(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, scores []int64) *Status
}

// CoordinateScorer is a ScorePlugin that a Placement may list several times, each with a coordinate
// of its own.
type CoordinateScorer interface {
	// ForAddOn returns the scorer of one coordinate; its Name tells coordinates apart.
	ForAddOn(coordinate v1alpha1.AddOnScore) ScorePlugin
}

// ReservePlugin keeps account of what is on its way to the API server.
type ReservePlugin interface {
	Plugin
	// Reserve runs before the next cycle begins; it must not wait for anything. The first failure
	// stops the attempt and triggers Unreserve of all plugins, in reverse: Unschedulable and
	// UnschedulableAndUnresolvable park the change, Pending has it tried again soon, anything else
	// is an Error. What is reserved for a held change must not count against it.
	Reserve(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
	// Unreserve undoes Reserve. It is called for plugins that never reserved, too, and must not
	// fail.
	Unreserve(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal)
}

// PermitPlugin permits a change, denies it, or holds it.
type PermitPlugin interface {
	Plugin
	// Permit is the last step before the next cycle begins; it must not wait for anything, and it
	// must remember nothing: simulations and explanations ask, too. Wait holds the change and asks
	// the other plugins; the duration counts from when this plugin first held this change, and ends
	// in Expired, never in an approval. Unschedulable and UnschedulableAndUnresolvable deny the
	// change, Pending has it tried again soon; anything else is an Error. The published decision
	// stays meanwhile. While a change is held, it is proposed again whenever something is decided
	// for the Placement, and Permit is asked again.
	Permit(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) (*Status, time.Duration)
}

// PreBindPlugin prepares the added clusters.
type PreBindPlugin interface {
	Plugin
	// PreBind must be idempotent. Any code but Success stops the attempt; it is retried with
	// backoff.
	PreBind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
}

// BindPlugin publishes.
type BindPlugin interface {
	Plugin
	// Bind: the plugins run in order until one does not answer Skip; if all do, the attempt fails.
	// Any failure is retried with backoff.
	Bind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
}

// PostBindPlugin is told what was published. It may be missed, by a crash for example.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal)
}
