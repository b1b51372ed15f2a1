package scheduler

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// spreadFleet is the result of a cycle in which n clusters are feasible. Each is in a rack of its
// own; zones and regions have 10 and 100 of them.
func spreadFleet(n int) *Result {
	pl := &v1alpha1.Placement{}
	snapshot := &framework.Snapshot{Fleet: &framework.Fleet{}, Subject: &framework.Subject{Placement: pl}, Limit: -1}
	r := &Result{Snapshot: snapshot, State: framework.NewCycleState(snapshot), Totals: make([]int64, n)}
	for i := range n {
		object := &v1alpha1.ManagedCluster{}
		object.Name = fmt.Sprintf("c%05d", i)
		object.Labels = map[string]string{"rack": fmt.Sprint(i), "zone": fmt.Sprint(i / 10), "region": fmt.Sprint(i / 100)}
		r.Feasible = append(r.Feasible, framework.NewCluster(object, i))
		snapshot.Ranks = append(snapshot.Ranks, int32(i))
	}
	return r
}

func spreadOver(hard bool, keys ...string) []v1alpha1.SpreadConstraintsTerm {
	constraints := make([]v1alpha1.SpreadConstraintsTerm, len(keys))
	for i, key := range keys {
		constraints[i] = v1alpha1.SpreadConstraintsTerm{
			TopologyKey: key, TopologyKeyType: v1alpha1.TopologyKeyTypeLabel, MaxSkew: 1, WhenUnsatisfiable: v1alpha1.ScheduleAnyway,
		}
		if hard {
			constraints[i].WhenUnsatisfiable = v1alpha1.DoNotSchedule
		}
	}
	return constraints
}

// TestSpreadWork counts comparisons: they must grow with the clusters, not with clusters times
// domains.
func TestSpreadWork(t *testing.T) {
	const n = 5_000
	for name, constraints := range map[string][]v1alpha1.SpreadConstraintsTerm{
		"each its own domain":          spreadOver(false, "rack"),
		"each its own domain, must be": spreadOver(true, "rack"),
		"nested":                       spreadOver(false, "region", "zone", "rack"),
		"nested, must be":              spreadOver(true, "region", "zone", "rack"),
		"nested the other way":         spreadOver(false, "rack", "zone", "region"),
		"ten in a domain":              spreadOver(true, "zone"),
		"no cluster has it":            spreadOver(false, "none", "rack"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &spreading{r: spreadFleet(n), constraints: constraints}
			s.sort()
			chosen, short := s.pickAll(n)
			if len(chosen) != n || short != "" {
				t.Fatalf("%d are chosen, blocked by %q", len(chosen), short)
			}
			if most := n * len(constraints) * 5 * bits.Len(n); s.compared > most {
				t.Errorf("%d comparisons, want at most %d", s.compared, most)
			}
		})
	}
}

func TestSpreadPrioritizerIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters, wanted int
		want             string
	}{
		"few of many domains":  {clusters: 1_200, wanted: 400},
		"many of many domains": {clusters: 1_200, wanted: 500, want: "500 clusters to choose times 1200 topology domains is more than 500000"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, _, failure := spreadFleet(tc.clusters).spread(spreadOver(false, "rack"), 1, tc.wanted)
			switch {
			case tc.want == "" && (failure != nil || len(chosen) != tc.wanted):
				t.Errorf("got %d clusters, %v", len(chosen), failure.Err())
			case tc.want != "" && (failure.Code() != framework.UnschedulableAndUnresolvable || !strings.Contains(failure.Reason(), tc.want)):
				t.Errorf("got %s %q, want %q", failure.Code(), failure.Reason(), tc.want)
			}
		})
	}
}

func BenchmarkSpread(b *testing.B) {
	for name, tc := range map[string]struct {
		constraints []v1alpha1.SpreadConstraintsTerm
		weight      int64
		picks       int
	}{
		"rack":                     {constraints: spreadOver(false, "rack"), picks: 5_000},
		"nested":                   {constraints: spreadOver(true, "region", "zone", "rack"), picks: 5_000},
		"rack, Spread prioritizer": {constraints: spreadOver(false, "rack"), weight: 1, picks: 100},
	} {
		b.Run(name, func(b *testing.B) {
			r := spreadFleet(5_000)
			r.Ranking()
			for b.Loop() {
				if _, _, failure := r.spread(tc.constraints, tc.weight, tc.picks); failure != nil {
					b.Fatal(failure.Err())
				}
			}
		})
	}
}
