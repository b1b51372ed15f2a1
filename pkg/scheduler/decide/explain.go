package decide

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// MaxSelectedWith is the maximum number of clusters that were not selected for which Explain
// computes Verdict.SelectedWith. Each one costs several cycles.
const MaxSelectedWith = 100

// Explain returns the verdict on every candidate, sorted by name, or only on one if only is not
// empty; none if the Decision has a Failure. SelectedWith is checked by deciding again. It is not
// computed for all candidates if more than MaxSelectedWith were not selected.
func (s *Decider) Explain(ctx context.Context, r *Decision, only string) []framework.ClusterVerdict {
	wanted := func(name string) bool { return only == "" || name == only }
	explainChange := func(*framework.Cluster) string { return "" }
	if only != "" || r.Candidates()-len(r.Selected) <= MaxSelectedWith {
		explainChange = func(cluster *framework.Cluster) string { return s.selectedWith(ctx, r, cluster) }
	}
	return s.explain(ctx, r, wanted, explainChange)
}

// explain returns the verdicts on the wanted candidates. explainChange returns SelectedWith of one
// that is not selected.
func (s *Decider) explain(
	ctx context.Context, r *Decision, wanted func(name string) bool, explainChange func(*framework.Cluster) string,
) []framework.ClusterVerdict {
	verdicts := make([]framework.ClusterVerdict, 0, r.Candidates())
	if r.Failure != nil {
		return verdicts
	}
	selected := r.selectedIndexes()
	for i, plugin := range r.EachExcluded {
		cluster := r.Snapshot.Clusters.Get(i)
		if wanted(cluster.Name) {
			verdicts = append(verdicts, framework.ClusterVerdict{
				Cluster: cluster.Name, Plugin: plugin, Reason: r.Why(ctx, i).Reason(), SelectedWith: explainChange(cluster),
			})
		}
	}
	lowest, highest := r.cut(selected, func(i int) int64 { return r.Totals[i] })
	blocked, unscored := r.spreadBlocks(selected), r.unscored(ctx)
	for rank, i := range r.Ranking() {
		if !wanted(r.Feasible[i].Name) {
			continue
		}
		v := r.rankVerdict(rank, i, selected.Has(r.Feasible[i].Index), lowest, highest)
		v.Unscored = unscored(r.Feasible[i])
		if !v.Selected {
			v.Reason += ", " + r.whyNotSelected(i, blocked)
			v.SelectedWith = explainChange(r.Feasible[i])
		}
		verdicts = append(verdicts, v)
	}
	sort.Slice(verdicts, func(i, j int) bool { return verdicts[i].Cluster < verdicts[j].Cluster })
	return verdicts
}

func (r *Decision) selectedIndexes() framework.Bitset {
	var selected framework.Bitset
	for _, s := range r.Selected {
		selected = selected.Set(s.Cluster.Index)
	}
	return selected
}

// cut returns the lowest selected total and the highest total that was not selected; nil for none.
func (r *Decision) cut(selected framework.Bitset, total func(i int) int64) (lowest, highest *int64) {
	for i, c := range r.Feasible {
		switch x := total(i); {
		case selected.Has(c.Index):
			if lowest == nil || x < *lowest {
				lowest = new(x)
			}
		case highest == nil || x > *highest:
			highest = new(x)
		}
	}
	return lowest, highest
}

func (r *Decision) rankVerdict(rank, i int, selected bool, lowest, highest *int64) framework.ClusterVerdict {
	cluster, total := r.Feasible[i], r.Totals[i]
	v := framework.ClusterVerdict{Cluster: cluster.Name, Selected: selected, Rank: rank + 1, Score: &total, Scores: map[string]int64{}}
	for _, p := range r.Scores {
		if p.Values[i] != framework.NoScore {
			v.Scores[p.Plugin] = p.Values[i]
		}
	}
	reference := lowest
	if selected {
		reference = highest
	}
	if reference != nil {
		distance := total - *reference
		v.Distance = &distance
	}
	v.Reason = fmt.Sprintf("rank %d of %d", v.Rank, len(r.Feasible))
	return v
}

