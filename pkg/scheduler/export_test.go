package scheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ReadySince returns the measurement of a Placement for its next attempt.
func (s *Scheduler) ReadySince(placement types.NamespacedName) map[string]time.Time {
	return s.memory.of(placement).timers.ReadySince
}

// Counts returns the counts of the plugins for the next attempt as JSON, one per plugin.
func (s *Scheduler) Counts() map[string]string {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		for _, counter := range s.Profiles[name].Counters() {
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
