package controllers

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// statusWriter answers status patches by a function, which changes the object as the API server
// would.
type statusWriter struct {
	client.SubResourceWriter
	patch func(client.Object) error
}

func (w statusWriter) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.patch(o)
}

// statusClient is a client of which only status patches are used.
type statusClient struct {
	client.Client
	writer statusWriter
}

func (c statusClient) Status() client.SubResourceWriter { return c.writer }

// TestDeletedPlacementStaysGone: the watch reports the deletion before the answer of a status write
// is there.
func TestDeletedPlacementStaysGone(t *testing.T) {
	for name, answer := range map[string]error{
		"the write is answered":   nil,
		"the Placement is gone":   apierrors.NewNotFound(schema.GroupResource{Resource: "placements"}, "p"),
		"another Placement is it": apierrors.NewConflict(schema.GroupResource{Resource: "placements"}, "p", nil),
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventory.New(inventory.Options{})
			pl := fixture.Placement("n", "p").Obj()
			pl.UID, pl.ResourceVersion = "1", "10"
			inv.Update(pl)
			patches := statusClient{writer: statusWriter{patch: func(o client.Object) error {
				o.SetResourceVersion("11")
				inv.Delete(pl)
				return answer
			}}}
			r := &PlacementReconciler{Client: patches, Inventory: inv}
			err := r.writeStatus(context.Background(), pl, &v1alpha1.PlacementStatus{NumberOfSelectedClusters: 1})
			if apierrors.IsNotFound(answer) != (err == nil && answer != nil) {
				t.Errorf("got %v", err)
			}
			if keys := inv.Placements(); len(keys) > 0 {
				t.Errorf("the inventory has %v again", keys)
			}
		})
	}
}

// sentEvents notes the events sent.
type sentEvents struct{ notes []string }

func (*sentEvents) Yield() func() { return func() {} }

func (s *sentEvents) Send(_ context.Context, _ *v1alpha1.Placement, events []report.Event) {
	for _, e := range events {
		s.notes = append(s.notes, e.Reason+": "+e.Note)
	}
}

// TestRefusedStatusIsReported: a status that the API server refuses is tried again, and an event
// says so once for each reason.
func TestRefusedStatusIsReported(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	pl := fixture.Placement("n", "p").Obj()
	pl.UID, pl.ResourceVersion = "1", "10"
	inv.Update(pl)
	var answer error
	events := &sentEvents{}
	r := &PlacementReconciler{Inventory: inv, Events: events, Client: statusClient{writer: statusWriter{patch: func(client.Object) error { return answer }}}}
	invalid := func(detail string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Placement"}, "p", field.ErrorList{field.Invalid(field.NewPath("status"), "", detail)})
	}
	for i, step := range []struct {
		answer error
		want   int
	}{{invalid("long"), 1}, {invalid("long"), 1}, {invalid("wide"), 2}, {nil, 2}, {invalid("wide"), 3}} {
		answer = step.answer
		err := r.writeStatus(context.Background(), pl, &v1alpha1.PlacementStatus{NumberOfSelectedClusters: 1})
		if (err == nil) != (answer == nil) || len(events.notes) != step.want {
			t.Errorf("step %d: got %v and %d events, want %d", i, err, len(events.notes), step.want)
		}
	}
	if !strings.HasPrefix(events.notes[0], "StatusRefused: The API server refuses the status") {
		t.Errorf("got %q", events.notes[0])
	}
}
