package selection

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkSelect selects from 5,000 candidates without and with 3 tiers and 4 groups.
func BenchmarkSelect(b *testing.B) {
	tiers := []Tier{{Name: "a", Min: 1}, {Name: "b", Min: 1}, {Name: "c", Min: 1}}
	groups := []Group{{"w", 2, -1}, {"x", 5, 400}, {"y", 0, 300}, {"z", 1, 2}}
	for _, n := range []int{20, 1_000} {
		for _, keys := range [][]string{nil, {"zone"}, {"rack"}, {"region", "zone", "rack"}} {
			for _, kind := range []string{"plain", "groups", "fallback", "overflow"} {
				d := Demand{Number: n, Limit: -1, Spread: spreadOver(false, keys...), Overflow: kind == "overflow"}
				if kind != "plain" {
					d.Groups = groups
				}
				if kind == "fallback" || kind == "overflow" {
					d.Tiers = tiers
				}
				b.Run(fmt.Sprintf("%d/%v/%s", n, keys, kind), func(b *testing.B) {
					c := fleet(5_000)
					random := rand.New(rand.NewPCG(5, 6))
					tier, group := make([]int, 5_000), make([]int, 5_000)
					for i := range c.Totals {
						c.Totals[i], tier[i], group[i] = random.Int64N(1_000), random.IntN(3), random.IntN(5)-1
					}
					c.Tier, c.Group = func(i int) int { return tier[i] }, func(i int) int { return group[i] }
					for b.Loop() {
						if chosen, _, err := Select(c, &d, never); len(chosen) != n || err != nil {
							b.Fatal(len(chosen), err)
						}
					}
				})
			}
		}
	}
}
