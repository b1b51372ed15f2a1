package controllers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

func allKindsScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// memoryHub is a hub in memory. It records what reconcilers read and write.
type memoryHub struct {
	client.Client
	scheme *runtime.Scheme
	// reads are the errors of Get, lists those of List; all of a type meet the error.
	reads, lists map[string]error
	// writeError is met by all writes; meanwhile runs before each.
	writeError error
	meanwhile  func(store client.Client)

	mu      sync.Mutex
	read    map[string][]string
	written []string
}

func newMemoryHub(t *testing.T, objects ...client.Object) *memoryHub {
	t.Helper()
	h := &memoryHub{
		scheme: allKindsScheme(t),
		reads:  map[string]error{}, lists: map[string]error{}, read: map[string][]string{},
	}
	withStatus := []client.Object{&berthv1alpha1.PlacementExplanation{}}
	for _, kind := range kinds.All() {
		withStatus = append(withStatus, kind.New())
	}
	h.Client = fake.NewClientBuilder().WithScheme(h.scheme).WithObjects(objects...).WithStatusSubresource(withStatus...).
		WithIndex(&v1alpha1.ManagedCluster{}, exclusiveIndex, func(o client.Object) []string {
			return []string{o.GetLabels()[v1alpha1.ClusterSetLabel]}
		}).
		WithIndex(&v1alpha1.ManagedCluster{}, profileIndex, profileOfCluster).
		WithIndex(&berthv1alpha1.PlacementEviction{}, evictionIndex, evictedPlacement).
		WithInterceptorFuncs(interceptor.Funcs{
			Get:  h.onGet,
			List: h.onList,
			Create: func(ctx context.Context, store client.WithWatch, o client.Object, options ...client.CreateOption) error {
				return h.onWrite(store, "create", o, func() error { return store.Create(ctx, o, options...) })
			},
			Delete: func(ctx context.Context, store client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				return h.onWrite(store, "delete", o, func() error { return store.Delete(ctx, o, options...) })
			},
			Patch: func(ctx context.Context, store client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
				return h.onWrite(store, "patch", o, func() error { return store.Patch(ctx, o, patch, options...) })
			},
			SubResourcePatch: func(ctx context.Context, store client.Client, name string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				return h.onWrite(store, "patch "+name, o, func() error { return store.SubResource(name).Patch(ctx, o, patch, options...) })
			},
		}).Build()
	return h
}

func (h *memoryHub) kind(o runtime.Object) string {
	kinds, _, err := h.scheme.ObjectKinds(o)
	if err != nil {
		return err.Error()
	}
	return kinds[0].Kind
}

func (h *memoryHub) onGet(ctx context.Context, store client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	h.mu.Lock()
	h.read[h.kind(o)] = append(h.read[h.kind(o)], key.String())
	h.mu.Unlock()
	if err := h.reads[h.kind(o)]; err != nil {
		return err
	}
	return store.Get(ctx, key, o, options...)
}

func (h *memoryHub) onList(ctx context.Context, store client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	if err := h.lists[h.kind(list)]; err != nil {
		return err
	}
	return store.List(ctx, list, options...)
}

func (h *memoryHub) onWrite(store client.Client, verb string, o client.Object, write func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written = append(h.written, verb+" "+client.ObjectKeyFromObject(o).String())
	if h.meanwhile != nil {
		h.meanwhile(store)
	}
	if h.writeError != nil {
		return h.writeError
	}
	return write()
}

// readOf returns the keys of the objects of a kind that were read since the last call, sorted.
func (h *memoryHub) readOf(kind string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := h.read[kind]
	delete(h.read, kind)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// fedInformers are informers that the test feeds. Several watches may start at once.
type fedInformers struct {
	informertest.FakeInformers
	mu sync.Mutex
}

func (f *fedInformers) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.FakeInformers.GetInformer(ctx, o, options...)
}

// watchManager is a manager whose informers are fed by the test.
type watchManager struct {
	ctrl.Manager
	client    client.Client
	informers *fedInformers
	webhooks  webhook.Server
	log       logr.Logger

	addError, indexError error
	added                []manager.Runnable
	indexes              map[string]client.IndexerFunc
}

