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

// literal selects as it is defined: it looks at every candidate again before each selection.
type literal struct {
	c *Candidates
	d *Demand
	// members are the candidates in tiers that may be used.
	members []int
	chosen  map[int]bool
}

// newLiteral finds the tiers that may be used.
func newLiteral(c *Candidates, d *Demand) *literal {
	l := &literal{c: c, d: d, chosen: map[int]bool{}}
	var usable, sufficient []int
	for tier := range d.Tiers {
		qualifying := 0
		for i := range c.Totals {
			if c.Tier(i) == tier {
				qualifying++
			}
		}
		if qualifying >= d.Tiers[tier].Min {
			if sufficient = append(sufficient, tier); d.Tiers[tier].Usable {
				usable = append(usable, tier)
			}
		}
	}
	only := append(usable, sufficient...)
	for i := range c.Totals {
		switch {
		case len(d.Tiers) == 0, l.tier(i) >= 0 && (d.Overflow || len(only) == 0), l.tier(i) >= 0 && l.tier(i) == only[0]:
			l.members = append(l.members, i)
		}
	}
	return l
}

func (l *literal) tier(i int) int {
	if len(l.d.Tiers) == 0 {
		return 0
	}
	if tier := l.c.Tier(i); tier >= 0 && l.d.Overflow && l.c.Delayed != nil && l.c.Delayed(i) {
		// Delayed candidates are in tiers after all others.
		return len(l.d.Tiers) + tier
	}
	return l.c.Tier(i)
}

// group is the group of a candidate, and how many clusters of it are chosen. Without one, it is a
// group after all others that has no bounds.
func (l *literal) group(i int) (at int, g Group, chosen int) {
	if at = len(l.d.Groups); at > 0 && l.c.Group(i) >= 0 {
		at = l.c.Group(i)
		g = l.d.Groups[at]
		for j := range l.chosen {
			if l.c.Group(j) == at {
				chosen++
			}
		}
		return at, g, chosen
	}
	return at, Group{Max: -1}, 0
}

// available is how many members the maxima permit.
func (l *literal) available() int {
	n, of := 0, map[int]int{}
	for _, i := range l.members {
		at, g, _ := l.group(i)
		if of[at]++; g.Max < 0 || of[at] <= g.Max {
			n++
		}
	}
	return n
}

// shortfall is what the chosen candidates lack.
func (l *literal) shortfall() Shortfall {
	short := Shortfall{Missing: l.available() - len(l.chosen)}
	if l.d.Number >= 0 {
		short.Missing = l.d.Number - len(l.chosen)
	}
	for at, g := range l.d.Groups {
		chosen, left := 0, false
		for _, i := range l.members {
			switch of, _, _ := l.group(i); {
			case of != at:
			case l.chosen[i]:
				chosen++
			default:
				left = true
			}
		}
		if chosen < g.Min {
			short.Unmet = append(short.Unmet, Unmet{at, g.Min - chosen})
		}
		permitted := l.d.Number != 0 && (l.d.Limit < 0 || len(l.chosen) < l.d.Limit || l.d.Number < 0 && l.available() == 0)
		if permitted && (short.Missing > 0 || len(l.chosen) == 0) && left && g.Max >= 0 && chosen >= g.Max {
			short.Full = append(short.Full, at)
		}
	}
	short.NoTierSufficient = len(l.d.Tiers) > 0 && !l.d.Overflow
	for tier, of := range l.d.Tiers {
		qualifying := 0
		for i := range l.c.Totals {
			if l.c.Tier(i) == tier {
				qualifying++
			}
		}
		if qualifying >= of.Min {
			short.NoTierSufficient = false
		}
	}
	return short
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
	for _, i := range l.members {
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
	soft, missing := map[int]string{}, map[int]int{}
	for _, i := range l.members {
		at, g, chosen := l.group(i)
		if l.chosen[i] || g.Max >= 0 && chosen >= g.Max {
			continue
		}
		if missing[i] = at; chosen >= g.Min {
			missing[i] = len(l.d.Groups)
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
		return cmp.Or(cmp.Compare(l.tier(a), l.tier(b)), cmp.Compare(missing[a], missing[b]), cmp.Compare(soft[a], soft[b]),
			cmp.Compare(demoted[l.c.demoted(a)], demoted[l.c.demoted(b)]), cmp.Compare(totals[b], totals[a]), l.c.ByName(a, b))
	}), blockedBy
}

// lacking counts the members by the first key that they lack, of constraints up to the last one.
func (l *literal) lacking(last int) string {
	var parts []string
	for n, term := range l.d.Spread[:last+1] {
		count := 0
		for _, i := range l.members {
			path := l.path(i)
			if path[n] == "" && (n == 0 || path[n-1] != "") {
				count++
			}
		}
		switch count {
		case 0:
		case 1:
			parts = append(parts, "1 cluster lacks the label "+term.TopologyKey)
		default:
			parts = append(parts, fmt.Sprintf("%d clusters lack the label %s", count, term.TopologyKey))
		}
	}
	return strings.Join(parts, ", ")
}

// compareWithDefinition returns how Select differs from the definition; empty if it does not.
func compareWithDefinition(c *Candidates, d *Demand) string {
	l := newLiteral(c, d)
	var want []int
	wantBlocked, wantLacking := "", ""
	for len(want) < len(l.members) && (d.Number < 0 || len(want) < d.Number) && (d.Limit < 0 || len(want) < d.Limit) {
		best, blockedBy := l.next()
		if best < 0 {
			if blockedBy >= 0 {
				wantBlocked = fmt.Sprintf("spec.spreadPolicy.spreadConstraints[%d] (Label %s, maxSkew %d)",
					blockedBy, d.Spread[blockedBy].TopologyKey, max(d.Spread[blockedBy].MaxSkew, 1))
				wantLacking = l.lacking(blockedBy)
			}
			break
		}
		l.chosen[best] = true
		want = append(want, best)
	}
	wantShort := l.shortfall()
	wantShort.BlockedBy, wantShort.Lacking = wantBlocked, wantLacking
	got, short, err := Select(c, d, never)
	if diff := gocmp.Diff(want, got) + gocmp.Diff(wantShort, short); diff != "" || err != nil {
		return fmt.Sprintf("%v (-want +got):\n%s", err, diff)
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
		if problem := compareWithDefinition(c, d); problem != "" {
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
		if problem := compareWithDefinition(c, d); problem != "" {
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
