package simulator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Edited is what edits change.
type Edited struct {
	// Changed are the objects that are created or differ, Removed those that are gone. Both are in
	// the order of kinds and names.
	Changed, Removed Objects
}

// Apply returns what edits change on a hub with these objects, each applied to the result of those
// before it. It does not modify the objects.
func (o Objects) Apply(edits []Edit, now time.Time) (*Edited, error) {
	e := &editor{before: make(map[identity]client.Object, len(o)), now: map[identity]client.Object{}, at: metav1.NewTime(now)}
	for _, object := range o {
		e.before[identityOf(object)] = object
	}
	for i := range edits {
		if err := edits[i].Check(); err != nil {
			return nil, err
		}
		if err := e.apply(&edits[i]); err != nil {
			return nil, err
		}
	}
	return e.result(), nil
}

// editor applies edits.
type editor struct {
	before map[identity]client.Object
	// now has the objects that were edited; nil for one that is gone.
	now map[identity]client.Object
	at  metav1.Time
}

// identity identifies an object.
type identity struct{ group, kind, namespace, name string }

func identityOf(object client.Object) identity {
	gk := object.GetObjectKind().GroupVersionKind().GroupKind()
	if kind, ok := kinds.Of(object); ok {
		gk = schema.GroupKind{Group: kind.GroupVersion.Group, Kind: kind.Name}
	}
	return identity{gk.Group, gk.Kind, object.GetNamespace(), object.GetName()}
}

func (i identity) String() string {
	if i.namespace != "" {
		return i.kind + " " + i.namespace + "/" + i.name
	}
	return i.kind + " " + i.name
}

func (e *editor) result() *Edited {
	edited := &Edited{}
	order := map[string]int{}
	for i, kind := range kinds.All() {
		order[kind.Name] = i - len(kinds.All())
	}
	for _, id := range slices.SortedFunc(maps.Keys(e.now), func(a, b identity) int {
		if a.kind != b.kind {
			return order[a.kind] - order[b.kind]
		}
		return strings.Compare(a.String(), b.String())
	}) {
		if object := e.now[id]; object != nil {
			edited.Changed = append(edited.Changed, object)
		} else if before := e.before[id]; before != nil {
			edited.Removed = append(edited.Removed, before)
		}
	}
	return edited
}

// get returns an object as it is after the edits so far; nil for none.
func (e *editor) get(id identity) client.Object {
	if object, edited := e.now[id]; edited {
		return object
	}
	return e.before[id]
}

// all calls visit with each object as it is after the edits so far.
func (e *editor) all(visit func(id identity, object client.Object)) {
	for id, object := range e.before {
		if _, edited := e.now[id]; !edited {
			visit(id, object)
		}
	}
	for id, object := range e.now {
		if object != nil {
			visit(id, object)
		}
	}
}

func (e *editor) apply(edit *Edit) error {
	switch edit.Kind {
	case EditTaint, EditDrain, EditLabel:
		return editOf(e, "", edit.Cluster, func(c *v1alpha1.ManagedCluster) { edit.changeCluster(c, e.at) })
	case EditLose:
		return e.lose(edit)
	case EditNumber:
		namespace, name, _ := strings.Cut(edit.Placement, "/")
		return editOf(e, namespace, name, func(pl *v1alpha1.Placement) {
			pl.Spec.NumberOfClusters = edit.Number
			pl.Generation++
		})
	case EditReplace:
		return e.replace(edit)
	case EditRemove:
		kind, namespace, name, err := edit.removed()
		if err != nil {
			return err
		}
		return e.remove(identity{kind.GroupVersion.Group, kind.Name, namespace, name})
	}
	return nil
}

// editOf changes a copy of one object of a kind.
func editOf[T client.Object](e *editor, namespace, name string, change func(T)) error {
	var none T
	kind, _ := kinds.Of(none)
	id := identity{kind.GroupVersion.Group, kind.Name, namespace, name}
	object, ok := e.get(id).(T)
	if !ok {
		return fmt.Errorf("%w %s", ErrNoObject, id)
	}
	edited := object.DeepCopyObject().(T)
	change(edited)
	e.now[id] = edited
	return nil
}

// changeCluster changes a cluster by an edit of kind taint, drain or label.
func (e *Edit) changeCluster(c *v1alpha1.ManagedCluster, at metav1.Time) {
	switch e.Kind {
	case EditTaint:
		setTaint(c, v1alpha1.Taint{Key: e.Key, Value: e.Value, Effect: v1alpha1.TaintEffect(e.Effect), TimeAdded: at}, e.Remove)
	case EditDrain:
		setTaint(c, v1alpha1.Taint{Key: v1alpha1.DrainTaint, Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: at}, e.Remove)
	case EditLabel:
		setLabel(c, e.Key, e.Value, e.Remove)
	}
}

