package recording

import (
	"encoding/json"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
)

// clusterShare is the prefix of the shares of clusters. No namespace has a space.
const clusterShare = "cluster "

// ShareOf returns whose part of a recording an object uses: its namespace; `cluster <name>` for a
// cluster and its scores; empty for the rest.
func ShareOf(kind, namespace, name string) string {
	switch kind {
	case "ManagedCluster":
		return clusterShare + name
	case "AddOnPlacementScore":
		return clusterShare + namespace
	}
	return namespace
}

// ClusterOf returns the name of the cluster of a share; false if it is not that of a cluster.
func ClusterOf(share string) (name string, ok bool) {
	if len(share) < len(clusterShare) || share[:len(clusterShare)] != clusterShare {
		return "", false
	}
	return share[len(clusterShare):], true
}

// class says in which order a share loses its entries.
type class int

// The classes. objects are those that can be reduced. shared is what decisions about Placements of
// other shares may read. framing is never removed from a segment.
const (
	objects class = iota
	decisions
	shared
	framing
)

// reducers return what decisions about other Placements read of an object: those of its namespace,
// or those that may use its cluster, need more. Other kinds are not reduced.
var reducers = map[string]func(client.Object) client.Object{
	"ManagedCluster": func(o client.Object) client.Object {
		c := &v1alpha1.ManagedCluster{ObjectMeta: identityOf(o)}
		if set, has := o.GetLabels()[v1alpha1.ClusterSetLabel]; has {
			c.Labels = map[string]string{v1alpha1.ClusterSetLabel: set[:min(len(set), 63)]}
		}
		return c
	},
	"AddOnPlacementScore": func(o client.Object) client.Object { return &v1alpha1.AddOnPlacementScore{ObjectMeta: identityOf(o)} },
	"DisruptionPolicy":    func(o client.Object) client.Object { return &berthv1alpha1.DisruptionPolicy{ObjectMeta: identityOf(o)} },
	"PlacementEviction": func(o client.Object) client.Object {
		return &berthv1alpha1.PlacementEviction{ObjectMeta: identityOf(o)}
	},
	"Placement": func(o client.Object) client.Object { return &v1alpha1.Placement{ObjectMeta: identityOf(o)} },
	"SelectionPolicy": func(o client.Object) client.Object {
		s := &berthv1alpha1.SelectionPolicy{ObjectMeta: identityOf(o)}
		spec := o.(*berthv1alpha1.SelectionPolicy).Spec
		s.Spec.Placement, s.Spec.Requests = spec.Placement, spec.Requests
		return s
	},
}

// identityOf returns the metadata of a reduced object.
func identityOf(o client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
	}
}

// reduce returns the reduced object; false if objects of its kind are not reduced.
func reduce(object client.Object) (client.Object, bool) {
	kind, ok := kinds.Of(object)
	if !ok || reducers[kind.Name] == nil {
		return nil, false
	}
	return reducers[kind.Name](object), true
}

// reduceEntry returns the entry of the reduced object of an entry.
func reduceEntry(e *Entry) (*Written, error) {
	for _, kind := range kinds.All() {
		if kind.Name != e.Kind {
			continue
		}
		object := kind.New().(client.Object)
		if err := json.Unmarshal(e.Object, object); err != nil {
			return nil, err
		}
		reduced := *e
		reduced.Object, reduced.TaintTimes, reduced.Reduced = nil, nil, true
		return &Written{Entry: &reduced, Object: reducers[kind.Name](object)}, nil
	}
	return nil, nil
}

// share returns whose part of the recording an entry uses, and its class.
func (e *Entry) share() (string, class) {
	switch e.Type {
	case TypeHeader, TypeGap, TypeCheckpoint, TypeEnd:
		return "", framing
	case TypeDecision:
		if e.Decision != nil {
			return e.Decision.Namespace, decisions
		}
	case string(inventory.InputReadiness):
		return shareOfReadiness(e.Readiness), shared
	case string(inventory.InputObject), TypeStatus:
		share := ShareOf(e.Kind, e.Namespace, e.Name)
		if reducers[e.Kind] != nil && !e.Reduced {
			return share, objects
		}
		return share, shared
	}
	return ShareOf(e.Kind, e.Namespace, e.Name), shared
}

func shareOfReadiness(in *inventory.ReadinessInput) string {
	switch {
	case in == nil:
		return ""
	case in.Deleted != nil:
		return in.Deleted.Namespace
	case len(in.Objects) == 0:
		return ""
	case in.Objects[0].PlacementNamespace != "":
		return in.Objects[0].PlacementNamespace
	}
	return in.Objects[0].Namespace
}

// shareOfItem returns whose part of the buffer an item uses.
func shareOfItem(it *item) string {
	switch {
	case it.decision != nil:
		return it.decision.Namespace
	case it.input == nil:
		return ""
	case it.input.Object != nil:
		if kind, ok := kinds.Of(it.input.Object); ok {
			return ShareOf(kind.Name, it.input.Object.GetNamespace(), it.input.Object.GetName())
		}
	case it.input.Readiness != nil:
		return shareOfReadiness(it.input.Readiness)
	}
	return it.input.Placement.Namespace
}

// itemSize is how much memory an item takes at least.
const itemSize = 512

// sizeOfItem estimates the memory that an item keeps. A checkpoint refers to what the inventory
// keeps.
func sizeOfItem(it *item) int64 {
	size := int64(itemSize)
	switch {
	case it.decision != nil:
		size += int64(64 * (len(it.decision.Added) + len(it.decision.Removed) + len(it.decision.Timers.ReadySince) + len(it.decision.Timers.Unrecorded)))
	case it.input == nil:
	case it.input.Object != nil:
		size += sizeOfValue(reflect.ValueOf(it.input.Object), 0)
	case it.input.Published != nil:
		size += int64(64*(len(it.input.Published.Names)+len(it.input.Published.Scores)) + len(it.input.Published.Queue))
	case it.input.Readiness != nil:
		for i := range it.input.Readiness.Objects {
			size += sizeOfValue(reflect.ValueOf(&it.input.Readiness.Objects[i]), 0)
		}
	default:
		size += int64(64 * len(it.input.Clusters))
	}
	return size
}

// maxDepth is that of the largest kinds.
const maxDepth = 32

// sizeOfValue estimates the memory of a value.
func sizeOfValue(v reflect.Value, depth int) (size int64) {
	if depth > maxDepth || v.IsZero() || v.Type() == reflect.TypeFor[time.Time]() {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		return sizeOfValue(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Fields describes each field, which takes longer.
			size += sizeOfValue(v.Field(i), depth+1)
		}
	case reflect.Slice, reflect.Array:
		size = int64(v.Len()) * int64(v.Type().Elem().Size())
		for i := range v.Len() {
			switch v.Type().Elem().Kind() {
			case reflect.String, reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
				size += sizeOfValue(v.Index(i), depth+1)
			default:
				return size
			}
		}
	case reflect.Map:
		size = int64(v.Len()) * 64
		for each := v.MapRange(); each.Next(); {
			size += sizeOfValue(each.Key(), depth+1) + sizeOfValue(each.Value(), depth+1)
		}
	}
	return size
}
