package scheduler

import (
	"context"
	"slices"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// reserver keeps the Proposals that it reserved for. It panics instead if panics is set.
type reserver struct {
	lastPoints
	panics, countsPermitted bool
	proposals               []*framework.Proposal
}

func (r *reserver) Reserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if r.panics {
		panic("no state of PreFilter")
	}
	r.proposals = append(r.proposals, p)
	return nil
}

func (r *reserver) Describe() framework.Traits {
	return framework.Traits{CountsPermitted: r.countsPermitted}
}

// TestReserveOpenChanges: Reserve is called with what the open record still adds and removes,
// whatever other plugins do, and not if the plugin counts permitted changes.
func TestReserveOpenChanges(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	for _, name := range []string{"a", "b", "c"} {
		inv.Update(fixture.Cluster(name).Set("s1").Obj())
	}
	for name, phase := range map[string]berthv1alpha1.ChangePhase{"p": berthv1alpha1.PhaseProgressing, "ended": berthv1alpha1.PhaseExpired} {
		owner := fixture.Placement("ns", name).Obj()
		inv.Update(owner)
		record := changes.NewRecord(owner, 0, 2, changes.NewChange([]string{"a", "gone"}, []string{"b", "c", "d"}))
		record.Status.Phase = phase
		inv.Update(record)
	}
	inv.SetPublished(inv.Subject(inventory.Key{Namespace: "ns", Name: "p"}), &framework.Published{Names: []string{"a", "b"}})
	bad, good, permitted := &reserver{lastPoints: lastPoints{name: "bad"}, panics: true}, &reserver{lastPoints: lastPoints{name: "good"}}, &reserver{lastPoints: lastPoints{name: "permitted"}, countsPermitted: true}
	s := New(profilesOf(t, config.Plugins{QueueSort: at("bad"), Reserve: at("bad", "good", "permitted"), Bind: at("bad")}, bad, good, permitted), nil)
	s.ReserveOpenChanges(t.Context(), inv.OpenChanges(), func(key inventory.Key) *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
	if len(good.proposals) != 1 || len(permitted.proposals) != 0 {
		t.Fatalf("%d and %d calls, want 1 and 0", len(good.proposals), len(permitted.proposals))
	}
	p := good.proposals[0]
	if got, want := p.Added, []string{"c", "d"}; !slices.Equal(got, want) {
		t.Errorf("added %q, want %q", got, want)
	}
	if got, want := p.Removed, []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("removed %q, want %q", got, want)
	}
	if len(p.Selected) != 3 {
		t.Errorf("%d clusters are selected, want 3", len(p.Selected))
	}
	if !s.memory.of(inventory.Key{Namespace: "ns", Name: "p"}).reserved {
		t.Error("the next attempt does not know of the reservation")
	}
}
