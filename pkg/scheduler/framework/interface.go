package framework

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Plugin runs at one or more extension points. Each profile has one instance, and another one in
// the engine that decides explanations, which runs no extension point after Permit and whose Handle
// has only Client and Activate. Cycles (PreEnqueue to Permit) of an engine are serial. Unreserve
// after Bind, PreBind, Bind and PostBind may run concurrently with other Placements' attempts.
//
// From PreEnqueue to Permit the context ends at the cycle's deadline (cycleTimeout, 100 ms by
// default). A plugin that runs longer must return then. A later result is ignored: the
// attempt fails, the published decision stays, and the attempt is repeated with backoff.
//
// A panic in a method is an Error of that method. If the method returns no Status, the panic is
// logged, and reported in an event of the attempt. A panic in a goroutine or an event handler of
// the plugin ends the process.
type Plugin interface {
	// Name is the plugin's name in the Registry.
	Name() string
}

// QueueSortPlugin orders the work queue. All profiles have the same one. It runs outside cycles and
// concurrently.
type QueueSortPlugin interface {
	Plugin
	// Less reports whether a is decided before b.
	Less(a, b *v1alpha1.Placement) bool
}

// PreEnqueuePlugin keeps a Placement from being decided, for example until its queue admits it. It
// runs first in a cycle.
type PreEnqueuePlugin interface {
	Plugin
	// PreEnqueue returns Unschedulable to end the attempt: the published decision stays.
	// UnschedulableAndUnresolvable selects no cluster, and that decision is published. The
	// condition PlacementSatisfied and an event give the plugin and the reason. Codes other than
	// these and Success are Errors.
	PreEnqueue(ctx context.Context, state *CycleState, pl *v1alpha1.Placement) *Status
}

// PreFilterPlugin runs once per attempt, before the filters. It also runs without candidates, so
// that a mistake in the Placement is always reported.
type PreFilterPlugin interface {
	Plugin
	// PreFilter may narrow the candidates; the engine intersects the results of all plugins, and an
	// empty intersection selects no cluster. Skip disables the plugin's Filter in this attempt.
	// UnschedulableAndUnresolvable means misconfigured, Pending repeats the attempt soon, and
	// Unschedulable ends the attempt after the other plugins ran; other codes are Errors. All codes
	// except Success and Skip keep the published decision.
	PreFilter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement) (*PreFilterResult, *Status)
}

// Validator is a PreFilterPlugin whose mistakes of a Placement can be found without a Snapshot. The
// admission webhook refuses a Placement with these errors; PreFilter returns them as
// UnschedulableAndUnresolvable, in the same words.
type Validator interface {
	// Validate returns the mistakes, each with the path of the field from the Placement's root. It
	// depends only on the Placement, and ends early without errors when ctx ends. It is called
	// outside cycles, from several goroutines at once.
	Validate(ctx context.Context, pl *v1alpha1.Placement) field.ErrorList
}

// Preparer is a PreFilterPlugin with long work that needs no cycle, for example compiling
// expressions, or what an unfinished PreFilter has left. The work is done outside cycles; until
// then PreFilter returns Unfinished. Simulations do not call Prepare.
type Preparer interface {
	// Prepared reports whether no work is left. It may be called at any time.
	Prepared(pl *v1alpha1.Placement) bool
	// Prepare works until yield returns true. It returns false if the next cycle needs more of it.
	// One Placement is prepared at a time.
	Prepare(pl *v1alpha1.Placement, yield func() bool) (done bool)
}

// Forgetter is a Plugin that keeps data per Placement from attempt to attempt.
type Forgetter interface {
	// Forget drops the data of a Placement that was deleted. It is called with the cycle lock held.
	Forget(key types.NamespacedName)
}

// PreFilterResult narrows the candidates.
type PreFilterResult struct {
	// Clusters are the indexes of the candidates that pass this plugin.
	Clusters Bitset
	// SkipFilter is true if all of Clusters pass the plugin's Filter, too. Filter then runs only to
	// explain why other candidates are excluded.
	SkipFilter bool
}

