package app

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
)

// TestEffect: undo and pin show what would change first, and are refused without that, or if it is
// not what was asked for.
func TestEffect(t *testing.T) {
	for name, tc := range map[string]struct {
		request         actions.Request
		forbidden       bool
		clusters        []string
		printed, refuse string
	}{
		"undo": {actions.Request{Verb: actions.Undo}, false, []string{"c1", "c2", "c3"}, "Spec: numberOfClusters: 1 → 3\nNAMESPACE ", ""},
		"undo without a cluster": {actions.Request{Verb: actions.Undo}, false, []string{"c1", "c2"}, "Spec: numberOfClusters: 1 → 3\nNAMESPACE ",
			"undo is refused: Placement shop/web would not have the clusters of revision 1 but 2 of its 3; without c3"},
		"undo without permission": {actions.Request{Verb: actions.Undo}, true, []string{"c1", "c2", "c3"}, "Spec: ", "without the role berth-fleet-viewer"},
		"pin":                     {actions.Request{Verb: actions.Pin}, false, []string{"c1", "c2", "c3"}, "The decision of Placement shop/web does not change.", ""},
		"pin to more than wanted": {actions.Request{Verb: actions.Pin, Revision: 1}, false, []string{"c1", "c2", "c3"}, "The decision of Placement shop/web does not change.",
			"pin is refused: Placement shop/web would not have the clusters of revision 1 but 1 of its 3; numberOfClusters is 1; without c2 ("},
		"pin without permission":   {actions.Request{Verb: actions.Pin}, true, []string{"c1", "c2", "c3"}, "", "without the role berth-fleet-viewer"},
		"unpin without permission": {actions.Request{Verb: actions.Unpin}, true, []string{"c1", "c2", "c3"}, "The change is not shown: ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			hub := editedHub(t, tc.clusters, tc.forbidden, tc.request.Verb == actions.Unpin)
			tc.request.Placement = client.ObjectKey{Namespace: "shop", Name: "web"}
			action, err := actions.Prepare(t.Context(), hub, tc.request)
			if err != nil {
				t.Fatal(err)
			}
			cmd, out := &cobra.Command{}, &bytes.Buffer{}
			cmd.SetContext(t.Context())
			cmd.SetOut(out)
			cmd.SetErr(&bytes.Buffer{})
			err = (&effectOptions{}).show(cmd, hub, action)
			if got := ""; err != nil {
				if got = err.Error(); tc.refuse == "" || !strings.Contains(got, tc.refuse) {
					t.Errorf("got %q, want %q", got, tc.refuse)
				}
			} else if tc.refuse != "" {
				t.Errorf("it is not refused, want %q", tc.refuse)
			}
			if !strings.HasPrefix(out.String(), tc.printed) {
				t.Errorf("it printed\n%s", out)
			}
		})
	}
}

// editedHub has a Placement whose numberOfClusters was 3 for c1, c2 and c3, and is 1 for c1.
func editedHub(t *testing.T, clusters []string, forbidden, pinned bool) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(edited(t, clusters, pinned)...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*v1alpha1.ManagedClusterList); is && forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupName, Resource: "managedclusters"}, "", nil)
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, is := object.(*berthv1alpha1.PlacementExplanation); is {
				return apierrors.NewForbidden(schema.GroupResource{Group: "berth.dev", Resource: "placementexplanations"}, "", nil)
			}
			return c.Create(ctx, object, options...)
		},
	}).Build()
}

// edited are the objects of editedHub.
func edited(t *testing.T, clusters []string, pinned bool) []client.Object {
	t.Helper()
	pl := fixture.Placement("shop", "web").Generation(2).Number(1).Obj()
	pl.UID = "web-uid"
	if pinned {
		pl.Annotations = map[string]string{"berth.dev/pinned-revision": "1"}
	}
	objects := []client.Object{
		pl, fixture.Set("s"), fixture.Binding("shop", "s"), fixture.Page("shop", v1alpha1.PageName("web", 1)).Of("web").Lists("c1").Obj(),
	}
	for _, name := range clusters {
		objects = append(objects, fixture.Cluster(name).Set("s").Obj())
	}
	first := changes.NewChange(nil, []string{"c1", "c2", "c3"})
	first.Generation = 1
	edit := changes.NewChange([]string{"c1", "c2", "c3"}, []string{"c1"})
	edit.Generation, edit.PublishedGeneration, edit.Before = 2, 1, `{"numberOfClusters":3}`
	for i, change := range []changes.Change{first, edit} {
		record := changes.NewRecord(pl, 0, int64(i+1), change)
		record.Status.Phase = "Published"
		objects = append(objects, record)
	}
	return objects
}
