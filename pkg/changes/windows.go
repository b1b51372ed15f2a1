package changes

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// WindowSet are the windows of one owner: of a DisruptionPolicy or of the configuration. It is open
// while one of them is.
type WindowSet struct {
	parsed func() ([]recurrence, []error)
}

// NewWindowSet returns the windows of an owner. They are parsed when they are first used. path is
// in front of the index in the text of a mistake.
func NewWindowSet(path string, windows []berthv1alpha1.RecurringWindow) *WindowSet {
	return &WindowSet{sync.OnceValues(func() (all []recurrence, mistakes []error) {
		for i, w := range windows {
			r, err := newRecurrence(w)
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s[%d].%w", path, i, err))
			}
			all = append(all, r)
		}
		return all, mistakes
	})}
}

// Check returns all mistakes.
func (s *WindowSet) Check() error {
	_, mistakes := s.parsed()
	return errors.Join(mistakes...)
}

// WindowsOfPolicy returns the windows of a policy; nil if it has none.
func WindowsOfPolicy(policy *berthv1alpha1.DisruptionPolicy) *WindowSet {
	if len(policy.Spec.Windows) == 0 {
		return nil
	}
	return NewWindowSet("DisruptionPolicy "+policy.Name+": spec.windows", policy.Spec.Windows)
}

// CheckWindows returns the first mistake in the windows of a policy.
func CheckWindows(policy *berthv1alpha1.DisruptionPolicy) error {
	if _, mistakes := NewWindowSet("spec.windows", policy.Spec.Windows).parsed(); len(mistakes) > 0 {
		return mistakes[0]
	}
	return nil
}

// Windows combines the windows of several owners: they are open while each owner's are.
type Windows struct {
	sets []*WindowSet
	// hours are the timetables that were computed last, of an even and of an odd hour.
	hours [2]atomic.Pointer[timetable]
}

// CombineWindows combines the windows of the owners that have any; nil if none has.
func CombineWindows(sets ...*WindowSet) *Windows {
	w := &Windows{}
	for _, s := range sets {
		if s != nil {
			w.sets = append(w.sets, s)
		}
	}
	if len(w.sets) == 0 {
		return nil
	}
	return w
}

// Opening returns when the windows are open next: a time that is not after now if they are open. It
// returns false if they are not open before that time, until which it searched, and an error if a
// window is invalid. The answer depends on the windows and on now only. It is computed once per
// hour.
func (w *Windows) Opening(now time.Time) (at time.Time, found bool, err error) {
	table := w.tableOf(now)
	if table.mistake != nil {
		return time.Time{}, false, table.mistake
	}
	for _, open := range table.open {
		if open.until.After(now) {
			return open.from, true, nil
		}
	}
	return table.searched, false, nil
}

// Prepare computes what Opening needs in the attempt that follows, also if the next hour begins
// before it.
func (w *Windows) Prepare(now time.Time) {
	w.tableOf(now)
	w.tableOf(now.Add(preparedTime))
}

// tableOf returns the timetable of the hour of a time.
func (w *Windows) tableOf(now time.Time) *timetable {
	start := now.UTC().Truncate(time.Hour)
	cached := &w.hours[start.Unix()/3600&1]
	table := cached.Load()
	if table == nil || !table.start.Equal(start) {
		table = w.timetable(start)
		cached.Store(table)
	}
	return table
}

const (
	// preparedTime is longer than an attempt waits for the cycle lock.
	preparedTime = 5 * time.Minute
	// maxWindowSteps is how often a search looks at a window.
	maxWindowSteps = 10_000
	// windowHorizon is how far ahead a search looks.
	windowHorizon = 5 * 365 * 24 * time.Hour
)

// timetable is when windows are open in an hour, and then for the first time.
type timetable struct {
	start time.Time
	// open are sorted. Without one that ends after the hour, the search ended at searched.
	open     []period
	searched time.Time
	mistake  error
	steps    int
}

// period begins at from and ends before until.
type period struct{ from, until time.Time }

func (w *Windows) timetable(start time.Time) *timetable {
	table, s := &timetable{start: start}, &windowSearch{horizon: start.Add(windowHorizon)}
	for _, set := range w.sets {
		all, mistakes := set.parsed()
		if len(mistakes) > 0 {
			table.mistake = mistakes[0]
			return table
		}
		cursors := make([]windowCursor, len(all))
		for i := range all {
			cursors[i].recurrence = all[i]
		}
		s.owners = append(s.owners, cursors)
	}
	end := start.Add(time.Hour)
	for at := start; ; {
		open, found := s.next(at)
		if !found {
			table.searched = open.from
			break
		}
		table.open = append(table.open, open)
		if at = open.until; !at.Before(end) {
			break
		}
	}
	table.steps = s.steps
	return table
}

// windowSearch goes from opening to opening.
type windowSearch struct {
	owners  [][]windowCursor
	horizon time.Time
	steps   int
}

// next returns the first period at or after a time in which all owners have an open window. If it
// found none, the period begins where the search ended.
func (s *windowSearch) next(at time.Time) (period, bool) {
	for s.steps < maxWindowSteps {
		until := s.horizon.Add(windowHorizon)
		next := at
		for _, cursors := range s.owners {
			closing, opening := s.look(cursors, at)
			if closing.IsZero() {
				next = opening
				break
			}
			if closing.Before(until) {
				until = closing
			}
		}
		if next.Equal(at) {
			return period{at, until}, true
		}
		if at = next; !at.Before(s.horizon) {
			return period{from: s.horizon}, false
		}
	}
	return period{from: at}, false
}

// look returns when a window closes that is open at a time; otherwise zero and the next opening, or
// the horizon.
func (s *windowSearch) look(cursors []windowCursor, at time.Time) (closing, opening time.Time) {
	opening = s.horizon
	for i := range cursors {
		s.steps++
		c := &cursors[i]
		switch first := c.opening(at); {
		case first.IsZero():
		case !first.After(at):
			return first.Add(c.duration), time.Time{}
		case first.Before(opening):
			opening = first
		}
	}
	return time.Time{}, opening
}

// windowCursor is a window during a search, whose times only grow.
type windowCursor struct {
	recurrence
	known bool
	first time.Time
}

// opening returns when the window that is open at a time opened, otherwise its next opening; zero
// if there is none.
func (c *windowCursor) opening(at time.Time) time.Time {
	// If the window is open, the first opening after at-duration is in the past.
	since := at.Add(-c.duration)
	if !c.known || !c.first.IsZero() && !c.first.After(since) {
		c.known, c.first = true, c.next(since)
	}
	return c.first
}
