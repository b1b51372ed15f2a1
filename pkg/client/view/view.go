package view

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// View follows the objects of one kind. It shows them as they were together at one moment: after a
// lost connection the new list replaces all objects at once. The store of an informer replaces one
// after the other, so that a cluster that moved to another page can be on none for a moment.
type View[O client.Object] struct {
	Options[O]

	reflector *cache.Reflector

	mu      sync.RWMutex
	objects map[types.NamespacedName]O
	groups  map[string]map[types.NamespacedName]O
	synced  bool
	// lost is since when the view may lack changes; zero while the watch is open.
	lost time.Time
	err  error
}

// maxPause is the longest pause between two attempts to reach the hub, without jitter.
const maxPause = 5 * time.Second

// Options describe the objects of a View.
type Options[O client.Object] struct {
	// List returns an empty list of the kind.
	List func() client.ObjectList
	// Select is what the list asks for.
	Select []client.ListOption
	// GroupOf divides the objects for Group; nil for one group.
	GroupOf func(O) string
	// Strip removes from an object what need not be kept; nil for nothing.
	Strip func(O)
	// Changed is called after each change; nil for nothing. It must not block.
	Changed func()
}

// New returns a View of the objects of a hub. Run starts it.
func New[O client.Object](hub client.WithWatch, o Options[O]) *View[O] {
	if o.GroupOf == nil {
		o.GroupOf = func(O) string { return "" }
	}
	if o.Strip == nil {
		o.Strip = func(O) {}
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	v := &View[O]{Options: o, lost: time.Now()}
	with := func(o metav1.ListOptions) []client.ListOption {
		return append([]client.ListOption{&client.ListOptions{Raw: &o, Limit: o.Limit, Continue: o.Continue}}, v.Select...)
	}
	v.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := v.List()
			v.asking()
			err := hub.List(ctx, list, with(o)...)
			v.answered(err, false)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			v.asking()
			w, err := hub.Watch(ctx, v.List(), with(o)...)
			v.answered(err, o.SendInitialEvents == nil || !*o.SendInitialEvents)
			return w, err
		},
	}, nil, store[O]{v}, cache.ReflectorOptions{
		Name: "view", TypeDescription: fmt.Sprintf("%T", *new(O)),
		Backoff: &wait.Backoff{Duration: 100 * time.Millisecond, Cap: maxPause, Steps: 10, Factor: 2, Jitter: 1},
	})
	return v
}

// Metadata returns a function that returns empty lists of the metadata of a kind.
func Metadata(kind schema.GroupVersionKind) func() client.ObjectList {
	kind.Kind += "List"
	return func() client.ObjectList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		return list
	}
}

// Run follows the hub until ctx ends.
func (v *View[O]) Run(ctx context.Context) { v.reflector.RunWithContext(ctx) }

// Complete reports whether all objects were listed once.
func (v *View[O]) Complete() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.synced
}

// Lost returns since when the view may lack changes, and the last error; zero while it follows the
// hub.
func (v *View[O]) Lost() (since time.Time, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.lost, v.err
}

// Get returns one object. Do not change it.
func (v *View[O]) Get(key types.NamespacedName) (object O, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	object, ok = v.objects[key]
	return object, ok
}

// Group returns the objects of one group, in no order. Do not change them.
func (v *View[O]) Group(name string) []O {
	v.mu.RLock()
	defer v.mu.RUnlock()
	objects := make([]O, 0, len(v.groups[name]))
	for _, object := range v.groups[name] {
		objects = append(objects, object)
	}
	return objects
}

// asking notes that changes may be missing until the hub answers.
func (v *View[O]) asking() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost.IsZero() {
		v.lost = time.Now()
	}
}

func (v *View[O]) answered(err error, open bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err = err; err == nil && open {
		v.lost = time.Time{}
	}
}

func (v *View[O]) set(object O) {
	object.SetManagedFields(nil)
	v.Strip(object)
	key := client.ObjectKeyFromObject(object)
	v.unset(key)
	v.objects[key] = object
	group := v.GroupOf(object)
	if v.groups[group] == nil {
		v.groups[group] = map[types.NamespacedName]O{}
	}
	v.groups[group][key] = object
}

func (v *View[O]) unset(key types.NamespacedName) {
	old, ok := v.objects[key]
	if !ok {
		return
	}
	delete(v.objects, key)
	group := v.GroupOf(old)
	if delete(v.groups[group], key); len(v.groups[group]) == 0 {
		delete(v.groups, group)
	}
}

// store is what the reflector writes to.
type store[O client.Object] struct{ *View[O] }

func (s store[O]) do(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.Changed()
}

func (s store[O]) Add(object any) error {
	s.do(func() { s.set(object.(O)) })
	return nil
}

func (s store[O]) Update(object any) error { return s.Add(object) }

func (s store[O]) Delete(object any) error {
	s.do(func() { s.unset(client.ObjectKeyFromObject(object.(O))) })
	return nil
}

func (s store[O]) Replace(objects []any, _ string) error {
	s.do(func() {
		s.objects, s.groups = map[types.NamespacedName]O{}, map[string]map[types.NamespacedName]O{}
		for _, object := range objects {
			s.set(object.(O))
		}
		s.synced, s.lost, s.err = true, time.Time{}, nil
	})
	return nil
}

func (s store[O]) Resync() error { return nil }
