package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // A container image may have no time zones of its own.

	"github.com/robfig/cron/v3"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// MaintenanceWindowName is the plugin's name.
const MaintenanceWindowName = "MaintenanceWindow"

// MaintenanceWindowArgs are the arguments of MaintenanceWindow. Without windows every change passes
// at any time.
type MaintenanceWindowArgs struct {
	// Windows are when changes are published; where they overlap, they are one.
	Windows []RecurringWindow `json:"windows,omitempty"`
	// Additions says whether a change that adds clusters has to wait for a window. Default true.
	Additions bool `json:"additions"`
	// Removals says whether a change that removes clusters has to wait for a window. Default true.
	Removals bool `json:"removals"`
	// Approvable says whether an approved change is published at once. Default false: an approved
	// change waits for a window, too.
	Approvable bool `json:"approvable"`
}

// RecurringWindow is a stretch of time that comes again and again.
type RecurringWindow struct {
	// Schedule says when the window opens, in the five fields of cron: minute, hour, day of the
	// month, month, day of the week (0 is Sunday); the smallest step is a minute. An opening that
	// falls into the hour skipped in spring is at the end of that hour; one that comes two times in
	// autumn is the first.
	Schedule string `json:"schedule"`
	// Duration is how long the window stays open, for example "90m" or "4h". It may be longer than
	// the time to the next opening.
	Duration string `json:"duration"`
	// TimeZone is the schedule's, by its name in the IANA database, for example "Europe/Berlin".
	// Default UTC.
	TimeZone string `json:"timeZone,omitempty"`
}

// openingSlack is how long after the next opening a hold ends: by then the change has been
// published, if at all.
const openingSlack = 5 * time.Minute

// MaintenanceWindow is a Permit plugin that holds changes until a window opens.
type MaintenanceWindow struct {
	args    MaintenanceWindowArgs
	windows []recurrence
}

// NewMaintenanceWindow is the plugin's factory.
func NewMaintenanceWindow(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, MaintenanceWindowArgs{Additions: true, Removals: true})
	if err != nil {
		return nil, err
	}
	m := &MaintenanceWindow{args: args, windows: make([]recurrence, len(args.Windows))}
	var errs []error
	for i, w := range args.Windows {
		var err error
		if m.windows[i], err = newRecurrence(w); err != nil {
			errs = append(errs, fmt.Errorf("windows[%d].%w", i, err))
		}
	}
	return m, errors.Join(errs...)
}

// Name implements framework.Plugin.
func (*MaintenanceWindow) Name() string { return MaintenanceWindowName }

// Permit lets a guarded change pass while a window is open, and else holds it until the next one
// opens. Nobody need wake it then: it asks for that itself.
func (m *MaintenanceWindow) Permit(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	guarded := m.args.Additions && len(p.Added) > 0 || m.args.Removals && len(p.Removed) > 0
	if len(m.windows) == 0 || !guarded {
		return nil, 0
	}
	if m.args.Approvable && p.Approved {
		return nil, 0
	}
	now := state.Snapshot().Now
	opening := m.opening(now)
	if opening.IsZero() {
		return framework.NewStatus(framework.Unschedulable, "no maintenance window opens within five years"), 0
	}
	if !opening.After(now) {
		// What expired because no controller ran at the opening may be published late.
		return nil, 0
	}
	state.RequeueAt(opening)
	reason := "outside the maintenance windows; the next one opens at " + opening.UTC().Format(time.RFC3339)
	return framework.NewStatus(framework.Wait, reason), opening.Add(openingSlack).Sub(now)
}

// opening is when the window that is open now opened, or else the earliest opening to come; zero
// when there is none.
func (m *MaintenanceWindow) opening(now time.Time) (earliest time.Time) {
	for _, w := range m.windows {
		// A window is open if it opened less than its duration ago: then the first opening since is
		// in the past.
		if t := w.next(now.Add(-w.duration)); !t.IsZero() && (earliest.IsZero() || t.Before(earliest)) {
			earliest = t
		}
	}
	return earliest
}

// recurrence is a RecurringWindow ready for use.
type recurrence struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

var fiveFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func newRecurrence(w RecurringWindow) (recurrence, error) {
	// The parser would take a time zone in front of the fields.
	if strings.Contains(w.Schedule, "=") {
		return recurrence{}, fmt.Errorf("schedule: %q is not five fields; a time zone goes into timeZone", w.Schedule)
	}
	schedule, err := fiveFields.Parse(w.Schedule)
	if err != nil {
		return recurrence{}, fmt.Errorf("schedule: parsing %q: %w", w.Schedule, err)
	}
	// From a leap year, so that 29 February is found.
	if schedule.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return recurrence{}, fmt.Errorf("schedule: %q names no day that exists", w.Schedule)
	}
	duration, err := time.ParseDuration(w.Duration)
	if err != nil {
		return recurrence{}, fmt.Errorf("duration: %w", err)
	}
	if duration <= 0 {
		return recurrence{}, fmt.Errorf("duration: %s is not positive", w.Duration)
	}
	if w.TimeZone == "Local" {
		return recurrence{}, errors.New(`timeZone: "Local" would depend on the machine`)
	}
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return recurrence{}, fmt.Errorf("timeZone: %w", err)
	}
	return recurrence{schedule: schedule, duration: duration, zone: zone}, nil
}

// next is the first opening after t; zero when there is none within five years. The schedule is
// read on a clock without daylight saving, because on a clock with it an opening in the hour that
// is skipped would not come at all.
func (w recurrence) next(t time.Time) time.Time {
	wall := t.In(w.zone)
	wall = time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), time.UTC)
	for {
		if wall = w.schedule.Next(wall); wall.IsZero() {
			return wall
		}
		// In the hour that comes two times, an opening may be past though the clock has yet to show
		// it again.
		if opening := instant(wall, w.zone); opening.After(t) {
			return opening
		}
	}
}

// instant is when clocks in the zone show what wall shows, the first of two such instants; if they
// never do, because daylight saving skips it, the moment of the change.
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
	// The same clock reading, had the change before it not been.
	_, before := start.Add(-time.Nanosecond).Zone()
	if earlier := wall.Add(-time.Duration(before) * time.Second); earlier.Before(start) {
		return earlier.In(zone)
	}
	return t
}
