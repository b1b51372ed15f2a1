package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// Result is the result of steps 2 to 4 of one attempt.
type Result struct {
	Snapshot *framework.Snapshot
	State    *framework.CycleState
	// Failure is the reason why nothing was decided; nil if clusters were selected.
	Failure *framework.Status
	// Feasible are the clusters that passed all filters. Totals and the Values of Scores are in the
	// same order. Attempt does not set Scores.
	Feasible []*framework.Cluster
	Scores   []PluginScores
	Totals   []int64
	// Demand is the wanted and the allowed number of clusters, and how they are spread.
	Demand selection.Demand
	// Selected are the chosen clusters, best first.
	Selected []framework.Selection
	// Intents are those of PostFilter plugins, and one about scores that no candidate has.
	Intents []framework.Intent
	// Shortfall is what the selection lacks.
	Shortfall selection.Shortfall

	// scorers are the prioritizers; scorersOff is true if PreScore disabled one of them.
	scorers    []scorer
	scorersOff bool
	// totalsOnly omits Scores, so that AddOn coordinates can share a buffer.
	totalsOnly bool
	// keptScores is the text of the scores if the response to a write may have been lost: it
	// outlives Release.
	keptScores string
	// reserved is true if Reserve plugins count a change of earlier attempts.
	reserved bool
	// revokedOnly omits steps 2 to 4: the attempt only removes revoked clusters.
	revokedOnly bool
	// without are the filters that exclude nothing in a trial.
	without []string
	// filtered is true if the filters ran. PreFilter of the unused ones returned Skip.
	filtered bool
	unused   []string
	// pin is set if the Placement is pinned to a revision.
	pin *pin
	// policy is set if the Placement has a SelectionPolicy.
	policy *policySelection
	// policyInvalid is true if the Failure is a mistake in the SelectionPolicies. policyMissing is
	// why a required one does not apply; empty if it does.
	policyInvalid bool
	policyMissing string
	// reported are the conditions of ReportSelection; reports is true if all of them are known.
	reported   []metav1.Condition
	reports    bool
	deadline   *cycleDeadline
	profile    *Profile
	candidates framework.Bitset
	narrowed   []narrowing
	excluded   []exclusion
	ranking    []int
	// expiry is the earliest filter or rank expiry of a selected cluster, expiryCause its cause.
	expiry      time.Time
	expiryCause string
	scratch     *scratch
	// refused is the first refusal of a PreEnqueue plugin; nil if there was none.
	refused *framework.Status
	// loadFailure is why the state of a plugin could not be loaded.
	loadFailure *framework.Status
	// panics are the panics that the attempt survived.
	panics []*framework.Status
}

// PluginScores are the scores of one prioritizer before weights; framework.NoScore for none.
type PluginScores struct {
	Plugin string
	Weight int64
	Values []int64
}

// narrowing is the set of candidates before a PreFilter plugin's result was applied.
type narrowing struct {
	plugin string
	before framework.Bitset
}

type exclusion struct {
	cluster *framework.Cluster
	status  *framework.Status
}

// Misconfigured reports whether the Failure is a mistake in the Placement. Only an edit of the
// Placement can fix it.
func (r *Result) Misconfigured() bool {
	return r.Failure.Code() == framework.UnschedulableAndUnresolvable
}

// Candidates returns the number of candidates.
func (r *Result) Candidates() int { return r.candidates.Len() }

// CandidateNames returns the names of the candidates, sorted.
func (r *Result) CandidateNames() []string { return r.names(r.candidates) }

func (r *Result) names(set framework.Bitset) []string {
	names := make([]string, 0, set.Len())
	for i := range set.All {
		names = append(names, r.Snapshot.Clusters.Get(i).Name)
	}
	sort.Strings(names)
	return names
}

// FilterResult lists the clusters that passed the named filters.
type FilterResult struct {
	Name     string   `json:"name"`
	Clusters []string `json:"clusters"`
}

// FilterResults returns one entry per filter, without unused ones at the end: what passed it and
// all filters before it. It is empty if no filter ran, for example because the Placement is
// misconfigured.
func (r *Result) FilterResults() []FilterResult {
	if !r.filtered {
		return []FilterResult{}
	}
	byPlugin := map[string]framework.Bitset{}
	for _, e := range r.allExcluded() {
		byPlugin[e.plugin] = byPlugin[e.plugin].Set(e.index)
	}
	left := r.candidates.Clone()
	var names []string
	var results []FilterResult
	filters := r.profile.Filter
	for len(filters) > 1 && slices.Contains(r.unused, filters[len(filters)-1].Name()) {
		filters = filters[:len(filters)-1]
	}
	for _, p := range filters {
		for i := range byPlugin[p.Name()].All {
			left.Unset(i)
		}
		names = append(names, p.Name())
		results = append(results, FilterResult{Name: strings.Join(names, ","), Clusters: r.names(left)})
	}
	return results
}

