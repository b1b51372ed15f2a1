package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Scheduler decides. Cycles are serial; publishing is not.
type Scheduler struct {
	// Timer, where it is set before the first attempt, hears of each extension point that an attempt reaches, when it begins and, by
	// what it returns, when it ends: once, however many plugins and clusters there are.
	Timer func(profile, point string) (end func())
	// CycleTimeout is how long an attempt may hold the cycle lock, from when it takes it. 0 is no
	// limit, also for Schedule and Foresee.
	CycleTimeout time.Duration
	// Clock measures how long attempts take; it is not the clock of decisions. New sets the real
	// one.
	Clock clock.WithDelayedExecution
	// LockHeld, where it is set before the first attempt, is told how long each attempt held the
	// cycle lock, and its outcome.
	LockHeld func(profile, outcome string, held time.Duration)

	profiles  map[string]*Profile
	waiting   *Waiting
	published lastPublished
	// subjects are the Placements that were decided, by key: another UID of the same key is another
	// Placement.
	subjects map[types.NamespacedName]types.UID
	rooms    rooms
	shares   shares
	cycle    sync.Mutex
	prepare  sync.Mutex
}

// New is a scheduler with profiles by name. A Placement chooses one by annotation, v1alpha1.DefaultProfile otherwise. Who never
// publishes needs no Waiting.
func New(profiles map[string]*Profile, waiting *Waiting) *Scheduler {
	return &Scheduler{
		Clock: clock.RealClock{}, profiles: profiles, waiting: waiting, published: lastPublished{all: map[types.NamespacedName]decision{}},
		subjects: map[types.NamespacedName]types.UID{},
	}
}

// Schedule runs one cycle on a snapshot. It always returns a Result; one whose Failure is set says why nothing was decided,
// and then the published decision stays.
func (s *Scheduler) Schedule(ctx context.Context, snapshot *framework.Snapshot) *Result {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	return s.schedule(ctx, snapshot, nil)
}

// schedule is one cycle; bonus is added to the totals of some clusters, by index, to find out what it would change.
func (s *Scheduler) schedule(ctx context.Context, snapshot *framework.Snapshot, bonus map[int]int64) *Result {
	return s.run(ctx, &Result{Snapshot: snapshot}, bonus)
}

// run is schedule for a Result that has its Snapshot.
func (s *Scheduler) run(ctx context.Context, r *Result, bonus map[int]int64) *Result {
	snapshot, pl := r.Snapshot, r.Snapshot.Subject.Placement
	r.State, r.candidates, r.room, r.deadline = framework.NewCycleState(snapshot), snapshot.Candidates(), s.rooms.take(), deadlineOf(ctx)
	if r.profile, r.Failure = s.profileOf(pl); r.Failure != nil {
		return r
	}
	if r.deadline != nil {
		r.State.YieldWhen(r.deadline.halfOver)
	}
	if r.Failure = r.timeout("Snapshot", ""); r.Failure != nil {
		return r
	}

	// 0. The queue, where there are any.
	if r.Failure = r.enqueue(); r.Failure != nil {
		return r
	}
	if r.Failure = checkBounds(pl); r.Failure != nil {
		return r
	}
	// 1. PreFilter, always, so that a mistake is said even when there is nothing to choose from.
	admitted, skipped, failure := s.preFilter(ctx, r)
	if r.Failure = failure; failure != nil {
		if failure.Code() == framework.Pending && r.State.Requeue().IsZero() {
			r.State.RequeueAt(snapshot.Now.Add(awaitInterval))
		}
		return r
	}
	// 2. Which prioritizers count, and how much.
	scorers, spread, failure := r.profile.policy(pl)
	if r.Failure = failure; failure != nil {
		return r
	}
	// 3. What a stricter schema would have refused.
	if r.Failure = validate(pl); r.Failure != nil {
		return r
	}
	// 4. Filter the clusters of the eligible sets.
	if r.Failure = s.filter(ctx, r, admitted, skipped); r.Failure != nil {
		return r
	}
	// 5. PostFilter looks on when fewer fit than are wanted; it cannot change the answer.
	if r.Failure = s.postFilter(ctx, r); r.Failure != nil {
		return r
	}
	// 6. PreScore, Score, NormalizeScore.
	if r.Failure = s.score(ctx, r, scorers); r.Failure != nil {
		return r
	}
	r.add(bonus)
	// 7. Select.
	r.choose(spread)
	if r.Failure = r.timeout("Select", ""); r.Failure != nil {
		r.Selected = nil
	}
	// 8. When the answer has to be looked at again.
	r.requeueAtExpiry()
	return r
}

