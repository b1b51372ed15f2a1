package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// profileHub is a hub of pages of ClusterProfiles that notes requests with a page's name and
// version, and fails some of them.
type profileHub struct {
	client.WithWatch
	calls    []string
	failures map[string]error
}

func (h *profileHub) record(verb string, o client.Object) error {
	kind := o.GetObjectKind().GroupVersionKind()
	if kind != (schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "PlacementDecision"}) {
		return fmt.Errorf("a request for %s", kind)
	}
	h.calls = append(h.calls, fmt.Sprintf("%s %s@%s", verb, o.GetName(), o.GetResourceVersion()))
	return h.failures[verb+" "+o.GetName()]
}

func newProfileHub(t *testing.T, published ...*unstructured.Unstructured) *profileHub {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(profileKind(""), &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(profileKind("List"), &unstructured.UnstructuredList{})
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, page := range published {
		builder = builder.WithObjects(page)
	}
	h := &profileHub{failures: map[string]error{}}
	h.WithWatch = interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := h.record("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := h.record("update", o); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := h.record("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	return h
}

// profilePage is a published page of a Placement in ns; an empty Placement is none.
func profilePage(placement, name, version, index string, clusters ...string) *unstructured.Unstructured {
	labels := map[string]any{}
	if placement != "" {
		labels = map[string]any{
			v1alpha1.PlacementLabel: placement, decisions.DecisionKeyLabel: placement, decisions.DecisionIndexLabel: index,
			v1alpha1.DecisionGroupIndexLabel: index, v1alpha1.DecisionGroupNameLabel: "",
		}
	}
	list := []any{}
	for _, c := range clusters {
		list = append(list, map[string]any{"clusterProfileRef": map[string]any{"name": c}})
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace": "ns", "name": name, "uid": "u", "resourceVersion": version, "labels": labels,
		},
		"decisions": list, "schedulerName": "berth",
	}}
	if placement != "" {
		u.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{
			"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "name": placement, "uid": "ns/" + placement,
			"controller": true, "blockOwnerDeletion": true,
		}}
	}
	u.SetGroupVersionKind(profileKind(""))
	return u
}

func without(label string, page *unstructured.Unstructured) *unstructured.Unstructured {
	labels := page.GetLabels()
	delete(labels, label)
	page.SetLabels(labels)
	return page
}

func planOf(pages ...[]string) (plan decisions.Plan) {
	for i, clusters := range pages {
		plan.Pages = append(plan.Pages, decisions.Page{
			Name: fmt.Sprintf("p-decision-%d", i+1), GroupIndex: i, Decisions: fixture.Page("ns", "x").Lists(clusters...).Obj().Status.Decisions,
		})
	}
	return plan
}

