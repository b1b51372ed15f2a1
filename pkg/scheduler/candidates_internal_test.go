package scheduler

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TestInChunks: every position is done once, and of several failures the first in order is told, whatever was quicker.
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
				t.Fatalf("the failure of %s is told, not that of %d", got, bad[0])
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
