package controllers

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// request is one write as the API server got it.
type request struct {
	Verb, Version, Label, Revision string
	Clusters                       []string
}

// pageHub is a hub of pages that notes the writes. The request named in failing fails.
type pageHub struct {
	client.WithWatch
	requests []request
	failing  string
}

var errRefused = errors.New("refused")

func (h *pageHub) record(verb string, o client.Object) error {
	page := o.(*v1alpha1.PlacementDecision)
	r := request{Verb: verb, Version: page.ResourceVersion, Label: page.Labels[v1alpha1.PlacementLabel],
		Revision: page.Annotations[berthv1alpha1.RevisionAnnotation]}
	for _, d := range page.Status.Decisions {
		r.Clusters = append(r.Clusters, d.ClusterName)
	}
	h.requests = append(h.requests, r)
	if verb == h.failing {
		return errRefused
	}
	return nil
}

func (h *pageHub) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := h.record("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			verb, fence := "update", o.GetAnnotations()[berthv1alpha1.FenceAnnotation]
			if by := new(client.UpdateOptions).ApplyOptions(opts).FieldManager; by == framework.FenceFieldManager && fence == o.GetResourceVersion() {
				verb = "fence"
			}
			if err := h.record(verb, o); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if err := h.record("update "+sub, o); err != nil {
				return err
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := h.record("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}
}

func newPageHub(t *testing.T, stepped bool, failing string, pages ...*v1alpha1.PlacementDecision) *pageHub {
	t.Helper()
	scheme := runtime.NewScheme()
	register := v1alpha1.AddPagesToScheme
	if stepped {
		register = v1alpha1.AddToScheme
	}
	if err := register(scheme); err != nil {
		t.Fatal(err)
	}
	builder := memoryhub.BuilderFor(scheme)
	if stepped {
		builder = builder.WithStatusSubresource(&v1alpha1.PlacementDecision{})
	}
	for _, page := range pages {
		builder = builder.WithObjects(page)
	}
	h := &pageHub{failing: failing}
	h.WithWatch = interceptor.NewClient(builder.Build(), h.funcs())
	return h
}

func (h *pageHub) pages(stepped bool) framework.PageClient {
	if stepped {
		return steppedPagesOf(h, h)
	}
	return wholePagesOf(h)
}

func pageOf(version string, clusters ...string) *v1alpha1.PlacementDecision {
	page := fixture.Page("ns", "p-decision-1").UID("u1").Version(version).Of("p").Lists(clusters...).Obj()
	page.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: "3"}
	return page
}

// TestPageWrites: each write, its requests in order, and what it returns. A write does not change
// its argument.
func TestPageWrites(t *testing.T) {
	create, update, fence := framework.PageClient.Create, framework.PageClient.Update, framework.PageClient.Fence
	ab, a := []string{"a", "b"}, []string{"a"}
	tests := map[string]struct {
		stepped     bool
		failing     string
		published   *v1alpha1.PlacementDecision
		write       func(framework.PageClient, context.Context, *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error)
		page        *v1alpha1.PlacementDecision
		want        []request
		wantVersion string
		wantErr     string
		wantKind    func(error) bool
	}{
		"create whole": {
			write: create, page: pageOf("", "a", "b"), wantVersion: "1",
			want: []request{{Verb: "create", Label: "p", Revision: "3", Clusters: ab}},
		},
		"create whole, which fails": {
			failing: "create", write: create, page: pageOf("", "a"), wantErr: "refused",
			want: []request{{Verb: "create", Label: "p", Revision: "3", Clusters: a}},
		},
		"create whole, of a name in use": {
			published: pageOf("7"), write: create, page: pageOf("", "a"), wantKind: apierrors.IsAlreadyExists,
			wantErr: `placementdecisions.cluster.open-cluster-management.io "p-decision-1" already exists`,
			want:    []request{{Verb: "create", Label: "p", Revision: "3", Clusters: a}},
		},
		"update whole": {
			published: pageOf("7", "a"), write: update, page: pageOf("7", "a", "b"), wantVersion: "8",
			want: []request{{Verb: "update", Version: "7", Label: "p", Revision: "3", Clusters: ab}},
		},
		"update whole, changed meanwhile": {
			published: pageOf("7", "a"), write: update, page: pageOf("6", "a", "b"), wantKind: apierrors.IsConflict,
			wantErr: `Operation cannot be fulfilled on placementdecisions.cluster.open-cluster-management.io "p-decision-1": object was modified`,
			want:    []request{{Verb: "update", Version: "6", Label: "p", Revision: "3", Clusters: ab}},
		},
		"fence whole": {
			published: pageOf("7", "a"), write: fence, page: pageOf("7", "a"), wantVersion: "8",
			want: []request{{Verb: "fence", Version: "7", Label: "p", Revision: "3", Clusters: a}},
		},
		"fence in steps, changed meanwhile": {
			stepped: true, published: pageOf("7", "a"), write: fence, page: pageOf("6", "a"), wantKind: apierrors.IsConflict,
			wantErr: `Operation cannot be fulfilled on placementdecisions.cluster.open-cluster-management.io "p-decision-1": object was modified`,
			want:    []request{{Verb: "fence", Version: "6", Label: "p", Revision: "3", Clusters: a}},
		},
		"create in steps": {
			stepped: true, write: create, page: pageOf("", "a", "b"), wantVersion: "3",
			want: []request{
				{Verb: "create", Clusters: ab},
				{Verb: "update status", Version: "1", Label: "p", Clusters: ab},
				{Verb: "update", Version: "2", Label: "p", Clusters: ab},
			},
		},
		"create in steps, which fails at once": {
			stepped: true, failing: "create", write: create, page: pageOf("", "a"), wantErr: "refused",
			want: []request{{Verb: "create", Clusters: a}},
		},
		"create in steps, which fails in the second": {
			stepped: true, failing: "update status", write: create, page: pageOf("", "a"), wantErr: "writing the decisions: refused",
			want: []request{{Verb: "create", Clusters: a}, {Verb: "update status", Version: "1", Label: "p", Clusters: a}},
		},
		"update in steps": {
			stepped: true, published: pageOf("7", "a"), write: update, page: pageOf("7", "a", "b"), wantVersion: "9",
			want: []request{
				{Verb: "update status", Version: "7", Label: "p", Clusters: ab},
				{Verb: "update", Version: "8", Label: "p", Clusters: ab},
			},
		},
		"update in steps, changed meanwhile": {
			stepped: true, published: pageOf("7", "a"), write: update, page: pageOf("6", "a", "b"), wantKind: apierrors.IsConflict,
			wantErr: `writing the decisions: Operation cannot be fulfilled on placementdecisions.cluster.open-cluster-management.io "p-decision-1": object was modified`,
			want:    []request{{Verb: "update status", Version: "6", Label: "p", Clusters: ab}},
		},
		"update in steps, which fails in the second": {
			stepped: true, failing: "update", published: pageOf("7"), write: update, page: pageOf("7", "a"), wantErr: "writing the labels: refused",
			want: []request{{Verb: "update status", Version: "7", Label: "p", Clusters: a}, {Verb: "update", Version: "8", Label: "p", Clusters: a}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var published []*v1alpha1.PlacementDecision
			if tc.published != nil {
				published = append(published, tc.published)
			}
			hub, before := newPageHub(t, tc.stepped, tc.failing, published...), tc.page.DeepCopy()
			got, err := tc.write(hub.pages(tc.stepped), t.Context(), tc.page)
			if diff := cmp.Diff(tc.want, hub.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.page); diff != "" {
				t.Errorf("the argument changed (-want +got):\n%s", diff)
			}
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr || tc.wantKind != nil && !tc.wantKind(err) {
					t.Errorf("got %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkPublished(t, hub, got, tc.wantVersion, tc.page)
		})
	}
}

// checkPublished compares what a write returned with what the hub has, and both with what was to be
// written.
func checkPublished(t *testing.T, hub *pageHub, returned *v1alpha1.PlacementDecision, version string, want *v1alpha1.PlacementDecision) {
	t.Helper()
	there := &v1alpha1.PlacementDecision{}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(want), there); err != nil {
		t.Fatal(err)
	}
	for where, page := range map[string]*v1alpha1.PlacementDecision{"returned": returned, "published": there} {
		if page.ResourceVersion != version {
			t.Errorf("%s with version %s, want %s", where, page.ResourceVersion, version)
		}
		if diff := cmp.Diff(want.Status, page.Status); diff != "" {
			t.Errorf("%s status (-want +got):\n%s", where, diff)
		}
		if diff := cmp.Diff(want.Labels, page.Labels); diff != "" {
			t.Errorf("%s labels (-want +got):\n%s", where, diff)
		}
	}
}

// TestDeletePage: only the very state that was planned for is deleted, and a page that is gone is
// fine.
func TestDeletePage(t *testing.T) {
	tests := map[string]struct {
		published *v1alpha1.PlacementDecision
		failing   string
		page      *v1alpha1.PlacementDecision
		wantErr   func(error) bool
		wantThere bool
	}{
		"there":              {published: pageOf("7"), page: pageOf("7")},
		"gone":               {page: pageOf("7")},
		"changed meanwhile":  {published: pageOf("8"), page: pageOf("7"), wantErr: apierrors.IsConflict, wantThere: true},
		"refused":            {published: pageOf("7"), failing: "delete", page: pageOf("7"), wantErr: func(err error) bool { return errors.Is(err, errRefused) }, wantThere: true},
		"of another content": {published: pageOf("7", "a"), page: pageOf("7")},
	}
	for name, tc := range tests {
		for kind, stepped := range map[string]bool{"whole": false, "in steps": true} {
			t.Run(name+" "+kind, func(t *testing.T) {
				var published []*v1alpha1.PlacementDecision
				if tc.published != nil {
					published = append(published, tc.published.DeepCopy())
				}
				hub := newPageHub(t, stepped, tc.failing, published...)
				err := hub.pages(stepped).Delete(t.Context(), tc.page)
				if tc.wantErr == nil && err != nil || tc.wantErr != nil && !tc.wantErr(err) {
					t.Errorf("got %v", err)
				}
				err = hub.Get(t.Context(), client.ObjectKeyFromObject(tc.page), &v1alpha1.PlacementDecision{})
				if (err == nil) != tc.wantThere {
					t.Errorf("afterwards: %v", err)
				}
			})
		}
	}
}

// TestDeletePageOptions: the deletion names the state it is for, and does not wait for dependents.
func TestDeletePageOptions(t *testing.T) {
	var got client.DeleteOptions
	hub := interceptor.NewClient(newPageHub(t, false, "").WithWatch, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
			got.ApplyOptions(opts)
			return nil
		},
	})
	if err := wholePagesOf(hub).Delete(t.Context(), pageOf("7")); err != nil {
		t.Fatal(err)
	}
	page, background := pageOf("7"), metav1.DeletePropagationBackground
	want := client.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &page.UID, ResourceVersion: &page.ResourceVersion},
		PropagationPolicy: &background,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTerminatingPage: a page with a finalizer stays, marked, until the finalizer is removed.
