package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// withoutTransition compares conditions without the time at which they were set.
var withoutTransition = cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")

// onlyNew is a selector of the clusters with the label new=yes.
func onlyNew() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"new": "yes"}}
}

func TestClusterSetCondition(t *testing.T) {
	deleting := fixture.Cluster("gone").Set("s").Label("new", "yes").Deleting().Obj()
	deleting.Finalizers = []string{"a.io/b"}
	member := func(name string) *v1alpha1.ManagedCluster { return fixture.Cluster(name).Set("s").Obj() }
	other := fixture.Cluster("other").Set("other").Label("new", "yes").Obj()
	empty := metav1.Condition{
		Type: "ClusterSetEmpty", Status: metav1.ConditionTrue, ObservedGeneration: 3, Reason: "NoClusterMatched", Message: "No ManagedCluster selected",
	}
	selected := func(message string) metav1.Condition {
		return metav1.Condition{Type: "ClusterSetEmpty", Status: metav1.ConditionFalse, ObservedGeneration: 3, Reason: "ClustersSelected", Message: message}
	}
	tests := map[string]struct {
		set      *v1alpha1.ManagedClusterSet
		clusters []client.Object
		want     metav1.Condition
	}{
		"no cluster":                   {set: fixture.Set("s"), want: empty},
		"no cluster of the set":        {set: fixture.Set("s"), clusters: []client.Object{other}, want: empty},
		"one that is being deleted":    {set: fixture.Set("s"), clusters: []client.Object{deleting}, want: empty},
		"one":                          {set: fixture.Set("s"), clusters: []client.Object{member("a"), other}, want: selected("1 ManagedClusters selected")},
		"two":                          {set: fixture.Set("s"), clusters: []client.Object{member("a"), member("b"), deleting}, want: selected("2 ManagedClusters selected")},
		"a selector that selects none": {set: fixture.SelectorSet("s", onlyNew()), clusters: []client.Object{member("a"), deleting}, want: empty},
		"a selector that selects one":  {set: fixture.SelectorSet("s", onlyNew()), clusters: []client.Object{member("a"), other}, want: selected("1 ManagedClusters selected")},
		"a selector that selects all":  {set: fixture.SelectorSet("s", &metav1.LabelSelector{}), clusters: []client.Object{member("a"), other}, want: selected("2 ManagedClusters selected")},
		"a selector that is not there": {set: fixture.SelectorSet("s", nil), clusters: []client.Object{member("a")}, want: empty},
		"a selector that is not correct": {
			set:      fixture.SelectorSet("s", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}),
			clusters: []client.Object{member("a")},
			want: metav1.Condition{
				Type: "ClusterSetEmpty", Status: metav1.ConditionTrue, ObservedGeneration: 3, Reason: "InvalidSelector",
				Message: `spec.clusterSelector.labelSelector.matchExpressions[0].operator: Unsupported value: "Is": supported values: "In", "NotIn", "Exists", "DoesNotExist"`,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.set.Generation = 3
			hub := newMemoryHub(t, append(tc.clusters, tc.set)...)
			r := &ClusterSetReconciler{Client: hub}
			key := types.NamespacedName{Name: "s"}
			// The second time there is nothing to write.
			for range 2 {
				if result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil || result != (ctrl.Result{}) {
					t.Fatalf("got %v, error %v", result, err)
				}
			}
			got := &v1alpha1.ManagedClusterSet{}
			if err := hub.Get(t.Context(), key, got); err != nil {
				t.Fatal(err)
			}
			if n := got.Status.Clusters; n == nil || *n > 0 != (tc.want.Status == metav1.ConditionFalse) || *n > 0 && tc.want.Message != fmt.Sprintf("%d ManagedClusters selected", *n) {
				t.Errorf("%v clusters, want %q", n, tc.want.Message)
			}
			if diff := cmp.Diff([]metav1.Condition{tc.want}, got.Status.Conditions, withoutTransition); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"patch status /s"}, hub.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClusterSetReconcile(t *testing.T) {
	testPatchAnswers(t, types.NamespacedName{Name: "s"}, fixture.Set("s"), func(c client.Client) func(context.Context, ctrl.Request) (ctrl.Result, error) {
		return (&ClusterSetReconciler{Client: c}).Reconcile
	})
	t.Run("clusters cannot be listed", func(t *testing.T) {
		hub := newMemoryHub(t, fixture.Set("s"))
		broken := errors.New("broken")
		hub.lists["ManagedClusterList"] = broken
		result, err := (&ClusterSetReconciler{Client: hub}).Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "s"}})
		if !errors.Is(err, broken) || result != (ctrl.Result{}) || len(hub.written) > 0 {
			t.Errorf("got %v, error %v after %q", result, err, hub.written)
		}
	})
}

