package decide

import (
	"context"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// plain is a plugin that filters and scores, and answers as it is set.
type plain struct {
	name     string
	status   *framework.Status
	filtered map[string]*framework.Status
}

func (p *plain) Name() string { return p.name }

func (p *plain) PreEnqueue(context.Context, *framework.CycleState, *v1alpha1.Placement) *framework.Status {
	return p.status
}

func (p *plain) PreFilter(context.Context, *framework.CycleState, *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	return nil, p.status
}

func (p *plain) Filter(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	return p.filtered[cluster.Name]
}

func (p *plain) Score(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (int64, *framework.Status) {
	return 0, nil
}

// snapshotOf is a Snapshot of Placement ns/p of generation 2 with clusters in its one set s.
func snapshotOf(clusters ...fixture.ClusterBuilder) *framework.Snapshot {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("ns", "s"))
	inv.Update(fixture.Placement("ns", "p").Generation(2).Obj())
	for _, c := range clusters {
		inv.Update(c.Obj())
	}
	return inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
}

// decideWith decides with a profile as the default one.
func decideWith(t *testing.T, profile *plugins.Profile, snapshot *framework.Snapshot) *Decision {
	t.Helper()
	d := Decider{Profiles: map[string]*plugins.Profile{v1alpha1.DefaultProfile: profile}}
	return d.Decide(t.Context(), Request{Snapshot: snapshot})
}