// setLabel sets a label of a cluster, or removes it.
func setLabel(c *v1alpha1.ManagedCluster, key, value string, remove bool) {
	if remove {
		delete(c.Labels, key)
		return
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	c.Labels[key] = value
}

// setTaint sets a taint of a cluster, or removes it: those of all effects if the effect is empty. A
// taint that the cluster has keeps its timeAdded.
func setTaint(c *v1alpha1.ManagedCluster, taint v1alpha1.Taint, remove bool) {
	c.Spec.Taints = slices.DeleteFunc(c.Spec.Taints, func(t v1alpha1.Taint) bool {
		same := t.Key == taint.Key && (taint.Effect == "" || t.Effect == taint.Effect)
		if same && !remove && t.Value == taint.Value {
			taint.TimeAdded = t.TimeAdded
		}
		return same
	})
	if !remove {
		c.Spec.Taints = append(c.Spec.Taints, taint)
	}
}

// lose removes the clusters of a domain.
func (e *editor) lose(edit *Edit) error {
	key, err := edit.domainKey()
	if err != nil {
		return err
	}
	var lost []identity
	e.all(func(id identity, object client.Object) {
		if c, ok := object.(*v1alpha1.ManagedCluster); ok && key.Of(c) == edit.Value {
			lost = append(lost, id)
		}
	})
	if len(lost) == 0 {
		return fmt.Errorf("%w cluster with %s=%s", ErrNoObject, key, edit.Value)
	}
	for _, id := range lost {
		e.now[id] = nil
	}
	return nil
}

// replace replaces the object of the same name, or adds one, like kubectl replace or create. An
// object without a status keeps that of the replaced one. A taint without timeAdded gets that of
// the same taint on the replaced cluster, or now.
func (e *editor) replace(edit *Edit) error {
	object, err := edit.Replacement()
	if err != nil {
		return err
	}
	next := object.DeepCopyObject().(client.Object)
	id := identityOf(next)
	old := e.get(id)
	if old != nil {
		keepMetadata(old, next)
	}
	inherit(old, next, e.at)
	e.now[id] = next
	return nil
}

// Replacement returns the object of an edit of kind replace.
func (e *Edit) Replacement() (client.Object, error) {
	if e.Object != nil {
		return e.Object, nil
	}
	object, err := parseObject(e.Text)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	return object, nil
}

// parseObject reads one object of a kind on which decisions depend.
func parseObject(text string) (client.Object, error) {
	input, err := LoadInto(metav1.NamespaceDefault, []string{"-"}, strings.NewReader(text))
	switch {
	case err != nil:
		return nil, err
	case input.Scenarios != nil || len(input.Objects) != 1:
		return nil, errors.New("there must be one object, such as a Placement or ManagedCluster")
	}
	return input.Objects[0], nil
}

// remove removes an object, and those that a removed Placement controls, like a hub's garbage
// collector.
func (e *editor) remove(id identity) error {
	gone := e.get(id)
	if gone == nil {
		return fmt.Errorf("%w %s", ErrNoObject, id)
	}
	removed := []identity{id}
	if pl, ok := gone.(*v1alpha1.Placement); ok {
		e.all(func(of identity, object client.Object) {
			if object.GetNamespace() == id.namespace && pl.Controls(object) {
				removed = append(removed, of)
			}
		})
	}
	for _, id := range removed {
		e.now[id] = nil
	}
	return nil
}

// keepMetadata copies the metadata that a hub keeps when an object is replaced.
func keepMetadata(old, next client.Object) {
	next.SetUID(old.GetUID())
	next.SetResourceVersion(old.GetResourceVersion())
	next.SetGeneration(old.GetGeneration())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	next.SetDeletionTimestamp(old.GetDeletionTimestamp())
	if len(next.GetOwnerReferences()) == 0 {
		next.SetOwnerReferences(old.GetOwnerReferences())
	}
}

// inherit completes an object of Berth's kinds with the fields that it does not set: from the
// object that it replaces, or from an empty one if old is nil.
func inherit(old, next client.Object, now metav1.Time) {
	kind, ok := kinds.Of(next)
	if !ok {
		return
	}
	if old == nil {
		old = kind.New()
	}
	kind.KeepStatus(old, next)
	switch next := next.(type) {
	case *v1alpha1.Placement:
		if !equality.Semantic.DeepEqual(old.(*v1alpha1.Placement).Spec, next.Spec) {
			next.Generation++
		}
	case *v1alpha1.ManagedCluster:
		dateTaints(next, old.(*v1alpha1.ManagedCluster).Spec.Taints, now)
	}
}

// dateTaints sets timeAdded on taints that lack it: that of the same taint before, or the given
// time.
func dateTaints(cluster *v1alpha1.ManagedCluster, before []v1alpha1.Taint, otherwise metav1.Time) {
	for i := range cluster.Spec.Taints {
		taint := &cluster.Spec.Taints[i]
		if !taint.TimeAdded.IsZero() {
			continue
		}
		taint.TimeAdded = otherwise
		for _, old := range before {
			if old.Key == taint.Key && old.Value == taint.Value && old.Effect == taint.Effect {
				taint.TimeAdded = old.TimeAdded
			}
		}
	}
}
