// Package kinds is the table of the kinds on which decisions depend, those of Open Cluster
// Management and Berth's own. The feed, the inventory, the simulator and the commands read it: a
// new kind needs one entry here and a handler in the inventory.
package kinds

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Object is one object of a kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// ObjectList is a list of objects of a kind.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// Kind describes one kind, for code that handles objects of every kind.
type Kind struct {
	Name, Plural string
	// GroupVersion is the version that is read, watched and stored.
	GroupVersion schema.GroupVersion
	Namespaced   bool
	// Aliases are words for the kind on the command line, beside its name and its plural.
	Aliases []string

	New     func() Object
	NewList func() ObjectList
	// KeepStatus copies the status of an older state to an object without a status.
	KeepStatus func(older, object Object)

	goType reflect.Type
}

// Optional reports whether the controller runs on hubs that do not serve the kind.
func (k Kind) Optional() bool { return k.GroupVersion.Group == berthv1alpha1.GroupName }

// all is in processing order: clusters before the Placements that select them, Placements before
// their pages.
var all = []Kind{
	of[v1alpha1.ManagedClusterSetList](v1alpha1.GroupVersionV1Beta2, "ManagedClusterSet", "managedclustersets", false,
		func(o *v1alpha1.ManagedClusterSet) *v1alpha1.ManagedClusterSetStatus { return &o.Status }, "set", "mclset"),
	of[v1alpha1.ManagedClusterSetBindingList](v1alpha1.GroupVersionV1Beta2, "ManagedClusterSetBinding", "managedclustersetbindings", true,
		func(o *v1alpha1.ManagedClusterSetBinding) *v1alpha1.ManagedClusterSetBindingStatus { return &o.Status }, "binding", "mclsetbinding"),
	of[v1alpha1.ManagedClusterList](v1alpha1.GroupVersionV1, "ManagedCluster", "managedclusters", false,
		func(o *v1alpha1.ManagedCluster) *v1alpha1.ManagedClusterStatus { return &o.Status }, "cluster", "mcl"),
	of[v1alpha1.AddOnPlacementScoreList](v1alpha1.GroupVersion, "AddOnPlacementScore", "addonplacementscores", true,
		func(o *v1alpha1.AddOnPlacementScore) *v1alpha1.AddOnPlacementScoreStatus { return &o.Status }, "score"),
	of[berthv1alpha1.DisruptionPolicyList](berthv1alpha1.GroupVersion, "DisruptionPolicy", "disruptionpolicies", true,
		func(o *berthv1alpha1.DisruptionPolicy) *berthv1alpha1.DisruptionPolicyStatus { return &o.Status }, "dp"),
	of[berthv1alpha1.SelectionPolicyList](berthv1alpha1.GroupVersion, "SelectionPolicy", "selectionpolicies", true,
		func(o *berthv1alpha1.SelectionPolicy) *berthv1alpha1.SelectionPolicyStatus { return &o.Status }, "slp"),
	of[v1alpha1.PlacementList](v1alpha1.GroupVersionV1Beta1, "Placement", "placements", true,
		func(o *v1alpha1.Placement) *v1alpha1.PlacementStatus { return &o.Status }, "pl"),
	of[berthv1alpha1.PlacementChangeList](berthv1alpha1.GroupVersion, "PlacementChange", "placementchanges", true,
		func(o *berthv1alpha1.PlacementChange) *berthv1alpha1.PlacementChangeStatus { return &o.Status }, "pch"),
	of[berthv1alpha1.PlacementEvictionList](berthv1alpha1.GroupVersion, "PlacementEviction", "placementevictions", true,
		func(o *berthv1alpha1.PlacementEviction) *berthv1alpha1.PlacementEvictionStatus { return &o.Status }, "eviction", "pev"),
	of[v1alpha1.PlacementDecisionList](v1alpha1.GroupVersionV1Beta1, "PlacementDecision", "placementdecisions", true,
		func(o *v1alpha1.PlacementDecision) *v1alpha1.PlacementDecisionStatus { return &o.Status }, "decision", "pd"),
}

// of returns one entry of the table; L is the type of the list.
func of[L, T, S any, O interface {
	*T
	Object
}, P interface {
	*L
	ObjectList
}](version schema.GroupVersion, name, plural string, namespaced bool, status func(O) *S, aliases ...string) Kind {
	return Kind{
		Name: name, Plural: plural, GroupVersion: version, Namespaced: namespaced, Aliases: aliases,
		New:     func() Object { return O(new(T)) },
		NewList: func() ObjectList { return P(new(L)) },
		KeepStatus: func(older, object Object) {
			var none S
			if to := status(object.(O)); equality.Semantic.DeepEqual(*to, none) {
				*to = *status(older.(O))
			}
		},
		goType: reflect.TypeFor[O](),
	}
}

var (
	byType = index(func(k Kind) reflect.Type { return k.goType })
	byKind = index(func(k Kind) schema.GroupKind { return schema.GroupKind{Group: k.GroupVersion.Group, Kind: k.Name} })
)

func index[K comparable](key func(Kind) K) map[K]Kind {
	m := make(map[K]Kind, len(all))
	for _, k := range all {
		m[key(k)] = k
	}
	return m
}

// All returns the table.
func All() []Kind { return slices.Clone(all) }

// Of returns the kind of an object by its Go type; false for an object of another kind.
func Of(object any) (Kind, bool) {
	k, ok := byType[reflect.TypeOf(object)]
	return k, ok
}

// Get returns the kind of a group and a name.
func Get(group, kind string) (Kind, bool) {
	k, ok := byKind[schema.GroupKind{Group: group, Kind: kind}]
	return k, ok
}

// InGroup reports whether a group has kinds in the table.
func InGroup(group string) bool {
	return slices.ContainsFunc(all, func(k Kind) bool { return k.GroupVersion.Group == group })
}

// Named returns the kind for a word on the command line: its name, plural or alias, in any letter
// case, also with its group behind a dot, as kubectl -o name prints it.
func Named(word string) (Kind, bool) {
	word, group, qualified := strings.Cut(strings.ToLower(word), ".")
	singular := strings.TrimSuffix(word, "s")
	for _, k := range all {
		if qualified && group != k.GroupVersion.Group {
			continue
		}
		if word == strings.ToLower(k.Name) || word == k.Plural || slices.Contains(k.Aliases, word) || slices.Contains(k.Aliases, singular) {
			return k, true
		}
	}
	return Kind{}, false
}

// Names are the names of all kinds, sorted.
func Names() []string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.Name
	}
	slices.Sort(names)
	return names
}

// AddToScheme registers every kind in the version that is read, watched and stored.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	return berthv1alpha1.AddToScheme(scheme)
}

// Items returns the objects of a list.
func Items(list ObjectList) ([]Object, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	objects := make([]Object, len(items))
	for i, item := range items {
		objects[i] = item.(Object)
	}
	return objects, nil
}
