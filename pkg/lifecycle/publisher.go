package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// DecisionPublisherName is the plugin's name.
const DecisionPublisherName = "DecisionPublisher"

// DecisionPublisher publishes the decision as PlacementDecisions. Additions come before removals,
// and clusters keep their page.
//
// It is the default Bind plugin and the only in-tree writer of PlacementDecisions. It executes the
// plan of pkg/decisions. Its PreFilter rejects invalid decision strategies.
//
// A failed write may have succeeded if only its response was lost, or may succeed later. A plan
// that assumes otherwise could remove a cluster from its only page. So Verify reads the page before
// the next plan, and changes its version if an unanswered write with the old one may follow.
type DecisionPublisher struct {
	handle *framework.Handle
	*unverifiedPages
	// profiles writes the pages of ClusterProfiles; nil if they are disabled.
	profiles *profilePages
}

// unverifiedPages is shared by the instances in all profiles, because a Placement may change its
// profile after a failed write.
type unverifiedPages struct {
	mu sync.Mutex
	// failed are the last writes of pages that were not read since, by Placement and page.
	failed map[types.NamespacedName]map[string]failedWrite
	// begun are the names of pages whose creation failed: they may exist without their label, which
	// a later update adds. That update counts as the creation.
	begun map[types.NamespacedName]sets.Set[string]
	// profiles are the Placements with a page of ClusterProfiles whose last write was not answered.
	profiles sync.Map
}

type failedWrite struct {
	decisions.Write
	err error
}

// NewDecisionPublisher is the plugin's factory.
func NewDecisionPublisher(_ context.Context, raw json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, DecisionPublisherArgs{ClusterProfiles: ClusterProfileOutput{Names: plainNames, SchedulerName: defaultSchedulerName}})
	if err == nil {
		err = args.ClusterProfiles.validate()
	}
	p := &DecisionPublisher{handle: handle, unverifiedPages: framework.Shared(handle, DecisionPublisherName, func() *unverifiedPages {
		return &unverifiedPages{failed: map[types.NamespacedName]map[string]failedWrite{}, begun: map[types.NamespacedName]sets.Set[string]{}}
	})}
	if o := args.ClusterProfiles; o.Enabled && handle != nil && handle.Client != nil {
		p.profiles = &profilePages{decisions.Profiles{Namespace: o.Namespace, Qualified: o.Names == qualifiedNames, SchedulerName: o.SchedulerName}, handle.Client, &p.unverifiedPages.profiles}
	}
	return p, err
}

// Name implements framework.Plugin.
func (*DecisionPublisher) Name() string { return DecisionPublisherName }

// Reads implements framework.ClusterReader: the spec names what groups select by.
func (*DecisionPublisher) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

// PreFilter rejects a strategy with an invalid selector or group length.
func (*DecisionPublisher) PreFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if _, err := decisions.Compile(pl.Spec.DecisionStrategy); err != nil {
		return nil, framework.Misconfigured(err)
	}
	return nil, nil
}

// Validate implements framework.Validator.
func (*DecisionPublisher) Validate(_ context.Context, pl *v1alpha1.Placement) field.ErrorList {
	if _, err := decisions.Compile(pl.Spec.DecisionStrategy); err != nil {
		return field.ErrorList{err}
	}
	return nil
}

// Recheck implements framework.Rechecker: a valid strategy stays valid. Each attempt repairs the
// pages of ClusterProfiles, which are not watched.
func (p *DecisionPublisher) Recheck(*framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	return nil, p.profiles == nil
}

// Bind executes the writes in the plan's order. After a failure the successful writes stay, and the
// next attempt continues after reading the page whose write failed. Pages of ClusterProfiles are
// written last; their failure fails the attempt.
func (p *DecisionPublisher) Bind(ctx context.Context, state *framework.CycleState, pl *v1alpha1.Placement, proposal *framework.Proposal) *framework.Status {
	if p.handle == nil || p.handle.Pages == nil {
		return framework.AsStatus(errors.New("a simulation cannot publish"))
	}
	plan, err := Plan(state, proposal)
	if err != nil {
		return framework.AsStatus(err)
	}
	proposal.Result = OutcomeOf(plan)
	current := map[string]*v1alpha1.PlacementDecision{}
	for _, w := range plan.Writes {
		if err := ctx.Err(); err != nil {
			return framework.AsStatus(fmt.Errorf("stopping before the %s of PlacementDecision %s/%s: %w", w.Op, pl.Namespace, w.Page.Name, err))
		}
		if known, ok := current[w.Page.Name]; ok {
			w.Page.Current = known
		}
		done, err := p.writePage(ctx, pl, w)
		if err != nil {
			proposal.Result.Unverified = p.isUnverified(pl)
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

// finishTime is the time in which a started page write may finish after the process is asked to
// stop.
const finishTime = 5 * time.Second

// withFinishTime returns a context that ends finishTime after its parent, so that a page is
// completed even if it takes several requests.
func withFinishTime(ctx context.Context) (context.Context, context.CancelFunc) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })
	return writing, func() {
		stop()
		cancel()
	}
}

