package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// MaintenanceWindowName is the plugin's name.
const MaintenanceWindowName = "MaintenanceWindow"

// MaintenanceWindowArgs are the arguments of MaintenanceWindow. They apply to all Placements of the
// profile, in addition to the windows of DisruptionPolicies.
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

// MaintenanceWindow holds changes until a window opens: one of its arguments and one of each
// DisruptionPolicy with windows.
type MaintenanceWindow struct {
	args MaintenanceWindowArgs
	// windows are nil without any in the arguments.
	windows *changes.Windows
}

// NewMaintenanceWindow is the plugin's factory.
func NewMaintenanceWindow(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, MaintenanceWindowArgs{Additions: true, Removals: true})
	if err != nil {
		return nil, err
	}
	m := &MaintenanceWindow{args: args}
	if len(args.Windows) == 0 {
		return m, nil
	}
	windows := make([]berthv1alpha1.RecurringWindow, len(args.Windows))
	for i, w := range args.Windows {
		windows[i] = berthv1alpha1.RecurringWindow(w)
	}
	set := changes.NewWindowSet("windows", windows)
	m.windows = changes.CombineWindows(set)
	return m, set.Check()
}

// Name implements framework.Plugin.
func (*MaintenanceWindow) Name() string { return MaintenanceWindowName }

// Describe implements framework.Describer. Forced removals wait for the windows of the arguments
// only, as changes of their own. A change waits for the next window if no controller ran in one, or
// if the windows were changed.
func (*MaintenanceWindow) Describe() framework.Traits {
	return framework.Traits{PermitsForcedRemovals: true, RenewsHolds: true}
}

// Permit implements framework.PermitPlugin. It requests an attempt at the next opening.
func (m *MaintenanceWindow) Permit(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	snapshot := state.Snapshot()
	w := waiting{now: snapshot.Now}
	if m.windows != nil && m.applies(p) {
		w.add(m.windows, "outside the maintenance windows; ", "the next one opens", "none opens")
	}
	if snapshot.Subject != nil && snapshot.Subject.Windows != nil && !p.Kind.Forced() {
		w.add(snapshot.Subject.Windows, "outside the windows of the DisruptionPolicies; ", "they are open next", "they are not open")
	}
	switch {
	case len(w.reasons) == 0:
		return nil, 0
	case w.until.IsZero():
		return framework.NewStatus(framework.Wait, strings.Join(w.reasons, "; ")), defaultTimeout
	}
	state.RequeueAt(w.until)
	return framework.NewStatus(framework.Wait, strings.Join(w.reasons, "; ")), w.until.Add(openingSlack).Sub(w.now)
}

// applies reports whether a change waits for the windows of the arguments.
func (m *MaintenanceWindow) applies(p *framework.Proposal) bool {
	if m.args.Approvable && p.Approved {
		return false
	}
	return m.args.Additions && len(p.Added) > 0 || m.args.Removals && len(p.Removed) > 0
}

// waiting are the windows that hold a change. until is when the last of them opens; zero if that is
// unknown.
type waiting struct {
	now     time.Time
	reasons []string
	until   time.Time
}

// add adds windows that are not open now.
func (w *waiting) add(windows framework.Windows, outside, next, none string) {
	at, found, err := windows.Opening(w.now)
	switch {
	case err != nil:
		w.reasons = append(w.reasons, err.Error())
		return
	case found && !at.After(w.now):
		return
	case found:
		w.reasons = append(w.reasons, outside+next+" at "+at.UTC().Format(time.RFC3339))
	default:
		w.reasons = append(w.reasons, outside+none+" within "+searched(at.Sub(w.now)))
		// The search goes on from there.
		at = later(at, w.now.Add(time.Hour))
	}
	w.until = later(w.until, at)
}

// searched describes the time in which a search found no opening. With very many windows it ends
// early.
func searched(d time.Duration) string {
	if d < 48*time.Hour {
		return fmt.Sprintf("%d minutes", max(d, 0)/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