// FilterPlugin decides whether one cluster passes or is excluded. It runs concurrently for the
// clusters of an attempt.
type FilterPlugin interface {
	Plugin
	// Filter excludes the cluster with Unschedulable or UnschedulableAndUnresolvable; later filters
	// do not see it. Codes other than these and Success are Errors and end the attempt.
	Filter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) *Status
}

// Relaxer is a FilterPlugin that can suggest changes with which a cluster would pass. Only
// explanations call it. The engine checks each suggestion by deciding again.
type Relaxer interface {
	// Relax returns alternative changes, the smallest first. With each one alone the cluster passes
	// Filter and is not demoted.
	Relax(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) []Relaxation
}

// Relaxation is a change to the Placement, its SelectionPolicy or the cluster.
type Relaxation struct {
	// Text describes the change: "tolerate gpu=true:NoSelect".
	Text string
	// Placement, Cluster and Policy are the changed objects; nil if unchanged.
	Placement *v1alpha1.Placement
	Cluster   *Cluster
	Policy    *berthv1alpha1.SelectionPolicy
	// WithoutPeers are the names of Peers that do not count.
	WithoutPeers []string
}

// ClusterReader is a PreFilter, Filter or Score plugin, or one with ReportSelection, that declares
// which properties of clusters it reads. Sets, taints, and the labels, claims and scores that the
// Placement's spec names are implied. Without it, a plugin counts as reading everything: each
// change of a cluster, also of its conditions, then starts an attempt for every Placement that may
// use the cluster.
type ClusterReader interface {
	// Reads must return equal results for equal Placements.
	Reads(pl *v1alpha1.Placement) Reads
}

// Reads are properties of a cluster whose change affects the Placement.
type Reads struct {
	// Labels and Claims are label keys and claim names.
	Labels, Claims []string
	// CPU and Memory are the amounts Cluster.CPU and Cluster.Memory.
	CPU, Memory bool
	// Scores are names of AddOnPlacementScores.
	Scores []string
	// Everything means the whole object and all its scores.
	Everything bool
}

// PostFilterPlugin runs only if fewer clusters are feasible than wanted. That of kube-scheduler
// runs if no node is feasible, and the attempt then ends; here the attempt continues with the
// feasible clusters.
type PostFilterPlugin interface {
	Plugin
	// PostFilter may return intents; they never change the decision. After Unschedulable the next
	// plugin runs; after Success or UnschedulableAndUnresolvable none does. Other codes are Errors
	// and end the attempt.
	PostFilter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, filtered Filtered) ([]Intent, *Status)
}

// Filtered is the result of the filters. A plugin must not keep Feasible: the next attempt reuses
// its memory.
type Filtered struct {
	Feasible []*Cluster
	// Excluded counts the candidates that each Filter plugin excluded, in the order of the plugins.
	// A cluster counts once, for the first plugin that excluded it; clusters of the last plugin
	// passed all others.
	Excluded []ExcludedBy
}

// ExcludedBy is the number of candidates that one plugin excluded.
type ExcludedBy struct {
	Plugin   string
	Clusters int
}

// Intent describes why a selection is not as asked for. The controller reports it in an event on
// the Placement; a simulation shows it.
type Intent struct {
	Plugin string `json:"plugin"`
	// Reason is a CamelCase word for programs, Note a text for people.
	Reason string `json:"reason"`
	Note   string `json:"note"`
}

// PreScorePlugin runs once per attempt with the feasible clusters, also if there are none. That of
// kube-scheduler does not run for fewer than two nodes. A ScorePlugin's PreScore does not run if
// its weight is 0. The plugin must not keep the slice: the next attempt reuses it.
type PreScorePlugin interface {
	Plugin
	// PreScore prepares Score. Skip disables the plugin's Score in this attempt. Pending ends the
	// attempt: the published decision stays, and the attempt is repeated soon. Other codes except
	// Success are Errors.
	PreScore(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, feasible []*Cluster) *Status
}

