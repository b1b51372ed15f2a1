package explanation

import (
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/simulator"
)

// maxTimeouts is how many cycles in a row may time out before there is no answer.
const maxTimeouts = 3

// Explainer decides Placements without publishing. It is safe for concurrent use.
type Explainer struct {
	// Inventory is the fleet, and Queues the queues, of the controller. Queues is nil if no queues
	// are configured.
	Inventory *inventory.Inventory
	Queues    *admission.Queues
	// Scheduler is used for explanations only. Its CycleTimeout limits each cycle.
	Scheduler *scheduler.Scheduler
	// Now is the clock of decisions.
	Now func() time.Time
}

// Question is what to explain: an existing Placement, or New.
type Question struct {
	Placement types.NamespacedName
	// New is a Placement that does not exist. Its UID identifies the question from call to call.
	New *v1alpha1.Placement
	// ShownName is the name of New in a DebugResult.
	ShownName string
	// Submitted is the object whose submitter is that of New.
	Submitted metav1.Object
	// Clusters are the names to explain; if empty, those nearest to the cut, at most Limit.
	Clusters []string
	Limit    int
	// Template is Placement after an edit, or as it is created. Edits are assumed changes of
	// clusters. Domains asks which failure domains can be lost.
	Template *berthv1alpha1.PlacementTemplate
	Edits    []berthv1alpha1.ClusterEdit
	Domains  *resilience.Key

	// before is the outcome without Template; nil until it is known. trials counts the cycles with
	// Edits that did not end in time.
	before *simulator.Outcome
	trials int
}

// Key is the namespace and name under which the question is decided.
func (q *Question) Key() types.NamespacedName {
	if q.New != nil {
		return types.NamespacedName{Namespace: q.New.Namespace, Name: q.New.Name}
	}
	return q.Placement
}

// Result is that of Explain. Exactly one of Report, Retry, NotFound and Failure is set.
type Result struct {
	// Report has the verdicts asked for.
	Report *simulator.Report
	// Decided is false if there is no selection, for example because the Placement is
	// misconfigured.
	Decided bool
	// NoChange counts verdicts for which there was no time to look for a change that would get the
	// cluster selected.
	NoChange int
	// LeftOut counts verdicts that a status has no space for.
	LeftOut int
	// Change is the effect of Template and Edits; nil without them. Undecided is why nothing is
	// selected with them. Unmatched counts the Edits that change no cluster of the bound sets.
	Change    *simulator.Compared
	Undecided string
	Unmatched int
	// Resilience is the answer to Domains; nil without it. DomainsLeft counts the domains for which
	// there was no time.
	Resilience  *resilience.Placement
	DomainsLeft int
	// Retry asks to call Explain again after this time. Throttled is true if the namespace has used
	// up its share of time.
	Retry     time.Duration
	Throttled bool
	// NotFound is true if there is no such Placement.
	NotFound bool
	// Failure is why there will be no answer. TimedOut is true if it took too long.
	Failure  error
	TimedOut bool
}

// Explain runs one cycle for a question, or two: a Placement after an edit is decided without the
// edit first. Call it again with the same Question while the Result says Retry. The end of another
// question with the same Key, such as one of the debugger, makes it begin again.
func (e *Explainer) Explain(ctx context.Context, q *Question) Result {
	s := e.stageOf(q)
	if s.placement == nil {
		return Result{NotFound: true}
	}
	if why := framework.WhyNotDecided(s.placement); why != "" {
		return e.leftAlone(ctx, q, s, why)
	}
	if wait := e.Scheduler.AttemptDelay(s.placement); wait > 0 {
		return Result{Retry: wait, Throttled: true}
	}
	if !e.Scheduler.Prepare(s.placement, e.Inventory.SelectionPolicies(q.Key())...) {
		return Result{Retry: limits.PrepareInterval}
	}
	e.Inventory.PrepareWindows(q.Key(), e.Now())
	e.Inventory.PrepareReadiness(q.Key())
	snapshot := s.snapshot(e.Now())
	if snapshot == nil {
		return Result{NotFound: true}
	}
	return e.decide(ctx, q, snapshot, func(a *scheduler.Attempt) Result {
		if q.asksForDecision() {
			return e.report(ctx, q, a)
		}
		return e.compare(ctx, q, s, a)
	})
}

// decide runs one cycle and calls then if it is finished.
func (e *Explainer) decide(ctx context.Context, q *Question, snapshot *framework.Snapshot, then func(*scheduler.Attempt) Result) Result {
	a := e.Scheduler.DecideInTime(ctx, snapshot)
	defer e.Scheduler.Release(a.Decision)
	_, _, timedOut := a.TimedOut()
	if snapshot.Trial && (timedOut || a.Failure.IsUnfinished()) {
		// It is not continued, so a repetition may take as long.
		q.trials++
		timedOut = timedOut || q.trials >= maxTimeouts
	}
	if a.Failure.IsUnfinished() && q.trials < maxTimeouts || timedOut && max(a.Timeouts, q.trials) < maxTimeouts {
		return Result{Retry: max(a.State.NextAttempt().Sub(snapshot.Now), limits.PrepareInterval)}
	}
	result := Result{Failure: a.Failure.Err(), TimedOut: true}
	if !timedOut {
		result = then(a)
	}
	if result.Retry == 0 {
		e.Scheduler.Forget(q.Key())
	}
	return result
}

func (e *Explainer) report(ctx context.Context, q *Question, a *scheduler.Attempt) Result {
	names := q.Clusters
	if len(names) == 0 {
		names = a.NearestToCut(q.Limit)
	}
	explained := e.Scheduler.ExplainSome(ctx, a.Decision, names)
	report, err := simulator.ReportOf(a, explained.Verdicts)
	if err != nil {
		return Result{Failure: err}
	}
	answer := Result{Report: report, Decided: a.Failure == nil, NoChange: explained.NoChange}
	if answer.Decided {
		report.Verdicts = withOthers(report.Verdicts, q.Clusters)
	}
	if q.Domains != nil {
		e.loseDomains(ctx, q, a.Decision, &answer)
	}
	return answer
}

// withOthers adds a verdict on each name that is not a candidate. It looks at the names only, so
// that a name of another namespace's cluster cannot be told from one that does not exist.
func withOthers(verdicts []framework.ClusterVerdict, asked []string) []framework.ClusterVerdict {
	known := make(map[string]bool, len(verdicts))
	for _, v := range verdicts {
		known[v.Cluster] = true
	}
	for _, name := range asked {
		if !known[name] {
			known[name] = true
			verdicts = append(verdicts, framework.ClusterVerdict{Cluster: name, Reason: berthv1alpha1.NotACandidate})
		}
	}
	slices.SortFunc(verdicts, func(a, b framework.ClusterVerdict) int { return strings.Compare(a.Cluster, b.Cluster) })
	return verdicts
}
