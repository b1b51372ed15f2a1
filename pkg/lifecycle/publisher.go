package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// DecisionPublisherName is the plugin's name.
const DecisionPublisherName = "DecisionPublisher"

// DecisionPublisher is the default Bind plugin and the only in-tree writer of PlacementDecisions:
// it executes the plan that pkg/decisions computed. As PreFilter it refuses a decision strategy
// that could not be published.
//
// A write that failed may have happened all the same: its answer was lost. A plan made from a
// picture in which it did not would let a page drop a cluster because of another page that no
// longer has it. So the page is read before anything else is planned.
type DecisionPublisher struct {
	handle *framework.Handle
	*doubts
	// profiles writes the answer once more; nil when it is not asked for.
	profiles *profilePages
}

// doubts are shared by the instances in all profiles: a Placement may change profile after a failed
// write.
type doubts struct {
	mu sync.Mutex
	// doubtful are pages whose last write failed and that could not be read since, by Placement.
	doubtful map[types.NamespacedName]map[string]*v1alpha1.PlacementDecision
}

// NewDecisionPublisher is the plugin's factory.
func NewDecisionPublisher(_ context.Context, raw json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, DecisionPublisherArgs{ClusterProfiles: ClusterProfileOutput{SchedulerName: defaultSchedulerName}})
	if err == nil {
		err = args.ClusterProfiles.validate()
	}
	p := &DecisionPublisher{handle: handle, doubts: framework.Shared(handle, DecisionPublisherName, func() *doubts {
		return &doubts{doubtful: map[types.NamespacedName]map[string]*v1alpha1.PlacementDecision{}}
	})}
	if o := args.ClusterProfiles; o.Enabled && handle != nil && handle.Client != nil {
		p.profiles = &profilePages{decisions.Profiles{Namespace: o.Namespace, SchedulerName: o.SchedulerName}, handle.Client}
	}
	return p, err
}

// Name implements framework.Plugin.
func (*DecisionPublisher) Name() string { return DecisionPublisherName }

// Reads implements framework.ClusterReader: the spec names what groups select by.
func (*DecisionPublisher) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// PreFilter refuses a strategy with an invalid selector or group length.
func (*DecisionPublisher) PreFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if _, err := decisions.Compile(pl.Spec.DecisionStrategy); err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "spec."+err.Error())
	}
	return nil, nil
}

// Bind writes the pages, one after the other in the plan's order. After a failure the writes done
// so far stand; the next attempt goes on from there, once it is known what became of the page whose
// write failed. Pages of ClusterProfiles, where they are asked for, follow: what goes wrong with
// them fails the attempt, and takes nothing from the pages before.
func (p *DecisionPublisher) Bind(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement, proposal *framework.Proposal) *framework.Status {
	if p.handle == nil || p.handle.Pages == nil {
		return framework.AsStatus(errors.New("there is no hub to publish on"))
	}
	if found, err := p.settle(ctx, pl); err != nil {
		return framework.AsStatus(err)
	} else if len(found) > 0 {
		return framework.AsStatus(errors.New("pages were in doubt after a failed write and have been read again: deciding anew"))
	}
	plan, err := Plan(state, proposal)
	if err != nil {
		return framework.AsStatus(err)
	}
	proposal.Outcome = OutcomeOf(plan)
	current := map[string]*v1alpha1.PlacementDecision{}
	for _, w := range plan.Writes {
		if err := ctx.Err(); err != nil {
			return framework.AsStatus(fmt.Errorf("ending before the %s of PlacementDecision %s/%s: %w", w.Op, pl.Namespace, w.Page.Name, err))
		}
		if known, ok := current[w.Page.Name]; ok {
			w.Page.Current = known
		}
		done, err := p.step(ctx, pl, w)
		if err != nil {
			return framework.AsStatus(fmt.Errorf("%s of PlacementDecision %s/%s: %w", w.Op, pl.Namespace, w.Page.Name, err))
		}
		current[w.Page.Name] = done.Page
		proposal.Writes = append(proposal.Writes, done)
	}
	if p.profiles == nil {
		return nil
	}
	return framework.AsStatus(p.profiles.publish(ctx, pl, plan))
}

// finishTime is how long a page on its way may still take when the process is asked to end.
const finishTime = 5 * time.Second

// finishing returns a context that ends finishTime after its parent. A page whose write has begun
// is completed, even if it takes several requests, and is reported.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })
	return writing, func() {
		stop()
		cancel()
	}
}

// step does one write and tells the inventory, before and after.
func (p *DecisionPublisher) step(ctx context.Context, pl *v1alpha1.Placement, w decisions.Write) (framework.PageWrite, error) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	done := Written(pl, w)
	if p.handle.Announce != nil {
		defer p.handle.Announce(done.Page, done.Deleted)()
	}
	var err error
	switch w.Op {
	case decisions.Create:
		done.Page, err = p.handle.Pages.Create(ctx, done.Page)
	case decisions.Update:
		done.Page, err = p.handle.Pages.Update(ctx, done.Page)
	default:
		err = p.handle.Pages.Delete(ctx, done.Page)
	}
	if err != nil {
		p.doubt(pl, w.Page)
		found, readErr := p.settle(ctx, pl)
		page := found[w.Page.Name]
		if readErr != nil || !happened(pl, w, page) {
			return done, errors.Join(err, readErr)
		}
		// Only the response was lost: the write counts and gets its event.
		if !done.Deleted {
			done.Page = page
		}
	}
	p.assume(done.Page, done.Deleted)
	return done, nil
}

