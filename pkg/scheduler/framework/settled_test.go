package framework_test

import (
	"testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// settledFleet has cluster c0 to c3 with indexes 0 to 3. Clusters with the label out do not pass,
// those with the label odd are unclear. The total of each is its label total, if it has one.
type settledFleet struct {
	clusters framework.Vector[*framework.Cluster]
	counts   framework.DecisionCounts
	changed  []int32
}

func clusterOf(i int, labels ...string) *framework.Cluster {
	b := fixture.Cluster([]string{"c0", "c1", "c2", "c3", "c4"}[i])
	for _, label := range labels {
		b = b.Label(label, "yes")
	}
	return framework.NewCluster(b.Obj(), i)
}

func (f *settledFleet) fleet() *framework.SettledFleet {
	return &framework.SettledFleet{Clusters: &f.clusters, Counts: &f.counts, Changed: func(since uint64) ([]int32, bool) {
		if since > uint64(len(f.changed)) {
			return nil, false
		}
		return f.changed[since:], true
	}}
}

// settledOf is the proof of a Placement with clusters 0 and 1, of which 0 to 3 are candidates.
// Clusters with the label good have the total 20, others 10, and 1 less for each decision.
func settledOf(cut framework.Cut) *framework.Settled {
	s := &framework.Settled{
		Sets: []*framework.ClusterSet{{Members: framework.Bitset{}.Set(0).Set(1)}, {Members: framework.Bitset{}.Set(2).Set(3)}},
		Cut:  cut, Selected: framework.Bitset{}.Set(0).Set(1),
		Passes: []framework.SettledFilter{
			{Passes: func(c *framework.Cluster) framework.Passing {
				if c.Labels["odd"] != "" {
					return framework.Unclear
				}
				return framework.Passes
			}},
			{Passes: func(c *framework.Cluster) framework.Passing {
				if c.Labels["out"] != "" {
					return framework.Excluded
				}
				return framework.Passes
			}},
		},
	}
	s.Scores = []framework.WeightedSettledScore{{SettledScore: labelScore{}, Weight: 2}, {SettledScore: countScore{}, Weight: 1}}
	return s
}

// labelScore is 10 for clusters with the label good, none for those with the label none, and 5 for
// all others. A cluster with the label edge changes the scores of others.
type labelScore struct{}

func (labelScore) Score(c *framework.Cluster, _ *framework.DecisionCounts) int64 {
	switch {
	case c.Labels["none"] != "":
		return framework.NoScore
	case c.Labels["good"] != "":
		return 10
	}
	return 5
}

func (labelScore) Keeps(before, after *framework.Cluster, _ *framework.DecisionCounts) bool {
	return (before == nil || before.Labels["edge"] == "") && (after == nil || after.Labels["edge"] == "")
}

func (labelScore) DependsOn() framework.ScoreDependency { return framework.OnClusters }

// countScore is less for each decision.
type countScore struct{}

func (countScore) Score(c *framework.Cluster, counts *framework.DecisionCounts) int64 {
	return -int64(counts.ByIndex.Get(c.Index))
}

func (countScore) Keeps(_, _ *framework.Cluster, counts *framework.DecisionCounts) bool {
	return len(counts.Histogram) < 10
}

func (countScore) DependsOn() framework.ScoreDependency { return framework.OnDecisionCounts }

func TestSettledSurvives(t *testing.T) {
	middle := framework.Cut{Total: 15, Name: "\x7f"}
	tests := map[string]struct {
		before, after *framework.Cluster
		cut           framework.Cut
		all, far      bool
		// counted are clusters whose count of decisions is 6 since the last check.
		counted   []int32
		histogram int
		want      bool
	}{
		"a selected cluster that changes nothing":            {before: clusterOf(0, "good"), after: clusterOf(0, "good"), want: true},
		"a selected cluster that falls below the cut":        {before: clusterOf(0, "good"), after: clusterOf(0)},
		"a selected cluster that is excluded":                {before: clusterOf(0, "good"), after: clusterOf(0, "good", "out")},
		"a selected cluster that was not feasible":           {before: clusterOf(0, "good", "out"), after: clusterOf(0, "good")},
		"a selected cluster that is unclear":                 {before: clusterOf(0, "good"), after: clusterOf(0, "good", "odd")},
		"a selected cluster that was unclear":                {before: clusterOf(0, "good", "odd"), after: clusterOf(0, "good")},
		"another cluster that stays below":                   {before: clusterOf(2), after: clusterOf(2), want: true},
		"another cluster without a score":                    {before: clusterOf(2), after: clusterOf(2, "none"), want: true},
		"another cluster that rises":                         {before: clusterOf(2), after: clusterOf(2, "good")},
		"another cluster that joins below":                   {before: clusterOf(2, "out"), after: clusterOf(2), want: true},
		"another cluster that joins above":                   {before: clusterOf(2, "out"), after: clusterOf(2, "good")},
		"another cluster that leaves":                        {before: clusterOf(2), after: clusterOf(2, "out"), want: true},
		"another cluster that is excluded before and after":  {before: clusterOf(2, "out"), after: clusterOf(2, "out", "good"), want: true},
		"another cluster that is excluded, though unclear":   {before: clusterOf(2, "out", "odd"), after: clusterOf(2, "out", "odd"), want: true},
		"a cluster that leaves with the edge of a range":     {before: clusterOf(2, "edge"), after: clusterOf(2, "out")},
		"a cluster that joins beyond a range":                {before: clusterOf(2, "out"), after: clusterOf(2, "edge")},
		"a cluster outside with the edge of a range":         {before: clusterOf(2, "out", "edge"), after: clusterOf(2, "out", "edge"), want: true},
		"a cluster that is no candidate":                     {before: clusterOf(4), after: clusterOf(4, "good", "edge"), want: true},
		"with all selected, one that changes":                {before: clusterOf(0, "good"), after: clusterOf(0), all: true, want: true},
		"with all selected, one that leaves":                 {before: clusterOf(0), after: clusterOf(0, "out"), all: true},
		"with all selected, one that joins":                  {before: clusterOf(2, "out"), after: clusterOf(2), all: true},
		"with all selected, one outside":                     {before: clusterOf(2, "out"), after: clusterOf(2, "out", "good"), all: true, want: true},
		"with all selected, one that was feasible":           {before: clusterOf(2), after: clusterOf(2, "out"), all: true},
		"with all selected, counts do not matter":            {before: clusterOf(0), after: clusterOf(0), all: true, counted: []int32{1}, want: true},
		"far apart, the edge of a range":                     {before: clusterOf(2), after: clusterOf(2, "good", "edge"), far: true, cut: framework.Cut{Total: 0}, want: true},
		"far apart, one that leaves":                         {before: clusterOf(2), after: clusterOf(2, "out", "edge"), far: true, cut: framework.Cut{Total: 0}, want: true},
		"far apart, one whose fixed scores are too high":     {before: clusterOf(2, "out"), after: clusterOf(2), far: true, cut: framework.Cut{Total: -1}},
		"a count of another selected cluster that moves it":  {before: clusterOf(2), after: clusterOf(2), counted: []int32{1}},
		"a count of another cluster below":                   {before: clusterOf(2), after: clusterOf(2), counted: []int32{3}, want: true},
		"a count of a name without a cluster":                {before: clusterOf(2), after: clusterOf(2), counted: []int32{7}, want: true},
		"a count that changes the highest":                   {before: clusterOf(2), after: clusterOf(2), histogram: 10},
		"a count while the cluster is outside":               {before: clusterOf(2, "out"), after: clusterOf(2, "out"), counted: []int32{1}},
		"an equal total, with a name before that of the cut": {before: clusterOf(2), after: clusterOf(2, "good"), cut: framework.Cut{Total: 20, Name: "c1"}, want: true},
		"an equal total, selected":                           {before: clusterOf(0, "good"), after: clusterOf(0, "good"), cut: framework.Cut{Total: 20, Name: "c1"}, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &settledFleet{}
			for i := range 2 {
				f.clusters.Set(i, clusterOf(i, "good"))
			}
			f.clusters.Set(2, clusterOf(2))
			f.clusters.Set(3, clusterOf(3))
			f.clusters.Set(tt.after.Index, tt.after)
			var counts framework.Vector[int32]
			for _, i := range tt.counted {
				counts.Set(int(i), 6)
			}
			f.counts = framework.DecisionCounts{ByIndex: &counts, Histogram: make([]int32, tt.histogram), Changes: uint64(len(tt.counted))}
			f.changed = tt.counted
			if tt.cut == (framework.Cut{}) && !tt.far {
				tt.cut = middle
			}
			s := settledOf(tt.cut)
			if tt.all {
				s.Cut = framework.NoCut
			}
			s.All, s.Far = tt.all, tt.far
			if got := s.Survives(f.fleet(), tt.before, tt.after); got != tt.want {
				t.Errorf("Survives = %t, want %t", got, tt.want)
			}
		})
	}
}

