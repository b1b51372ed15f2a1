package property

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestSpread compares the selection, pick by pick, with a literal implementation of the rules that
// keeps no queues or counts.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weight := oneOf[int32](t, "spread weight", 0, 0, 1, 2, -1)
		r := spreadOut(t, weight)
		want, stopped := literalSpread(r, float64(weight))
		var got []string
		for _, s := range r.Selected {
			got = append(got, s.Cluster.Name)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("selected (-want +got):\n%s", diff)
		}
		if stopped != (r.Shortfall.BlockedBy != "") {
			t.Fatalf("stopped short: %t, and the result names %q", stopped, r.Shortfall.BlockedBy)
		}
	})
}

// TestSkew: for all scores and weights of the prioritizer Spread, no DoNotSchedule skew is
// exceeded.
func TestSkew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := spreadOut(t, rapid.Int32Range(-10, 10).Draw(t, "spread weight"))
		chosen := map[string]bool{}
		for _, s := range r.Selected {
			chosen[s.Cluster.Name] = true
		}
		constraints := r.Snapshot.Subject.Placement.Spec.SpreadPolicy.SpreadConstraints
		for i, c := range constraints {
			if c.WhenUnsatisfiable != v1alpha1.DoNotSchedule {
				continue
			}
			for _, cluster := range r.Feasible {
				tuple, whole := domainOf(cluster, constraints[:i+1])
				if !whole {
					if chosen[cluster.Name] {
						t.Fatalf("%s lacks a key of constraint %d and is selected", cluster.Name, i)
					}
					continue
				}
				if n, m := occupied(r, chosen, i, tuple); n-m > int(c.MaxSkew) {
					t.Fatalf("constraint %d: %d in %s, and %d in the least of its siblings", i, n, tuple, m)
				}
			}
		}
	})
}

// spreadOut decides a random Placement with spread constraints on a random fleet.
func spreadOut(t *rapid.T, weight int32) *decide.Decision {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("n", "s"))
	for n := range rapid.IntRange(1, 40).Draw(t, "clusters") {
		name := fmt.Sprintf("c%02d", n)
		b := fixture.Cluster(name).Set("s")
		for _, key := range []string{"region", "zone"} {
			if v := oneOf(t, key, "1", "2", "3", "4", ""); v != "" {
				b = b.Label(key, v)
			}
		}
		if v := oneOf(t, "rack", "1", "2", ""); v != "" {
			b = b.Claim("rack", v)
		}
		if oneOf(t, "taint", false, false, true) {
			b = b.Taint("slow", "", v1alpha1.TaintEffectPreferNoSelect)
		}
		inv.Update(b.Obj())
		inv.Update(fixture.Score(name, "r").Value("v", rapid.Int32Range(0, 2).Draw(t, "score")*50).Obj())
	}
	p := fixture.Placement("n", "p").Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn("r", "v", 1)
	if weight != 0 {
		p = p.Prioritizer(v1alpha1.PrioritizerSpread, weight)
	}
	if rapid.Bool().Draw(t, "number") {
		p = p.Number(rapid.Int32Range(0, 40).Draw(t, "numberOfClusters"))
	}
	keys := rapid.Permutation([]string{"region", "zone", "rack"}).Draw(t, "keys")
	for _, key := range keys[:rapid.IntRange(1, 3).Draw(t, "constraints")] {
		p = p.Spread(key, rapid.Int32Range(1, 3).Draw(t, "skew"), oneOf(t, "unsatisfiable", v1alpha1.DoNotSchedule, v1alpha1.ScheduleAnyway))
	}
	object := p.Obj()
	for i, c := range object.Spec.SpreadPolicy.SpreadConstraints {
		if c.TopologyKey == "rack" {
			object.Spec.SpreadPolicy.SpreadConstraints[i].TopologyKeyType = v1alpha1.TopologyKeyTypeClaim
		}
	}
	inv.Update(object)
	return decideOne(newScheduler(t, true), inv, inventory.Key{Namespace: "n", Name: "p"}).Decision
}