// TestProfilePagesPublish: the requests, in order, and the pages afterwards.
func TestProfilePagesPublish(t *testing.T) {
	down := errors.New("hub is down")
	exists := func() *unstructured.Unstructured { return profilePage("", "p-decision-1", "5", "") }
	tests := map[string]struct {
		published []*unstructured.Unstructured
		plan      decisions.Plan
		failures  map[string]error
		want      []string
		wantPages []string
		wantErr   string
	}{
		"the first page": {
			plan: planOf([]string{"a"}), want: []string{"create p-decision-1@"}, wantPages: []string{"p-decision-1: a"},
		},
		"nothing to do": {
			published: []*unstructured.Unstructured{profilePage("p", "p-decision-1", "5", "0", "a")},
			plan:      planOf([]string{"a"}), wantPages: []string{"p-decision-1: a"},
		},
		"other clusters, and a page too many": {
			published: []*unstructured.Unstructured{profilePage("p", "p-decision-1", "5", "0", "a"), profilePage("p", "p-decision-2", "6", "1")},
			plan:      planOf([]string{"a", "b"}), want: []string{"update p-decision-1@5", "delete p-decision-2@6"}, wantPages: []string{"p-decision-1: a b"},
		},
		"pages of other Placements stay": {
			published: []*unstructured.Unstructured{profilePage("q", "q-decision-1", "5", "0", "a")},
			plan:      planOf([]string{"b"}), want: []string{"create p-decision-1@"}, wantPages: []string{"p-decision-1: b", "q-decision-1: a"},
		},
		"a name in use": {
			published: []*unstructured.Unstructured{exists()}, plan: planOf([]string{"a"}),
			want:      []string{"create p-decision-1@", "create p-decision-2@"},
			wantPages: []string{"p-decision-1: ", "p-decision-2: a"},
		},
		"many names in use": {
			published: []*unstructured.Unstructured{exists(), profilePage("", "p-decision-2", "5", ""), profilePage("q", "p-decision-3", "5", "0", "b")},
			plan:      planOf([]string{"a"}), want: []string{"create p-decision-1@", "create p-decision-4@"},
			wantPages: []string{"p-decision-1: ", "p-decision-2: ", "p-decision-3: b", "p-decision-4: a"},
		},
		"a page too many that only readers find": {
			published: []*unstructured.Unstructured{
				profilePage("p", "p-decision-1", "5", "0", "a"), without(v1alpha1.PlacementLabel, profilePage("p", "p-decision-2", "6", "1", "b")),
			},
			plan: planOf([]string{"a"}), want: []string{"delete p-decision-2@6"}, wantPages: []string{"p-decision-1: a"},
		},
		"a page that readers do not find": {
			published: []*unstructured.Unstructured{without(decisions.DecisionKeyLabel, profilePage("p", "p-decision-1", "5", "0", "a"))},
			plan:      planOf([]string{"a"}), want: []string{"create p-decision-1@", "update p-decision-1@5"}, wantPages: []string{"p-decision-1: a"},
		},
		"a creation that fails for another reason": {
			plan: planOf([]string{"a"}), failures: map[string]error{"create p-decision-1": down},
			want: []string{"create p-decision-1@"}, wantErr: "Create of PlacementDecision ns/p-decision-1 of ClusterProfiles: hub is down",
		},
		"an update that fails": {
			published: []*unstructured.Unstructured{profilePage("p", "p-decision-1", "5", "0", "a")}, failures: map[string]error{"update p-decision-1": down},
			plan: planOf([]string{"b"}), want: []string{"update p-decision-1@5"}, wantPages: []string{"p-decision-1: a"},
			wantErr: "Update of PlacementDecision ns/p-decision-1 of ClusterProfiles: hub is down",
		},
		"a deletion that fails": {
			published: []*unstructured.Unstructured{profilePage("p", "p-decision-1", "5", "0", "a"), profilePage("p", "p-decision-2", "6", "1")},
			plan:      planOf([]string{"a"}), failures: map[string]error{"delete p-decision-2": down},
			want: []string{"delete p-decision-2@6"}, wantPages: []string{"p-decision-1: a", "p-decision-2: "},
			wantErr: "Delete of PlacementDecision ns/p-decision-2 of ClusterProfiles: hub is down",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newProfileHub(t, tc.published...)
			if tc.failures != nil {
				hub.failures = tc.failures
			}
			pages := &profilePages{decisions.Profiles{SchedulerName: "berth"}, hub, new(sync.Map)}
			err := pages.publish(t.Context(), fixture.Placement("ns", "p").Obj(), tc.plan)
			if err == nil != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("got %v, want %s", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, hub.calls); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantPages, hub.content(t)); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnansweredWriteOfAProfilePageCannotFollow: after a write without answer the page gets another
// version, although it lists the clusters of the next plan. Pages of other objects do not.
func TestUnansweredWriteOfAProfilePageCannotFollow(t *testing.T) {
	foreign := profilePage("p", "q-decision-1", "1", "0")
	foreign.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "q", UID: "q", Controller: new(true)}})
	hub := newProfileHub(t, profilePage("p", "p-decision-1", "5", "0", "a"), foreign)
	pages, pl := &profilePages{decisions.Profiles{SchedulerName: "berth"}, hub, new(sync.Map)}, fixture.Placement("ns", "p").Obj()
	hub.failures["update p-decision-1"] = errLost
	for _, cluster := range []string{"b", "a"} {
		if err := pages.publish(t.Context(), pl, planOf([]string{cluster})); !errors.Is(err, errLost) {
			t.Errorf("got %v", err)
		}
	}
	hub.failures, hub.calls = nil, nil
	for range 2 {
		if err := pages.publish(t.Context(), pl, planOf([]string{"a"})); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"update p-decision-1@5"}, hub.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	published, err := pages.list(t.Context(), pl, readBy(pl))
	if err != nil || len(published) != 2 || published[0].ResourceVersion != "6" || published[0].Annotations[berthv1alpha1.FenceAnnotation] != "5" {
		t.Errorf("published %v, %v", published, err)
	}
}

