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

// narrowing is the set of candidates that the result of a PreFilter plugin excludes.
type narrowing struct {
	plugin   string
	excluded framework.Bitset
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
	left, excluded := r.candidates, r.excludedByPlugin()
	var names []string
	var results []FilterResult
	filters := r.Profile.Filter
	for len(filters) > 1 && slices.Contains(r.unused, filters[len(filters)-1].Name()) {
		filters = filters[:len(filters)-1]
	}
	for _, p := range filters {
		left = left.Without(excluded[p.Name()])
		names = append(names, p.Name())
		results = append(results, FilterResult{Name: strings.Join(names, ","), Clusters: r.names(left)})
	}
	return results
}

// EachCandidate yields the index of each candidate.
func (r *Decision) EachCandidate(yield func(index int) bool) { r.candidates.All(yield) }

// EachExcluded yields the index of each excluded candidate, and the plugin that excluded it.
func (r *Decision) EachExcluded(yield func(index int, plugin string) bool) {
	for _, n := range r.narrowed {
		for i := range n.excluded.All {
			if !yield(i, n.plugin) {
				return
			}
		}
	}
	for _, e := range r.excluded {
		if !yield(e.cluster.Index, e.status.Plugin()) {
			return
		}
	}
}

// excludedByPlugin returns the excluded candidates by the plugin that excluded them.
func (r *Decision) excludedByPlugin() map[string]framework.Bitset {
	all := make(map[string]framework.Bitset, len(r.Profile.Filter))
	for _, n := range r.narrowed {
		all[n.plugin] = all[n.plugin].Or(n.excluded)
	}
	for _, e := range r.excluded {
		all[e.status.Plugin()] = all[e.status.Plugin()].Set(e.cluster.Index)
	}
	return all
}

// ExcludedBy counts the excluded candidates by plugin, in the order of the filters, without plugins
// that excluded none.
func (r *Decision) ExcludedBy() []framework.ExcludedBy {
	var all []framework.ExcludedBy
	excluded := r.excludedByPlugin()
	for _, p := range r.Profile.Filter {
		if n := excluded[p.Name()].Len(); n > 0 {
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
		how := "by"
		if i == 0 {
			how = "excluded by"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s%s", e.Clusters, how, e.Plugin, r.endedText(e.Plugin)))
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
	if status := r.filterStatus(index); status != nil {
		return status
	}
	cluster := r.Snapshot.Clusters.Get(index)
	for _, n := range r.narrowed {
		if !n.excluded.Has(index) {
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
func (r *Decision) ExcludedByPlugin(index int) string { return r.filterStatus(index).Plugin() }

// filterStatus returns the Status with which a Filter excluded a candidate; nil if none did.
func (r *Decision) filterStatus(index int) *framework.Status {
	for _, e := range r.excluded {
		if e.cluster.Index == index {
			return e.status
		}
	}
	return nil
}
