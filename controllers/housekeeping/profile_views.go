package housekeeping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/pkg/decisions"
)

// profileKind is SIG-Multicluster's ClusterProfile, profileCRD the name of its
// CustomResourceDefinition.
var (
	profileKind     = schema.FromAPIVersionAndKind(decisions.ProfileGroupVersion, "ClusterProfile")
	profileResource = profileKind.GroupVersion().WithResource("clusterprofiles")
	profileCRD      = profileResource.GroupResource().String()
)

// profileViews lists and watches the ClusterProfiles of some namespaces. A namespace that cannot be
// read is tried again and again, and keeps what was read of it before.
type profileViews struct {
	Options
	client dynamic.Interface
	// definition returns the UID of the CustomResourceDefinition.
	definition func(ctx context.Context) (types.UID, error)
	// nameOf is the name of a profile's ManagedCluster.
	nameOf func(types.NamespacedName) string

	mu       sync.Mutex
	profiles map[types.NamespacedName]*clusterProfile
	// wanted has the profiles by the name of their ManagedCluster.
	wanted map[string][]types.NamespacedName
	// listed has the namespaces of which a complete list was read. failed says why the last try
	// did not succeed.
	listed map[string]bool
	failed map[string]string
}

func newProfileViews(o Options, client dynamic.Interface, definition func(context.Context) (types.UID, error), nameOf func(types.NamespacedName) string) *profileViews {
	return &profileViews{
		Options: o, client: client, definition: definition, nameOf: nameOf,
		profiles: map[types.NamespacedName]*clusterProfile{}, wanted: map[string][]types.NamespacedName{},
		listed: map[string]bool{}, failed: map[string]string{},
	}
}

// get returns a profile; nil if there is none, or if its namespace is not known yet. complete is
// true if the namespace was listed.
func (v *profileViews) get(key types.NamespacedName) (p *clusterProfile, complete bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.profiles[key], v.listed[key.Namespace]
}

// wanting returns the profiles that want a ManagedCluster of this name, the oldest first.
func (v *profileViews) wanting(name string) []*clusterProfile {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []*clusterProfile
	for _, key := range v.wanted[name] {
		all = append(all, v.profiles[key])
	}
	slices.SortFunc(all, func(a, b *clusterProfile) int {
		return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// put stores a profile. The caller holds mu.
func (v *profileViews) put(p *clusterProfile) {
	if v.profiles[p.NamespacedName] == nil {
		name := v.nameOf(p.NamespacedName)
		v.wanted[name] = append(v.wanted[name], p.NamespacedName)
	}
	v.profiles[p.NamespacedName] = p
}

// remove removes a profile. The caller holds mu.
func (v *profileViews) remove(key types.NamespacedName) {
	name := v.nameOf(key)
	v.wanted[name] = slices.DeleteFunc(v.wanted[name], func(k types.NamespacedName) bool { return k == key })
	if len(v.wanted[name]) == 0 {
		delete(v.wanted, name)
	}
	delete(v.profiles, key)
}

// replace stores the complete list of a namespace, and returns the profiles that it no longer has.
func (v *profileViews) replace(namespace string, list []*clusterProfile) (gone []types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	present := map[types.NamespacedName]bool{}
	for _, p := range list {
		present[p.NamespacedName] = true
		v.put(p)
	}
	for key := range v.profiles {
		if key.Namespace == namespace && !present[key] {
			gone = append(gone, key)
		}
	}
	for _, key := range gone {
		v.remove(key)
	}
	v.listed[namespace] = true
	delete(v.failed, namespace)
	return gone
}

// follow lists and watches the profiles of a namespace until the context ends. changed gets each
// profile that may have changed.
func (v *profileViews) follow(ctx context.Context, namespace string, changed func(types.NamespacedName)) {
	retry := v.Retry
	for ctx.Err() == nil {
		began := time.Now()
		err := v.listAndWatch(ctx, namespace, changed)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			v.fail(namespace, err)
		}
		if time.Since(began) > v.Retry.Cap {
			retry = v.Retry
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry.Step()):
		}
	}
}

// fail logs why a namespace cannot be read, once for each reason.
func (v *profileViews) fail(namespace string, err error) {
	v.OnReadFailed(err)
	v.mu.Lock()
	known := v.failed[namespace] == err.Error()
	v.failed[namespace] = err.Error()
	v.mu.Unlock()
	if !known {
		v.Log.Info("ClusterProfiles cannot be read, so their ManagedClusters stay as they are", "namespace", namespace, "reason", err.Error())
	}
}

// listAndWatch returns when the watch has ended. The definition is read before the list: profiles
// of a definition that replaces it in between only seem older than they are.
func (v *profileViews) listAndWatch(ctx context.Context, namespace string, changed func(types.NamespacedName)) error {
	crd, err := v.definition(ctx)
	if err != nil {
		return err
	}
	objects := v.client.Resource(profileResource).Namespace(namespace)
	requests := toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	}, v.client)
	store := &profileStore{views: v, namespace: namespace, crd: crd, changed: changed}
	options := toolscache.ReflectorOptions{Name: "ClusterProfiles of " + namespace}
	return toolscache.NewReflectorWithOptions(requests, &unstructured.Unstructured{}, store, options).ListAndWatchWithContext(ctx)
}

