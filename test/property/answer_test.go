package property

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// answer is a Result as text.
type answer struct {
	Candidates, Filters, Totals, Ranking, Selected, Conditions, Warnings []string
	Requeue                                                              string
}

func answerOf(r *decide.Decision) answer {
	a := answer{Candidates: r.CandidateNames(), Requeue: r.State.Requeue().String()}
	for _, f := range r.FilterResults() {
		a.Filters = append(a.Filters, fmt.Sprint(f.Name, f.Clusters))
	}
	for i, c := range r.Feasible {
		a.Totals = append(a.Totals, fmt.Sprint(c.Name, " ", r.Totals[i]))
	}
	slices.Sort(a.Totals) // The order of Feasible is that of the indexes, which nobody sees.
	for _, i := range r.Ranking() {
		a.Ranking = append(a.Ranking, r.Feasible[i].Name)
	}
	for _, s := range r.Selected {
		a.Selected = append(a.Selected, fmt.Sprint(s.Cluster.Name, " ", s.Score))
	}
	for _, c := range r.Conditions() {
		a.Conditions = append(a.Conditions, fmt.Sprint(c.Type, c.Status, c.Reason, c.Message))
	}
	for _, w := range r.State.Warnings() {
		a.Warnings = append(a.Warnings, w.Plugin+": "+w.Message)
	}
	return a
}

// view is a Snapshot as text, with names instead of indexes.
type view struct {
	Clusters, Sets, Scores []string
	Bound                  []string
	Counts                 map[string]int32
	Histogram              []int32
	Pages                  []string
	Published, Incumbents  []string
	Entries                map[string]int32
	Taken                  []string
	Records, Policies      []string
	Evictions              []framework.Eviction
}

func viewOf(s *framework.Snapshot) view {
	v := view{Bound: s.BoundSets, Counts: map[string]int32{}, Histogram: s.Counts.Histogram, Entries: map[string]int32{}, Taken: s.Subject.Taken}
	name := func(i int) string {
		if c := s.Clusters.Get(i); c != nil {
			return c.Name
		}
		return ""
	}
	names := func(set framework.Bitset) (all []string) {
		for i := range set.All {
			if n := name(i); n != "" {
				all = append(all, n)
			}
		}
		slices.Sort(all)
		return all
	}
	for i := range s.Clusters.Len() {
		c := s.Clusters.Get(i)
		if c == nil {
			continue
		}
		v.Clusters = append(v.Clusters, fmt.Sprint(c.Name, c.ResourceVersion, c.Claims, c.TaintTimes, c.CPU, c.Memory))
		if n := s.Counts.ByIndex.Get(i); n != 0 {
			v.Counts[c.Name] = n
		}
		if n := s.Subject.Entries.Of(i); n != 0 {
			v.Entries[c.Name] = n
		}
		for _, resource := range scoreNames {
			if o := s.Scores[resource].Get(i); o != nil {
				v.Scores = append(v.Scores, fmt.Sprint(o.Namespace, o.Name, o.ResourceVersion))
			}
		}
	}
	slices.Sort(v.Clusters)
	slices.Sort(v.Scores)
	for _, set := range s.Sets {
		v.Sets = append(v.Sets, fmt.Sprint(set.Name, names(set.Members), set.Err))
	}
	for _, p := range s.Subject.Pages {
		v.Pages = append(v.Pages, p.Name+" "+p.ResourceVersion)
	}
	for _, r := range s.Subject.Records {
		v.Records = append(v.Records, r.Name+" "+r.ResourceVersion)
	}
	v.Evictions = slices.Clone(s.Subject.Evictions)
	for _, p := range s.Subject.DisruptionPolicies {
		v.Policies = append(v.Policies, p.Name+" "+p.ResourceVersion)
	}
	v.Published, v.Incumbents = names(s.Subject.LastClusters), names(s.Subject.Incumbents)
	return v
}

// noBalance replaces Balance in tests where decisions of other Placements must not count. It
// affects no Placement.
type noBalance struct{}

func (noBalance) Name() string { return v1alpha1.PrioritizerBalance }

func (noBalance) Score(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (int64, *framework.Status) {
	return 0, nil
}

func newScheduler(t rapid.TB, balance bool) *scheduler.Scheduler {
	registry := builtin.Registry()
	if !balance {
		registry[v1alpha1.PrioritizerBalance] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return noBalance{}, nil
		}
	}
	profiles, err := builtin.Profiles(context.Background(), nil, registry, &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.New(profiles, nil)
}

func decideOne(s *scheduler.Scheduler, inv *inventory.Inventory, key inventory.Key) *scheduler.Attempt {
	return s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
}

// ask releases the buffers of the cycle for the next one.
func ask(s *scheduler.Scheduler, inv *inventory.Inventory, key inventory.Key) answer {
	r := decideOne(s, inv, key)
	defer s.Release(r.Decision)
	return answerOf(r.Decision)
}
