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

// MaintenanceWindowArgs are the arguments of MaintenanceWindow. Without windows it permits all
// changes.
type MaintenanceWindowArgs struct {
	// Windows are the times at which changes are published. They may overlap.
	Windows []RecurringWindow `json:"windows,omitempty"`
	// Additions is whether a change that adds clusters must wait for a window. Default true.
	Additions bool `json:"additions"`
	// Removals is whether a change that removes clusters must wait for a window. Default true.
	Removals bool `json:"removals"`
	// Approvable is whether an approved change is published at once. Default false: it waits for a
	// window, too.
	Approvable bool `json:"approvable"`
}

// RecurringWindow is a recurring period of time.
type RecurringWindow struct {
	// Schedule is when the window opens, in the five fields of cron: minute, hour, day of the
	// month, month, day of the week (0 is Sunday). An opening in the hour that daylight saving
	// skips is at the end of that hour; of an hour that occurs twice, the first one counts.
	Schedule string `json:"schedule"`
	// Duration is the time for which the window stays open, for example "90m" or "4h". It may be
	// longer than the time until the next opening.
	Duration string `json:"duration"`
	// TimeZone is the time zone of the schedule, by its IANA name, for example
	// "Europe/Berlin". Default UTC.
	TimeZone string `json:"timeZone,omitempty"`
}

// openingSlack is the time from the next opening to the end of a hold. The change is published
// before that.
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

// Permit permits a change while a window is open. Otherwise it holds the change and requests an
// attempt at the next opening.
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
		// A hold that expired while no controller ran may be published late.
		return nil, 0
	}
	state.RequeueAt(opening)
	reason := "outside the maintenance windows; the next one opens at " + opening.UTC().Format(time.RFC3339)
	return framework.NewStatus(framework.Wait, reason), opening.Add(openingSlack).Sub(now)
}

// opening returns when the currently open window opened, otherwise the next opening; zero if there
// is none.
func (m *MaintenanceWindow) opening(now time.Time) (earliest time.Time) {
	for _, w := range m.windows {
		// If the window is open, the first opening after now-duration is in the past.
		if t := w.next(now.Add(-w.duration)); !t.IsZero() && (earliest.IsZero() || t.Before(earliest)) {
			earliest = t
		}
	}
	return earliest
}

// recurrence is a parsed RecurringWindow.
type recurrence struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

var fiveFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func newRecurrence(w RecurringWindow) (recurrence, error) {
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
