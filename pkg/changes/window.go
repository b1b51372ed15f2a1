package changes

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // A container image may have no time zones of its own.

	"github.com/robfig/cron/v3"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// recurrence is a parsed RecurringWindow.
type recurrence struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

var fiveFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func newRecurrence(w berthv1alpha1.RecurringWindow) (recurrence, error) {
	// The parser accepts a time zone in front of the fields.
	if strings.Contains(w.Schedule, "=") {
		return recurrence{}, fmt.Errorf("schedule: %q is not five fields; set the time zone in timeZone", w.Schedule)
	}
	schedule, err := fiveFields.Parse(w.Schedule)
	if err != nil {
		return recurrence{}, fmt.Errorf("schedule: parsing %q: %w", w.Schedule, err)
	}
	// Start in a leap year, so that 29 February is found.
	if schedule.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return recurrence{}, fmt.Errorf("schedule: %q never occurs", w.Schedule)
	}
	duration, err := time.ParseDuration(w.Duration)
	if err != nil {
		return recurrence{}, fmt.Errorf("duration: %w", err)
	}
	if duration <= 0 {
		return recurrence{}, fmt.Errorf("duration: %s is not positive", w.Duration)
	}
	if w.TimeZone == "Local" {
		return recurrence{}, errors.New(`timeZone: "Local" is not allowed, because it depends on the machine`)
	}
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return recurrence{}, fmt.Errorf("timeZone: %w", err)
	}
	return recurrence{schedule: schedule, duration: duration, zone: zone}, nil
}

// next returns the first opening after t; zero if there is none within five years. The schedule is
// evaluated on a clock without daylight saving, because otherwise an opening in the skipped hour
// would be missing.
func (w recurrence) next(t time.Time) time.Time {
	wall := t.In(w.zone)
	wall = time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), time.UTC)
	for {
		if wall = w.schedule.Next(wall); wall.IsZero() {
			return wall
		}
		// In the hour that occurs twice, the first opening may be in the past.
		if opening := instant(wall, w.zone); opening.After(t) {
			return opening
		}
	}
}

// instant returns the first time at which clocks in the zone show wall. If daylight saving skips
// it, it is the time of the clock change.
func instant(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	switch shown := t.Add(time.Duration(offset) * time.Second); {
	case shown.After(wall):
		return start
	case shown.Before(wall):
		return end
	case start.IsZero():
		return t
	}
	// The same clock time before the last clock change.
	_, before := start.Add(-time.Nanosecond).Zone()
	if earlier := wall.Add(-time.Duration(before) * time.Second); earlier.Before(start) {
		return earlier.In(zone)
	}
	return t
}