// unscored returns a function that says why a cluster has no score of AddOn coordinates, by
// prioritizer; nil if it has all.
func (r *Decision) unscored(ctx context.Context) func(*framework.Cluster) map[string]string {
	const addOn = string(v1alpha1.ScoreCoordinateTypeAddOn)
	whyNone, pl := r.Profile.Traits(addOn).WhyNoScore, r.Snapshot.Subject.Placement
	if whyNone == nil {
		return func(*framework.Cluster) map[string]string { return nil }
	}
	scorers, _, _ := scorersFor(r.Profile, pl) // There was no mistake, because there is a decision.
	return func(cluster *framework.Cluster) map[string]string {
		reasons := map[string]string{}
		plugins.Call(ctx, "WhyNoScore", r.Profile.ScorePlugin(addOn), func() *framework.Status {
			for _, p := range scorers {
				if p.addOn {
					coordinate := pl.Spec.PrioritizerPolicy.Configurations[p.configuration].ScoreCoordinate
					if why := whyNone(*coordinate.AddOn, r.Snapshot, cluster); why != "" {
						reasons[p.name] = why
					}
				}
			}
			return nil
		})
		if len(reasons) == 0 {
			return nil
		}
		return reasons
	}
}

// spreadBlocks returns selection.SpreadBlocks for the selected clusters.
func (r *Decision) spreadBlocks(selected framework.Bitset) func(i int) (why string, lacks bool) {
	if len(r.Demand.Spread) == 0 || r.pin != nil {
		return func(int) (string, bool) { return "", false }
	}
	var chosen []int
	for i, c := range r.Feasible {
		if selected.Has(c.Index) {
			chosen = append(chosen, i)
		}
	}
	c := r.Choices()
	return selection.SpreadBlocks(&c, &r.Demand, chosen)
}

// whyNotSelected returns why a feasible cluster is not selected.
func (r *Decision) whyNotSelected(i int, blocked func(i int) (why string, lacks bool)) string {
	spread := r.excludedBySpread(i, blocked)
	tierOrGroup := r.tierOrGroup(i)
	switch {
	case r.Demand.Number == 0:
		return "numberOfClusters is 0"
	case r.pin != nil && !r.pin.has(r.Feasible[i].Name):
		return fmt.Sprintf("not in pinned revision %d", r.pin.revision)
	case tierOrGroup != "":
		return tierOrGroup
	case spread != "":
		return spread
	case r.State.Demoted().Has(r.Feasible[i].Index):
		return "after all clusters without an untolerated PreferNoSelect taint"
	}
	return fmt.Sprintf("%d selected", len(r.Selected))
}

// excludedBySpread returns the constraint that forbids a feasible cluster while clusters are
// missing; empty if none does.
func (r *Decision) excludedBySpread(i int, blocked func(i int) (why string, lacks bool)) string {
	if spread, lacks := blocked(i); lacks || r.Shortfall.BlockedBy != "" {
		return spread
	}
	return ""
}

// selectedWith returns the first change that gets a cluster selected: a higher score, then the
// relaxations of the filters, also with a higher score, then a higher numberOfClusters. Changes
// that the author of the Placement can make come before those of the cluster. It is empty if none
// does. A higher score is no advice if a spread constraint excludes the cluster: it would only push
// another cluster out.
func (s *Decider) selectedWith(ctx context.Context, r *Decision, cluster *framework.Cluster) string {
	i := r.position(cluster)
	if i < 0 || r.excludedBySpread(i, r.spreadBlocks(r.selectedIndexes())) == "" {
		if text, ok := s.tryHigherScore(ctx, r, cluster); ok {
			return text
		}
	}
	for _, wanted := range []func(framework.Relaxation) bool{byAuthor, func(framework.Relaxation) bool { return true }} {
		for _, p := range r.Profile.Filter {
			for _, change := range relax(ctx, r, p, cluster, wanted) {
				if text, ok := s.tryRelaxation(ctx, r, cluster, change, p, wanted); ok {
					return text
				}
			}
		}
	}
	return s.tryNumberOfClusters(ctx, r, cluster)
}

