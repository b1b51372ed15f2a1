package decide

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Explanation is the result of ExplainSome.
type Explanation struct {
	// Verdicts are sorted by name.
	Verdicts []framework.ClusterVerdict
	// NoChange counts clusters for which there was no time to compute SelectedWith.
	NoChange int
}

// ExplainSome is Explain for some candidates. It stops to look for SelectedWith when limited ends.
// Names that are no candidates are ignored.
func (s *Decider) ExplainSome(ctx, limited context.Context, r *Decision, names []string) Explanation {
	asked := make(map[string]bool, len(names))
	for _, name := range names {
		asked[name] = true
	}
	// Changes are looked for after all reasons are known, so that no reason is missing.
	none := func(*framework.Cluster) string { return "" }
	e := Explanation{Verdicts: s.explain(ctx, r, func(name string) bool { return asked[name] }, none)}
	for i := range e.Verdicts {
		v := &e.Verdicts[i]
		if v.Selected {
			continue
		}
		if limited.Err() == nil {
			v.SelectedWith = s.selectedWith(limited, r, r.Snapshot.Cluster(v.Cluster))
		}
		if limited.Err() != nil {
			// A change that was found after the time was over may not be the smallest one.
			v.SelectedWith = ""
			e.NoChange++
		}
	}
	return e
}

// NearestToCut returns up to limit names of candidates: those selected and those nearest to being
// selected. If they are more than limit, at least a quarter of limit is for those that were not
// selected, and of both kinds those nearest to the cut are returned. A cluster that a later filter
// excluded is nearer than one that an earlier filter excluded.
func (r *Decision) NearestToCut(limit int) []string {
	selected := r.selectedIndexes()
	var chosen, others []string
	for _, i := range r.Ranking() {
		if cluster := r.Feasible[i]; selected.Has(cluster.Index) {
			chosen = append(chosen, cluster.Name)
		} else {
			others = append(others, cluster.Name)
		}
	}
	others = append(others, r.excludedNearestFirst()...)
	places := max(limit-len(others), limit-limit/4)
	if len(chosen) > places {
		chosen = chosen[len(chosen)-places:]
	}
	return append(chosen, others[:min(len(others), limit-len(chosen))]...)
}

// excludedNearestFirst returns the names of the excluded candidates: those that passed the most
// filters come first, then by name.
func (r *Decision) excludedNearestFirst() []string {
	var names []string
	excluded := r.excludedByPlugin()
	for _, p := range slices.Backward(r.Profile.Filter) {
		names = append(names, r.names(excluded[p.Name()])...)
	}
	return names
}
