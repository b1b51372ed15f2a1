package caches

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Transform returns the transform of a process's caches. An object of another kind, which a plugin
// may read, loses its managed fields.
func Transform(process Process) cache.TransformFunc {
	trims := map[string]func(metav1.Object){}
	for _, r := range Table() {
		if slices.Contains(r.Processes, process) {
			trims[r.Kind] = Trim(process, r.Kind)
		}
	}
	return func(object any) (any, error) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return object, nil //nolint:nilerr // A packed record is trimmed already.
		}
		trim := trims[kindOf(object)]
		if trim == nil {
			trim = stripManagedFields
		}
		trim(accessor)
		return object, nil
	}
}

// Trim returns what removes from an object of a kind all that the process does not read.
func Trim(process Process, kind string) func(metav1.Object) {
	for _, r := range Table() {
		if r.Kind == kind && slices.Contains(r.Processes, process) && r.trim != nil {
			return r.trim
		}
	}
	return stripManagedFields
}

// kindOf returns the kind of an object: by its type, or of its metadata as it says.
func kindOf(object any) string {
	if o, ok := object.(*metav1.PartialObjectMetadata); ok {
		return o.Kind
	}
	if t := reflect.TypeOf(object); t.Kind() == reflect.Pointer {
		return t.Elem().Name()
	}
	return ""
}

func stripManagedFields(object metav1.Object) { object.SetManagedFields(nil) }

// keepMeta keeps of the metadata what identifies the object, and its times.
func keepMeta(object metav1.Object) {
	keepLabels()(object)
	object.SetLabels(nil)
}

// keepLabels is keepMeta with these annotations and the labels. Plugins select objects by labels,
// and those of a Secret name its member.
func keepLabels(annotations ...string) func(metav1.Object) {
	return func(object metav1.Object) {
		object.SetManagedFields(nil)
		object.SetOwnerReferences(nil)
		object.SetFinalizers(nil)
		object.SetAnnotations(only(object.GetAnnotations(), annotations))
	}
}

// only returns the entries with these keys; nil if there are none.
func only(all map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// trimPlacement removes the copy of the object that kubectl apply adds. Of the managed fields of a
// Placement it keeps who edited the spec. Queues and plugins can read every other annotation.
func trimPlacement(object metav1.Object) {
	if pl, ok := object.(*v1alpha1.Placement); ok {
		framework.KeepEditor(pl)
	} else {
		stripManagedFields(object)
	}
	if all := object.GetAnnotations(); all[corev1.LastAppliedConfigAnnotation] != "" {
		delete(all, corev1.LastAppliedConfigAnnotation)
		object.SetAnnotations(all)
	}
}

// trimPage keeps the whole page, because the publisher writes whole pages.
func trimPage(object metav1.Object) {
	if page, ok := object.(*v1alpha1.PlacementDecision); ok {
		framework.KeepOtherWriter(page)
	}
}

// trimPublished keeps of a page what shows its clusters and whose it is.
func trimPublished(object metav1.Object) {
	stripManagedFields(object)
	object.SetFinalizers(nil)
	object.SetAnnotations(only(object.GetAnnotations(), []string{berthv1alpha1.RevisionAnnotation}))
	object.SetLabels(only(object.GetLabels(), []string{v1alpha1.PlacementLabel, v1alpha1.DecisionGroupNameLabel, v1alpha1.DecisionGroupIndexLabel}))
}

func trimLease(object metav1.Object) {
	keepMeta(object)
	if l, ok := object.(*coordinationv1.Lease); ok {
		l.Spec = coordinationv1.LeaseSpec{RenewTime: l.Spec.RenewTime}
	}
}

func trimExplanation(object metav1.Object) {
	keepMeta(object)
	if e, ok := object.(*berthv1alpha1.PlacementExplanation); ok {
		e.Spec = berthv1alpha1.PlacementExplanationSpec{}
		e.Status = berthv1alpha1.PlacementExplanationStatus{Conditions: e.Status.Conditions}
	}
}

func trimClusterSecret(object metav1.Object) {
	keepMeta(object)
	if s, ok := object.(*corev1.Secret); ok {
		s.Data = map[string][]byte{"name": s.Data["name"], "server": s.Data["server"]}
	}
}

// trimCluster keeps MaxLabels labels, and MaxResources entries of status.capacity and of
// status.allocatable, because each heartbeat compares them; only other CRDs than Berth's allow more
// resources. The label of its set is always kept.
func trimCluster(object metav1.Object) {
	stripManagedFields(object)
	if c, ok := object.(*v1alpha1.ManagedCluster); ok {
		set, labelled := c.Labels[v1alpha1.ClusterSetLabel]
		if c.Labels = firstOf(c.Labels, MaxLabels); labelled {
			c.Labels[v1alpha1.ClusterSetLabel] = set
		}
		c.Status.Capacity, c.Status.Allocatable = firstOf(c.Status.Capacity, v1alpha1.MaxResources), firstOf(c.Status.Allocatable, v1alpha1.MaxResources)
	}
}

// firstOf returns at most so many entries, in the order of the names, so that the same map is
// always cut in the same way.
func firstOf[M ~map[K]V, K cmp.Ordered, V any](all M, most int) M {
	if len(all) <= most {
		return all
	}
	kept := make(M, most)
	for _, name := range slices.Sorted(maps.Keys(all))[:most] {
		kept[name] = all[name]
	}
	return kept
}

func trimScore(object metav1.Object) {
	keepMeta(object)
	if s, ok := object.(*v1alpha1.AddOnPlacementScore); ok {
		s.Status = v1alpha1.AddOnPlacementScoreStatus{Scores: cutScores(s.Status.Scores), ValidUntil: s.Status.ValidUntil}
	}
}

// cutScores returns the scores without those beyond MaxScoreItems or MaxScoreNames, in the order of
// the names.
func cutScores(all []v1alpha1.AddOnPlacementScoreItem) []v1alpha1.AddOnPlacementScoreItem {
	size := 0
	for _, s := range all {
		size += len(s.Name)
	}
	if len(all) <= MaxScoreItems && size <= MaxScoreNames {
		return all
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b v1alpha1.AddOnPlacementScoreItem) int { return cmp.Compare(a.Name, b.Name) })
	size = 0
	for i, s := range sorted {
		if size += len(s.Name); i == MaxScoreItems || size > MaxScoreNames {
			return slices.Clone(sorted[:i])
		}
	}
	return sorted
}