// writePage executes one write and passes the page to the inventory before and after it.
func (p *DecisionPublisher) writePage(ctx context.Context, pl *v1alpha1.Placement, w decisions.Write) (framework.PageWrite, error) {
	ctx, cancel := withFinishTime(ctx)
	defer cancel()
	done := PageWriteOf(pl, w)
	if w.Op == decisions.Update && p.isBegun(pl, w.Page.Name) {
		done.Created, done.DecisionsChanged = true, true
	}
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
		p.markUnverified(pl, failedWrite{w, err})
		found, readErr := p.Verify(ctx, pl)
		page := found[w.Page.Name]
		if readErr != nil || !writeSucceeded(pl, w, page) {
			p.setBegun(pl, w.Page.Name, done.Created)
			return done, errors.Join(err, readErr)
		}
		// Only the response was lost: the write counts and gets its event.
		if !done.Deleted {
			done.Page = page
		}
	}
	p.setBegun(pl, w.Page.Name, false)
	p.assume(done.Page, done.Deleted)
	return done, nil
}

func (u *unverifiedPages) isBegun(pl *v1alpha1.Placement, name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.begun[types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}].Has(name)
}

func (u *unverifiedPages) setBegun(pl *v1alpha1.Placement, name string, begun bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	switch {
	case !begun:
		if delete(u.begun[key], name); len(u.begun[key]) == 0 {
			delete(u.begun, key)
		}
	case u.begun[key] == nil:
		u.begun[key] = sets.New(name)
	default:
		u.begun[key].Insert(name)
	}
}

func (p *DecisionPublisher) assume(page *v1alpha1.PlacementDecision, deleted bool) {
	if p.handle.Assume != nil {
		p.handle.Assume(page, deleted)
	}
}

// isUnverified reports whether a page could not be read after its last write failed.
func (u *unverifiedPages) isUnverified(pl *v1alpha1.Placement) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.failed[types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}]) > 0
}

// markUnverified records that the state of a page on the API server is unknown.
func (u *unverifiedPages) markUnverified(pl *v1alpha1.Placement, w failedWrite) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	if u.failed[key] == nil {
		u.failed[key] = map[string]failedWrite{}
	}
	u.failed[key][w.Page.Name] = w
}

// Describe implements framework.Describer.
func (p *DecisionPublisher) Describe() framework.Traits { return framework.Traits{Verify: p.Verify} }

// Verify reads the unverified pages, passes them to the inventory and returns them by name; nil for
// a page that does not exist.
func (p *DecisionPublisher) Verify(ctx context.Context, pl *v1alpha1.Placement) (map[string]*v1alpha1.PlacementDecision, error) {
	key := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	p.mu.Lock()
	failed := p.failed[key]
	p.mu.Unlock()
	found := make(map[string]*v1alpha1.PlacementDecision, len(failed))
	for name, w := range failed {
		page, err := p.handle.Pages.Read(ctx, pl.Namespace, name)
		switch {
		case apierrors.IsNotFound(err):
			found[name] = nil
			if page = w.Page.Current; page == nil { // Its creation failed.
				page = &v1alpha1.PlacementDecision{}
				page.Namespace, page.Name, page.Labels = pl.Namespace, name, map[string]string{v1alpha1.PlacementLabel: pl.Name}
			}
			p.assume(page, true)
			continue
		case err != nil:
			return nil, fmt.Errorf("reading PlacementDecision %s/%s, whose last write failed: %w", pl.Namespace, name, err)
		}
		p.assume(page, false)
		if found[name], err = p.fence(ctx, pl, w, page); err != nil {
			return nil, fmt.Errorf("changing the version of PlacementDecision %s/%s, whose last write was not answered: %w", pl.Namespace, name, err)
		}
	}
	p.mu.Lock()
	delete(p.failed, key)
	p.mu.Unlock()
	return found, nil
}