func TestStandardSetsAreCreated(t *testing.T) {
	broken := errors.New("broken")
	tests := map[string]struct {
		name    string
		answer  error
		want    *v1alpha1.ManagedClusterSetSpec
		wantErr error
		written []string
	}{
		"the default set": {
			name: "default", written: []string{"create /default"},
			want: &v1alpha1.ManagedClusterSetSpec{ClusterSelector: v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.ExclusiveClusterSetLabel}},
		},
		"the global set": {
			name: "global", written: []string{"create /global"},
			want: &v1alpha1.ManagedClusterSetSpec{
				ClusterSelector: v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.LabelSelector, LabelSelector: &metav1.LabelSelector{}},
			},
		},
		"any other set":                       {name: "s"},
		"another was faster":                  {name: "default", answer: apierrors.NewAlreadyExists(schema.GroupResource{Resource: "sets"}, "default"), written: []string{"create /default"}},
		"the server is failing":               {name: "default", answer: broken, wantErr: broken, written: []string{"create /default"}},
		"the server fails for the global set": {name: "global", answer: broken, wantErr: broken, written: []string{"create /global"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newMemoryHub(t)
			hub.writeError = tc.answer
			key := types.NamespacedName{Name: tc.name}
			result, err := (&ClusterSetReconciler{Client: hub}).Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			if !errors.Is(err, tc.wantErr) || result != (ctrl.Result{}) {
				t.Errorf("got %v, error %v", result, err)
			}
			if diff := cmp.Diff(tc.written, hub.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			got := &v1alpha1.ManagedClusterSet{}
			err = hub.Get(t.Context(), key, got)
			if tc.want == nil {
				if !apierrors.IsNotFound(err) {
					t.Errorf("reading it: %v", err)
				}
				return
			}
			if diff := cmp.Diff(*tc.want, got.Spec); err != nil || diff != "" {
				t.Errorf("error %v, spec (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestStandardSelectorsAreRestored: an edit of the selector of default or global is reverted,
// unless the set's annotation keeps it.
func TestStandardSelectorsAreRestored(t *testing.T) {
	keep := map[string]string{"cluster.open-cluster-management.io/autoupdate": "false"}
	edited := func(name string, annotations map[string]string) *v1alpha1.ManagedClusterSet {
		set := fixture.SelectorSet(name, onlyNew())
		set.Annotations, set.Spec.ManagedNamespaces = annotations, []v1alpha1.ManagedNamespaceConfig{{Name: "kept"}}
		return set
	}
	tests := map[string]struct {
		set  *v1alpha1.ManagedClusterSet
		want v1alpha1.ManagedClusterSelector
	}{
		"default": {edited("default", nil), v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.ExclusiveClusterSetLabel}},
		"global": {edited("global", map[string]string{"cluster.open-cluster-management.io/autoupdate": "no"}),
			v1alpha1.ManagedClusterSelector{SelectorType: v1alpha1.LabelSelector, LabelSelector: &metav1.LabelSelector{}}},
		"default, kept": {edited("default", keep), edited("default", nil).Spec.ClusterSelector},
		"any other set": {edited("s", nil), edited("s", nil).Spec.ClusterSelector},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newMemoryHub(t, tc.set)
			for range 2 {
				if _, err := (&ClusterSetReconciler{Client: hub}).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(tc.set)}); err != nil {
					t.Fatal(err)
				}
			}
			got := &v1alpha1.ManagedClusterSet{}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(tc.set), got); err != nil {
				t.Fatal(err)
			}
			want := tc.set.Spec
			want.ClusterSelector = tc.want
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if len(got.Status.Conditions) != 1 {
				t.Errorf("conditions %v", got.Status.Conditions)
			}
		})
	}
}

