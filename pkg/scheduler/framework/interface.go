package framework

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

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

// Starter is a Plugin that uses informers, or that runs something beside its other methods.
type Starter interface {
	Plugin
	// SetupWithManager is called once in the controller, before mgr starts; never in a simulation,
	// a replay or a command. The informers of mgr.GetCache that it gets have their objects before
	// the first attempt. What it passes to mgr.Add runs while the replica is the leader. An error
	// ends the controller.
	SetupWithManager(ctx context.Context, mgr manager.Manager) error
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

// Counter is a ReservePlugin that counts published changes over several attempts, in Reserve,
// Unreserve and PostBind.
type Counter interface {
	Plugin
	// Counts returns the current counts for the next Snapshot (PluginCounts), or nil. The plugin
	// must not change the returned value. It is called with the cycle lock held.
	Counts() any
	// DecodeCounts reads counts back that json.Marshal wrote, for the replay of a recording. It may
	// be called at any time.
	DecodeCounts(text []byte) (any, error)
	// Recount restores the counts from the records of all Placements after a restart. It is called
	// once, before the first attempt, with the cycle lock held.
	Recount(records []*berthv1alpha1.PlacementChange)
	// NeedsRecords returns for how long after its removals were published Recount needs a record:
	// so long, it is kept. It returns the same value each time.
	NeedsRecords() time.Duration
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

// PolicyReader is a PreFilterPlugin for which UnschedulableAndUnresolvable is a mistake in the
// SelectionPolicies of the Placement, not in the Placement.
type PolicyReader interface {
	// ReadsPolicy has no effect: it marks the plugin.
	ReadsPolicy()
}

// PolicyValidator is a PreFilterPlugin that finds the mistakes of SelectionPolicies.
type PolicyValidator interface {
	// ValidatePolicy is Validate for a SelectionPolicy.
	ValidatePolicy(ctx context.Context, policy *berthv1alpha1.SelectionPolicy) field.ErrorList
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

// PolicyPreparer is a Preparer for the SelectionPolicy of a Placement.
type PolicyPreparer interface {
	// PolicyPrepared is Prepared for a policy.
	PolicyPrepared(policy *berthv1alpha1.SelectionPolicy) bool
	// PreparePolicy is Prepare for a policy.
	PreparePolicy(policy *berthv1alpha1.SelectionPolicy, yield func() bool) (done bool)
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

// FilterFinisher is a FilterPlugin that decides after all filters whether the attempt continues.
type FilterFinisher interface {
	FilterPlugin
	// FinishFilter runs once, after Filter of all candidates and before PostFilter. Pending ends
	// the attempt: the published decision stays, and the attempt is repeated soon. Other codes
	// except Success are Errors.
	FinishFilter(ctx context.Context, state *CycleState, pl *v1alpha1.Placement) *Status
}

// ForcedRemovalPlugin is a FilterPlugin whose exclusion of a published cluster may force its
// removal: the Placement cannot keep the cluster until its replacement is published. Such plugins
// run after all other filters: numberOfClusters absent, a cluster that they exclude without forcing
// its removal still counts as desired.
type ForcedRemovalPlugin interface {
	FilterPlugin
	// ForcesRemoval reports whether the removal of a cluster is forced. If only an edit of the
	// Placement made it a reason, the removal is voluntary. It needs no PreFilter.
	ForcesRemoval(state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) Forcing
}

// Forcing is what forces the removal of a cluster.
type Forcing struct {
	// Forces is true if anything does.
	Forces bool
	// Since is when the cluster got it; zero if unknown.
	Since time.Time
	// Ended is true if the spec kept the cluster in spite of it for some time, which has ended.
	Ended bool
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

// ClusterReader is a PreFilter, Filter or Score plugin, or a SelectionReporter, that declares which
// properties of clusters it reads. Sets, taints, and the labels, claims and scores that the
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

// SelectionReporter is a PostFilterPlugin that reports on the selection in a condition of the
// Placement. The condition never changes the decision.
type SelectionReporter interface {
	PostFilterPlugin
	// ReportSelection runs after Select, unless nothing was decided, and not in trials. It must not
	// block, and returns at the latest when ShouldYield does. A nil condition removes the one that
	// the plugin set before. If done is false, that one stays.
	ReportSelection(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, selected *Selected) (condition *metav1.Condition, done bool)
}

// Selected is the result of Select. It is valid during the call of ReportSelection.
type Selected struct {
	// Clusters are the indexes of the selected clusters.
	Clusters Bitset
	// Decided is false if nothing was decided. Satisfied and Why are status and message of the
	// condition PlacementSatisfied.
	Decided   bool
	Satisfied bool
	Why       string
	// Missing counts the wanted clusters that are not selected. OnlyFiltered is true if they are
	// missing only because filters exclude the other candidates, or because there are none.
	Missing      int
	OnlyFiltered bool
	// Excluded counts the candidates that each filter excluded, as Filtered does.
	Excluded func() []ExcludedBy
	// Without selects again, with the same scores, without the clusters with these indexes.
	Without func(lost Bitset) *Selected
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

// NormalizeScorer is a ScorePlugin that scales its scores after all clusters are scored.
type NormalizeScorer interface {
	// NormalizeScore changes scores in place. They are in the order of the feasible clusters;
	// NoScore marks a cluster without a score.
	NormalizeScore(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, scores []int64) *Status
}

// CoordinateScorer is a ScorePlugin that a Placement may list several times, each time with another
// coordinate.
type CoordinateScorer interface {
	// ForAddOn returns the scorer of one coordinate. Its Name is unique for the coordinate.
	ForAddOn(coordinate v1alpha1.AddOnScore) ScorePlugin
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

// PermittedCounter is a ReservePlugin that counts only changes that are permitted: Unreserve is
// also called while a change is held or waits.
type PermittedCounter interface {
	ReservePlugin
	CountsPermitted()
}

// PermitPlugin permits a change, denies it, or holds it.
type PermitPlugin interface {
	Plugin
	// Permit must not block or keep state: simulations and explanations call it, too. Wait holds
	// the change. The duration counts from this plugin's first Wait for the change; then the change
	// expires. Unschedulable and UnschedulableAndUnresolvable deny the change, Pending repeats the
	// attempt soon, other codes are Errors. Except after Success the published decision stays. Each
	// attempt for the Placement calls Permit again for a held change. If it is not Approved, Permit
	// is also called as if it were, because the message says whether an approval helps.
	Permit(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal) (*Status, time.Duration)
}

// ForcedRemovalPermitter is a PermitPlugin that permits forced removals (Proposal.Forced) even
// while it holds the change. If only such plugins hold a change, its forced removals are published
// as a change of their own.
type ForcedRemovalPermitter interface {
	PermitPlugin
	PermitsForcedRemovals()
}

// HoldRenewer is a PermitPlugin whose hold does not expire: if it still holds the change when the
// timeout has passed, the hold begins again.
type HoldRenewer interface {
	PermitPlugin
	RenewsHolds()
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
	// ProgressDeadline is the time without a step after which the change is reported; 0 for never.
	ProgressDeadline time.Duration
	// Why is what the rest of the change waits for; empty if the next step follows at once.
	Why string
}

// PreBindPlugin prepares the added clusters. It does not run if the Proposal Restores.
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

// BindVerifier is a BindPlugin whose failed writes may have succeeded, because only the response
// was lost.
type BindVerifier interface {
	BindPlugin
	// Verify reads the pages whose last write failed and returns them by name; nil for a page that
	// does not exist. It is called before anything is recorded or published. If it returns pages or
	// an error, the Placement is decided again.
	Verify(ctx context.Context, pl *v1alpha1.Placement) (map[string]*v1alpha1.PlacementDecision, error)
}

// PostBindPlugin receives each published Proposal, except one that Restores. A call can be lost,
// for example in a crash. Proposals that change nothing may be left out.
type PostBindPlugin interface {
	Plugin
	PostBind(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, p *Proposal)
}
