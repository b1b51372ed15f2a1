package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/readiness"
)

// Bounds of the objects of a readiness source. A source with more than maxReadinessObjects counts
// as one that cannot be read. Objects for the Placements of a namespace with more than
// maxNamespaceObjects do not count. Once it has no more than fewNamespaceObjects, all objects are
// listed again.
const (
	maxReadinessObjects = 200_000
	maxNamespaceObjects = 100_000
	fewNamespaceObjects = 90_000
)

// readinessRetry are the times between attempts to read a source: 1 s, 2 s, 4 s … 30 s.
var readinessRetry = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 6, Cap: 30 * time.Second}

// readinessWatches watches the objects of the readiness sources that DisruptionPolicies use, each
// source once, and stores them in the inventory. It runs on the leader only.
type readinessWatches struct {
	client    dynamic.Interface
	mapper    meta.RESTMapper
	sources   map[string]*readiness.Source
	inventory *inventory.Inventory
	log       logr.Logger
	// affected queues Placements, and changed reports that a source can be read, or not any more.
	affected func([]inventory.Key)
	changed  func(ctx context.Context, source string)

	// policies signals a change of the policies.
	policies chan struct{}
}

func newReadinessWatches(cfg *rest.Config, mapper meta.RESTMapper, inv *inventory.Inventory, o Options) (*readinessWatches, error) {
	sources, err := readiness.Sources(o.Config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the client of readiness sources: %w", err)
	}
	w := &readinessWatches{
		client: client, mapper: mapper, sources: map[string]*readiness.Source{}, inventory: inv,
		log: o.Log.WithName("readiness"), policies: make(chan struct{}, 1),
	}
	for _, source := range sources {
		w.sources[source.Name] = source
	}
	return w, nil
}

// policiesChanged makes the watches follow the policies. It may be called on nil.
func (w *readinessWatches) policiesChanged() {
	if w == nil {
		return
	}
	select {
	case w.policies <- struct{}{}:
	default:
	}
}

// Start implements manager.Runnable.
func (w *readinessWatches) Start(ctx context.Context) error {
	// Each function stops a watch and waits for its end, so that it stores nothing afterwards.
	stops := map[string]func(){}
	for {
		used := w.inventory.ReadinessSources()
		for name := range used {
			if stops[name] != nil {
				continue
			}
			watching, stop := context.WithCancel(ctx)
			var one sync.WaitGroup
			stops[name] = func() { stop(); one.Wait() }
			one.Go(func() { w.watch(watching, name) })
		}
		for name, stop := range stops {
			if !used[name] {
				stop()
				delete(stops, name)
				w.inventory.ForgetReadiness(name)
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range stops {
				stop()
			}
			return nil
		case <-w.policies:
		}
	}
}

// watch lists and watches the objects of a source until the context ends.
func (w *readinessWatches) watch(ctx context.Context, name string) {
	source := w.sources[name]
	if source == nil {
		w.fail(ctx, name, "the configuration has no readiness source of this name; known are cluster, "+strings.Join(slices.Sorted(maps.Keys(w.sources)), ", "))
		return
	}
	w.log.Info("Watching a readiness source", "source", name, "kind", source.Kind.String())
	retry := readinessRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := w.listAndWatch(ctx, source)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.fail(ctx, name, describeFailure(source, err))
		}
		if time.Since(began) > readinessRetry.Cap {
			retry = readinessRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.Step()):
		}
	}
}

// fail stores why a source cannot be read, unless the watch was stopped.
func (w *readinessWatches) fail(ctx context.Context, source, why string) {
	if ctx.Err() != nil || w.inventory.ReadinessFailure(source, "") == why {
		return
	}
	w.log.Info("A readiness source cannot be read, so its clusters count as not ready", "source", source, "reason", why)
	w.affected(w.inventory.FailReadiness(source, why))
	w.changed(ctx, source)
}

// describeFailure names no object: users of other namespaces read it, too.
func describeFailure(s *readiness.Source, err error) string {
	kind := s.Kind.GroupVersion().String() + " " + s.Kind.Kind
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return "the hub does not serve " + kind
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return "Berth may not list and watch " + kind
	}
	if tooMany := (*tooManyObjects)(nil); errors.As(err, &tooMany) {
		return tooMany.Error()
	}
	if wrong := (*notNamespaced)(nil); errors.As(err, &wrong) {
		return kind + wrong.Error()
	}
	return "reading " + kind + " failed: " + string(cmp.Or(apierrors.ReasonForError(err), "the hub does not answer"))
}

