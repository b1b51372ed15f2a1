package decisions

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestPageObject(t *testing.T) {
	yes := true
	owner := metav1.OwnerReference{
		APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "Placement", Name: "p", UID: "uid-p",
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
	sibling := owner
	sibling.UID = "uid-q"
	misnamed, otherKind := owner, owner
	misnamed.Name, otherKind.Kind = "q", "PlacementSet"
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "uid-x"}
	unblocking, uncontrolling := owner, owner
	unblocking.BlockOwnerDeletion, uncontrolling.Controller = new(false), nil
	stale := metav1.OwnerReference{APIVersion: "cluster.open-cluster-management.io/v1alpha1", Kind: "Placement", Name: "p", UID: "uid-p"}
	labels := map[string]string{
		"cluster.open-cluster-management.io/placement":            "p",
		"cluster.open-cluster-management.io/decision-group-name":  "a",
		"cluster.open-cluster-management.io/decision-group-index": "3",
	}
	published := metav1.ObjectMeta{
		Name: "p-decision-1", Namespace: "ns", UID: "u", ResourceVersion: "7",
		Annotations: map[string]string{"note": "1"}, Finalizers: []string{"f"},
	}
	with := func(labels map[string]string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
		m := *published.DeepCopy()
		m.Labels, m.OwnerReferences = labels, owners
		return m
	}
	extra := map[string]string{"team": "x"}
	maps.Copy(extra, labels)
	for name, tc := range map[string]struct {
		current *v1alpha1.PlacementDecision
		want    metav1.ObjectMeta
	}{
		"new": {
			want: metav1.ObjectMeta{Name: "p-decision-1", Namespace: "ns", Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
		},
		"what others put there stays": {
			current: &v1alpha1.PlacementDecision{ObjectMeta: with(map[string]string{"team": "x"}, other)},
			want:    with(extra, other, owner),
		},
		"a reference of ours that is not whole is replaced": {
			current: &v1alpha1.PlacementDecision{ObjectMeta: with(nil, stale)},
			want:    with(labels, owner),
		},
		"one that does not block the Placement's deletion, too": {
			current: &v1alpha1.PlacementDecision{ObjectMeta: with(nil, unblocking)},
			want:    with(labels, owner),
		},
		"and one that is not the controller": {
			current: &v1alpha1.PlacementDecision{ObjectMeta: with(nil, uncontrolling)},
			want:    with(labels, owner),
		},
		"one of another name": {
			current: &v1alpha1.PlacementDecision{ObjectMeta: with(nil, misnamed)},
			want:    with(labels, owner),
		},
		"one of another kind": {
			current: &v1alpha1.PlacementDecision{ObjectMeta: with(nil, otherKind)},
			want:    with(labels, owner),
		},
		"a reference to another Placement stays": {
			current: &v1alpha1.PlacementDecision{ObjectMeta: with(nil, sibling)},
			want:    with(labels, sibling, owner),
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.current.DeepCopy()
			got := Page{Name: "p-decision-1", GroupName: "a", GroupIndex: 3, Current: tc.current}.Object(testPlacement())
			if d := cmp.Diff(tc.want, got.ObjectMeta); d != "" {
				t.Errorf("metadata (-want +got):\n%s", d)
			}
			if got.Status.Decisions == nil {
				t.Error("decisions are null")
			}
			if d := cmp.Diff(before, tc.current); d != "" {
				t.Errorf("the published object was changed: %s", d)
			}
		})
	}
}