func TestTerminatingPage(t *testing.T) {
	for kind, stepped := range map[string]bool{"whole": false, "in steps": true} {
		t.Run(kind, func(t *testing.T) {
			page := pageOf("7", "a")
			page.Finalizers = []string{"example.com/keep"}
			hub := newPageHub(t, stepped, "", page)
			pages := hub.pages(stepped)
			if err := pages.Delete(t.Context(), page); err != nil {
				t.Fatal(err)
			}
			got, err := pages.Read(t.Context(), "ns", "p-decision-1")
			if err != nil || got.DeletionTimestamp == nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestReadPage: pages in steps are read with the reader, not the client; of the managed fields only
// the name of another writer is kept.
func TestReadPage(t *testing.T) {
	page := pageOf("7", "a")
	reader := interceptor.NewClient(newPageHub(t, false, "", page).WithWatch, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "someone", Operation: metav1.ManagedFieldsOperationUpdate}})
			return err
		},
	})
	empty := newPageHub(t, false, "")
	for name, pages := range map[string]framework.PageClient{"whole": wholePagesOf(reader), "in steps": steppedPagesOf(empty, reader)} {
		t.Run(name, func(t *testing.T) {
			got, err := pages.Read(t.Context(), "ns", "p-decision-1")
			if err != nil || !cmp.Equal(got.ManagedFields, []metav1.ManagedFieldsEntry{{Manager: "someone"}}) {
				t.Fatalf("got %v, %v", got, err)
			}
			if diff := cmp.Diff(page.Status, got.Status); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got, err := pages.Read(t.Context(), "ns", "p-decision-2"); got != nil || !apierrors.IsNotFound(err) {
				t.Errorf("a page that is not there: %v, %v", got, err)
			}
		})
	}
}