// ScorePlugin scores one feasible cluster. It runs concurrently for the clusters of an attempt.
type ScorePlugin interface {
	Plugin
	// Score returns, after NormalizeScore, MinScore to MaxScore; scorers of ForAddOn have no
	// bounds. Skip means no score, which counts as 0. Other codes except Success are Errors and end
	// the attempt.
	Score(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) (int64, *Status)
}

// NormalizeScorer is a ScorePlugin that scales its scores after all clusters are scored. It is part
// of the point Score, as ScoreExtensions is in kube-scheduler.
type NormalizeScorer interface {
	// NormalizeScore changes scores in place. They are in the order of the feasible clusters;
	// NoScore marks a cluster without a score.
	NormalizeScore(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, scores []int64) *Status
}

// ReservePlugin counts changes before Permit until they are published or end otherwise.
type ReservePlugin interface {
	Plugin
	// Reserve must not block. The first failure stops the change and calls Unreserve of all plugins
	// in reverse order. Unschedulable and UnschedulableAndUnresolvable deny the change, Pending
	// repeats the attempt soon, other codes are Errors. A change that is held or waits stays
	// reserved: each attempt calls Reserve again, which replaces what the Placement had reserved.
	// After a restart, Reserve is called for each change with an open record before the first
	// attempt; its result is ignored, and the CycleState has no data of other plugins.
	Reserve(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
	// Unreserve undoes Reserve and must not fail. It is also called if the plugin's Reserve did not
	// run.
	Unreserve(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal)
}

// PermitPlugin permits a change, denies it, or holds it.
type PermitPlugin interface {
	Plugin
	// Permit must not block or keep state: simulations and explanations call it, too. Wait
	// holds the change. The duration counts from this plugin's first Wait for the change;
	// then, with 0 at once, the change expires, unless it is approved.
	// Unschedulable and UnschedulableAndUnresolvable deny the change, Pending repeats the
	// attempt soon, other codes are Errors. Except after Success the published decision stays.
	// Each attempt for the Placement calls Permit again for a held change. If it is not
	// Approved, Permit is also called as if it were, because the message says whether an
	// approval helps. If the selected clusters are those that are published while a change is
	// in progress, Permit is called for a Proposal that adds and removes none: only Pending
	// delays the end of that change.
	Permit(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) (*Status, time.Duration)
}

// TransitionPlugin limits how much of a permitted change is published in one step. The engine
// repeats the attempt until the whole change is published.
type TransitionPlugin interface {
	Plugin
	// Transition must not block or keep state: simulations and explanations call it, too. It
	// returns nil to publish the whole change. If several plugins return a Transition, only
	// clusters in all of them are added and removed. It may call RequeueAt if a later step depends
	// on the time. Codes other than Success are Errors.
	Transition(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, change *Change) (*Transition, *Status)
}

// Transition is one step of a change.
type Transition struct {
	// Added and Removed are the names of the change that this step adds and removes, sorted.
	Added, Removed []string
	// Paused is the reason, in CamelCase, if the change does not continue until a user acts; empty
	// if it does. Approvable is true if an approval of the change is enough.
	Paused     string
	Approvable bool
	// AwaitsReadiness is true if the next step follows when published clusters become ready.
	AwaitsReadiness bool
	// ProgressDeadline is the time without a step after which the change is reported; 0 for never.
	ProgressDeadline time.Duration
	// Why is what the rest of the change waits for; empty if the next step follows at once.
	Why string
}

// PreBindPlugin prepares the added clusters. It does not run for a Republication.
type PreBindPlugin interface {
	Plugin
	// PreBind must be idempotent. It may not be called for a Proposal that changes nothing. Codes
	// other than Success stop the attempt; it is repeated with backoff.
	PreBind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
}

// BindPlugin publishes a Proposal.
type BindPlugin interface {
	Plugin
	// Bind returns Skip to leave the Proposal to the next plugin; if all plugins skip, the attempt
	// fails. A failed attempt is repeated with backoff. A Proposal that changes nothing is passed,
	// too, so that its pages can be repaired, unless the attempt is skipped (see Rechecker).
	Bind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) *Status
}

// PostBindPlugin receives each published Proposal, except a Republication. A call can be lost,
// for example in a crash. Proposals that change nothing may be left out.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal)
}
