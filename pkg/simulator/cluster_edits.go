package simulator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// EditEvict is the only kind of a ClusterEdit that is no kind of an Edit, which replaces a
// PlacementEviction instead.
const EditEvict = "evict"

// EditOf returns a ClusterEdit, of another kind than evict, as an Edit.
func EditOf(e berthv1alpha1.ClusterEdit) Edit {
	return Edit{Kind: e.Kind, Cluster: e.Cluster, Key: e.Key, Value: e.Value, Effect: e.Effect, Remove: e.Remove}
}

// OfClusters returns the edit as a ClusterEdit; false if it edits something else than clusters.
func (e *Edit) OfClusters() (berthv1alpha1.ClusterEdit, bool) {
	edit := berthv1alpha1.ClusterEdit{Kind: e.Kind, Cluster: e.Cluster, Key: e.Key, Value: e.Value, Effect: e.Effect, Remove: e.Remove}
	return edit, slices.Contains([]string{EditTaint, EditDrain, EditLabel, EditLose}, e.Kind)
}

// CheckClusterEdit returns what is wrong with a ClusterEdit for any fleet.
func CheckClusterEdit(edit berthv1alpha1.ClusterEdit) error {
	if (edit.Kind == EditLose) != (edit.Cluster == "") {
		return fmt.Errorf("cluster: %s needs %s", edit.Kind, map[bool]string{true: "none", false: "the name of a cluster"}[edit.Kind == EditLose])
	}
	if edit.Kind == EditEvict {
		return nil
	}
	e := EditOf(edit)
	return e.Check()
}

// EditSnapshot returns a trial Snapshot with changes of clusters, in their order. Only members of
// the sets that are bound to the namespace change. unmatched counts the edits that change none of
// them.
func EditSnapshot(s *framework.Snapshot, edits []berthv1alpha1.ClusterEdit) (edited *framework.Snapshot, unmatched int, err error) {
	for _, one := range edits {
		var changes bool
		switch e := EditOf(one); one.Kind {
		case EditLose:
			s, changes, err = loseIn(s, &e)
		case EditEvict:
			s, changes = evictIn(s, one.Cluster)
		default:
			s, changes = changeIn(s, &e)
		}
		if err != nil {
			return nil, 0, err
		}
		if !changes {
			unmatched++
		}
	}
	return s, unmatched, nil
}

func loseIn(s *framework.Snapshot, e *Edit) (*framework.Snapshot, bool, error) {
	key, err := e.domainKey()
	if err != nil {
		return nil, false, err
	}
	var lost framework.Bitset
	for _, set := range s.Bound {
		for i := range set.Members.All {
			if key.Of(s.Clusters.Get(i).ManagedCluster) == e.Value {
				lost = lost.Set(i)
			}
		}
	}
	if lost.Len() == 0 {
		return s, false, nil
	}
	return s.WithoutClusters(lost), true, nil
}

func changeIn(s *framework.Snapshot, e *Edit) (*framework.Snapshot, bool) {
	cluster := s.Cluster(e.Cluster)
	if cluster == nil || !s.IsUsable(cluster) {
		return s, false
	}
	object := cluster.DeepCopy()
	e.changeCluster(object, metav1.NewTime(s.Now))
	changed := cluster.Changed(object)
	changed.Tainted, changed.TaintTimes = len(object.Spec.Taints) > 0, make([]time.Time, len(object.Spec.Taints))
	for i, taint := range object.Spec.Taints {
		changed.TaintTimes[i] = s.Now
		if old := slices.IndexFunc(cluster.Spec.Taints, func(t v1alpha1.Taint) bool {
			return t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
		}); old >= 0 {
			changed.TaintTimes[i] = cluster.TaintTimes[old]
		}
	}
	return s.WithCluster(changed), true
}

// evictIn evicts a published cluster; no other one can be evicted.
func evictIn(s *framework.Snapshot, cluster string) (*framework.Snapshot, bool) {
	if !slices.Contains(s.Subject.LastNames(), cluster) {
		return s, false
	}
	return s.WithEviction(framework.Eviction{
		Cluster: cluster, Name: s.Subject.Placement.Name + "-new", Until: s.Now.Add(berthv1alpha1.DefaultExcludeForSeconds * time.Second),
	}), true
}

// CheckClusterEdits returns what is wrong with the first invalid edit.
func CheckClusterEdits(edits []berthv1alpha1.ClusterEdit) error {
	for i, e := range edits {
		if err := CheckClusterEdit(e); err != nil {
			return fmt.Errorf("edits[%d]: %w", i, err)
		}
	}
	if len(edits) > berthv1alpha1.MaxClusterEdits {
		return errors.New("edits: too many")
	}
	return nil
}