func newWatchManager(t *testing.T, c client.Client) *watchManager {
	return &watchManager{
		client: c, informers: &fedInformers{FakeInformers: informertest.FakeInformers{Scheme: allKindsScheme(t)}}, log: logr.Discard(),
		indexes: map[string]client.IndexerFunc{},
	}
}

func (m *watchManager) GetClient() client.Client                    { return m.client }
func (m *watchManager) GetCache() cache.Cache                       { return m.informers }
func (m *watchManager) GetScheme() *runtime.Scheme                  { return m.informers.Scheme }
func (m *watchManager) GetLogger() logr.Logger                      { return m.log }
func (m *watchManager) GetControllerOptions() ctrlconfig.Controller { return ctrlconfig.Controller{} }
func (m *watchManager) GetFieldIndexer() client.FieldIndexer        { return m }
func (m *watchManager) GetWebhookServer() webhook.Server            { return m.webhooks }

func (m *watchManager) Add(r manager.Runnable) error {
	m.added = append(m.added, r)
	return m.addError
}

func (m *watchManager) IndexField(_ context.Context, _ client.Object, field string, extract client.IndexerFunc) error {
	m.indexes[field] = extract
	return m.indexError
}

// start runs what was added, in a bubble of synctest, until the test ends.
func (m *watchManager) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, r := range m.added {
		running.Go(func() {
			if err := r.Start(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	synctest.Wait()
}

// watchEvent is one event of a watch: without before it is an Add, without after a Delete.
type watchEvent struct{ before, after client.Object }

// send feeds an event and waits until nothing moves.
func (m *watchManager) send(t *testing.T, e watchEvent) {
	t.Helper()
	object := e.after
	if object == nil {
		object = e.before
	}
	informer, err := m.informers.FakeInformerFor(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case e.before == nil:
		informer.Add(e.after)
	case e.after == nil:
		informer.Delete(e.before)
	default:
		informer.Update(e.before, e.after)
	}
	synctest.Wait()
}

// testSetUp checks what every SetUp has: an error of the manager is returned, and a second manager
// of the process can have the same controller.
func testSetUp(t *testing.T, setUp func(context.Context, ctrl.Manager) error) {
	t.Helper()
	for range 2 {
		if err := setUp(t.Context(), newWatchManager(t, nil)); err != nil {
			t.Fatal(err)
		}
	}
	m := newWatchManager(t, nil)
	m.addError = errors.New("no more")
	if err := setUp(t.Context(), m); !errors.Is(err, m.addError) {
		t.Errorf("got error %v, want the manager's", err)
	}
}

// patchAnswers are the answers of the API server to a write, and what Reconcile returns then.
func patchAnswers() map[string]struct {
	answer, wantErr error
	wantResult      ctrl.Result
} {
	group := schema.GroupResource{Resource: "things"}
	broken := errors.New("broken")
	return map[string]struct {
		answer, wantErr error
		wantResult      ctrl.Result
	}{
		"written":               {},
		"another was faster":    {answer: apierrors.NewConflict(group, "x", nil), wantResult: ctrl.Result{RequeueAfter: 50 * time.Millisecond}},
		"the object is gone":    {answer: apierrors.NewNotFound(group, "x")},
		"the server is failing": {answer: broken, wantErr: broken},
	}
}

// testPatchAnswers checks what a reconciler returns for each answer to the write that it makes.
func testPatchAnswers(t *testing.T, key types.NamespacedName, object client.Object, reconcile func(client.Client) func(context.Context, ctrl.Request) (ctrl.Result, error)) {
	t.Helper()
	for name, tc := range patchAnswers() {
		t.Run(name, func(t *testing.T) {
			hub := newMemoryHub(t, object.DeepCopyObject().(client.Object))
			hub.writeError = tc.answer
			result, err := reconcile(hub)(t.Context(), ctrl.Request{NamespacedName: key})
			if !errors.Is(err, tc.wantErr) || result != tc.wantResult || len(hub.written) != 1 {
				t.Errorf("got %v, error %v after %q; want %v, error %v", result, err, hub.written, tc.wantResult, tc.wantErr)
			}
		})
	}
	t.Run("an object that changed meanwhile is not overwritten", func(t *testing.T) {
		hub := newMemoryHub(t, object.DeepCopyObject().(client.Object))
		hub.meanwhile = func(store client.Client) {
			changed := object.DeepCopyObject().(client.Object)
			if err := store.Get(t.Context(), key, changed); err != nil {
				t.Fatal(err)
			}
			changed.SetAnnotations(map[string]string{"changed": "meanwhile"})
			if err := store.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
		}
		result, err := reconcile(hub)(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil || result.RequeueAfter != 50*time.Millisecond {
			t.Errorf("got %v, error %v, want another try after 50ms", result, err)
		}
	})
	t.Run("the object is gone before it is read", func(t *testing.T) {
		hub := newMemoryHub(t)
		result, err := reconcile(hub)(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil || result != (ctrl.Result{}) || len(hub.written) > 0 {
			t.Errorf("got %v, error %v after %q", result, err, hub.written)
		}
	})
	t.Run("the object cannot be read", func(t *testing.T) {
		hub := newMemoryHub(t, object.DeepCopyObject().(client.Object))
		broken := errors.New("broken")
		hub.reads[hub.kind(object)] = broken
		if _, err := reconcile(hub)(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, broken) || len(hub.written) > 0 {
			t.Errorf("got error %v after %q", err, hub.written)
		}
	})
	t.Run("the object is being deleted", func(t *testing.T) {
		deleted := object.DeepCopyObject().(client.Object)
		deleted.SetDeletionTimestamp(new(fixture.At(0)))
		deleted.SetFinalizers([]string{"a.io/b"})
		hub := newMemoryHub(t, deleted)
		result, err := reconcile(hub)(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil || result != (ctrl.Result{}) || len(hub.written) > 0 {
			t.Errorf("got %v, error %v after %q", result, err, hub.written)
		}
	})
}

// clusterCase is a cluster, and what a reconciler makes of it.
type clusterCase struct {
	cluster fixture.ClusterBuilder
	// wantLabels and wantTaints are those of a cluster that is changed.
	wantChange bool
	wantLabels map[string]string
	wantTaints []v1alpha1.Taint
}

func testClusterReconciler(t *testing.T, build func(client.Client) *ClusterReconciler, tests map[string]clusterCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := tc.cluster.Obj()
			hub := newMemoryHub(t, cluster)
			k := build(hub)
			if got := k.NeedsUpdate(cluster); got != tc.wantChange {
				t.Errorf("NeedsUpdate is %t", got)
			}
			result, err := k.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: cluster.Name}})
			if err != nil || result != (ctrl.Result{}) {
				t.Fatalf("got %v, error %v", result, err)
			}
			want := cluster.DeepCopy()
			var wantWritten []string
			if tc.wantChange {
				want.Labels, want.Spec.Taints = tc.wantLabels, tc.wantTaints
				wantWritten = []string{"patch /" + cluster.Name}
			}
			if diff := cmp.Diff(wantWritten, hub.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			got := &v1alpha1.ManagedCluster{}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if k.NeedsUpdate(got) {
				t.Error("something is still to do")
			}
		})
	}
}

func TestDefaultSetKeeper(t *testing.T) {
	testClusterReconciler(t, NewDefaultSetReconciler, map[string]clusterCase{
		"without labels": {cluster: fixture.Cluster("c"), wantChange: true, wantLabels: map[string]string{v1alpha1.ClusterSetLabel: "default"}},
		"with another label": {
			cluster: fixture.Cluster("c").Label("a", "b"), wantChange: true,
			wantLabels: map[string]string{"a": "b", v1alpha1.ClusterSetLabel: "default"},
		},
		"with an empty label": {cluster: fixture.Cluster("c").Set(""), wantChange: true, wantLabels: map[string]string{v1alpha1.ClusterSetLabel: "default"}},
		"in a set":            {cluster: fixture.Cluster("c").Set("s")},
	})
	if name := NewDefaultSetReconciler(nil).Name; name != "cluster-default-set" {
		t.Errorf("the name is %s", name)
	}
}

func TestTaintTimeKeeper(t *testing.T) {
	build := func(c client.Client) *ClusterReconciler {
		return NewTaintTimeReconciler(c, func() time.Time { return fixture.Now })
	}
	testClusterReconciler(t, build, map[string]clusterCase{
		"without taints":  {cluster: fixture.Cluster("c")},
		"all have a time": {cluster: fixture.Cluster("c").TaintAt("a", "b", v1alpha1.TaintEffectNoSelect, fixture.At(-1))},
		"some have a time": {
			cluster:    fixture.Cluster("c").TaintAt("a", "b", v1alpha1.TaintEffectNoSelect, fixture.At(-1)).Taint("c", "d", v1alpha1.TaintEffectNoSelectIfNew),
			wantChange: true,
			wantTaints: []v1alpha1.Taint{
				{Key: "a", Value: "b", Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: fixture.At(-1)},
				{Key: "c", Value: "d", Effect: v1alpha1.TaintEffectNoSelectIfNew, TimeAdded: fixture.At(0)},
			},
		},
	})
	if name := build(nil).Name; name != "cluster-taint-time" {
		t.Errorf("the name is %s", name)
	}
}

func TestAvailabilityKeeper(t *testing.T) {
	build := func(c client.Client) *ClusterReconciler {
		return NewAvailabilityReconciler(c, func() time.Time { return fixture.Now })
	}
	const (
		unavailable, unreachable = v1alpha1.ManagedClusterTaintUnavailable, v1alpha1.ManagedClusterTaintUnreachable
		noSelect, ifNew          = v1alpha1.TaintEffectNoSelect, v1alpha1.TaintEffectNoSelectIfNew
	)
	available := func(status metav1.ConditionStatus) fixture.ClusterBuilder {
		return fixture.Cluster("c").Condition(v1alpha1.ManagedClusterConditionAvailable, status, fixture.At(-60))
	}
	earlier := fixture.At(-60)
	added := func(key string) v1alpha1.Taint {
		return v1alpha1.Taint{Key: key, Effect: noSelect, TimeAdded: fixture.At(0)}
	}
	testClusterReconciler(t, build, map[string]clusterCase{
		"no condition":            {cluster: fixture.Cluster("c")},
		"no condition, tainted":   {cluster: fixture.Cluster("c").TaintAt(unavailable, "", noSelect, earlier)},
		"another condition":       {cluster: fixture.Cluster("c").Condition("Other", metav1.ConditionFalse, earlier)},
		"available":               {cluster: available(metav1.ConditionTrue)},
		"available, other taint":  {cluster: available(metav1.ConditionTrue).TaintAt("a", "", noSelect, earlier)},
		"available, other effect": {cluster: available(metav1.ConditionTrue).TaintAt(unavailable, "", ifNew, earlier)},
		"available again": {
			cluster:    available(metav1.ConditionTrue).TaintAt("a", "", noSelect, earlier).TaintAt(unavailable, "", noSelect, earlier),
			wantChange: true, wantTaints: []v1alpha1.Taint{{Key: "a", Effect: noSelect, TimeAdded: earlier}},
		},
		"reachable again": {
			cluster:    available(metav1.ConditionTrue).TaintAt("a", "", noSelect, earlier).TaintAt(unreachable, "", noSelect, earlier),
			wantChange: true, wantTaints: []v1alpha1.Taint{{Key: "a", Effect: noSelect, TimeAdded: earlier}},
		},
		"unavailable":          {cluster: available(metav1.ConditionFalse), wantChange: true, wantTaints: []v1alpha1.Taint{added(unavailable)}},
		"unreachable":          {cluster: available(metav1.ConditionUnknown), wantChange: true, wantTaints: []v1alpha1.Taint{added(unreachable)}},
		"unavailable, tainted": {cluster: available(metav1.ConditionFalse).TaintAt(unavailable, "", noSelect, earlier)},
		"unreachable, tainted": {cluster: available(metav1.ConditionUnknown).TaintAt(unreachable, "", noSelect, earlier)},
		"first unreachable, then unavailable": {
			cluster:    available(metav1.ConditionFalse).TaintAt(unreachable, "", noSelect, earlier),
			wantChange: true, wantTaints: []v1alpha1.Taint{added(unavailable)},
		},
		"first unavailable, then unreachable": {
			cluster:    available(metav1.ConditionUnknown).TaintAt(unavailable, "", noSelect, earlier),
			wantChange: true, wantTaints: []v1alpha1.Taint{added(unreachable)},
		},
		"unavailable, both taints": {
			cluster:    available(metav1.ConditionFalse).TaintAt(unavailable, "", noSelect, earlier).TaintAt(unreachable, "", noSelect, earlier),
			wantChange: true, wantTaints: []v1alpha1.Taint{added(unavailable)},
		},
		"unavailable, tainted twice": {
			cluster:    available(metav1.ConditionFalse).TaintAt(unavailable, "", noSelect, earlier).TaintAt(unavailable, "x", noSelect, earlier),
			wantChange: true, wantTaints: []v1alpha1.Taint{added(unavailable)},
		},
		"unavailable, other taints": {
			cluster:    available(metav1.ConditionFalse).TaintAt("a", "", noSelect, earlier).TaintAt(unavailable, "", ifNew, earlier),
			wantChange: true,
			wantTaints: []v1alpha1.Taint{
				{Key: "a", Effect: noSelect, TimeAdded: earlier}, {Key: unavailable, Effect: ifNew, TimeAdded: earlier}, added(unavailable),
			},
		},
	})
	k := build(nil)
	if k.Name != "cluster-availability" {
		t.Errorf("the name is %s", k.Name)
	}
	// The condition may disappear between the check and the change.
	tainted := fixture.Cluster("c").TaintAt(unavailable, "", noSelect, earlier).Obj()
	if k.Update(tainted); len(tainted.Spec.Taints) != 1 {
		t.Errorf("without a condition the taints became %v", tainted.Spec.Taints)
	}
}

func TestKeeperReconcile(t *testing.T) {
	testPatchAnswers(t, types.NamespacedName{Name: "c"}, fixture.Cluster("c").Obj(), func(c client.Client) func(context.Context, ctrl.Request) (ctrl.Result, error) {
		return NewDefaultSetReconciler(c).Reconcile
	})
}

func TestKeeperSetUp(t *testing.T) {
	testSetUp(t, func(ctx context.Context, m ctrl.Manager) error { return NewDefaultSetReconciler(nil).SetUp(ctx, m) })
	needsUpdate, kept := fixture.Cluster("c"), fixture.Cluster("c").Set("s")
	tests := map[string]struct {
		event watchEvent
		want  []string
	}{
		"a cluster comes":                   {event: watchEvent{after: needsUpdate.Obj()}, want: []string{"/c"}},
		"a cluster without need comes":      {event: watchEvent{after: kept.Obj()}},
		"a cluster comes while it goes":     {event: watchEvent{after: fixture.Cluster("c").Deleting().Obj()}},
		"a cluster gets a need":             {event: watchEvent{before: kept.Obj(), after: needsUpdate.Obj()}, want: []string{"/c"}},
		"a cluster has no need any more":    {event: watchEvent{before: needsUpdate.Obj(), after: kept.Obj()}},
		"a cluster with a need is deleted":  {event: watchEvent{before: needsUpdate.Obj()}},
		"a cluster with a need is changing": {event: watchEvent{before: needsUpdate.Obj(), after: needsUpdate.Obj()}, want: []string{"/c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newMemoryHub(t)
				m := newWatchManager(t, hub)
				if err := NewDefaultSetReconciler(hub).SetUp(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				m.start(t)
				m.send(t, tc.event)
				if diff := cmp.Diff(tc.want, hub.readOf("ManagedCluster")); diff != "" {
					t.Errorf("reconciled (-want +got):\n%s", diff)
				}
			})
		})
	}
}