// fence gives a page of the Placement another version if the failed write may still be carried out.
// A refusal is no failure: the page has changed since, or Berth may not write it.
func (p *DecisionPublisher) fence(ctx context.Context, pl *v1alpha1.Placement, w failedWrite, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	relation := pl.RelationOf(page)
	if !isUnanswered(w.err) || writeSucceeded(pl, w.Write, page) || relation != v1alpha1.PageOwn && relation != v1alpha1.PageUnfinished {
		return page, nil
	}
	fenced, err := p.handle.Pages.Fence(ctx, page)
	if isUnanswered(err) {
		return nil, err
	}
	switch {
	case err == nil:
		page = fenced
		p.assume(page, false)
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		log.FromContext(ctx).Error(err, "a write that was not answered may follow", "page", page.Name)
	}
	return page, nil
}

// isUnanswered reports whether the API server may carry out the failed request later. It does not
// if it refused the request, or failed to ask a webhook about it.
func isUnanswered(err error) bool {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return false
	case !errors.As(err, &status):
		return true
	}
	code := status.Status().Code
	return code == http.StatusRequestTimeout || code >= http.StatusInternalServerError && status.Status().Reason != metav1.StatusReasonInternalError
}

// writeSucceeded reports whether the page is in the state after the write. A page that is being
// deleted counts as deleted.
func writeSucceeded(pl *v1alpha1.Placement, w decisions.Write, found *v1alpha1.PlacementDecision) bool {
	gone := found == nil || found.DeletionTimestamp != nil
	if w.Op == decisions.Delete || gone {
		return w.Op == decisions.Delete && gone
	}
	wanted := w.Page.Object(pl)
	// An update may change only the revision. On CRDs with a status subresource pages have none.
	if at := found.Annotations[berthv1alpha1.RevisionAnnotation]; w.Op == decisions.Update && at != "" && at != wanted.Annotations[berthv1alpha1.RevisionAnnotation] {
		return false
	}
	return equality.Semantic.DeepEqual(found.Labels, wanted.Labels) &&
		found.Annotations[v1alpha1.QueueAnnotation] == wanted.Annotations[v1alpha1.QueueAnnotation] &&
		equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) &&
		equality.Semantic.DeepEqual(found.Status, wanted.Status)
}

// Forget implements framework.Forgetter.
func (p *DecisionPublisher) Forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, key)
	delete(p.begun, key)
	p.unverifiedPages.profiles.Delete(key)
}

// PageWriteOf returns the result of a planned write if it succeeds.
func PageWriteOf(pl *v1alpha1.Placement, w decisions.Write) framework.PageWrite {
	done := framework.PageWrite{
		Created:          w.Op == decisions.Create,
		Deleted:          w.Op == decisions.Delete,
		DecisionsChanged: w.DecisionsChanged,
	}
	if done.Page = w.Page.Current; !done.Deleted || done.Page == nil {
		done.Page = w.Page.Object(pl)
	}
	return done
}

// Plan returns the plan from the published pages in the Snapshot to the Proposal. Publisher and
// simulator use it.
func Plan(state *framework.CycleState, proposal *framework.Proposal) (decisions.Plan, error) {
	snapshot := state.Snapshot()
	subject := snapshot.Subject
	choices := make([]decisions.Choice, len(proposal.Selected))
	for i, s := range proposal.Selected {
		choices[i] = decisions.Choice{
			Name: s.Cluster.Name, Labels: s.Cluster.Labels, Claims: s.Cluster.Claims, Score: s.Score, Leaves: changes.Contains(proposal.Leaves, s.Cluster.Name),
		}
	}
	byScore := subject.Placement.Spec.SortBy == v1alpha1.SortByScore
	var answer decisions.Grouping
	switch strategy, err := decisions.Compile(subject.Placement.Spec.DecisionStrategy); {
	case err == nil:
		answer = strategy.Group(choices, byScore)
	case len(choices) == 0 || proposal.Kind.Forced() || proposal.Kind == framework.Republication:
		answer = decisions.AsPublished(subject.Placement, subject.Pages, choices, byScore)
	default:
		return decisions.Plan{}, fmt.Errorf("compiling %w", err)
	}
	due := decisions.ScoresDue(subject.Placement, proposal.LastScores, snapshot.Now)
	if q := snapshot.Queue; q != nil {
		answer.Queue = q.Annotation
	}
	if last := subject.Last; last != nil {
		answer.Edited, answer.Queue = last.IsEdited, cmp.Or(answer.Queue, last.Queue)
	}
	answer.Compact = subject.Edited()
	answer.DeferScores = snapshot.Now.Before(due) && proposal.Kind != framework.Republication
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

// OutcomeOf returns the outcome of a plan if all its writes succeed.
func OutcomeOf(plan decisions.Plan) framework.BindResult {
	return framework.BindResult{Groups: plan.GroupStatus(), Changed: plan.Changed, ScoresWritten: plan.ScoresWritten, Foreign: plan.Foreign}
}
