package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// maxAsked is how many PlacementExplanations of one viewer exist at a time.
	maxAsked = 4
	// answerAge is how long an answer of the controller is shown; verdictAge is that for a single
	// cluster, and for the first error. Each further error is shown for twice as long.
	answerAge  = 5 * time.Minute
	verdictAge = 10 * time.Second
	// maxVerdictsKept bounds the answers for single clusters, maxWaiting the questions that wait.
	maxVerdictsKept = 500
	maxWaiting      = 200
)

var (
	// errAsking is shown until the controller has answered.
	errAsking = errors.New("the controller is being asked")
	// errTooMany is shown if too many questions wait. The page asks again.
	errTooMany = errors.New("the controller is being asked about too many other Placements")
)

// remote is the decider of a viewer who may not list what decisions depend on. It asks the
// controller by PlacementExplanations, which the viewer may create.
type remote struct {
	hub client.Client
	// scope is what the viewer may list.
	scope scope
	// answered is called after each answer, with the clusters that it and the one before name.
	answered func(r *remote, key types.NamespacedName, clusters []string)
	ctx      context.Context
	slots    chan struct{}

	mu      sync.Mutex
	known   map[question]*asked
	running int
}

// asked is one question and the last answer.
type asked struct {
	answer
	// at is the time of the answer; zero for none, and for one that may be out of date.
	at time.Time
	// running is closed at the next answer; nil if the controller is not being asked.
	running chan struct{}
	// outdated counts the calls of outdate, errors the answers without a report since the last one
	// with it. told is true if the page knows that the answer has its age.
	outdated, errors int
	told             bool
}

type answer struct {
	report *simulator.Report
	err    error
}

// age is how long an answer is shown until the controller is asked again.
func (a *asked) age(q question) time.Duration {
	switch {
	case a.err != nil:
		return min(verdictAge<<min(max(a.errors-1, 0), 10), answerAge)
	case q.cluster != "":
		return verdictAge
	}
	return answerAge
}

func newRemote(ctx context.Context, s scope, hub client.Client, answered func(*remote, types.NamespacedName, []string)) *remote {
	r := &remote{ctx: ctx, scope: s, hub: hub, answered: answered, slots: make(chan struct{}, maxAsked), known: map[question]*asked{}}
	go r.expire()
	return r
}

// expire has columns read again whose answers have their age. They are asked for if they are shown.
func (r *remote) expire() {
	tick := time.NewTicker(verdictAge)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		var old []types.NamespacedName
		r.mu.Lock()
		for q, a := range r.known {
			if q.cluster == "" && a.running == nil && !a.told && time.Since(a.at) > a.age(q) {
				a.told = true
				old = append(old, q.key)
			}
		}
		r.mu.Unlock()
		for _, key := range old {
			r.answered(r, key, nil)
		}
	}
}

// begin implements decider.
func (r *remote) begin(key types.NamespacedName) (taken, error) { return remoteOne{r, key}, nil }

// remoteOne waits for the answers of the controller.
type remoteOne struct {
	remote *remote
	key    types.NamespacedName
}

func (o remoteOne) outline(ctx context.Context) (*simulator.Report, error) {
	o.remote.ask(ctx, question{key: o.key})
	return o.remote.outline(o.key)
}

func (o remoteOne) explain(ctx context.Context, cluster string) (*simulator.Report, error) {
	q := question{o.key, cluster}
	o.remote.ask(ctx, q)
	o.remote.mu.Lock()
	defer o.remote.mu.Unlock()
	if a := o.remote.known[q]; a != nil {
		return a.report, a.err
	}
	return nil, errAsking
}

// outline does not wait: an answer that comes later is reported by answered.
func (r *remote) outline(key types.NamespacedName) (*simulator.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.request(question{key: key})
	return a.report, a.err
}

// ask waits for the answer to a question.
func (r *remote) ask(ctx context.Context, q question) {
	r.mu.Lock()
	running := r.request(q).running
	r.mu.Unlock()
	if running == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-running:
	}
}

// request asks the controller unless the answer is known. The remote is locked.
func (r *remote) request(q question) *asked {
	a := r.known[q]
	if a == nil {
		r.bound()
		a = &asked{answer: answer{err: errAsking}}
		r.known[q] = a
	}
	switch {
	case a.running != nil || time.Since(a.at) <= a.age(q):
	case r.running >= maxWaiting:
		if a.report == nil {
			a.err, a.at, a.told = errTooMany, time.Now(), false
		}
	default:
		a.running = make(chan struct{})
		r.running++
		go r.run(q, a)
	}
	return a
}

