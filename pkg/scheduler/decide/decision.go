package decide

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/limits"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// Decision is the result of steps 2 to 4 of one attempt. Later steps do not change it.
type Decision struct {
	Snapshot *framework.Snapshot
	State    *framework.CycleState
	Profile  *plugins.Profile
	// Deadline ends the cycle; nil for never.
	Deadline *limits.Deadline
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
	Selected []framework.SelectedCluster
	// Intents are those of PostFilter plugins, and one about scores that no candidate has.
	Intents []framework.Intent
	// Shortfall is what the selection lacks.
	Shortfall selection.Shortfall

	// scorers are the prioritizers; scorersOff is true if PreScore disabled one of them.
	scorers    []scorer
	scorersOff bool
	// totalsOnly omits Scores, so that AddOn coordinates can share a buffer.
	totalsOnly bool
	chunkSize  int
	// without are the filters that exclude nothing in a trial.
	without []string
	// filtered is true if the filters ran. PreFilter of the unused ones returned Skip.
	filtered bool
	unused   []string
	// pin is set if the Placement is pinned to a revision.
	pin *pin
	// selectionPolicy is set if the Placement has a SelectionPolicy.
	selectionPolicy *policySelection
	// policyInvalid is true if the Failure is a mistake in the SelectionPolicies. policyMissing is
	// why a required one does not apply; empty if it does.
	policyInvalid bool
	policyMissing string
	// reported are the conditions of ReportSelection; reports is true if all of them are known.
	reported   []metav1.Condition
	reports    bool
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
	// Panics are the panics that the decision survived.
	Panics []*framework.Status
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
func (r *Decision) Misconfigured() bool {
	return r.Failure.Code() == framework.UnschedulableAndUnresolvable
}

// Candidates returns the number of candidates.
func (r *Decision) Candidates() int { return r.candidates.Len() }

// CandidateNames returns the names of the candidates, sorted.
func (r *Decision) CandidateNames() []string { return r.names(r.candidates) }

func (r *Decision) names(set framework.Bitset) []string {
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
func (r *Decision) FilterResults() []FilterResult {
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
	filters := r.Profile.Filter
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
func (r *Decision) EachExcluded(visit func(index int, plugin string)) {
	for _, e := range r.allExcluded() {
		visit(e.index, e.plugin)
	}
}

// EachCandidate calls visit with the index of each candidate.
func (r *Decision) EachCandidate(visit func(index int)) {
	for i := range r.candidates.All {
		visit(i)
	}
}

func (r *Decision) allExcluded() []excludedBy {
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

func (r *Decision) afterNarrowing(k int) framework.Bitset {
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
func (r *Decision) ExcludedBy() []framework.ExcludedBy {
	counts := map[string]int{}
	for _, e := range r.allExcluded() {
		counts[e.plugin]++
	}
	var all []framework.ExcludedBy
	for _, p := range r.Profile.Filter {
		if n := counts[p.Name()]; n > 0 {
			all = append(all, framework.ExcludedBy{Plugin: p.Name(), Clusters: n})
		}
	}
	return all
}

// Summary counts the excluded candidates: "of 12 candidates 10 excluded by Predicate, 2 by
// TaintToleration". It is empty if none was excluded.
func (r *Decision) Summary() string {
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
func (r *Decision) endedText(plugin string) string {
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
func (r *Decision) Why(ctx context.Context, index int) *framework.Status {
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
		for _, p := range r.Profile.Filter {
			if p.Name() == n.plugin {
				status := plugins.Call(ctx, "Filter", p, func() *framework.Status { return p.Filter(ctx, r.State, r.Snapshot.Subject.Placement, cluster) })
				if !status.IsSuccess() {
					return status.WithPlugin(p.Name())
				}
			}
		}
		return framework.NewStatus(framework.Unschedulable, "not among the clusters that pass this plugin").WithPlugin(n.plugin)
	}
	return nil
}

// timeout returns an Error if the deadline has passed; nil otherwise.
func (r *Decision) timeout(point, plugin string) *framework.Status {
	return r.Deadline.Timeout(point, plugin)
}

// TimedOut returns the extension point and the plugin that ran when the cycle's deadline passed; ok
// is false if it did not pass. For the engine's own steps, point is Snapshot or Select and plugin
// is empty.
func (r *Decision) TimedOut() (point, plugin string, ok bool) {
	if e := limits.TimeoutOf(r.Failure); e != nil {
		return e.Point, r.Failure.Plugin(), true
	}
	return "", "", false
}

// WithFailure returns the Decision that nothing is decided, for a reason that came up after step 4.
func (r *Decision) WithFailure(failure *framework.Status) *Decision {
	failed := *r
	failed.Failure, failed.Selected = failure, nil
	return &failed
}

// WithDeadline returns the Decision for work with a deadline of its own, and with a copy of State.
func (r *Decision) WithDeadline(deadline *limits.Deadline) *Decision {
	other := *r
	other.State, other.Deadline = r.State.Clone(), deadline
	return &other
}

// Expiry returns the earliest expiry of a filter or rank of a selected cluster, and its cause; zero
// if there is none.
func (r *Decision) Expiry() (at time.Time, cause string) { return r.expiry, r.expiryCause }

// ExcludedByPlugin returns the plugin whose Filter excluded a candidate, by index; empty if none
// did.
func (r *Decision) ExcludedByPlugin(index int) string {
	for _, e := range r.excluded {
		if e.cluster.Index == index {
			return e.status.Plugin()
		}
	}
	return ""
}

// recovered stores the failure of a plugin that the decision survived; nil is ignored.
func (r *Decision) recovered(failure *framework.Status) {
	if failure != nil {
		r.Panics = append(r.Panics, failure)
	}
}