// literalSpread is the literal rule: it picks one cluster at a time and counts again each time.
func literalSpread(r *decide.Decision, weight float64) (picked []string, stopped bool) {
	spec := r.Snapshot.Subject.Placement.Spec
	wanted := len(r.Feasible)
	if spec.NumberOfClusters != nil {
		wanted = min(wanted, int(*spec.NumberOfClusters))
	}
	chosen := map[string]bool{}
	for len(picked) < wanted {
		var open []int
		violates := map[int][]int{}
		for _, j := range r.Ranking() {
			hard, soft := violated(r, chosen, r.Feasible[j])
			if violates[j] = soft; !hard && !chosen[r.Feasible[j].Name] {
				open = append(open, j)
			}
		}
		if len(open) == 0 {
			return picked, true
		}
		bonus := spreadBonus(r, chosen, open)
		total := func(j int) float64 { return float64(r.Totals[j]) + weight*bonus[j] }
		best := slices.MinFunc(open, func(a, b int) int {
			return cmp.Or(slices.Compare(violates[a], violates[b]), demoted(r, a)-demoted(r, b), cmp.Compare(total(b), total(a)),
				cmp.Compare(r.Feasible[a].Name, r.Feasible[b].Name))
		})
		chosen[r.Feasible[best].Name] = true
		picked = append(picked, r.Feasible[best].Name)
	}
	return picked, false
}

// demoted is 1 for a cluster that comes after all others.
func demoted(r *decide.Decision, j int) int {
	if r.State.Demoted().Has(r.Feasible[j].Index) {
		return 1
	}
	return 0
}

// spreadBonus is what the Spread prioritizer adds with a weight of 1, by candidate: the sum of half
// the score of the first constraint, a quarter of that of the second and so on. The score is -100
// without the key and otherwise -100 to 100, the more the fewer are chosen in the domain compared
// with its siblings.
func spreadBonus(r *decide.Decision, chosen map[string]bool, open []int) map[int]float64 {
	bonus := map[int]float64{}
	constraints := r.Snapshot.Subject.Placement.Spec.SpreadPolicy.SpreadConstraints
	for i := range constraints {
		lack := map[int]float64{}
		for _, j := range open {
			if tuple, whole := domainOf(r.Feasible[j], constraints[:i+1]); whole {
				n, least := occupied(r, chosen, i, tuple)
				lack[j] = float64(least - n)
			}
		}
		values := slices.Collect(maps.Values(lack))
		for _, j := range open {
			score := -100.0
			if own, whole := lack[j]; whole {
				score = 100
				if low, high := slices.Min(values), slices.Max(values); low < high {
					score = ((own-low)/(high-low) - 0.5) * 2 * 100
				}
			}
			bonus[j] += score / float64(int(2)<<i)
		}
	}
	return bonus
}

// violated says whether picking the cluster violates a DoNotSchedule constraint, and 1 or 0 for
// each ScheduleAnyway one.
func violated(r *decide.Decision, chosen map[string]bool, cluster *framework.Cluster) (hard bool, soft []int) {
	constraints := r.Snapshot.Subject.Placement.Spec.SpreadPolicy.SpreadConstraints
	for i, c := range constraints {
		tuple, whole := domainOf(cluster, constraints[:i+1])
		violates := !whole
		if whole {
			n, m := occupied(r, chosen, i, tuple)
			violates = n+1-m > int(c.MaxSkew)
		}
		switch {
		case c.WhenUnsatisfiable == v1alpha1.DoNotSchedule:
			hard = hard || violates
		case violates:
			soft = append(soft, 1)
		default:
			soft = append(soft, 0)
		}
	}
	return hard, soft
}

// domainOf returns the values of all keys, and whether no key is missing.
func domainOf(cluster *framework.Cluster, constraints []v1alpha1.SpreadConstraintsTerm) (tuple []string, whole bool) {
	for _, c := range constraints {
		from := cluster.Labels
		if c.TopologyKeyType == v1alpha1.TopologyKeyTypeClaim {
			from = cluster.Claims
		}
		value, ok := from[c.TopologyKey]
		if !ok {
			return nil, false
		}
		tuple = append(tuple, value)
	}
	return tuple, true
}

// occupied counts the selected clusters in the domain of constraint i, and in the emptiest of its
// siblings, the domain itself included.
func occupied(r *decide.Decision, chosen map[string]bool, i int, tuple []string) (n, least int) {
	constraints := r.Snapshot.Subject.Placement.Spec.SpreadPolicy.SpreadConstraints[:i+1]
	counts := map[string]int{}
	for _, cluster := range r.Feasible {
		other, whole := domainOf(cluster, constraints)
		if !whole || !slices.Equal(other[:i], tuple[:i]) {
			continue
		}
		counts[other[i]] += 0
		if chosen[cluster.Name] {
			counts[other[i]]++
		}
	}
	n, least = counts[tuple[i]], counts[tuple[i]]
	for _, count := range counts {
		least = min(least, count)
	}
	return n, least
}
