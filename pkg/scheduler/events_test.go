package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// scored is a result with these totals, by cluster.
func scored(names []string, totals []int64) *decide.Decision {
	r := &decide.Decision{Snapshot: &framework.Snapshot{Fleet: &framework.Fleet{}, Subject: &framework.Subject{Placement: ask().Obj()}}, Totals: totals}
	sorted := slices.Sorted(slices.Values(names))
	for i, name := range names {
		r.Snapshot.Ranks = append(r.Snapshot.Ranks, int32(slices.Index(sorted, name)))
		r.Feasible = append(r.Feasible, framework.NewCluster(fixture.Cluster(name).Obj(), i))
	}
	return r
}

// noteOf is the list of scores that is sent with a changed page.
func noteOf(r *decide.Decision) string {
	return r.ScoreNote()
}

// plainNote sorts all scores by name and takes as many of the first as fit.
func plainNote(names []string, totals []int64) string {
	sorted := make([]string, len(names))
	for i, name := range names {
		sorted[i] = fmt.Sprintf("%s:%d ", name, totals[i])
	}
	slices.SortFunc(sorted, func(a, b string) int {
		return strings.Compare(a[:strings.IndexByte(a, ':')], b[:strings.IndexByte(b, ':')])
	})
	note := ""
	for _, one := range sorted {
		if len(note)+len(one) > 1000 {
			return note + "......"
		}
		note += one
	}
	return note
}

func TestScoresThatFitAreListedByName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Long names among short ones: what comes after the first that does not fit is not listed,
		// though it would fit.
		name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,6}|[-a-z0-9]{100,200})[a-z0-9]`)
		names := rapid.SliceOfNDistinct(name, 1, 300, rapid.ID).Draw(t, "names")
		totals := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(-200, 200), rapid.Int64()), len(names), len(names)).Draw(t, "totals")
		if got, want := noteOf(scored(names, totals)), plainNote(names, totals); got != want {
			t.Fatalf("the list is\n%s\nwant\n%s", got, want)
		}
	})
}

func BenchmarkListOfScores(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			names, totals := make([]string, n), make([]int64, n)
			for i, j := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
				names[i], totals[i] = fmt.Sprintf("cluster-%05d", j), int64(j%201)
			}
			r := scored(names, totals)
			b.ReportAllocs()
			for b.Loop() {
				noteOf(r)
			}
		})
	}
}