type excludedBy struct {
	index  int
	plugin string
}

// EachExcluded calls visit with the index of each excluded candidate, and the plugin that excluded
// it.
func (r *Result) EachExcluded(visit func(index int, plugin string)) {
	for _, e := range r.allExcluded() {
		visit(e.index, e.plugin)
	}
}

// EachCandidate calls visit with the index of each candidate.
func (r *Result) EachCandidate(visit func(index int)) {
	for i := range r.candidates.All {
		visit(i)
	}
}

func (r *Result) allExcluded() []excludedBy {
	var all []excludedBy
	for k, n := range r.narrowed {
		after := r.afterNarrowing(k)
		for i := range n.before.All {
			if !after.Has(i) {
				all = append(all, excludedBy{i, n.plugin})
			}
		}
	}
	for _, e := range r.excluded {
		all = append(all, excludedBy{e.cluster.Index, e.status.Plugin()})
	}
	return all
}

func (r *Result) afterNarrowing(k int) framework.Bitset {
	if k+1 < len(r.narrowed) {
		return r.narrowed[k+1].before
	}
	var after framework.Bitset
	for _, c := range r.Feasible {
		after = after.Set(c.Index)
	}
	for _, e := range r.excluded {
		after = after.Set(e.cluster.Index)
	}
	return after
}

// ExcludedBy counts the excluded candidates by plugin, in the order of the filters, without plugins
// that excluded none.
func (r *Result) ExcludedBy() []framework.ExcludedBy {
	counts := map[string]int{}
	for _, e := range r.allExcluded() {
		counts[e.plugin]++
	}
	var all []framework.ExcludedBy
	for _, p := range r.profile.Filter {
		if n := counts[p.Name()]; n > 0 {
			all = append(all, framework.ExcludedBy{Plugin: p.Name(), Clusters: n})
		}
	}
	return all
}

// Summary counts the excluded candidates: "of 12 candidates 10 excluded by Predicate, 2 by
// TaintToleration". It is empty if none was excluded.
func (r *Result) Summary() string {
	var parts []string
	for i, e := range r.ExcludedBy() {
		if i == 0 {
			parts = append(parts, fmt.Sprintf("%d excluded by %s", e.Clusters, e.Plugin))
		} else {
			parts = append(parts, fmt.Sprintf("%d by %s", e.Clusters, e.Plugin))
		}
		parts[i] += r.endedText(e.Plugin)
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("of %d candidates %s", r.Candidates(), strings.Join(parts, ", "))
}

// endedText says how many clusters a filter excludes because their toleration ran out, and when.
func (r *Result) endedText(plugin string) string {
	ended, last := 0, time.Time{}
	for _, e := range r.excluded {
		if at := e.status.Ended(); !at.IsZero() && e.status.Plugin() == plugin {
			ended++
			if at.After(last) {
				last = at
			}
		}
	}
	switch at := last.UTC().Format(time.RFC3339); ended {
	case 0:
		return ""
	case 1:
		return " (1 toleration ran out at " + at + ")"
	default:
		return fmt.Sprintf(" (%d tolerations ran out, the last at %s)", ended, at)
	}
}

// Why returns the Status that excluded a candidate, by index; nil if the candidate is feasible.
func (r *Result) Why(ctx context.Context, index int) *framework.Status {
	for _, e := range r.excluded {
		if e.cluster.Index == index {
			return e.status
		}
	}
	cluster := r.Snapshot.Clusters.Get(index)
	for k, n := range r.narrowed {
		if !n.before.Has(index) || r.afterNarrowing(k).Has(index) {
			continue
		}
		for _, p := range r.profile.Filter {
			if p.Name() == n.plugin {
				status := guard(ctx, "Filter", p, func() *framework.Status { return p.Filter(ctx, r.State, r.Snapshot.Subject.Placement, cluster) })
				if !status.IsSuccess() {
					return status.WithPlugin(p.Name())
				}
			}
		}
		return framework.NewStatus(framework.Unschedulable, "not among the clusters that pass this plugin").WithPlugin(n.plugin)
	}
	return nil
}

// hadClusters reports whether the status lists clusters as published. If all pages were deleted
// while no controller ran, consumers are safer without a page than with an empty one.
func hadClusters(pl *v1alpha1.Placement) bool {
	return slices.ContainsFunc(pl.Status.DecisionGroups, func(g v1alpha1.DecisionGroupStatus) bool { return g.ClusterCount > 0 })
}