// notNamespaced is the error for a source of a kind that is not namespaced.
type notNamespaced struct{}

func (*notNamespaced) Error() string { return " is not namespaced" }

// tooManyObjects is the error for a source that exceeds its limit.
type tooManyObjects struct{}

func (*tooManyObjects) Error() string {
	return fmt.Sprintf("more than %d objects; limit them with the labelSelector of the source", maxReadinessObjects)
}

// listAndWatch returns when the watch has ended.
func (w *readinessWatches) listAndWatch(ctx context.Context, source *readiness.Source) error {
	mapping, err := w.mapper.RESTMapping(source.Kind.GroupKind(), source.Kind.Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return &notNamespaced{}
	}
	objects := w.client.Resource(mapping.Resource)
	options := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector = source.Selector.String()
		return o
	}
	listing, stop := context.WithCancel(ctx)
	defer stop()
	store := &readinessStore{ctx: listing, stop: stop, source: source, watches: w}
	requests := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, options(o))
		},
	}, w.client)
	reflector := toolscache.NewReflectorWithOptions(requests, &unstructured.Unstructured{}, store, toolscache.ReflectorOptions{Name: "readiness source " + source.Name})
	err = reflector.ListAndWatchWithContext(listing)
	if store.failure != nil || store.again {
		return store.failure
	}
	return err
}

// readinessStore receives the objects of one source and stores in the inventory what is kept of
// them. It implements toolscache.ReflectorStore and toolscache.TransformingStore.
type readinessStore struct {
	ctx     context.Context
	stop    context.CancelFunc
	source  *readiness.Source
	watches *readinessWatches
	// count is the number of objects for namespaces that did not fail. counts has all objects by
	// the namespace of the Placements for which they count, failed the namespaces with too many.
	// Objects that count for none are in neither.
	count  int
	counts map[string]int
	failed map[string]string
	// namespaces are those of the Placements for which objects in clusters' namespaces count.
	namespaces map[inventory.Key]string
	failure    error
	// again is true if the watch was ended to list all objects again.
	again bool
}

// readinessObject is what is kept of one object while the list is read.
type readinessObject struct {
	metav1.ObjectMeta
	cluster string
	ready   bool
}

// trim evaluates the expressions of the source.
func (s *readinessStore) trim(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	trimmed := &readinessObject{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName(), Labels: u.GetLabels()}}
	trimmed.cluster, trimmed.ready = s.source.Read(s.ctx, u.Object)
	return trimmed, nil
}

// Transformer implements toolscache.TransformingStore.
func (s *readinessStore) Transformer() toolscache.TransformFunc { return s.trim }

func (s *readinessStore) read(object any) inventory.ReadyObject {
	trimmed, _ := s.trim(object)
	o, ok := trimmed.(*readinessObject)
	if !ok {
		return inventory.ReadyObject{}
	}
	read := inventory.ReadyObject{Key: inventory.Key{Namespace: o.Namespace, Name: o.Name}, Labels: o.Labels, Cluster: o.cluster, Ready: o.ready}
	if s.source.InClusterNamespace {
		read.PlacementNamespace = s.namespaceOf(o)
	}
	return read
}

// namespaceOf returns the namespace of the Placements for which an object counts; empty for none.
func (s *readinessStore) namespaceOf(object any) string {
	named, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return s.source.PlacementNamespace(named.GetNamespace(), named.GetLabels())
}

// knownNamespace returns what namespaceOf returned for the last state of an object.
func (s *readinessStore) knownNamespace(key inventory.Key) string {
	if s.source.InClusterNamespace {
		return s.namespaces[key]
	}
	return key.Namespace
}

// ended reports whether the watch was stopped: then nothing more is stored.
func (s *readinessStore) ended() bool { return s.ctx.Err() != nil }

// Replace implements toolscache.ReflectorStore.
func (s *readinessStore) Replace(list []any, _ string) error {
	s.countObjects(list)
	if s.count > maxReadinessObjects {
		return s.fail()
	}
	objects := make([]inventory.ReadyObject, 0, s.count)
	for _, object := range list {
		if namespace := s.namespaceOf(object); namespace == "" || s.failed[namespace] != "" {
			continue
		}
		if objects = append(objects, s.read(object)); s.ended() {
			return nil
		}
	}
	w := s.watches
	namespacesBefore := w.inventory.FailedReadinessNamespaces(s.source.Name)
	before := w.inventory.ReadinessFailure(s.source.Name, "")
	w.affected(w.inventory.ReplaceReadiness(s.source.Name, objects, s.failed))
	if before != "" || !maps.Equal(namespacesBefore, s.failed) {
		w.log.Info("The objects of a readiness source were listed", "source", s.source.Name, "objects", len(list))
		w.changed(s.ctx, s.source.Name)
	}
	return nil
}

