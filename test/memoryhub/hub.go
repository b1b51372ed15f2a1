package memoryhub

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/test/fixture"
)

// Scheme has all kinds of the fleet, and leases.
func Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Hub is a hub in memory. It records what reconcilers read and write.
type Hub struct {
	client.Client
	// Reads are the errors of Get, Lists those of List, by kind.
	Reads, Lists map[string]error
	// WriteError is the answer to all writes; Meanwhile runs before each.
	WriteError error
	Meanwhile  func(store client.Client)
	Written    []string

	mu   sync.Mutex
	read map[string][]string
}

// Builder returns a builder to which indexes can be added.
func Builder(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	return BuilderFor(Scheme(t))
}

// BuilderFor returns a builder of a client that does not keep who manages which field: that would
// be most of its work.
func BuilderFor(scheme *runtime.Scheme) *fake.ClientBuilder {
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker)
}

// New returns a hub with these objects.
func New(builder *fake.ClientBuilder, objects ...client.Object) *Hub {
	h := &Hub{Reads: map[string]error{}, Lists: map[string]error{}, read: map[string][]string{}}
	withStatus := []client.Object{&berthv1alpha1.PlacementExplanation{}}
	for _, kind := range kinds.All() {
		withStatus = append(withStatus, kind.New())
	}
	h.Client = builder.WithObjects(objects...).WithStatusSubresource(withStatus...).
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

func (h *Hub) kind(o runtime.Object) string {
	kinds, _, err := h.Scheme().ObjectKinds(o)
	if err != nil {
		return err.Error()
	}
	return kinds[0].Kind
}

func (h *Hub) onGet(ctx context.Context, store client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	h.mu.Lock()
	h.read[h.kind(o)] = append(h.read[h.kind(o)], key.String())
	h.mu.Unlock()
	if err := h.Reads[h.kind(o)]; err != nil {
		return err
	}
	return store.Get(ctx, key, o, options...)
}

func (h *Hub) onList(ctx context.Context, store client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	wanted := (&client.ListOptions{}).ApplyOptions(options)
	h.mu.Lock()
	h.read[h.kind(list)] = append(h.read[h.kind(list)], wanted.Namespace)
	h.mu.Unlock()
	if err := h.Lists[h.kind(list)]; err != nil {
		return err
	}
	return store.List(ctx, list, options...)
}

func (h *Hub) onWrite(store client.Client, verb string, o client.Object, write func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Written = append(h.Written, verb+" "+client.ObjectKeyFromObject(o).String())
	if h.Meanwhile != nil {
		h.Meanwhile(store)
	}
	if h.WriteError != nil {
		return h.WriteError
	}
	return write()
}

// MustGet reads an object that exists.
func (h *Hub) MustGet(t *testing.T, key client.ObjectKey, o client.Object) {
	t.Helper()
	if err := h.Get(t.Context(), key, o); err != nil {
		t.Fatal(err)
	}
}

// CheckRead checks which objects of a kind were read since the last call, sorted by key; of which
// namespaces for the kind of a list.
func (h *Hub) CheckRead(t *testing.T, kind string, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.read[kind])
	if diff := cmp.Diff(want, slices.Compact(h.read[kind])); diff != "" {
		t.Errorf("reconciled (-want +got):\n%s", diff)
	}
	delete(h.read, kind)
}

