package scheduler

import (
	"context"
	"slices"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// reserver keeps the Proposals that it reserved for. It panics instead if
// panics is set.
type reserver struct {
	panics   bool
	reserved []*framework.Proposal
}

func (*reserver) Name() string { return "reserver" }

func (r *reserver) Reserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if r.panics {
		panic("no state of PreFilter")
	}
	r.reserved = append(r.reserved, p)
	return nil
}

func (*reserver) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

type permittedReserver struct{ reserver }

func (*permittedReserver) Name() string { return "permitted" }

// TestReserveOpenChanges: Reserve is called with what the open record still adds and removes,
// whatever other plugins do, and not if the plugin counts permitted changes.
func TestReserveOpenChanges(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	pl := fixture.Placement("ns", "p").Obj()
	for _, name := range []string{"a", "b", "c"} {
		inv.Update(fixture.Cluster(name).Set("s1").Obj())
	}
	for name, phase := range map[string]berthv1alpha1.ChangePhase{"p": berthv1alpha1.PhaseProgressing, "ended": berthv1alpha1.PhaseExpired} {
		owner := fixture.Placement("ns", name).Obj()
		inv.Update(owner)
		record, err := changes.NewRecord(owner, 0, 2, changes.NewChange([]string{"a", "gone"}, []string{"b", "c", "d"}))
		if err != nil {
			t.Fatal(err)
		}
		record.Status.Phase = phase
		inv.Update(record)
	}
	inv.SetPublished(inv.Subject(inventory.Key{Namespace: "ns", Name: "p"}), &framework.Published{Names: []string{"a", "b"}})
	bad, good, permitted := &reserver{panics: true}, &reserver{}, &permittedReserver{}
	s := New(map[string]*Profile{v1alpha1.DefaultProfile: {
		Reserve: []framework.ReservePlugin{bad, good, permitted}, plugins: instances{"permitted": {Traits: framework.Traits{CountsPermitted: true}}},
	}}, nil)
	s.ReserveOpenChanges(t.Context(), inv.OpenChanges(), func(key inventory.Key) *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	if len(good.reserved) != 1 || len(permitted.reserved) != 0 {
		t.Fatalf("%d and %d calls, want 1 and 0", len(good.reserved), len(permitted.reserved))
	}
	p := good.reserved[0]
	if got, want := p.Added, []string{"c", "d"}; !slices.Equal(got, want) {
		t.Errorf("added %q, want %q", got, want)
	}
	if got, want := p.Removed, []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("removed %q, want %q", got, want)
	}
	if len(p.Selected) != 3 {
		t.Errorf("%d clusters are selected, want 3", len(p.Selected))
	}
	if !s.timers[inventory.Key{Namespace: pl.Namespace, Name: pl.Name}].reserved {
		t.Error("the next attempt does not know of the reservation")
	}
}