// countObjects counts the objects of a list, and finds the namespaces with too many.
func (s *readinessStore) countObjects(list []any) {
	s.count, s.counts, s.failed, s.namespaces = 0, map[string]int{}, map[string]string{}, map[inventory.Key]string{}
	for _, object := range list {
		if namespace := s.namespaceOf(object); namespace != "" {
			s.countObject(keyOf(object), namespace)
		}
	}
	for namespace, n := range s.counts {
		if n > maxNamespaceObjects {
			s.count -= n
			s.failed[namespace] = tooManyInNamespace(namespace)
		}
	}
}

// countObject counts an object for the Placements of a namespace, uncountObject counts it no more.
func (s *readinessStore) countObject(key inventory.Key, namespace string) {
	s.counts[namespace]++
	if s.count++; s.source.InClusterNamespace {
		s.namespaces[key] = namespace
	}
}

func (s *readinessStore) uncountObject(key inventory.Key, namespace string) {
	if s.counts[namespace]--; s.counts[namespace] == 0 {
		delete(s.counts, namespace)
	}
	delete(s.namespaces, key)
	switch {
	case s.failed[namespace] == "":
		s.count--
	case s.counts[namespace] <= fewNamespaceObjects:
		s.again = true
		s.stop()
	}
}

func tooManyInNamespace(namespace string) string {
	return fmt.Sprintf("namespace %s has more than %d objects", namespace, maxNamespaceObjects)
}

// keyOf returns the namespace and name of an object.
func keyOf(object any) inventory.Key {
	named, err := meta.Accessor(object)
	if err != nil {
		return inventory.Key{}
	}
	return inventory.Key{Namespace: named.GetNamespace(), Name: named.GetName()}
}

// Add implements toolscache.ReflectorStore.
func (s *readinessStore) Add(object any) error {
	key, namespace := keyOf(object), s.namespaceOf(object)
	if namespace == "" {
		return nil
	}
	s.countObject(key, namespace)
	switch {
	case s.failed[namespace] != "":
		s.count--
		return nil
	case s.counts[namespace] > maxNamespaceObjects:
		s.failNamespace(namespace)
		return nil
	case s.count > maxReadinessObjects:
		return s.fail()
	}
	// The end of the watch interrupts evaluations.
	if o := s.read(object); !s.ended() {
		s.watches.affected(s.watches.inventory.SetReadiness(s.source.Name, o))
	}
	return nil
}

// failNamespace drops the objects for a namespace with too many.
func (s *readinessStore) failNamespace(namespace string) {
	s.count -= s.counts[namespace]
	s.failed[namespace] = tooManyInNamespace(namespace)
	if w := s.watches; !s.ended() {
		w.log.Info("A namespace has too many objects of a readiness source, so they count as not ready", "source", s.source.Name, "namespace", namespace)
		w.affected(w.inventory.FailReadinessNamespace(s.source.Name, namespace, s.failed[namespace]))
		w.changed(s.ctx, s.source.Name)
	}
}

// fail ends the watch of a source with too many objects.
func (s *readinessStore) fail() error {
	s.failure = &tooManyObjects{}
	s.stop()
	return s.failure
}

// Update implements toolscache.ReflectorStore.
func (s *readinessStore) Update(object any) error {
	key, namespace := keyOf(object), s.namespaceOf(object)
	if known := s.knownNamespace(key); known != "" {
		s.uncountObject(key, known)
		if namespace != known && !s.ended() {
			s.watches.affected(s.watches.inventory.DeleteReadiness(s.source.Name, key))
		}
	}
	return s.Add(object)
}

// Delete implements toolscache.ReflectorStore.
func (s *readinessStore) Delete(object any) error {
	key := keyOf(object)
	namespace := s.knownNamespace(key)
	if namespace == "" {
		return nil
	}
	if s.uncountObject(key, namespace); s.failed[namespace] == "" && !s.ended() {
		s.watches.affected(s.watches.inventory.DeleteReadiness(s.source.Name, key))
	}
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (*readinessStore) Resync() error { return nil }