// position returns the position of a cluster in Feasible; -1 if it is not feasible.
func (r *Decision) position(cluster *framework.Cluster) int {
	return slices.IndexFunc(r.Feasible, func(c *framework.Cluster) bool { return c.Index == cluster.Index })
}

// byAuthor reports whether the author of the Placement can make a change.
func byAuthor(change framework.Relaxation) bool {
	return change.Cluster == nil && len(change.WithoutPeers) == 0
}

// relax returns the wanted changes that a filter suggests.
func relax(ctx context.Context, r *Decision, p framework.Plugin, cluster *framework.Cluster, wanted func(framework.Relaxation) bool) (changes []framework.Relaxation) {
	relaxer, ok := p.(framework.Relaxer)
	if !ok {
		return nil
	}
	plugins.Call(ctx, "Relax", p, func() *framework.Status {
		changes = relaxer.Relax(ctx, r.State, r.Snapshot.Subject.Placement, cluster)
		return nil
	})
	return slices.DeleteFunc(changes, func(change framework.Relaxation) bool { return !wanted(change) })
}

// tryRelaxation decides with one relaxation and, if other filters still exclude the cluster, also
// with theirs that are wanted.
func (s *Decider) tryRelaxation(
	ctx context.Context, r *Decision, cluster *framework.Cluster, change framework.Relaxation, by framework.FilterPlugin, wanted func(framework.Relaxation) bool,
) (string, bool) {
	cluster = cmp.Or(change.Cluster, cluster)
	trial := s.decideTrial(ctx, r.Snapshot.Relaxed(change), nil)
	if trial.Failure != nil {
		return "", false
	}
	if trial.selectedIndexes().Has(cluster.Index) {
		return change.Text, true
	}
	if more, ok := s.tryHigherScore(ctx, trial, cluster); ok {
		return change.Text + " and " + more, true
	}
	for _, p := range r.Profile.Filter {
		if p.Name() == by.Name() {
			continue
		}
		for _, next := range relax(ctx, trial, p, cluster, wanted) {
			if next.Text == "" || by.Name() > p.Name() {
				continue
			}
			if more, ok := s.tryRelaxation(ctx, trial, cluster, next, p, wanted); ok {
				return change.Text + " and " + more, true
			}
		}
	}
	return "", false
}

// tryHigherScore finds the smallest score increase that gets a feasible cluster selected. Only
// increases that change its rank are tried.
func (s *Decider) tryHigherScore(ctx context.Context, r *Decision, cluster *framework.Cluster) (string, bool) {
	own := r.position(cluster)
	if own < 0 || len(r.Selected) == 0 {
		return "", false
	}
	var missings []int64
	for _, chosen := range r.Selected {
		missing := chosen.Score - r.Totals[own]
		if cluster.Name > chosen.Cluster.Name {
			missing++
		}
		if missing > 0 {
			missings = append(missings, missing)
		}
	}
	steps := slices.Compact(slices.Sorted(slices.Values(missings)))
	// A higher score never lowers the rank, so a binary search is correct.
	at := sort.Search(len(steps), func(i int) bool {
		return s.decideTrial(ctx, r.Snapshot, map[int]int64{cluster.Index: steps[i]}).selectedIndexes().Has(cluster.Index)
	})
	if at == len(steps) {
		return "", false
	}
	return fmt.Sprintf("+%d score", steps[at]), true
}

// tryNumberOfClusters tries a higher numberOfClusters, for a cluster that no score gets selected.
func (s *Decider) tryNumberOfClusters(ctx context.Context, r *Decision, cluster *framework.Cluster) string {
	pl := r.Snapshot.Subject.Placement.DeepCopy()
	if pl.Spec.NumberOfClusters == nil {
		return ""
	}
	for rank, i := range r.Ranking() {
		if r.Feasible[i].Index == cluster.Index {
			*pl.Spec.NumberOfClusters = int32(rank + 1)
		}
	}
	if s.decideTrial(ctx, r.Snapshot.Relaxed(framework.Relaxation{Placement: pl}), nil).selectedIndexes().Has(cluster.Index) {
		return fmt.Sprintf("numberOfClusters %d", *pl.Spec.NumberOfClusters)
	}
	return ""
}
