package housekeeping

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

func newMemoryHub(t *testing.T, objects ...client.Object) *memoryhub.Hub {
	builder := memoryhub.Builder(t).WithIndex(&v1alpha1.ManagedCluster{}, exclusiveIndex, setOfCluster)
	return memoryhub.New(builder.WithIndex(&v1alpha1.ManagedCluster{}, profileIndex, profileOfCluster), objects...)
}

// clusterCase is a cluster, and what a reconciler makes of it.
type clusterCase struct {
	cluster fixture.ClusterBuilder
	// wantLabels and wantTaints are those of a cluster that is changed.
	wantChange bool
	wantLabels map[string]string
	wantTaints []v1alpha1.Taint
}

func testClusterReconciler(t *testing.T, wantName string, build func(client.Client) *ClusterReconciler, tests map[string]clusterCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := tc.cluster.Obj()
			hub := newMemoryHub(t, cluster)
			k := build(hub)
			if got := k.NeedsUpdate(cluster); got != tc.wantChange || k.Name != wantName {
				t.Errorf("NeedsUpdate of %s is %t", k.Name, got)
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
			hub.CheckWritten(t, wantWritten...)
			got := &v1alpha1.ManagedCluster{}
			hub.MustGet(t, client.ObjectKeyFromObject(cluster), got)
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
	testClusterReconciler(t, "cluster-default-set", newDefaultSetReconciler, map[string]clusterCase{
		"without labels": {cluster: fixture.Cluster("c"), wantChange: true, wantLabels: map[string]string{v1alpha1.ClusterSetLabel: "default"}},
		"with another label": {
			cluster: fixture.Cluster("c").Label("a", "b"), wantChange: true,
			wantLabels: map[string]string{"a": "b", v1alpha1.ClusterSetLabel: "default"},
		},
		"with an empty label": {cluster: fixture.Cluster("c").Set(""), wantChange: true, wantLabels: map[string]string{v1alpha1.ClusterSetLabel: "default"}},
		"in a set":            {cluster: fixture.Cluster("c").Set("s")},
	})
}

func TestTaintTimeKeeper(t *testing.T) {
	build := func(c client.Client) *ClusterReconciler {
		return newTaintTimeReconciler(c, func() time.Time { return fixture.Now })
	}
	testClusterReconciler(t, "cluster-taint-time", build, map[string]clusterCase{
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
}

func TestAvailabilityKeeper(t *testing.T) {
	build := func(c client.Client) *ClusterReconciler {
		return newAvailabilityReconciler(c, func() time.Time { return fixture.Now })
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
	testClusterReconciler(t, "cluster-availability", build, map[string]clusterCase{
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
	// The condition may disappear between the check and the change.
	tainted := fixture.Cluster("c").TaintAt(unavailable, "", noSelect, earlier).Obj()
	if build(nil).Update(tainted); len(tainted.Spec.Taints) != 1 {
		t.Errorf("without a condition the taints became %v", tainted.Spec.Taints)
	}
}

func TestKeeperReconcile(t *testing.T) {
	memoryhub.CheckPatchAnswers(t, newMemoryHub, types.NamespacedName{Name: "c"}, fixture.Cluster("c").Obj(), func(c client.Client) reconcile.Reconciler { return newDefaultSetReconciler(c) })
}

func TestKeeperSetUp(t *testing.T) {
	memoryhub.CheckSetUp(t, newDefaultSetReconciler(nil).SetUp)
	needsUpdate, kept := fixture.Cluster("c"), fixture.Cluster("c").Set("s")
	tests := map[string]struct {
		event memoryhub.Event
		want  []string
	}{
		"a cluster comes":                   {event: memoryhub.Event{After: needsUpdate.Obj()}, want: []string{"/c"}},
		"a cluster without need comes":      {event: memoryhub.Event{After: kept.Obj()}},
		"a cluster comes while it goes":     {event: memoryhub.Event{After: fixture.Cluster("c").Deleting().Obj()}},
		"a cluster gets a need":             {event: memoryhub.Event{Before: kept.Obj(), After: needsUpdate.Obj()}, want: []string{"/c"}},
		"a cluster has no need any more":    {event: memoryhub.Event{Before: needsUpdate.Obj(), After: kept.Obj()}},
		"a cluster with a need is deleted":  {event: memoryhub.Event{Before: needsUpdate.Obj()}},
		"a cluster with a need is changing": {event: memoryhub.Event{Before: needsUpdate.Obj(), After: needsUpdate.Obj()}, want: []string{"/c"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newMemoryHub(t)
				m := memoryhub.NewManager(t, hub)
				m.Run(t, newDefaultSetReconciler(hub).SetUp)
				m.Send(t, tc.event)
				hub.CheckRead(t, "ManagedCluster", tc.want...)
			})
		})
	}
}
