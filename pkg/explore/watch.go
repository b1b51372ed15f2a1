package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// probeInterval is how often the hub is asked whether it answers, probeTimeout how long it may
	// take. A connection that hangs is found within both.
	probeInterval = 3 * time.Second
	probeTimeout  = 5 * time.Second
	// scopeInterval is how often the permissions are looked at again, and the queues read;
	// scopeTimeout is how long that may take.
	scopeInterval = time.Minute
	scopeTimeout  = 30 * time.Second
	// listTimeout is how long the first lists may take together.
	listTimeout = 2 * time.Minute
	// problemAge is how long a problem counts; what failed is repeated in shorter intervals.
	problemAge = 2 * time.Minute
)

// errScope ends a watch because the viewer may list more or less than before.
var errScope = errors.New("the permissions of the viewer changed")

// Follower follows a hub with the credentials of one viewer.
type Follower struct {
	Config *rest.Config
	// Context is that of the kubeconfig; may be empty.
	Context string
	// Namespace is the one to show if the viewer may not list all.
	Namespace string
	// Queues returns the objects of the queues; nil without any.
	Queues ReadQueues

	// final is true if a token that the hub does not accept is not replaced. Else the credentials
	// may be refreshed, by what the kubeconfig runs for example.
	final bool
}

// ReadQueues returns the objects of the queues, if Placements have one.
type ReadQueues func(ctx context.Context, hub client.Client, placements simulator.Objects) (simulator.Objects, error)

// NewClient returns the client of a viewer.
func NewClient(cfg *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, eventsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the hub: %w", err)
	}
	return c, nil
}

// Follow keeps a LiveWorld up to date until ctx ends, or the hub no longer accepts a token that is
// final.
func (f *Follower) Follow(ctx context.Context, l *LiveWorld) error {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		return err
	}
	cfg := rest.CopyConfig(f.Config)
	cfg.QPS = -1
	for ctx.Err() == nil {
		err := f.once(ctx, l, cfg, scheme)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errScope):
			// Do not show what the viewer may no longer list, even if the hub is lost now.
			if _, err := l.reset(scope{}, nil); err != nil {
				return err
			}
			l.setState(Connecting, err.Error())
			continue
		}
		l.setState(Lost, lostBy(err))
		if f.final && apierrors.IsUnauthorized(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(probeInterval):
		}
	}
	return ctx.Err()
}

// lostBy says why a connection is lost.
func lostBy(err error) string {
	if apierrors.IsUnauthorized(err) {
		return "the hub does not accept the credentials: " + err.Error()
	}
	return err.Error()
}

// once connects and watches until the connection cannot be used any more.
func (f *Follower) once(ctx context.Context, l *LiveWorld, cfg *rest.Config, scheme *runtime.Scheme) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hub, err := NewClient(cfg)
	if err != nil {
		return err
	}
	s, err := scopeOf(ctx, hub, f.Namespace)
	if err != nil {
		return err
	}
	var d decider
	if !s.whole() {
		d = newRemote(ctx, s, hub, l.answered)
	}
	run, err := l.reset(s, d)
	if err != nil {
		return err
	}
	w := &watches{live: l, run: run, problems: map[string]problem{}}
	if err := w.start(ctx, cfg, scheme, s); err != nil {
		return err
	}
	err = f.readQueues(ctx, hub, l, s)
	if apierrors.IsForbidden(err) {
		limited := s
		limited.missing = append(limited.missing, "get the ConfigMap of the queues, and list namespaces")
		if err := limited.addExplanations(ctx, hub); err != nil {
			return err
		}
		l.limit(limited, newRemote(ctx, limited, hub, l.answered))
		err = nil
	}
	w.setProblem(beside, err)
	l.start()
	l.setState(Connected, w.problem(time.Now()))
	return f.probe(ctx, l, hub, s, w)
}

// probe asks the hub again and again whether it answers, and what the viewer may list.
func (f *Follower) probe(ctx context.Context, l *LiveWorld, hub client.Client, s scope, w *watches) error {
	ended := make(chan error, 1)
	go func() { ended <- f.lookBeside(ctx, l, hub, s, w) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(probeInterval):
		}
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		err := ask(asking, hub, s)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case f.ends(err):
			return err
		case err != nil:
			l.setState(Lost, lostBy(err))
		default:
			l.setState(Connected, w.problem(time.Now()))
		}
	}
}

// ends is true for an error after which the watches are of no use.
func (f *Follower) ends(err error) bool {
	return errors.Is(err, errScope) || apierrors.IsUnauthorized(err) && f.final
}

// ask makes one request that needs an answer of the API server.
func ask(ctx context.Context, hub client.Client, s scope) error {
	if len(s.kinds) == 0 {
		return hub.Create(ctx, &authenticationv1.SelfSubjectReview{})
	}
	kind := s.kinds[len(s.kinds)-1]
	err := hub.List(ctx, kind.NewList(), client.Limit(1), client.InNamespace(namespaceFor(kind, s)))
	if apierrors.IsForbidden(err) {
		return errScope
	}
	return err
}