// TestSettledContinues checks that changes of counts are checked once, and that the answer is
// unknown if they were dropped.
func TestSettledContinues(t *testing.T) {
	f := &settledFleet{}
	f.clusters.Set(0, clusterOf(0, "good"))
	f.clusters.Set(1, clusterOf(1, "good"))
	var counts framework.Vector[int32]
	counts.Set(0, 2)
	f.counts = framework.DecisionCounts{ByIndex: &counts, Changes: 1}
	f.changed = []int32{0}
	s := settledOf(framework.Cut{Total: 15, Name: "\x7f"})
	if !s.StillApplies(f.fleet(), nil) || s.Counts != 1 {
		t.Errorf("the count is checked, and %d changes are", s.Counts)
	}
	f.changed = make([]int32, 257)
	f.counts.Changes = 257
	if !s.StillApplies(f.fleet(), nil) {
		t.Error("256 more changes are too many")
	}
	s.Counts = 0
	if s.StillApplies(f.fleet(), nil) {
		t.Error("257 changes are not too many")
	}
	f.changed = f.changed[:1]
	s.Counts = 2
	f.counts.Changes = 3
	if s.StillApplies(f.fleet(), nil) {
		t.Error("the changes are not known, but the answer is")
	}
}

func TestSettledQueue(t *testing.T) {
	admitted := framework.QueueAdmission{Admitted: true, Limit: 3, Reason: "Admitted"}
	limited := admitted
	limited.Limit = 2
	for name, tt := range map[string]struct {
		before, now *framework.QueueAdmission
		want        bool
	}{
		"no queues": {want: true},
		"queues":    {now: &admitted},
		"no more":   {before: &admitted},
		"the same":  {before: &admitted, now: new(admitted), want: true},
		"limited":   {before: &admitted, now: &limited},
	} {
		s := &framework.Settled{All: true, Queue: tt.before}
		if got := s.StillApplies(&framework.SettledFleet{}, tt.now); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
