package selection

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// literal selects under spread constraints as they are defined: it looks at every candidate again
// before each selection.
type literal struct {
	c      *Candidates
	d      *Demand
	chosen map[int]bool
}

// path is the domain of each constraint as the text of its values; "" from the first missing key
// on.
func (l *literal) path(i int) []string {
	path, values := make([]string, len(l.d.Spread)), []string{"."}
	for n, term := range l.d.Spread {
		value, ok := l.c.Topology(i, term)
		if !ok {
			break
		}
		values = append(values, value)
		path[n] = strings.Join(values, "/")
	}
	return path
}

// count is the number of selected clusters in a domain of constraint n.
func (l *literal) count(n int, domain string) int {
	count := 0
	for i := range l.chosen {
		if l.path(i)[n] == domain {
			count++
		}
	}
	return count
}

// excess is how many clusters more than the smallest of its siblings a domain has.
func (l *literal) excess(n int, domain string) int {
	parent := domain[:strings.LastIndex(domain, "/")]
	least := math.MaxInt
	for i := range l.c.Totals {
		if other := l.path(i)[n]; other != "" && other[:strings.LastIndex(other, "/")] == parent {
			least = min(least, l.count(n, other))
		}
	}
	return l.count(n, domain) - least
}

// violations are the first violated DoNotSchedule constraint, or -1, and the violated
// ScheduleAnyway constraints as digits, the first one first.
func (l *literal) violations(i int) (hard int, soft string) {
	hard = -1
	for n, term := range l.d.Spread {
		domain := l.path(i)[n]
		violated := domain == "" || l.excess(n, domain)+1 > int(max(term.MaxSkew, 1))
		switch {
		case !violated || term.WhenUnsatisfiable != v1alpha1.DoNotSchedule:
			soft += map[bool]string{true: "1", false: "0"}[violated]
		case hard < 0:
			hard = n
		}
	}
	return hard, soft
}

// bonus is the score of the Spread prioritizer for a candidate among those that are open.
func (l *literal) bonus(i int, open []int) float64 {
	sum := 0.0
	for n := range l.d.Spread {
		low, high := math.Inf(1), math.Inf(-1)
		for _, j := range open {
			if domain := l.path(j)[n]; domain != "" {
				low, high = min(low, float64(-l.excess(n, domain))), max(high, float64(-l.excess(n, domain)))
			}
		}
		scaled := -100.0
		if domain := l.path(i)[n]; domain != "" && low == high {
			scaled = 100
		} else if domain != "" {
			// In this order of operations, so that it is rounded alike.
			scaled = ((float64(-l.excess(n, domain))-low)/(high-low) - 0.5) * 2 * 100
		}
		sum += float64(l.d.SpreadWeight) * scaled / math.Pow(2, float64(n+1))
	}
	return sum
}

// next is the candidate to select; -1 and the constraint that excludes a candidate if there is
// none.
func (l *literal) next() (best, blockedBy int) {
	blockedBy = -1
	var open []int
	soft := map[int]string{}
	for i := range l.c.Totals {
		if l.chosen[i] {
			continue
		}
		hard, violated := l.violations(i)
		if soft[i] = violated; hard < 0 {
			open = append(open, i)
		} else if blockedBy < 0 || hard < blockedBy {
			blockedBy = hard
		}
	}
	if len(open) == 0 {
		return -1, blockedBy
	}
	totals := map[int]float64{}
	for _, i := range open {
		if totals[i] = float64(l.c.Totals[i]); l.d.SpreadWeight != 0 {
			totals[i] += l.bonus(i, open)
		}
	}
	demoted := map[bool]int{true: 1}
	return slices.MinFunc(open, func(a, b int) int {
		return cmp.Or(cmp.Compare(soft[a], soft[b]), cmp.Compare(demoted[l.c.Demoted(a)], demoted[l.c.Demoted(b)]), cmp.Compare(totals[b], totals[a]), l.c.ByName(a, b))
	}), blockedBy
}

