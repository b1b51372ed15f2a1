package decide

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/turns"
)

// TestInChunks: every position is done once, and of several failures the first in order is
// returned, whatever was quicker.
func TestInChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, size := rapid.IntRange(0, 300).Draw(t, "n"), rapid.IntRange(1, 50).Draw(t, "size")
		bad := rapid.SliceOfN(rapid.IntRange(0, 400), 0, 3).Draw(t, "bad")
		var mu sync.Mutex
		var done []int
		failure := inChunks(n, size, func(low, high int) *framework.Status {
			for i := low; i < high; i++ {
				if slices.Contains(bad, i) {
					return framework.NewStatus(framework.Error, fmt.Sprint(i))
				}
				mu.Lock()
				done = append(done, i)
				mu.Unlock()
			}
			return nil
		})
		slices.Sort(bad)
		if len(bad) > 0 && bad[0] < n {
			if got := failure.Reason(); got != fmt.Sprint(bad[0]) {
				t.Fatalf("the failure of %s is returned, not that of %d", got, bad[0])
			}
			return
		}
		slices.Sort(done)
		for i := range n {
			if i >= len(done) || done[i] != i {
				t.Fatalf("done are %v", done)
			}
		}
		if failure != nil || len(done) != n {
			t.Fatalf("%v, %d of %d done", failure, len(done), n)
		}
	})
}

// TestInChunksStopsAfterAFailure: after the first failure no further range begins.
func TestInChunksStopsAfterAFailure(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	begun := 0
	inChunks(100, 10, func(low, _ int) *framework.Status {
		if begun++; low == 20 {
			return framework.NewStatus(framework.Error, "broken")
		}
		return nil
	})
	if begun != 3 {
		t.Errorf("%d ranges begin, want the 3 up to the failure", begun)
	}
}

// TestInChunksEndedGoroutine: a range whose goroutine ends is not left out of the result.
func TestInChunksEndedGoroutine(t *testing.T) {
	failure := inChunks(100, 10, func(low, _ int) *framework.Status {
		if low == 20 {
			runtime.Goexit()
		}
		return nil
	})
	if failure.Reason() != turns.ErrEndedGoroutine.Error() {
		t.Errorf("got %v", failure.Err())
	}
}

// TestLowestFailure: of several ranges that fail, the lowest counts.
func TestLowestFailure(t *testing.T) {
	s := &chunkRunner{n: 30, size: 10}
	for _, low := range []int{20, 10, 0, 10} {
		s.fail(framework.NewStatus(framework.Error, fmt.Sprint(low)), low)
	}
	if got := s.failure.Reason(); got != "0" {
		t.Errorf("the failure of the range from %s", got)
	}
}

// TestAddOnScoresShareMemory: however many coordinates a Placement lists, an attempt has one buffer
// for their scores.
func TestAddOnScoresShareMemory(t *testing.T) {
	const clusters = 1_000
	plugins := func() []scoring {
		all := []scoring{{scorer: scorer{name: "Balance"}}, {scorer: scorer{name: "Steady"}}}
		for range v1alpha1.MaxPrioritizers {
			all = append(all, scoring{scorer: scorer{name: "AddOn", addOn: true}})
		}
		return all
	}
	for name, tc := range map[string]struct {
		totalsOnly        bool
		wantOwn, wantRows int
	}{
		"an attempt":     {true, 2, 4},
		"an explanation": {false, 2 + v1alpha1.MaxPrioritizers, 3 + v1alpha1.MaxPrioritizers},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Decision{Feasible: make([]*framework.Cluster, clusters), scratch: &scratch{}, totalsOnly: tc.totalsOnly}
			all := plugins()
			own := r.allocateScores(all)
			// Memory is allocated in sizes that may be somewhat larger.
			if rows := cap(r.scratch.numbers) / clusters; len(own) != tc.wantOwn || rows < tc.wantRows || rows > tc.wantRows+tc.wantRows/4 {
				t.Errorf("%d plugins have a buffer of their own, want %d; %d numbers a cluster, want %d", len(own), tc.wantOwn, rows, tc.wantRows)
			}
			for i, p := range append(all, scoring{scores: r.Totals}) {
				if len(p.scores) != clusters {
					t.Errorf("plugin %d has memory for %d clusters, want %d", i, len(p.scores), clusters)
				}
			}
		})
	}
}