// CheckWritten checks all writes, in order, as "patch status NAMESPACE/NAME".
func (h *Hub) CheckWritten(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.Written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
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

// Manager is a manager whose informers are fed by the test.
type Manager struct {
	ctrl.Manager
	client    client.Client
	informers *fedInformers

	Log                  logr.Logger
	Webhooks             webhook.Server
	AddError, IndexError error
	Added                []manager.Runnable
	Indexes              map[string]client.IndexerFunc
}

// NewManager returns a manager with this client.
func NewManager(t *testing.T, c client.Client) *Manager {
	informers := &fedInformers{FakeInformers: informertest.FakeInformers{Scheme: Scheme(t)}}
	return &Manager{client: c, informers: informers, Indexes: map[string]client.IndexerFunc{}}
}

func (m *Manager) GetClient() client.Client   { return m.client }
func (m *Manager) GetCache() cache.Cache      { return m.informers }
func (m *Manager) GetScheme() *runtime.Scheme { return m.informers.Scheme }
func (m *Manager) GetLogger() logr.Logger     { return m.Log }
func (m *Manager) GetControllerOptions() ctrlconfig.Controller {
	return ctrlconfig.Controller{SkipNameValidation: new(true)}
}
func (m *Manager) GetFieldIndexer() client.FieldIndexer { return m }
func (m *Manager) GetWebhookServer() webhook.Server     { return m.Webhooks }

func (m *Manager) Add(r manager.Runnable) error {
	m.Added = append(m.Added, r)
	return m.AddError
}

func (m *Manager) IndexField(_ context.Context, _ client.Object, field string, extract client.IndexerFunc) error {
	m.Indexes[field] = extract
	return m.IndexError
}

// Run runs what setUp adds, in a bubble of synctest, until the test ends.
func (m *Manager) Run(t *testing.T, setUp func(context.Context, ctrl.Manager) error) {
	t.Helper()
	if err := setUp(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, r := range m.Added {
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

// Event is one event of a watch: without Before it is an Add, without After a Delete.
type Event struct{ Before, After client.Object }

// Send feeds an event and waits until nothing moves.
func (m *Manager) Send(t *testing.T, e Event) {
	t.Helper()
	object := e.After
	if object == nil {
		object = e.Before
	}
	informer, err := m.informers.FakeInformerFor(t.Context(), object)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case e.Before == nil:
		informer.Add(e.After)
	case e.After == nil:
		informer.Delete(e.Before)
	default:
		informer.Update(e.Before, e.After)
	}
	synctest.Wait()
}

// CheckSetUp checks what every SetUp has: an error of the manager is returned, and a second manager
// of the process can have the same controller.
func CheckSetUp(t *testing.T, setUp func(context.Context, ctrl.Manager) error) {
	t.Helper()
	for range 2 {
		if err := setUp(t.Context(), NewManager(t, nil)); err != nil {
			t.Fatal(err)
		}
	}
	m := NewManager(t, nil)
	m.AddError = errors.New("no more")
	if err := setUp(t.Context(), m); !errors.Is(err, m.AddError) {
		t.Errorf("got error %v, want the manager's", err)
	}
}

// CheckPatchAnswers checks what a reconciler returns for each answer to the write that it makes.
func CheckPatchAnswers(t *testing.T, newHub func(*testing.T, ...client.Object) *Hub, key client.ObjectKey, object client.Object, build func(client.Client) reconcile.Reconciler) {
	t.Helper()
	request := ctrl.Request{NamespacedName: key}
	group, broken := schema.GroupResource{Resource: "things"}, errors.New("broken")
	for name, tc := range map[string]struct {
		answer, wantErr error
		wantResult      ctrl.Result
	}{
		"written":               {},
		"another was faster":    {answer: apierrors.NewConflict(group, "x", nil), wantResult: ctrl.Result{RequeueAfter: 50 * time.Millisecond}},
		"the object is gone":    {answer: apierrors.NewNotFound(group, "x")},
		"the server is failing": {answer: broken, wantErr: broken},
	} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, object.DeepCopyObject().(client.Object))
			hub.WriteError = tc.answer
			result, err := build(hub).Reconcile(t.Context(), request)
			if !errors.Is(err, tc.wantErr) || result != tc.wantResult || len(hub.Written) != 1 {
				t.Errorf("got %v, error %v after %q; want %v, error %v", result, err, hub.Written, tc.wantResult, tc.wantErr)
			}
		})
	}
	t.Run("an object that changed meanwhile is not overwritten", func(t *testing.T) {
		hub := newHub(t, object.DeepCopyObject().(client.Object))
		hub.Meanwhile = func(store client.Client) {
			changed := object.DeepCopyObject().(client.Object)
			if err := store.Get(t.Context(), key, changed); err != nil {
				t.Fatal(err)
			}
			changed.SetAnnotations(map[string]string{"changed": "meanwhile"})
			if err := store.Update(t.Context(), changed); err != nil {
				t.Fatal(err)
			}
		}
		result, err := build(hub).Reconcile(t.Context(), request)
		if err != nil || result.RequeueAfter != 50*time.Millisecond {
			t.Errorf("got %v, error %v, want another try after 50ms", result, err)
		}
	})
	t.Run("the object cannot be read", func(t *testing.T) {
		hub := newHub(t, object.DeepCopyObject().(client.Object))
		hub.Reads[hub.kind(object)] = broken
		if _, err := build(hub).Reconcile(t.Context(), request); !errors.Is(err, broken) || len(hub.Written) > 0 {
			t.Errorf("got error %v after %q", err, hub.Written)
		}
	})
	deleted := object.DeepCopyObject().(client.Object)
	deleted.SetDeletionTimestamp(new(fixture.At(0)))
	deleted.SetFinalizers([]string{"a.io/b"})
	for name, objects := range map[string][]client.Object{"the object is gone before it is read": nil, "the object is being deleted": {deleted}} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, objects...)
			result, err := build(hub).Reconcile(t.Context(), request)
			if err != nil || result != (ctrl.Result{}) || len(hub.Written) > 0 {
				t.Errorf("got %v, error %v after %q", result, err, hub.Written)
			}
		})
	}
}