func (p *DecisionPublisher) assume(page *v1alpha1.PlacementDecision, deleted bool) {
	if p.handle.Assume != nil {
		p.handle.Assume(page, deleted)
	}
}

// doubt records that the content of a page on the API server is unknown.
func (p *DecisionPublisher) doubt(pl *v1alpha1.Placement, page decisions.Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	if p.doubtful[key] == nil {
		p.doubtful[key] = map[string]*v1alpha1.PlacementDecision{}
	}
	p.doubtful[key][page.Name] = page.Current
}

// settle reads the pages in doubt, tells the inventory what they are like, and returns them by
// name; nil is a page that is gone.
func (p *DecisionPublisher) settle(ctx context.Context, pl *v1alpha1.Placement) (map[string]*v1alpha1.PlacementDecision, error) {
	key := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	p.mu.Lock()
	pages := p.doubtful[key]
	p.mu.Unlock()
	found := make(map[string]*v1alpha1.PlacementDecision, len(pages))
	for name, last := range pages {
		page, err := p.handle.Pages.Read(ctx, pl.Namespace, name)
		gone := apierrors.IsNotFound(err)
		if err != nil && !gone {
			return nil, fmt.Errorf("reading PlacementDecision %s/%s, whose last write failed: %w", pl.Namespace, name, err)
		}
		found[name] = page
		if gone {
			found[name], page = nil, last
		}
		if page != nil {
			p.assume(page, gone)
		}
	}
	p.mu.Lock()
	delete(p.doubtful, key)
	p.mu.Unlock()
	return found, nil
}

// happened says whether the page as it was found is what the write was to make of it. A page that
// is being deleted counts as gone, whatever it lists.
func happened(pl *v1alpha1.Placement, w decisions.Write, found *v1alpha1.PlacementDecision) bool {
	gone := found == nil || found.DeletionTimestamp != nil
	if w.Op == decisions.Delete || gone {
		return w.Op == decisions.Delete && gone
	}
	wanted := w.Page.Object(pl)
	return equality.Semantic.DeepEqual(found.Labels, wanted.Labels) &&
		found.Annotations[v1alpha1.QueueAnnotation] == wanted.Annotations[v1alpha1.QueueAnnotation] &&
		equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(found.Status, wanted.Status)
}

// Forget implements framework.Forgetter.
func (p *DecisionPublisher) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.doubtful, key)
}

// Written is what a planned write comes to when it succeeds.
func Written(pl *v1alpha1.Placement, w decisions.Write) framework.PageWrite {
	done := framework.PageWrite{
		Created:          w.Op == decisions.Create,
		Deleted:          w.Op == decisions.Delete,
		DecisionsChanged: w.DecisionsChanged,
	}
	if done.Deleted {
		done.Page = w.Page.Current
	} else {
		done.Page = w.Page.Object(pl)
	}
	return done
}

// Plan is the plan from what the snapshot has published to what the Proposal selects. Publisher and
// simulator share it.
func Plan(state *framework.CycleState, proposal *framework.Proposal) (decisions.Plan, error) {
	snapshot := state.Snapshot()
	subject := snapshot.Subject
	choices := make([]decisions.Choice, len(proposal.Selected))
	for i, s := range proposal.Selected {
		choices[i] = decisions.Choice{Name: s.Cluster.Name, Labels: s.Cluster.Labels, Claims: s.Cluster.Claims, Score: s.Score}
	}
	byScore := subject.Placement.Spec.SortBy == v1alpha1.SortByScore
	var answer decisions.Grouping
	switch strategy, err := decisions.Compile(subject.Placement.Spec.DecisionStrategy); {
	case err == nil:
		answer = strategy.Group(choices, byScore)
	case len(choices) == 0 || proposal.Revoked || proposal.Restores:
		answer = decisions.AsPublished(subject.Placement, subject.Pages, choices, byScore)
	default:
		return decisions.Plan{}, fmt.Errorf("compiling spec.%w", err)
	}
	due := decisions.ScoresDue(subject.Placement, proposal.LastScores, snapshot.Now)
	if q := snapshot.Queue; q != nil {
		answer.Queue = q.Record
	}
	answer.DeferScores = snapshot.Now.Before(due) && !proposal.Restores
	answer.Revision = proposal.Revision
	taken := func(name string) bool {
		_, found := slices.BinarySearch(subject.Taken, name)
		return found
	}
	plan := decisions.NewPlan(subject.Placement, subject.Pages, taken, answer)
	if plan.ScoresDeferred {
		state.RequeueAt(due)
	}
	return plan, nil
}

// OutcomeOf is what a plan comes to when all its writes succeed.
func OutcomeOf(plan decisions.Plan) framework.Outcome {
	return framework.Outcome{Groups: plan.GroupStatus(), Changed: plan.Changed, ScoresWritten: plan.ScoresWritten, Foreign: plan.Foreign}
}
