package framework

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Describer is a Plugin with Traits.
type Describer interface {
	// Describe is called once, when the profile is built. A plugin that embeds a Describer must
	// have a Describe of its own if its traits differ: the embedded one returns its own functions.
	Describe() Traits
}

// Traits are what few plugins need. A function that is nil is not called. The traits of a point
// count only where the profile enables the plugin at that point.
type Traits struct {
	// SetupWithManager is for a plugin that uses informers, or that runs something beside its
	// methods. It is called once in the controller, before mgr starts; never in a simulation, a
	// replay or a command. The informers of mgr.GetCache that it gets have their objects before the
	// first attempt. What it passes to mgr.Add runs while the replica is the leader. An error ends
	// the controller.
	SetupWithManager func(ctx context.Context, mgr manager.Manager) error

	// PolicyMistakes is true if UnschedulableAndUnresolvable of PreFilter is a mistake in the
	// SelectionPolicies of the Placement, not in the Placement.
	PolicyMistakes bool
	// ValidatePolicy is Validator.Validate for a SelectionPolicy.
	ValidatePolicy func(ctx context.Context, policy *berthv1alpha1.SelectionPolicy) field.ErrorList
	// PolicyPrepared and PreparePolicy are Preparer for a SelectionPolicy; both or none.
	PolicyPrepared func(policy *berthv1alpha1.SelectionPolicy) bool
	PreparePolicy  func(policy *berthv1alpha1.SelectionPolicy, yield func() bool) (done bool)

	// ForcesRemoval reports for a filter that excludes a published cluster whether the removal is
	// forced: the Placement cannot keep the cluster until its replacement is published. If only an
	// edit of the Placement made it a reason, the removal is voluntary. It needs no PreFilter. Such
	// filters run after all others: numberOfClusters absent, a cluster that they exclude without
	// forcing its removal still counts as desired.
	ForcesRemoval func(state *CycleState, pl *v1alpha1.Placement, cluster *Cluster) Forcing

	// ReportSelection is for a PostFilterPlugin that reports on the selection in a condition of the
	// Placement, which never changes the decision. It runs after Select, unless nothing was
	// decided, and not in trials. It must not block, and returns at the latest when ShouldYield
	// does. A nil condition removes the one that the plugin set before. If done is false, that one
	// stays.
	ReportSelection func(ctx context.Context, state *CycleState, pl *v1alpha1.Placement, selected *Selected) (condition *metav1.Condition, done bool)

	// ForAddOn is for a ScorePlugin that a Placement may list several times, each time with another
	// coordinate. It returns the scorer of one coordinate. Its Name is unique for the coordinate.
	ForAddOn func(coordinate v1alpha1.AddOnScore) ScorePlugin
	// WhyNoScore is for a ScorePlugin with ForAddOn. It returns, for explanations and in few words,
	// why a cluster has no score, which counts as 0; empty if it has one.
	WhyNoScore func(coordinate v1alpha1.AddOnScore, snapshot *Snapshot, cluster *Cluster) string

	Counter
	// CountsPermitted is true for a ReservePlugin that counts only changes that are permitted:
	// Reserve is called before Permit, as for all, and Unreserve also while a change is held or
	// waits.
	CountsPermitted bool

	// PermitsForcedRemovals is true for a PermitPlugin that permits forced removals
	// (Kind.Forced) even while it holds the change. If only such plugins hold a change, its
	// forced removals are published as a change of their own.
	PermitsForcedRemovals bool
	// RenewsHolds is true for a PermitPlugin whose hold does not expire: if it still holds the
	// change when the timeout has passed, the hold begins again.
	RenewsHolds bool

	// Verify is for a BindPlugin whose failed writes may have succeeded, because only the response
	// was lost. It reads the pages whose last write failed and returns them by name; nil for a page
	// that does not exist. It is called before anything is recorded or published. If it returns
	// pages or an error, the Placement is decided again.
	Verify func(ctx context.Context, pl *v1alpha1.Placement) (map[string]*v1alpha1.PlacementDecision, error)
}

// Check returns an error if functions are missing that belong together.
func (t *Traits) Check() error {
	c := &t.Counter
	all := c.Counts != nil && c.DecodeCounts != nil && c.Recount != nil && c.NeedsRecords != nil
	switch {
	case !all && (c.Counts != nil || c.DecodeCounts != nil || c.Recount != nil || c.NeedsRecords != nil):
		return errors.New("its Describe returned only some functions of Counter")
	case (t.PolicyPrepared == nil) != (t.PreparePolicy == nil):
		return errors.New("its Describe returned only one of PolicyPrepared and PreparePolicy")
	}
	return nil
}

// Counter is for a ReservePlugin that counts published changes over several attempts, in Reserve,
// Unreserve and PostBind; all four functions or none.
type Counter struct {
	// Counts returns the current counts for the next Snapshot (PluginCounts), or nil. The plugin
	// must not change the returned value. It is called with the cycle lock held.
	Counts func() any
	// DecodeCounts reads counts back that json.Marshal wrote, for the replay of a recording. It may
	// be called at any time.
	DecodeCounts func(text []byte) (any, error)
	// Recount restores the counts from the records of all Placements after a restart. It is called
	// once, before the first attempt, with the cycle lock held.
	Recount func(records []*berthv1alpha1.PlacementChange)
	// NeedsRecords returns for how long after its removals were published Recount needs a record:
	// so long, it is kept. It returns the same value each time.
	NeedsRecords func() time.Duration
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
