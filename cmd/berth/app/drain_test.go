package app

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// TestWaitDrained: after some time, the wait says which Placements are stopped by something.
func TestWaitDrained(t *testing.T) {
	const satisfied = "PlacementSatisfied=True AllDecisionsScheduled"
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	users, objects := []string{}, []client.Object{}
	disabled := stated("b", 1, satisfied)
	disabled.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
	for _, pl := range []*v1alpha1.Placement{
		stated("a", 1, satisfied, "DecisionPending=True Held"), disabled, stated("c", 1, satisfied, "DecisionPending=False Rejected"),
	} {
		objects = append(objects, pl, fixture.Page("shop", v1alpha1.PageName(pl.Name, 1)).Of(pl.Name).Lists("c1").Obj())
		users = append(users, "shop/"+pl.Name)
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var out bytes.Buffer
		err := waitDrained(ctx, hub, []string{"c1"}, users, &out)
		want := `3 of 3 Placements still have ManagedCluster c1: shop/a, shop/b, shop/c
To see what it waits for: kubectl placement status a -n shop
3 of 3 Placements still have ManagedCluster c1: shop/a (held), shop/b (disabled), shop/c (rejected)
`
		if got := out.String(); got != want || err != errChanges { //nolint:errorlint // it is not wrapped
			t.Errorf("%v; it printed\n%s", err, got)
		}
	})
}

// TestInterruptedWait: a wait that is interrupted while it reads ends as one that is not.
func TestInterruptedWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hub := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
			cancel()
			return ctx.Err()
		},
	})
	if err := waitDrained(ctx, hub, []string{"c1"}, []string{"shop/a"}, io.Discard); err != errChanges { //nolint:errorlint // it is not wrapped
		t.Error(err)
	}
}
