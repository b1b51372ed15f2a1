package explore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/berth-dev/berth/pkg/simulator"
)

// TestLookBeside: the viewer gets what the hub permits from now on. Another error is not the end of
// the connection, and other queues may change every decision.
func TestLookBeside(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "queues", errors.New("no"))
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "queues")
	for name, tc := range map[string]struct {
		limited   bool
		err, want error
	}{
		"as before":                        {false, nil, nil},
		"the queues are forbidden now":     {false, forbidden, errScope},
		"the queues are still forbidden":   {true, forbidden, nil},
		"the queues are permitted now":     {true, nil, errScope},
		"there are no queues":              {false, missing, missing},
		"it is not known whether they are": {true, missing, missing},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reader, err := NewClient(&rest.Config{Host: "http://127.0.0.1:1"})
				if err != nil {
					t.Fatal(err)
				}
				hub := fake.NewClientBuilder().WithScheme(reader.Scheme()).Build()
				h := newTestHub(t, small())
				s, err := scopeOf(t.Context(), hub, "")
				if err != nil {
					t.Fatal(err)
				}
				h.scope = s
				if tc.limited {
					h.scope.missing = []string{"get the ConfigMap of the queues"}
				}
				cellsOf(t, h, "ns/two")
				version := h.fleet().Version
				f := Follower{Queues: func(context.Context, client.Client, simulator.Objects) (simulator.Objects, error) {
					namespace := &unstructured.Unstructured{}
					namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
					namespace.SetName("ns")
					return simulator.Objects{namespace}, tc.err
				}}
				if err := f.look(t.Context(), h, hub, s); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				waitForAnswers()
				updates, _, _ := h.since(version)
				if read := len(updates) == 1 && len(updates[0].Columns) == 4; read != (tc.err == nil) {
					t.Errorf("columns are read again: %t; updates: %+v", read, updates)
				}
			})
		})
	}
}