// TestProfilePagesWrittenTwice: each write of a page is of the state that the one before returned.
func TestProfilePagesWrittenTwice(t *testing.T) {
	var calls []string
	record := func(verb string, o client.Object) {
		calls = append(calls, fmt.Sprintf("%s %s %s@%s", verb, o.GetName(), o.GetUID(), o.GetResourceVersion()))
		o.SetUID("created")
		o.SetResourceVersion(fmt.Sprint(len(calls)))
	}
	hub := interceptor.NewClient(newProfileHub(t).WithWatch, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			record("create", o)
			return nil
		},
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			record("update", o)
			return nil
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var options client.DeleteOptions
			options.ApplyOptions(opts)
			calls = append(calls, fmt.Sprintf("delete %s %s@%s", o.GetName(), *options.Preconditions.UID, *options.Preconditions.ResourceVersion))
			return nil
		},
	})
	write := func(op decisions.Op, name string) decisions.ProfileWrite {
		w := decisions.ProfileWrite{Op: op}
		w.Page.Name = name
		return w
	}
	pages := &profilePages{decisions.Profiles{SchedulerName: "berth"}, hub, new(sync.Map)}
	if _, err := pages.write(t.Context(), []decisions.ProfileWrite{
		write(decisions.Create, "a"), write(decisions.Create, "b"), write(decisions.Update, "a"), write(decisions.Delete, "a"),
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"create a @", "create b @", "update a created@1", "delete a created@3"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// content lists the pages, each with its clusters.
func (h *profileHub) content(t *testing.T) (content []string) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(profileKind("List"))
	if err := h.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, page := range list.Items {
		var names []string
		entries, _, _ := unstructured.NestedSlice(page.Object, "decisions")
		for _, e := range entries {
			name, _, _ := unstructured.NestedString(e.(map[string]any), "clusterProfileRef", "name")
			names = append(names, name)
		}
		content = append(content, page.GetName()+": "+strings.Join(names, " "))
	}
	return content
}

// TestLateProfilePage: a page that a late request creates after the pages were read is the
// Placement's own, and is completed.
func TestLateProfilePage(t *testing.T) {
	for name, late := range map[string]string{"with the same cluster": "a", "with another cluster": "b"} {
		t.Run(name, func(t *testing.T) {
			hub := newProfileHub(t)
			arrived := false
			pages := &profilePages{decisions.Profiles{SchedulerName: "berth"}, interceptor.NewClient(hub.WithWatch, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if !arrived {
						arrived = true
						if err := c.Create(ctx, profilePage("p", o.GetName(), "", "0", late)); err != nil {
							t.Fatal(err)
						}
					}
					return c.Create(ctx, o, opts...)
				},
			}), new(sync.Map)}
			if err := pages.publish(t.Context(), fixture.Placement("ns", "p").Obj(), planOf([]string{"a"})); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"p-decision-1: a"}, hub.content(t)); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProfilePagesRead: what fails where pages are listed, or cannot be decoded, is said.
func TestProfilePagesRead(t *testing.T) {
	broken := func(placement string) *unstructured.Unstructured {
		page := profilePage(placement, "p-decision-1", "5", "0")
		page.Object["schedulerName"] = int64(1)
		return page
	}
	tests := map[string]struct {
		published *unstructured.Unstructured
		listing   error
		want      []string
	}{
		"the hub does not serve the kind": {
			listing: &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "PlacementDecision"}},
			want: []string{"reading the PlacementDecisions of ClusterProfiles: clusterProfiles is enabled, but the hub does not serve " +
				"PlacementDecisions of multicluster.x-k8s.io/v1alpha1: install that CRD, or disable clusterProfiles: no matches for kind"},
		},
		"another failure":         {listing: errors.New("hub is down"), want: []string{"reading the PlacementDecisions of ClusterProfiles: hub is down"}},
		"a page of another shape": {published: broken("p"), want: []string{"reading the PlacementDecisions of ClusterProfiles: decoding p-decision-1: "}},
		"one in the way":          {published: broken(""), want: []string{"reading the PlacementDecisions of ClusterProfiles: decoding p-decision-1: "}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var published []*unstructured.Unstructured
			if tc.published != nil {
				published = append(published, tc.published)
			}
			hub := interceptor.NewClient(newProfileHub(t, published...).WithWatch, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if tc.listing != nil {
						return tc.listing
					}
					return c.List(ctx, list, opts...)
				},
			})
			pages := &profilePages{decisions.Profiles{SchedulerName: "berth"}, hub, new(sync.Map)}
			err := pages.publish(t.Context(), fixture.Placement("ns", "p").Obj(), planOf([]string{"a"}))
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
}

// TestBindWritesProfilePages: after the PlacementDecisions, and what fails then takes nothing from
// these.
func TestBindWritesProfilePages(t *testing.T) {
	for name, failure := range map[string]error{"written": nil, "failed": errors.New("hub is down")} {
		t.Run(name, func(t *testing.T) {
			hub, pages, pl, p := newProfileHub(t), &shelf{}, fixture.Placement("ns", "p").Obj(), proposed("a")
			hub.failures["create p-decision-1"] = failure
			publisher := newPublisher(t, &framework.Handle{Pages: pages})
			publisher.profiles = &profilePages{decisions.Profiles{SchedulerName: "berth"}, hub, new(sync.Map)}
			status := publisher.Bind(t.Context(), stateOf(pl), pl, p)
			if (status.Code() == framework.Error) != (failure != nil) {
				t.Errorf("got %s %q", status.Code(), status.Reason())
			}
			if len(p.Writes) != 1 || len(pages.calls) != 1 || len(hub.calls) != 1 {
				t.Errorf("writes %v, calls %v and %v", p.Writes, pages.calls, hub.calls)
			}
		})
	}
}

// TestClusterProfilesNeedAClient: a simulation writes no pages of ClusterProfiles.
func TestClusterProfilesNeedAClient(t *testing.T) {
	for _, handle := range []*framework.Handle{nil, {}} {
		plugin, err := NewDecisionPublisher(t.Context(), []byte(`{"clusterProfiles":{"enabled":true}}`), handle)
		if err != nil || plugin.(*DecisionPublisher).profiles != nil {
			t.Errorf("got %v, %v", plugin, err)
		}
	}
}
