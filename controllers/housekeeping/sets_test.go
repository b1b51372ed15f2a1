package housekeeping

import (
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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
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
			hub.MustGet(t, key, got)
			if n := got.Status.Clusters; n == nil || *n > 0 != (tc.want.Status == metav1.ConditionFalse) || *n > 0 && tc.want.Message != fmt.Sprintf("%d ManagedClusters selected", *n) {
				t.Errorf("%v clusters, want %q", n, tc.want.Message)
			}
			if diff := cmp.Diff([]metav1.Condition{tc.want}, got.Status.Conditions, withoutTransition); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			hub.CheckWritten(t, "patch status /s")
		})
	}
}

func TestClusterSetReconcile(t *testing.T) {
	memoryhub.CheckPatchAnswers(t, newMemoryHub, types.NamespacedName{Name: "s"}, fixture.Set("s"), func(c client.Client) reconcile.Reconciler { return (&ClusterSetReconciler{Client: c}) })
	t.Run("clusters cannot be listed", func(t *testing.T) {
		hub := newMemoryHub(t, fixture.Set("s"))
		broken := errors.New("broken")
		hub.Lists["ManagedClusterList"] = broken
		result, err := (&ClusterSetReconciler{Client: hub}).Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "s"}})
		if !errors.Is(err, broken) || result != (ctrl.Result{}) || len(hub.Written) > 0 {
			t.Errorf("got %v, error %v after %q", result, err, hub.Written)
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
			hub.WriteError = tc.answer
			key := types.NamespacedName{Name: tc.name}
			result, err := (&ClusterSetReconciler{Client: hub}).Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			if !errors.Is(err, tc.wantErr) || result != (ctrl.Result{}) {
				t.Errorf("got %v, error %v", result, err)
			}
			hub.CheckWritten(t, tc.written...)
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
			hub.MustGet(t, client.ObjectKeyFromObject(tc.set), got)
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

func TestClusterSetSetUp(t *testing.T) {
	memoryhub.CheckSetUp(t, (&ClusterSetReconciler{}).SetUp)
	m := memoryhub.NewManager(t, nil)
	m.IndexError = errors.New("no index")
	if err := (&ClusterSetReconciler{}).SetUp(t.Context(), m); !errors.Is(err, m.IndexError) || len(m.Added) > 0 {
		t.Errorf("got error %v, want the indexer's; added: %v", err, m.Added)
	}
	if diff := cmp.Diff([]string{"s"}, m.Indexes["metadata.labels."+v1alpha1.ClusterSetLabel](fixture.Cluster("c").Set("s").Obj())); diff != "" {
		t.Errorf("indexed by (-want +got):\n%s", diff)
	}
	generation := func(n int64) *v1alpha1.ManagedClusterSet {
		set := fixture.Set("a")
		set.Generation = n
		return set
	}
	cluster := func(set string) fixture.ClusterBuilder { return fixture.Cluster("c").Set(set) }
	tests := map[string]struct {
		event memoryhub.Event
		lists error
		want  []string
	}{
		"a set comes":                      {event: memoryhub.Event{After: generation(1)}, want: []string{"/a"}},
		"a set goes":                       {event: memoryhub.Event{Before: generation(1)}, want: []string{"/a"}},
		"a set's spec changes":             {event: memoryhub.Event{Before: generation(1), After: generation(2)}, want: []string{"/a"}},
		"a set's status changes":           {event: memoryhub.Event{Before: generation(1), After: generation(1)}},
		"a cluster comes":                  {event: memoryhub.Event{After: cluster("a").Obj()}, want: []string{"/a", "/global", "/selector"}},
		"a cluster of no known set comes":  {event: memoryhub.Event{After: cluster("z").Obj()}, want: []string{"/global", "/selector"}},
		"a cluster goes":                   {event: memoryhub.Event{Before: cluster("b").Obj()}, want: []string{"/b", "/global", "/selector"}},
		"a cluster moves":                  {event: memoryhub.Event{Before: cluster("a").Obj(), After: cluster("b").Obj()}, want: []string{"/a", "/b", "/global", "/selector"}},
		"a cluster's taints change":        {event: memoryhub.Event{Before: cluster("a").Obj(), After: cluster("a").Taint("x", "", "").Obj()}},
		"a cluster begins to go":           {event: memoryhub.Event{Before: cluster("a").Obj(), After: cluster("a").Deleting().Obj()}, want: []string{"/a", "/global", "/selector"}},
		"a cluster changes while it goes":  {event: memoryhub.Event{Before: cluster("a").Deleting().Obj(), After: cluster("a").Deleting().Obj()}},
		"a cluster comes, the list failed": {event: memoryhub.Event{After: cluster("a").Obj()}, lists: errors.New("broken")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newMemoryHub(t, fixture.Set("a"), fixture.Set("b"), fixture.SelectorSet("selector", onlyNew()))
				m := memoryhub.NewManager(t, hub)
				m.Run(t, (&ClusterSetReconciler{Client: hub}).SetUp)
				hub.CheckRead(t, "ManagedClusterSet", "/default", "/global")
				if tc.lists != nil {
					hub.Lists["ManagedClusterSetList"] = tc.lists
				}
				m.Send(t, tc.event)
				hub.CheckRead(t, "ManagedClusterSet", tc.want...)
			})
		})
	}
}