// requeueAtExpiry asks for an attempt when the verdict on a selected cluster ends.
func (r *Result) requeueAtExpiry() {
	for _, chosen := range r.Selected {
		if t := r.State.Expiry(chosen.Cluster.Index); !t.IsZero() {
			r.State.RequeueAt(t)
		}
		if t := r.State.RankExpiry(chosen.Cluster.Index); !t.IsZero() {
			r.State.WakeAt(t)
		}
	}
}

// begin tells the Timer that an extension point begins. The function is to be called when it ends.
func (s *Scheduler) begin(r *Result, point string) (end func()) {
	if s.Timer == nil {
		return func() {}
	}
	return s.Timer(r.profile.Name, point)
}

// add raises the totals of some clusters, by index.
func (r *Result) add(bonus map[int]int64) {
	if len(bonus) == 0 {
		return
	}
	for i, c := range r.Feasible {
		r.Totals[i] += bonus[c.Index]
	}
}

// enqueue: whoever no queue takes gets no cluster; whoever is not placed yet waits.
func (r *Result) enqueue() *framework.Status {
	queue := r.Snapshot.Queue
	if queue == nil || queue.Admitted {
		return nil
	}
	r.candidates = nil
	if !queue.RetryAt.IsZero() {
		r.State.RequeueAt(queue.RetryAt)
	}
	if queue.Rejected {
		return nil
	}
	return framework.NewStatus(framework.Unschedulable, queue.Message).WithPlugin("QueueAdmission")
}

// validate refuses what no answer could be published for.
func validate(pl *v1alpha1.Placement) *framework.Status {
	if len(pl.Name) > v1alpha1.MaxLabelValueLength {
		return misconfigured(fmt.Sprintf("metadata.name: %q is longer than %d characters, so that no decision could carry it as a label",
			pl.Name, v1alpha1.MaxLabelValueLength))
	}
	if n := pl.Spec.NumberOfClusters; n != nil && *n < 0 {
		return misconfigured(fmt.Sprintf("spec.numberOfClusters: %d is negative", *n))
	}
	return nil
}

// preFilter returns what the plugins admit (nil: all) and which Filter plugins need not run.
func (s *Scheduler) preFilter(ctx context.Context, r *Result) (admitted []admission, skipped map[string]bool, failure *framework.Status) {
	defer s.begin(r, "PreFilter")()
	skipped = map[string]bool{}
	for _, p := range r.profile.PreFilter {
		result, status := p.PreFilter(ctx, r.State, r.Snapshot.Subject.Placement)
		// What is Unfinished decides nothing, however late it comes, and is continued.
		if late := r.timeout("PreFilter", p.Name()); late != nil && !status.IsUnfinished() {
			return nil, nil, late
		}
		status = status.WithPlugin(p.Name())
		switch status.Code() {
		case framework.Success:
		case framework.Skip:
			skipped[p.Name()] = true
		case framework.Unschedulable:
			if failure == nil {
				failure = status
			}
		case framework.UnschedulableAndUnresolvable, framework.Error, framework.Pending:
			return nil, nil, status
		default:
			return nil, nil, unexpected(p, "PreFilter", status)
		}
		if result != nil {
			admitted = append(admitted, admission{plugin: p.Name(), clusters: result.Clusters})
			if result.Decides {
				skipped[p.Name()] = true
			}
		}
	}
	return admitted, skipped, failure
}

// admission is what one PreFilter plugin lets through.
type admission struct {
	plugin   string
	clusters framework.Bitset
}

