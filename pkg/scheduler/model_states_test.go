package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/test/model"
)

// state is what is on the hub.
type state struct {
	Records []model.Record
	model.Pages
}

// states are the states of the hub before, between and after the writes of an attempt, in order.
// The last but one is that without a record that cannot be written, the last that after all writes.
func states(w model.World, p model.Prediction) []state {
	now := state{w.Records, w.Pages}
	all := []state{now}
	apply := func(records []model.Record) {
		for _, r := range records {
			i, exists := slices.BinarySearchFunc(now.Records, r.Revision, func(r model.Record, revision int64) int { return int(r.Revision - revision) })
			if exists && (state{Records: now.Records[i : i+1]}).String() == (state{Records: []model.Record{r}}).String() {
				continue
			}
			now.Records = slices.Clone(now.Records)
			if !exists {
				created := model.Record{Revision: r.Revision, Generation: r.Generation, Published: r.Published, Started: r.Started, From: r.From, To: r.To, Added: r.Added, Removed: r.Removed, Forced: r.Forced, LeftAdded: len(r.Added), LeftRemoved: len(r.Removed)}
				now.Records = slices.Insert(now.Records, i, created)
				all = append(all, now)
				now.Records = slices.Clone(now.Records)
			}
			now.Records[i] = r
			all = append(all, now)
		}
	}
	apply(p.Before)
	if p.Unrecorded != nil {
		for i := range len(all) - 1 {
			unrecorded := all[i]
			unrecorded.Pages = model.Pages{Listed: p.Unrecorded, Revision: p.Revision}
			all = append(all, unrecorded)
		}
	}
	if p.Restored != nil {
		for _, unrecorded := range all {
			unrecorded.Pages = *p.Restored
			all = append(all, unrecorded)
		}
	}
	now.Pages = p.Pages
	all = append(all, now)
	apply(p.After)
	return append(all, now)
}

// String lists the published clusters and the records.
func (s state) String() string {
	text := s.Pages.String()
	for _, r := range s.Records {
		text += fmt.Sprintf("\n  %d of generation %d after %d, %.6s to %.6s, +%v -%v: %s %s", r.Revision, r.Generation, r.Published, r.From, r.To, r.Added, r.Removed, r.Phase, r.Approval)
		text += fmt.Sprintf(", left +%d -%d, started %s, permitted %s, progress %s, completed %s, held by %v", r.LeftAdded, r.LeftRemoved,
			clockTime(r.Started), clockTime(r.Permitted), clockTime(r.Progress), clockTime(r.Completed), slices.Sorted(maps.Keys(r.Holds)))
		if until := r.Holds["Approval"]; !until.IsZero() {
			text += " until " + clockTime(until)
		}
	}
	return text
}

func clockTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.TimeOnly)
}
