package scheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Deny gives an attempt the outcome Denied, for a reason.
func (a *Attempt) Deny(why string) {
	a.Outcome, a.why, a.Change = Denied, why, &Move{Proposal: a.Target}
}

// SetChunkSize sets how many candidates one goroutine processes, until restore is called.
func SetChunkSize(n int) (restore func()) {
	before := chunkSize
	chunkSize = n
	return func() { chunkSize = before }
}

// ReadySince returns the measurement of a Placement for its next attempt.
func (s *Scheduler) ReadySince(placement types.NamespacedName) map[string]time.Time {
	return s.timers[placement].ReadySince
}

// Counts returns the counts of the plugins for the next attempt as JSON, one per plugin.
func (s *Scheduler) Counts() map[string]string {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		for _, counter := range s.profiles[name].counters() {
			if counts := counter.Counts(); counts != nil {
				text, err := json.Marshal(counts)
				if err != nil {
					panic(err)
				}
				all[counter.Name()] = string(text)
			}
		}
	}
	return all
}
