package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// MaxSelectedWith bounds how many clusters of one answer are told what would let them in: each
// costs a few more cycles.
const MaxSelectedWith = 100

// Explain says of every candidate why it was, or was not, selected, by name; of one only, if it is
// named. Empty when nothing was decided. What would let a cluster in is proved by deciding again;
// in an answer with more than 100 clusters left out, it is looked for only when one cluster is
// asked about. It holds the cycle lock: plugins may use what they remember.
func (s *Scheduler) Explain(ctx context.Context, r *Result, only string) []framework.Verdict {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	verdicts := make([]framework.Verdict, 0, r.Candidates())
	if r.Failure != nil {
		return verdicts
	}
	wanted := func(name string) bool { return only == "" || name == only }
	selected := r.selectedIndexes()
	flips := only != "" || r.Candidates()-len(r.Selected) <= MaxSelectedWith
	for _, e := range r.allExcluded() {
		cluster := r.Snapshot.Clusters.Get(e.index)
		if !wanted(cluster.Name) {
			continue
		}
		v := framework.Verdict{Cluster: cluster.Name, Plugin: e.plugin, Reason: r.Why(ctx, e.index).Reason()}
		if flips {
			v.SelectedWith = s.flip(ctx, r, cluster)
		}
		verdicts = append(verdicts, v)
	}
	lowest, highest := r.cut(selected)
	for rank, i := range r.Ranking() {
		if !wanted(r.Feasible[i].Name) {
			continue
		}
		v := r.rankVerdict(rank, i, selected.Has(r.Feasible[i].Index), lowest, highest)
		if !v.Selected && flips {
			v.SelectedWith = s.flip(ctx, r, r.Feasible[i])
		}
		verdicts = append(verdicts, v)
	}
	sort.Slice(verdicts, func(i, j int) bool { return verdicts[i].Cluster < verdicts[j].Cluster })
	return verdicts
}

// trial is steps 2 to 4 on another snapshot. bonus is added to the totals of some clusters, by
// index. The caller holds the cycle lock.
func (s *Scheduler) trial(ctx context.Context, snapshot *framework.Snapshot, bonus map[int]int64) *Result {
	return s.run(ctx, &Result{Snapshot: snapshot}, bonus)
}

func (r *Result) selectedIndexes() framework.Bitset {
	var selected framework.Bitset
	for _, s := range r.Selected {
		selected = selected.Set(s.Cluster.Index)
	}
	return selected
}

// cut returns the lowest total that was selected, and the highest that was not.
func (r *Result) cut(selected framework.Bitset) (lowest, highest *int64) {
	for i, c := range r.Feasible {
		total := r.Totals[i]
		switch {
		case selected.Has(c.Index) && (lowest == nil || total < *lowest):
			lowest = &total
		case !selected.Has(c.Index) && (highest == nil || total > *highest):
			highest = &total
		}
	}
	return lowest, highest
}

func (r *Result) rankVerdict(rank, i int, selected bool, lowest, highest *int64) framework.Verdict {
	cluster, total := r.Feasible[i], r.Totals[i]
	v := framework.Verdict{Cluster: cluster.Name, Selected: selected, Rank: rank + 1, Score: &total, Scores: map[string]int64{}}
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
	switch {
	case selected:
	case r.State.Demoted().Has(cluster.Index):
		v.Reason += ", after all clusters without an untolerated PreferNoSelect taint"
	case r.BlockedBy != "":
		v.Reason += ", left out by " + r.BlockedBy
	default:
		v.Reason += fmt.Sprintf(", %d selected", len(r.Selected))
	}
	return v
}

// flip finds the smallest change that gets a cluster selected: more score, then what the filters
// would have changed, then both. Empty when none of these does.
func (s *Scheduler) flip(ctx context.Context, r *Result, cluster *framework.Cluster) string {
	if text, ok := s.raise(ctx, r, cluster); ok {
		return text
	}
	for _, p := range r.profile.Filter {
		relaxer, ok := p.(framework.Relaxer)
		if !ok {
			continue
		}
		for _, change := range relaxer.Relax(ctx, r.State, r.Snapshot.Subject.Placement, cluster) {
			if text, ok := s.relaxed(ctx, r, cluster, change, p); ok {
				return text
			}
		}
	}
	return s.oneMore(ctx, r, cluster)
}

// relaxed decides with one change and, while another filter still excludes the cluster, with what
// that one would change, too.
func (s *Scheduler) relaxed(ctx context.Context, r *Result, cluster *framework.Cluster, change framework.Relaxation, by framework.FilterPlugin) (string, bool) {
	snapshot := r.Snapshot
	if change.Placement != nil {
		snapshot = snapshot.WithPlacement(change.Placement)
	}
	if change.Cluster != nil {
		snapshot, cluster = snapshot.WithCluster(change.Cluster), change.Cluster
	}
	trial := s.trial(ctx, snapshot, nil)
	if trial.Failure != nil {
		return "", false
	}
	if trial.selectedIndexes().Has(cluster.Index) {
		return change.Text, true
	}
	if more, ok := s.raise(ctx, trial, cluster); ok {
		return change.Text + " and " + more, true
	}
	for _, p := range r.profile.Filter {
		relaxer, ok := p.(framework.Relaxer)
		if !ok || p.Name() == by.Name() {
			continue
		}
		for _, next := range relaxer.Relax(ctx, trial.State, snapshot.Subject.Placement, cluster) {
			if next.Text == "" || by.Name() > p.Name() {
				continue
			}
			if more, ok := s.relaxed(ctx, trial, cluster, next, p); ok {
				return change.Text + " and " + more, true
			}
		}
	}
	return "", false
}

// raise finds the least score that a feasible cluster lacks, among those at which its rank changes.
func (s *Scheduler) raise(ctx context.Context, r *Result, cluster *framework.Cluster) (string, bool) {
	own := int64(0)
	feasible := false
	for i, c := range r.Feasible {
		if c.Index == cluster.Index {
			own, feasible = r.Totals[i], true
		}
	}
	if !feasible || len(r.Selected) == 0 {
		return "", false
	}
	steps := map[int64]bool{}
	for _, chosen := range r.Selected {
		lack := chosen.Score - own
		if cluster.Name > chosen.Cluster.Name {
			lack++
		}
		if lack > 0 {
			steps[lack] = true
		}
	}
	lacks := make([]int64, 0, len(steps))
	for lack := range steps {
		lacks = append(lacks, lack)
	}
	slices.Sort(lacks)
	// The rank only gets better with the score, and so does the chance to be picked.
	at := sort.Search(len(lacks), func(i int) bool {
		return s.trial(ctx, r.Snapshot, map[int]int64{cluster.Index: lacks[i]}).selectedIndexes().Has(cluster.Index)
	})
	if at == len(lacks) {
		return "", false
	}
	return fmt.Sprintf("+%d score", lacks[at]), true
}

// oneMore tries a higher numberOfClusters, for a cluster that no score gets in: none is wanted, for
// example.
func (s *Scheduler) oneMore(ctx context.Context, r *Result, cluster *framework.Cluster) string {
	pl := r.Snapshot.Subject.Placement.DeepCopy()
	if pl.Spec.NumberOfClusters == nil {
		return ""
	}
	for rank, i := range r.Ranking() {
		if r.Feasible[i].Index == cluster.Index {
			*pl.Spec.NumberOfClusters = int32(rank + 1)
		}
	}
	if s.trial(ctx, r.Snapshot.WithPlacement(pl), nil).selectedIndexes().Has(cluster.Index) {
		return fmt.Sprintf("numberOfClusters %d", *pl.Spec.NumberOfClusters)
	}
	return ""
}