func TestBindingReconcile(t *testing.T) {
	reconciler := func(c client.Client) reconcile.Reconciler { return (&BindingReconciler{Client: c}) }
	memoryhub.CheckPatchAnswers(t, newMemoryHub, types.NamespacedName{Namespace: "n", Name: "s"}, fixture.Binding("n", "s"), reconciler)
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
				hub.Reads["ManagedClusterSet"] = tc.reads
			}
			key := client.ObjectKeyFromObject(tc.binding)
			// The second time there is nothing to write.
			for range 2 {
				if result, err := reconciler(hub).Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, tc.wantErr) || result != (ctrl.Result{}) {
					t.Fatalf("got %v, error %v", result, err)
				}
			}
			var want []metav1.Condition
			var wantWritten []string
			if tc.wantErr == nil {
				want, wantWritten = []metav1.Condition{tc.want}, []string{"patch status n/s"}
			}
			got := &v1alpha1.ManagedClusterSetBinding{}
			hub.MustGet(t, key, got)
			if diff := cmp.Diff(want, got.Status.Conditions, withoutTransition); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			hub.CheckWritten(t, wantWritten...)
		})
	}
}

func TestBindingSetUp(t *testing.T) {
	memoryhub.CheckSetUp(t, (&BindingReconciler{}).SetUp)
	generation := func(n int64) *v1alpha1.ManagedClusterSetBinding {
		binding := fixture.Binding("m", "b")
		binding.Generation = n
		return binding
	}
	tests := map[string]struct {
		event memoryhub.Event
		lists error
		want  []string
	}{
		"a binding comes":                 {event: memoryhub.Event{After: generation(1)}, want: []string{"m/b"}},
		"a binding goes":                  {event: memoryhub.Event{Before: generation(1)}, want: []string{"m/b"}},
		"a binding's spec changes":        {event: memoryhub.Event{Before: generation(1), After: generation(2)}, want: []string{"m/b"}},
		"a binding's status changes":      {event: memoryhub.Event{Before: generation(1), After: generation(1)}},
		"a set comes":                     {event: memoryhub.Event{After: fixture.Set("s")}, want: []string{"m/s", "n/s"}},
		"a set goes":                      {event: memoryhub.Event{Before: fixture.Set("s")}, want: []string{"m/s", "n/s"}},
		"a set changes":                   {event: memoryhub.Event{Before: fixture.Set("s"), After: fixture.Set("s")}},
		"a set comes, the list failed":    {event: memoryhub.Event{After: fixture.Set("s")}, lists: errors.New("broken")},
		"a set comes that has no binding": {event: memoryhub.Event{After: fixture.Set("z")}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newMemoryHub(t, fixture.Binding("n", "s"), fixture.Binding("m", "s"), fixture.Binding("m", "t"))
				if tc.lists != nil {
					hub.Lists["ManagedClusterSetBindingList"] = tc.lists
				}
				m := memoryhub.NewManager(t, hub)
				m.Run(t, (&BindingReconciler{Client: hub}).SetUp)
				m.Send(t, tc.event)
				hub.CheckRead(t, "ManagedClusterSetBinding", tc.want...)
			})
		})
	}
}