// lookBeside looks once in a while at what is not watched. It returns when the watches are of no
// use. Another error is a problem, but the connection is not lost.
func (f *Follower) lookBeside(ctx context.Context, l *LiveWorld, hub client.Client, s scope, w *watches) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scopeInterval):
		}
		asking, cancel := context.WithTimeout(ctx, scopeTimeout)
		err := f.look(asking, l, hub, s)
		cancel()
		if f.ends(err) {
			return err
		}
		w.setProblem(beside, err)
	}
}

// look asks for what the viewer may list, and reads the queues.
func (f *Follower) look(ctx context.Context, l *LiveWorld, hub client.Client, s scope) error {
	now, err := scopeOf(ctx, hub, f.Namespace)
	if err != nil {
		return err
	}
	if !now.same(s) {
		return errScope
	}
	err = f.readQueues(ctx, hub, l, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	limited := s.whole() && !l.scope.whole()
	switch forbidden := apierrors.IsForbidden(err); {
	case forbidden && !limited, err == nil && limited:
		return errScope
	case forbidden:
		return nil
	}
	return err
}

func namespaceFor(kind kinds.Kind, s scope) string {
	if kind.Namespaced {
		return s.namespace
	}
	return ""
}

// readQueues reads the queues if Placements have one.
func (f *Follower) readQueues(ctx context.Context, hub client.Client, l *LiveWorld, s scope) error {
	if f.Queues == nil || !s.whole() {
		return nil
	}
	l.mu.Lock()
	var placements simulator.Objects
	for _, key := range l.simulator.Inventory().Placements() {
		if pl := l.simulator.Inventory().Placement(key); pl != nil {
			placements = append(placements, pl)
		}
	}
	l.mu.Unlock()
	objects, err := f.Queues(ctx, hub, placements)
	if err != nil || len(objects) == 0 {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.simulator.SetQueues(objects); err != nil {
		return err
	}
	if l.state.Synced {
		// Every decision may be another one.
		for _, key := range l.world.inventory.Placements() {
			l.dropColumn(key)
		}
		l.dirty.allPlacements = true
		l.flushSoon()
	}
	return nil
}

// watches are the informers of a LiveWorld.
type watches struct {
	live *LiveWorld
	run  int64

	mu sync.Mutex
	// problems are the last errors of watches, by what was watched.
	problems map[string]problem
}

type problem struct {
	text string
	at   time.Time
}

// start lists and watches the kinds. It returns when all are listed.
func (w *watches) start(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, s scope) error {
	options := cache.Options{Scheme: scheme, DefaultTransform: caches.Transform(caches.Explorer), NewInformer: caches.NewInformer(func(string) {}), DefaultWatchErrorHandler: w.failed}
	if s.namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
	}
	watched, err := cache.New(cfg, options)
	if err != nil {
		return fmt.Errorf("watching the hub: %w", err)
	}
	var registrations []toolscache.ResourceEventHandlerRegistration
	for _, kind := range s.kinds {
		informer, err := watched.GetInformer(ctx, kind.New(), cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Plural, err)
		}
		registration, err := informer.AddEventHandler(w.handler())
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Plural, err)
		}
		registrations = append(registrations, registration)
	}
	go func() { _ = watched.Start(ctx) }()
	deadline := time.Now().Add(listTimeout)
	for _, registration := range registrations {
		for !registration.HasSynced() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
			problem := w.problem(time.Now())
			if time.Now().After(deadline) {
				return fmt.Errorf("listing the hub's objects took longer than %s. %s", listTimeout, problem)
			}
			w.live.setState(Connecting, problem)
		}
	}
	return nil
}

func (w *watches) handler() toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.live.update(w.run, nil, o.(client.Object)) },
		UpdateFunc: func(old, o any) { w.live.update(w.run, old.(client.Object), o.(client.Object)) },
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if object, ok := o.(client.Object); ok {
				w.live.remove(w.run, object)
			}
		},
	}
}

// failed notes why a watch failed. An expired resource version is no problem.
func (w *watches) failed(_ context.Context, r *toolscache.Reflector, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || meta.IsNoMatchError(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems[r.TypeDescription()] = problem{"watching " + r.TypeDescription() + ": " + err.Error(), time.Now()}
}

// beside names what is not watched, among the problems.
const beside = "beside"

// setProblem notes why something beside the watches could not be read; nil if it could.
func (w *watches) setProblem(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.problems, what); err != nil {
		w.problems[what] = problem{err.Error(), time.Now()}
	}
}

// problem returns a problem that is not too old; empty if there is none.
func (w *watches) problem(now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Always the same one of several.
	for _, what := range slices.Sorted(maps.Keys(w.problems)) {
		if p := w.problems[what]; now.Sub(p.at) < problemAge {
			return p.text
		}
	}
	return ""
}