// compareWithDefinition returns how Select differs from the definition; empty if it does not.
func compareWithDefinition(c *Candidates, d *Demand, keys []string) string {
	l := &literal{c: c, d: d, chosen: map[int]bool{}}
	var want []int
	wantBlocked := ""
	for len(want) < d.count(len(c.Totals)) {
		best, blockedBy := l.next()
		if best < 0 {
			wantBlocked = fmt.Sprintf("spec.spreadPolicy.spreadConstraints[%d] (Label %s, maxSkew %d)", blockedBy, keys[blockedBy], max(d.Spread[blockedBy].MaxSkew, 1))
			break
		}
		l.chosen[best] = true
		want = append(want, best)
	}
	got, blockedBy, err := Select(c, d, never)
	if diff := gocmp.Diff(want, got); diff != "" || blockedBy != wantBlocked || err != nil {
		return fmt.Sprintf("blocked by %q, want %q; %v (-want +got):\n%s", blockedBy, wantBlocked, err, diff)
	}
	return ""
}

// TestPreferencesAsDefined: the same for constraints that clusters violate in many ways.
func TestPreferencesAsDefined(t *testing.T) {
	keys := []string{"region", "zone", "rack"}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 150 {
		labels := make([]map[string]string, 4+random.IntN(7))
		for i := range labels {
			labels[i] = map[string]string{}
			for _, key := range keys {
				if value := random.IntN(8); value > 0 {
					labels[i][key] = fmt.Sprint(value / 3)
				}
			}
		}
		c := labelled(labels...)
		c.Demoted = func(int) bool { return false }
		for i := range c.Totals {
			c.Totals[i] = int64(random.IntN(120))
		}
		d := &Demand{Number: -1, Limit: -1, Spread: spreadOver(false, keys...), SpreadWeight: []int64{0, 0, 0, 1}[random.IntN(4)]}
		for n := range d.Spread {
			d.Spread[n].MaxSkew = int32(1 + random.IntN(2))
		}
		if problem := compareWithDefinition(c, d, keys); problem != "" {
			t.Fatalf("round %d of %v, totals %v, weight %d: %s", round, labels, c.Totals, d.SpreadWeight, problem)
		}
	}
}

// TestSpreadAsDefined compares the selection with the definition.
func TestSpreadAsDefined(t *testing.T) {
	keys := []string{"region", "zone", "rack"}
	rapid.Check(t, func(t *rapid.T) {
		labels := make([]map[string]string, rapid.IntRange(0, 16).Draw(t, "candidates"))
		for i := range labels {
			labels[i] = map[string]string{}
			for _, key := range keys {
				if value := rapid.IntRange(-1, 4).Draw(t, key); value != 0 {
					labels[i][key] = fmt.Sprint(value)
				}
			}
		}
		c := labelled(labels...)
		demoted := rapid.SliceOfN(rapid.IntRange(0, 3), len(labels), len(labels)).Draw(t, "demoted")
		c.Demoted = func(i int) bool { return demoted[i] == 0 }
		c.Totals = rapid.SliceOfN(rapid.Int64Range(0, 3), len(labels), len(labels)).Draw(t, "totals")
		d := &Demand{Number: rapid.IntRange(-1, 16).Draw(t, "number"), Limit: -1, SpreadWeight: rapid.SampledFrom([]int64{0, 0, 1, 16, -2}).Draw(t, "weight")}
		for n := range rapid.IntRange(1, 3).Draw(t, "constraints") {
			one := spreadOver(rapid.Bool().Draw(t, "hard"), keys[n])[0]
			one.MaxSkew = rapid.Int32Range(0, 3).Draw(t, "skew")
			d.Spread = append(d.Spread, one)
		}
		if problem := compareWithDefinition(c, d, keys); problem != "" {
			t.Fatal(problem)
		}
	})
}

// TestSelectFew: the best of many, which are not all ranked.
func TestSelectFew(t *testing.T) {
	c := labelled(make([]map[string]string, 101)...)
	for i := range c.Totals {
		c.Totals[i] = int64(i * 37 % 101)
	}
	for k := range 26 {
		got, _, err := Select(c, &Demand{Number: k, Limit: -1}, never)
		if want := Rank(c)[:k]; !slices.Equal(got, want) || err != nil {
			t.Errorf("the best %d are %v, want %v; %v", k, got, want, err)
		}
	}
}