// deletingCluster is the cluster while it is being deleted.
func deletingCluster(b fixture.ClusterBuilder) *v1alpha1.ManagedCluster { return b.Deleting().Obj() }

func TestClusterSetSetUp(t *testing.T) {
	testSetUp(t, func(ctx context.Context, m ctrl.Manager) error { return (&ClusterSetReconciler{}).SetUp(ctx, m) })
	m := newWatchManager(t, nil)
	m.indexError = errors.New("no index")
	if err := (&ClusterSetReconciler{}).SetUp(t.Context(), m); !errors.Is(err, m.indexError) || len(m.added) > 0 {
		t.Errorf("got error %v, want the indexer's; added: %v", err, m.added)
	}
	if diff := cmp.Diff([]string{"s"}, m.indexes["metadata.labels."+v1alpha1.ClusterSetLabel](fixture.Cluster("c").Set("s").Obj())); diff != "" {
		t.Errorf("indexed by (-want +got):\n%s", diff)
	}
	generation := func(n int64) *v1alpha1.ManagedClusterSet {
		set := fixture.Set("a")
		set.Generation = n
		return set
	}
	cluster := func(set string) fixture.ClusterBuilder { return fixture.Cluster("c").Set(set) }
	tests := map[string]struct {
		event watchEvent
		lists error
		want  []string
	}{
		"a set comes":                      {event: watchEvent{after: generation(1)}, want: []string{"/a"}},
		"a set goes":                       {event: watchEvent{before: generation(1)}, want: []string{"/a"}},
		"a set's spec changes":             {event: watchEvent{before: generation(1), after: generation(2)}, want: []string{"/a"}},
		"a set's status changes":           {event: watchEvent{before: generation(1), after: generation(1)}},
		"a cluster comes":                  {event: watchEvent{after: cluster("a").Obj()}, want: []string{"/a", "/global", "/selector"}},
		"a cluster of no known set comes":  {event: watchEvent{after: cluster("z").Obj()}, want: []string{"/global", "/selector"}},
		"a cluster goes":                   {event: watchEvent{before: cluster("b").Obj()}, want: []string{"/b", "/global", "/selector"}},
		"a cluster moves":                  {event: watchEvent{before: cluster("a").Obj(), after: cluster("b").Obj()}, want: []string{"/a", "/b", "/global", "/selector"}},
		"a cluster's taints change":        {event: watchEvent{before: cluster("a").Obj(), after: cluster("a").Taint("x", "", "").Obj()}},
		"a cluster begins to go":           {event: watchEvent{before: cluster("a").Obj(), after: deletingCluster(cluster("a"))}, want: []string{"/a", "/global", "/selector"}},
		"a cluster changes while it goes":  {event: watchEvent{before: deletingCluster(cluster("a")), after: deletingCluster(cluster("a"))}},
		"a cluster comes, the list failed": {event: watchEvent{after: cluster("a").Obj()}, lists: errors.New("broken")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newMemoryHub(t, fixture.Set("a"), fixture.Set("b"), fixture.SelectorSet("selector", onlyNew()))
				m := newWatchManager(t, hub)
				if err := (&ClusterSetReconciler{Client: hub}).SetUp(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				m.start(t)
				if diff := cmp.Diff([]string{"/default", "/global"}, hub.readOf("ManagedClusterSet")); diff != "" {
					t.Errorf("reconciled at the start (-want +got):\n%s", diff)
				}
				if tc.lists != nil {
					hub.lists["ManagedClusterSetList"] = tc.lists
				}
				m.send(t, tc.event)
				if diff := cmp.Diff(tc.want, hub.readOf("ManagedClusterSet")); diff != "" {
					t.Errorf("reconciled (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestBindingReconcile(t *testing.T) {
	reconciler := func(c client.Client) func(context.Context, ctrl.Request) (ctrl.Result, error) {
		return (&BindingReconciler{Client: c}).Reconcile
	}
	testPatchAnswers(t, types.NamespacedName{Namespace: "n", Name: "s"}, fixture.Binding("n", "s"), reconciler)
	mismatch := fixture.Binding("n", "s")
	mismatch.Spec.ClusterSet = "t"
	broken := errors.New("broken")
	tests := map[string]struct {
		binding *v1alpha1.ManagedClusterSetBinding
		sets    []client.Object
		reads   error
		want    metav1.Condition
		wantErr error
	}{
		"bound": {
			binding: fixture.Binding("n", "s"), sets: []client.Object{fixture.Set("s")},
			want: metav1.Condition{Type: "Bound", Status: metav1.ConditionTrue, ObservedGeneration: 3, Reason: "ClusterSetBound"},
		},
		"no such set": {
			binding: fixture.Binding("n", "s"), sets: []client.Object{fixture.Set("t")},
			want: metav1.Condition{
				Type: "Bound", Status: metav1.ConditionFalse, ObservedGeneration: 3, Reason: "ClusterSetNotFound", Message: `spec.clusterSet: ManagedClusterSet "s" does not exist`,
			},
		},
		"two names": {
			binding: mismatch, sets: []client.Object{fixture.Set("s"), fixture.Set("t")},
			want: metav1.Condition{
				Type: "Bound", Status: metav1.ConditionFalse, ObservedGeneration: 3, Reason: "NameMismatch",
				Message: `spec.clusterSet is "t", but must equal metadata.name "s": the binding is ignored`,
			},
		},
		"the set cannot be read": {binding: fixture.Binding("n", "s"), reads: broken, wantErr: broken},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.binding.Generation = 3
			hub := newMemoryHub(t, append(tc.sets, tc.binding)...)
			if tc.reads != nil {
				hub.reads["ManagedClusterSet"] = tc.reads
			}
			key := client.ObjectKeyFromObject(tc.binding)
			// The second time there is nothing to write.
			for range 2 {
				if result, err := reconciler(hub)(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, tc.wantErr) || result != (ctrl.Result{}) {
					t.Fatalf("got %v, error %v", result, err)
				}
			}
			var want []metav1.Condition
			var wantWritten []string
			if tc.wantErr == nil {
				want, wantWritten = []metav1.Condition{tc.want}, []string{"patch status n/s"}
			}
			got := &v1alpha1.ManagedClusterSetBinding{}
			if err := hub.Get(t.Context(), key, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Status.Conditions, withoutTransition); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantWritten, hub.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBindingSetUp(t *testing.T) {
	testSetUp(t, func(ctx context.Context, m ctrl.Manager) error { return (&BindingReconciler{}).SetUp(ctx, m) })
	generation := func(n int64) *v1alpha1.ManagedClusterSetBinding {
		binding := fixture.Binding("m", "b")
		binding.Generation = n
		return binding
	}
	tests := map[string]struct {
		event watchEvent
		lists error
		want  []string
	}{
		"a binding comes":                 {event: watchEvent{after: generation(1)}, want: []string{"m/b"}},
		"a binding goes":                  {event: watchEvent{before: generation(1)}, want: []string{"m/b"}},
		"a binding's spec changes":        {event: watchEvent{before: generation(1), after: generation(2)}, want: []string{"m/b"}},
		"a binding's status changes":      {event: watchEvent{before: generation(1), after: generation(1)}},
		"a set comes":                     {event: watchEvent{after: fixture.Set("s")}, want: []string{"m/s", "n/s"}},
		"a set goes":                      {event: watchEvent{before: fixture.Set("s")}, want: []string{"m/s", "n/s"}},
		"a set changes":                   {event: watchEvent{before: fixture.Set("s"), after: fixture.Set("s")}},
		"a set comes, the list failed":    {event: watchEvent{after: fixture.Set("s")}, lists: errors.New("broken")},
		"a set comes that has no binding": {event: watchEvent{after: fixture.Set("z")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newMemoryHub(t, fixture.Binding("n", "s"), fixture.Binding("m", "s"), fixture.Binding("m", "t"))
				if tc.lists != nil {
					hub.lists["ManagedClusterSetBindingList"] = tc.lists
				}
				m := newWatchManager(t, hub)
				if err := (&BindingReconciler{Client: hub}).SetUp(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				m.start(t)
				m.send(t, tc.event)
				if diff := cmp.Diff(tc.want, hub.readOf("ManagedClusterSetBinding")); diff != "" {
					t.Errorf("reconciled (-want +got):\n%s", diff)
				}
			})
		})
	}
}