func (s *Scheduler) filter(ctx context.Context, r *Result, admitted []admission, skipped map[string]bool) *framework.Status {
	defer s.begin(r, "Filter")()
	left := r.candidates
	for i, a := range admitted {
		if i == 0 {
			left = left.Clone()
		}
		r.narrowed = append(r.narrowed, narrowing{plugin: a.plugin, before: left.Clone()})
		left.And(a.clusters)
	}
	var active []framework.FilterPlugin
	for _, p := range r.profile.Filter {
		if !skipped[p.Name()] {
			active = append(active, p)
		}
	}
	return r.judge(ctx, left, active)
}

func (s *Scheduler) postFilter(ctx context.Context, r *Result) *framework.Status {
	pl := r.Snapshot.Subject.Placement
	wanted := pl.Spec.NumberOfClusters
	if wanted == nil || len(r.Feasible) >= int(*wanted) {
		return nil
	}
	defer s.begin(r, "PostFilter")()
	filtered := framework.Filtered{Feasible: r.Feasible, Excluded: r.ExcludedBy()}
	for _, p := range r.profile.PostFilter {
		intents, status := p.PostFilter(ctx, r.State, pl, filtered)
		if late := r.timeout("PostFilter", p.Name()); late != nil {
			return late
		}
		for _, intent := range intents {
			intent.Plugin = p.Name()
			r.Intents = append(r.Intents, intent)
		}
		switch status.Code() {
		case framework.Unschedulable:
		case framework.Success, framework.UnschedulableAndUnresolvable:
			return nil
		default:
			return unexpected(p, "PostFilter", status)
		}
	}
	return nil
}

// unexpected turns a code that a point does not know into an Error, and lets an Error be what it is.
func unexpected(p framework.Plugin, point string, status *framework.Status) *framework.Status {
	if status.Code() == framework.Error {
		return status.WithPlugin(p.Name())
	}
	return framework.AsStatus(fmt.Errorf("%s answered %s: %s", point, status.Code(), status.Reason())).WithPlugin(p.Name())
}

// Forget drops what the engine and plugins remember of a Placement that is gone.
func (s *Scheduler) Forget(key types.NamespacedName) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	s.forget(key)
}

// recognize forgets the Placement that had the subject's name before, if it is another one: it may
// have been deleted and created again without an attempt in between.
func (s *Scheduler) recognize(subject *framework.Subject) {
	key := subject.Key()
	if before, known := s.subjects[key]; known && before != subject.Placement.UID {
		s.forget(key)
	}
	s.subjects[key] = subject.Placement.UID
}

func (s *Scheduler) forget(key types.NamespacedName) {
	delete(s.subjects, key)
	s.waiting.forget(key)
	s.published.forget(key)
	s.shares.forget(key)
	for _, profile := range s.profiles {
		for _, f := range profile.forgetters() {
			f.Forget(key)
		}
	}
}

// forgetters are the plugins that remember something of each Placement; one may be listed twice.
func (p *Profile) forgetters() []framework.Forgetter {
	var all []framework.Forgetter
	add := func(plugin framework.Plugin) {
		if f, ok := plugin.(framework.Forgetter); ok {
			all = append(all, f)
		}
	}
	for _, plugin := range p.PreFilter {
		add(plugin)
	}
	for _, plugin := range p.Reserve {
		add(plugin)
	}
	for _, plugin := range p.Permit {
		add(plugin)
	}
	for _, plugin := range p.Bind {
		add(plugin)
	}
	return all
}

// profileOf is the profile that a Placement chooses. With one that does not exist comes the default one, so that there are plugins
// which can publish that the Placement was seen.
func (s *Scheduler) profileOf(pl *v1alpha1.Placement) (*Profile, *framework.Status) {
	name, chosen := pl.Annotations[v1alpha1.ProfileAnnotation]
	if !chosen {
		name = v1alpha1.DefaultProfile
	}
	if profile := s.profiles[name]; profile != nil {
		return profile, nil
	}
	fallback := s.profiles[v1alpha1.DefaultProfile]
	if fallback == nil {
		fallback = &Profile{}
	}
	return fallback, misconfigured(fmt.Sprintf("metadata.annotations[%s]: there is no profile %q; there are %s",
		v1alpha1.ProfileAnnotation, name, strings.Join(slices.Sorted(maps.Keys(s.profiles)), ", ")))
}
