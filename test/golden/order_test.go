package golden

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-dev/berth/pkg/simulator"
)

// TestOrderOfObjectsDoesNotMatter decides every step again with its objects in other orders, and
// expects the same reports, byte for byte.
func TestOrderOfObjectsDoesNotMatter(t *testing.T) {
	const orders = 3
	snapshots, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	newline := []byte("\n")
	for seed := range uint64(orders) {
		t.Run(fmt.Sprintf("order %d", seed), func(t *testing.T) {
			t.Parallel()
			for i, s := range snapshots {
				if s.costly {
					continue // These few would take longer than all others together.
				}
				reports, err := reportsOf(shuffled(s.step.Objects, rand.New(rand.NewPCG(uint64(i), seed))), s.step.Now)
				if err != nil {
					t.Fatalf("%s: %v", s.id, err)
				}
				if a, b := firstDifference(bytes.Join(s.reports, newline), bytes.Join(reports, newline)); a != b {
					t.Errorf("%s: %q becomes %q", s.id, a, b)
				}
			}
		})
	}
}

// firstDifference returns both texts around the first byte that differs.
func firstDifference(a, b []byte) (string, string) {
	if bytes.Equal(a, b) {
		return "", ""
	}
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-60)
	return string(a[from:min(len(a), at+60)]), string(b[from:min(len(b), at+60)])
}

func shuffled(o simulator.Objects, random *rand.Rand) simulator.Objects {
	o = slices.Clone(o)
	random.Shuffle(len(o), func(i, j int) { o[i], o[j] = o[j], o[i] })
	return o
}