// errTerminating is the error for a CustomResourceDefinition that is being deleted. The API server
// then deletes all its objects first.
var errTerminating = errors.New("the CustomResourceDefinition of ClusterProfiles is being deleted")

// profileStore receives the profiles of one namespace. It implements toolscache.ReflectorStore and
// toolscache.TransformingStore.
type profileStore struct {
	views     *profileViews
	namespace string
	crd       types.UID
	changed   func(types.NamespacedName)
}

// Transformer implements toolscache.TransformingStore.
func (s *profileStore) Transformer() toolscache.TransformFunc {
	return func(object any) (any, error) {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return object, nil
		}
		return &storedProfile{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName()}, clusterProfile: readProfile(u, s.crd)}, nil
	}
}

// storedProfile is a profile in the form that a reflector may keep.
type storedProfile struct {
	metav1.ObjectMeta
	*clusterProfile
}

func (s *profileStore) read(object any) (*clusterProfile, error) {
	switch o := object.(type) {
	case *storedProfile:
		return o.clusterProfile, nil
	case *unstructured.Unstructured:
		return readProfile(o, s.crd), nil
	}
	return nil, fmt.Errorf("unexpected %T in the watch of ClusterProfiles", object)
}

// Replace implements toolscache.ReflectorStore.
func (s *profileStore) Replace(list []any, _ string) error {
	profiles := make([]*clusterProfile, 0, len(list))
	for _, object := range list {
		p, err := s.read(object)
		if err != nil {
			return err
		}
		profiles = append(profiles, p)
	}
	gone := s.views.replace(s.namespace, profiles)
	s.views.Log.Info("ClusterProfiles were listed", "namespace", s.namespace, "profiles", len(profiles))
	for _, key := range gone {
		s.changed(key)
	}
	for _, p := range profiles {
		s.changed(p.NamespacedName)
	}
	// ManagedClusters whose profile went while nobody watched.
	s.changed(types.NamespacedName{Namespace: s.namespace})
	return nil
}

// Add implements toolscache.ReflectorStore.
func (s *profileStore) Add(object any) error { return s.Update(object) }

// Update implements toolscache.ReflectorStore.
func (s *profileStore) Update(object any) error { return s.change(object, s.views.put) }

// Delete implements toolscache.ReflectorStore.
func (s *profileStore) Delete(object any) error {
	return s.change(object, func(p *clusterProfile) { s.views.remove(p.NamespacedName) })
}

func (s *profileStore) change(object any, change func(*clusterProfile)) error {
	p, err := s.read(object)
	if err != nil {
		return err
	}
	s.views.mu.Lock()
	change(p)
	s.views.mu.Unlock()
	s.changed(p.NamespacedName)
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (*profileStore) Resync() error { return nil }