// bound forgets answers for single clusters if there are too many. There are no more of the others
// than Placements.
func (r *remote) bound() {
	verdicts := 0
	for q := range r.known {
		if q.cluster != "" {
			verdicts++
		}
	}
	if verdicts >= maxVerdictsKept {
		maps.DeleteFunc(r.known, func(q question, a *asked) bool { return q.cluster != "" && a.running == nil })
	}
}

func (r *remote) run(q question, a *asked) {
	now := answer{err: errAsking}
	r.mu.Lock()
	outdated := a.outdated
	r.mu.Unlock()
	select {
	case r.slots <- struct{}{}:
		now.report, now.err = r.explanation(q)
		<-r.slots
	case <-r.ctx.Done():
	}
	r.mu.Lock()
	names := append(candidates(a.report), candidates(now.report)...)
	close(a.running)
	a.answer, a.at, a.running, a.told = now, time.Now(), nil, false
	if a.outdated != outdated {
		// It may be an answer about the state before.
		a.at = time.Time{}
	}
	if a.errors++; now.err == nil {
		a.errors = 0
	}
	r.running--
	r.mu.Unlock()
	if q.cluster == "" && r.ctx.Err() == nil {
		r.answered(r, q.key, names)
	}
}

// candidates are the clusters that a report names.
func candidates(report *simulator.Report) []string {
	if report == nil || report.Answer == nil {
		return nil
	}
	return slices.Clone(report.AvailableClusters)
}

// explanation creates a PlacementExplanation and deletes it once it is answered.
func (r *remote) explanation(q question) (*simulator.Report, error) {
	e := &berthv1alpha1.PlacementExplanation{
		ObjectMeta: metav1.ObjectMeta{Namespace: q.key.Namespace, GenerateName: "berth-explore-"},
		Spec:       berthv1alpha1.PlacementExplanationSpec{Placement: q.key.Name, Limit: berthv1alpha1.MaxVerdicts},
	}
	if q.cluster != "" {
		e.Spec.Clusters = []string{q.cluster}
	}
	switch err := r.hub.Create(r.ctx, e); {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("only the published clusters are known. You need: create placementexplanations in namespace %s", q.key.Namespace)
	case err != nil:
		return nil, fmt.Errorf("creating a PlacementExplanation: %w", err)
	}
	// The controller deletes it after some minutes if this fails.
	defer func() {
		deleting, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), probeTimeout)
		defer cancel()
		_ = r.hub.Delete(deleting, e)
	}()
	if err := explanation.Await(r.ctx, r.hub, e); err != nil {
		return nil, err
	}
	report, _, err := explanation.AnswerOf(e)
	return report, err
}

// outdate marks the answer about a Placement as out of date. It is shown until the next answer.
func (r *remote) outdate(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for q, a := range r.known {
		if q.key == key {
			a.at = time.Time{}
			a.outdated++
		}
	}
}

// forget drops the answers about a Placement that was deleted.
func (r *remote) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.known, func(q question, _ *asked) bool { return q.key == key })
}

// names are the clusters that the answers name.
func (r *remote) names() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]bool{}
	for q, a := range r.known {
		if q.cluster == "" {
			for _, name := range candidates(a.report) {
				names[name] = true
			}
		}
	}
	return names
}

// dropColumn drops the cells of a Placement. The world is locked.
func (l *LiveWorld) dropColumn(key types.NamespacedName) {
	l.dirty.columns[key] = true
	l.world.dropColumn(key)
	if r, ok := l.world.decider.(*remote); ok {
		r.outdate(key)
	}
}

// answered shows an answer of the controller.
func (l *LiveWorld) answered(r *remote, key types.NamespacedName, clusters []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.world.decider != decider(r) {
		return
	}
	if l.world.inventory.Placement(key) == nil {
		// It was deleted meanwhile.
		r.forget(key)
	}
	l.dirty.columns[key], l.dirty.names = true, true
	for _, name := range clusters {
		l.dirty.clusters[name] = true
	}
	l.flushSoon()
}
