package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/readiness"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

var applications = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}

func application(cluster, health string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"destination": map[string]any{"name": cluster}},
		"status": map[string]any{"health": map[string]any{"status": health}, "sync": map[string]any{"status": "Synced"}},
	}}
	object.SetGroupVersionKind(applications)
	object.SetNamespace("ns")
	object.SetName("app-" + cluster)
	return object
}

// newTestWatches are watches over a hub with the Applications, and a Placement that has the
// clusters a and b.
func newTestWatches(t *testing.T, objects ...runtime.Object) *readinessWatches {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(applications, meta.RESTScopeNamespace)
	sources, err := readiness.Sources(nil)
	if err != nil {
		t.Fatal(err)
	}
	resource := applications.GroupVersion().WithResource("applications")
	w := &readinessWatches{
		client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "ApplicationList"}, objects...),
		mapper: mapper, sources: map[string]*readiness.Source{}, inventory: inventory.New(inventory.Options{}), log: logr.Discard(),
		affected: func([]inventory.Key) {}, changed: func(context.Context, string) {}, policies: make(chan struct{}, 1),
	}
	for _, s := range sources {
		w.sources[s.Name] = s
	}
	pl := fixture.Placement("ns", "p").Obj()
	w.inventory.Update(pl)
	w.inventory.SetPublished(w.inventory.Subject(inventory.Key{Namespace: "ns", Name: "p"}), &framework.Published{Names: []string{"a", "b"}})
	return w
}

func usesSource(source string) *berthv1alpha1.DisruptionPolicy {
	policy := fixture.ApprovalPolicy("ns", "of-"+source)
	policy.Spec.Readiness = &berthv1alpha1.ReadinessRequirement{Source: source}
	return policy
}

// notReady is what the Placement's next Snapshot says.
func (w *readinessWatches) notReady() string {
	return fmt.Sprint(w.inventory.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil).NotReady)
}

