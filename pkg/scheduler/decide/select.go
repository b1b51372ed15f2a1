package decide

import (
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// selectClusters selects the clusters that satisfy the Demand.
func (r *Decision) selectClusters() *framework.Status {
	if r.pin != nil {
		r.Demand.Tiers, r.Demand.Groups = nil, nil
		r.selectPinned()
		return nil
	}
	r.decideTiers()
	c := r.Choices()
	chosen, shortfall, err := selection.Select(&c, &r.Demand, r.Deadline.Passed)
	if err != nil {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	}
	r.Shortfall = shortfall
	r.Selected = make([]framework.SelectedCluster, len(chosen))
	for i, j := range chosen {
		r.Selected[i] = framework.SelectedCluster{Cluster: r.Feasible[j], Score: r.Totals[j]}
	}
	r.setChosen(&c, chosen)
	return nil
}

// Choices are the feasible clusters, with their tiers and groups.
func (r *Decision) Choices() selection.Candidates {
	c := selection.Candidates{Totals: r.Totals, ByName: r.byName, Demoted: r.demoted(), Topology: r.topology}
	if r.selectionPolicy != nil {
		c.Tier, c.Group = r.selectionPolicy.tierOf, r.selectionPolicy.groupOf
		if r.selectionPolicy.delayed.Len() > 0 {
			c.Delayed = r.isDelayed
		}
	}
	return c
}

// Ranking returns the positions in Feasible, best first.
func (r *Decision) Ranking() []int {
	if r.ranking == nil {
		r.ranking = selection.Rank(&selection.Candidates{Totals: r.Totals, ByName: r.byName, Demoted: r.demoted()})
	}
	return r.ranking
}

// demoted returns a function that reports whether a position in Feasible is demoted; nil if none
// is.
func (r *Decision) demoted() func(i int) bool {
	demoted := r.State.Demoted()
	if demoted == nil {
		return nil
	}
	return func(i int) bool { return demoted.Has(r.Feasible[i].Index) }
}

// byName compares the names of feasible clusters by their positions.
func (r *Decision) byName(a, b int) int { return r.Snapshot.ByName(r.Feasible[a], r.Feasible[b]) }

// topology returns a feasible cluster's value of a spread constraint's key.
func (r *Decision) topology(i int, term v1alpha1.SpreadConstraintsTerm) (value string, ok bool) {
	values := r.Feasible[i].Labels
	if term.TopologyKeyType == v1alpha1.TopologyKeyTypeClaim {
		values = r.Feasible[i].Claims
	}
	value, ok = values[term.TopologyKey]
	return value, ok
}