// TestReadinessWatches: a source is watched while a policy uses it, and its objects are followed.
func TestReadinessWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWatches(t, application("a", "Healthy"), application("b", "Degraded"))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Start(ctx) }()
		expect := func(want string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := w.notReady(); got != want {
				t.Errorf("not ready: %s, want %s", got, want)
			}
		}
		expect("map[]")
		policy := usesSource("argocd")
		w.inventory.Update(policy)
		if got := w.notReady(); got != "map[a:argocd: not read yet b:argocd: not read yet]" {
			t.Errorf("before the list: %s", got)
		}
		w.policiesChanged()
		expect("map[b:argocd: 0 of 1 objects ready]")

		apps := w.client.Resource(applications.GroupVersion().WithResource("applications")).Namespace("ns")
		if _, err := apps.Update(ctx, application("b", "Healthy"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("map[]")
		if err := apps.Delete(ctx, "app-a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("map[a:argocd: no object matches]")
		if _, err := apps.Create(ctx, application("a", "Healthy"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("map[]")

		w.inventory.Delete(policy)
		w.policiesChanged()
		expect("map[]")
		if got := w.inventory.ReadinessFailure("argocd", "ns"); got != "not read yet" {
			t.Errorf("a source that no policy uses: %q", got)
		}
		w.inventory.Update(usesSource("nowhere"))
		w.inventory.Update(usesSource("manifestwork"))
		w.policiesChanged()
		time.Sleep(time.Minute)
		synctest.Wait()
		for source, want := range map[string]string{
			"nowhere":      "the configuration has no readiness source of this name; known are cluster, argocd, manifestwork",
			"manifestwork": "the hub does not serve work.open-cluster-management.io/v1 ManifestWork",
		} {
			if got := w.inventory.ReadinessFailure(source, "ns"); got != want {
				t.Errorf("%s: %q, want %q", source, got, want)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestDescribeFailure(t *testing.T) {
	w := newTestWatches(t)
	resource := schema.GroupResource{Group: "argoproj.io", Resource: "applications"}
	for want, err := range map[string]error{
		"the hub does not serve argoproj.io/v1alpha1 Application":                   apierrors.NewNotFound(resource, "x"),
		"Berth may not list and watch argoproj.io/v1alpha1 Application":             apierrors.NewForbidden(resource, "x", errors.New("secret")),
		"reading argoproj.io/v1alpha1 Application failed: the hub does not answer":  errors.New("dial tcp 10.0.0.1: refused"),
		"reading argoproj.io/v1alpha1 Application failed: Timeout":                  apierrors.NewTimeoutError("x", 1),
		"argoproj.io/v1alpha1 Application is not namespaced":                        &notNamespaced{},
		"more than 200000 objects; limit them with the labelSelector of the source": &tooManyObjects{},
	} {
		if got := describeFailure(w.sources["argocd"], err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestTooManyObjects: a source with more objects than the limit fails, whether they are listed or
// join later.
func TestTooManyObjects(t *testing.T) {
	w := newTestWatches(t)
	stopped := false
	store := &readinessStore{ctx: t.Context(), stop: func() { stopped = true }, source: w.sources["argocd"], watches: w}
	var list []any
	for i := range maxReadinessObjects + 1 {
		object := &readinessObject{}
		object.Namespace = []string{"ns", "other", "third"}[i%3]
		list = append(list, object)
	}
	if err := store.Replace(list, ""); err == nil || !stopped || store.failure == nil {
		t.Errorf("a list: %v, stopped %t", err, stopped)
	}
	store.failure, stopped = nil, false
	if err := store.Replace([]any{application("a", "Healthy")}, ""); err != nil || w.inventory.ReadinessFailure("argocd", "ns") != "" {
		t.Error(err)
	}
	store.count = maxReadinessObjects
	if err := store.Add(application("b", "Healthy")); err == nil || !stopped {
		t.Errorf("an added object: %v, stopped %t", err, stopped)
	}
	if err := store.Delete(application("b", "Healthy")); err != nil || store.count != maxReadinessObjects {
		t.Errorf("a deleted object: %v, %d", err, store.count)
	}
}

// TestTooManyObjectsOfNamespace: the objects of a namespace with more than the limit do not count,
// those of others do. When it has few enough again, all objects are listed again.
func TestTooManyObjectsOfNamespace(t *testing.T) {
	w := newTestWatches(t)
	w.inventory.Update(usesSource("argocd"))
	reported := 0
	w.changed = func(context.Context, string) { reported++ }
	other := fixture.Placement("other", "p").Obj()
	w.inventory.Update(other)
	policy := usesSource("argocd")
	policy.Namespace = "other"
	w.inventory.Update(policy)
	w.inventory.SetPublished(w.inventory.Subject(inventory.Key{Namespace: "other", Name: "p"}), &framework.Published{Names: []string{"a"}})
	reconciler := &DisruptionPolicyReconciler{Inventory: w.inventory}

	of := func(namespace, name, cluster string) *readinessObject {
		return &readinessObject{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, cluster: cluster, ready: true}
	}
	list := []any{of("other", "a", "a"), of("ns", "b", "b")}
	for i := range maxNamespaceObjects - 1 {
		list = append(list, of("ns", fmt.Sprint("a-", i), "a"))
	}
	stopped := false
	store := &readinessStore{ctx: t.Context(), stop: func() { stopped = true }, source: w.sources["argocd"], watches: w}
	expect := func(step, want, wantReason string, wantReported int) {
		t.Helper()
		reason, why := reconciler.unusable(usesSource("argocd"))
		otherReason, _ := reconciler.unusable(policy)
		otherReady := fmt.Sprint(w.inventory.Snapshot(inventory.Key{Namespace: "other", Name: "p"}, fixture.Now, nil).NotReady)
		if got := w.notReady(); got != want || reason != wantReason || reported != wantReported || otherReason != "" || otherReady != "map[]" || store.failure != nil {
			t.Errorf("%s: not ready %s; %s %s, reported %d times; other namespace %s %s; %v", step, got, reason, why, reported, otherReason, otherReady, store.failure)
		}
	}
	if err := store.Replace(list, ""); err != nil {
		t.Fatal(err)
	}
	expect("at the limit", "map[]", "", 1)
	const failed = "map[a:argocd: namespace ns has more than 100000 objects b:argocd: namespace ns has more than 100000 objects]"
	if err := store.Add(of("ns", "more", "a")); err != nil {
		t.Fatal(err)
	}
	expect("one more", failed, "ReadinessSourceNotReady", 2)
	for i := range maxNamespaceObjects - fewNamespaceObjects {
		if err := errors.Join(store.Update(of("ns", "b", "b")), store.Delete(of("ns", fmt.Sprint("a-", i), "a"))); err != nil || stopped {
			t.Fatal(err, stopped)
		}
	}
	expect("fewer", failed, "ReadinessSourceNotReady", 2)
	if err := store.Delete(of("ns", "more", "a")); err != nil || !stopped || !store.again {
		t.Errorf("few enough: %v, stopped %t, listed again %t", err, stopped, store.again)
	}
	if err := store.Replace(list, ""); err != nil {
		t.Fatal(err)
	}
	expect("listed again", "map[]", "", 3)
	if err := store.Replace(append(list, of("ns", "more", "a")), ""); err != nil {
		t.Fatal(err)
	}
	expect("listed with too many", failed, "ReadinessSourceNotReady", 4)
}

// TestDeleteReadinessObject: a deletion needs no expression of the source.
func TestDeleteReadinessObject(t *testing.T) {
	w := newTestWatches(t, application("a", "Healthy"))
	w.inventory.Update(usesSource("argocd"))
	store := &readinessStore{ctx: t.Context(), source: w.sources["argocd"], watches: w}
	if err := store.Replace([]any{application("a", "Healthy"), application("b", "Healthy")}, ""); err != nil || w.notReady() != "map[]" {
		t.Fatalf("%v, not ready: %s", err, w.notReady())
	}
	store.source = &readiness.Source{Name: "argocd"} // it panics when it is read
	if err := store.Delete(application("a", "Healthy")); err != nil || w.notReady() != "map[a:argocd: no object matches]" {
		t.Errorf("%v, not ready: %s", err, w.notReady())
	}
}

// TestWorksOfOtherTenants: ManifestWorks count for the Placements of the namespace that their label
// gives. Those of other tenants on the same clusters change nothing, however many there are.
func TestWorksOfOtherTenants(t *testing.T) {
	w := newTestWatches(t)
	w.inventory.Update(usesSource("manifestwork"))
	var affected []inventory.Key
	reported := 0
	w.affected = func(keys []inventory.Key) { affected = append(affected, keys...) }
	w.changed = func(context.Context, string) { reported++ }
	pl := fixture.Placement("ns", "p").Obj()
	pl.UID = "u1"
	w.inventory.Update(pl)
	record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-1", UID: "r1", ResourceVersion: "5", OwnerReferences: []metav1.OwnerReference{
		{Kind: "Placement", Name: "p", UID: "u1", Controller: new(true)},
	}}}
	record.Status.Phase = berthv1alpha1.PhaseProgressing
	w.inventory.Update(record)
	w.inventory.Update(fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("a", "b").Obj())
	w.inventory.SetPublished(w.inventory.Subject(inventory.Key{Namespace: "ns", Name: "p"}), &framework.Published{Names: []string{"a", "b"}})
	work := func(cluster, name, replicaSet string, ready bool) *readinessObject {
		o := &readinessObject{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}, cluster: cluster, ready: ready}
		if replicaSet != "" {
			o.Labels = map[string]string{"work.open-cluster-management.io/manifestworkreplicaset": replicaSet}
		}
		return o
	}
	store := &readinessStore{ctx: t.Context(), stop: func() {}, source: w.sources["manifestwork"], watches: w}
	mine := []any{work("a", "mine", "ns.web", true), work("b", "mine", "ns.web", false)}
	const want = "map[b:manifestwork: 0 of 1 objects ready]"
	expect := func(step string) {
		t.Helper()
		reason, why := (&DisruptionPolicyReconciler{Inventory: w.inventory}).unusable(usesSource("manifestwork"))
		if got := w.notReady(); got != want || reason != "" || len(affected) > 0 || reported > 0 {
			t.Errorf("%s: not ready %s; policy %s %s; affected %v; reported %d times", step, got, reason, why, affected, reported)
		}
		affected, reported = nil, 0
	}
	if err := store.Replace(mine, ""); err != nil {
		t.Fatal(err)
	}
	affected, reported = nil, 0
	expect("without others")
	others := []any{work("a", "not-ready", "evil.web", false), work("b", "prefix", "ns2.web", false), work("a", "no-label", "", false), work("b", "empty", ".ns", true), work("b", "ready", "evil.web", true)}
	for _, o := range others {
		if err := store.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	expect("added by others")
	if err := errors.Join(store.Update(work("a", "not-ready", "evil.web", true)), store.Update(work("a", "no-label", "evil.web", true)), store.Update(work("b", "empty", "", true))); err != nil {
		t.Fatal(err)
	}
	expect("updated by others")
	for _, o := range others {
		if err := store.Delete(o); err != nil {
			t.Fatal(err)
		}
	}
	expect("deleted by others")
	list := append(mine, others...)
	for i := range maxNamespaceObjects + 1 {
		list = append(list, work("a", fmt.Sprint("many-", i), "evil.web", false))
	}
	for i := range maxReadinessObjects {
		list = append(list, work("a", fmt.Sprint("none-", i), "", false))
	}
	if err := store.Replace(list, ""); err != nil {
		t.Fatal(err)
	}
	if got := w.notReady(); got != want || w.inventory.ReadinessFailure("manifestwork", "ns") != "" || w.inventory.ReadinessFailure("manifestwork", "evil") == "" {
		t.Errorf("with too many of others: %s, %q, %q", got, w.inventory.ReadinessFailure("manifestwork", "ns"), w.inventory.ReadinessFailure("manifestwork", "evil"))
	}

	// An object that changes sides leaves the one and joins the other.
	if err := store.Replace(mine, ""); err != nil {
		t.Fatal(err)
	}
	for step, tc := range []struct{ of, want string }{
		{"evil.web", "map[b:manifestwork: no object matches]"}, {"ns.web", "map[]"}, {"", "map[b:manifestwork: no object matches]"}, {"ns.web", "map[]"},
	} {
		if err := store.Update(work("b", "mine", tc.of, true)); err != nil || w.notReady() != tc.want {
			t.Errorf("step %d, %q: %v, not ready %s, want %s", step, tc.of, err, w.notReady(), tc.want)
		}
	}
	if err := errors.Join(store.Delete(mine[0]), store.Delete(mine[1])); err != nil || store.count != 0 || len(store.counts)+len(store.namespaces) != 0 {
		t.Errorf("after all are deleted: %v, %d, %v, %v", err, store.count, store.counts, store.namespaces)
	}
}
