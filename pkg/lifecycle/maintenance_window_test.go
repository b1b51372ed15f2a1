package lifecycle

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func newMaintenanceWindow(t *testing.T, args string) *MaintenanceWindow {
	t.Helper()
	p, err := NewMaintenanceWindow(context.Background(), json.RawMessage(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*MaintenanceWindow)
}

// TestMaintenanceWindowPermit asks on a Wednesday at noon, UTC.
func TestMaintenanceWindowPermit(t *testing.T) {
	const (
		night  = `"windows": [{"schedule": "0 22 * * *", "duration": "4h"}]`
		midday = `"windows": [{"schedule": "0 11 * * *", "duration": "90m"}]`
	)
	added, removed := []string{"new"}, []string{"old"}
	opening := time.Date(2026, 7, 1, 22, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		args        string
		added       []string
		removed     []string
		approved    bool
		wantWait    bool
		wantOpening time.Time
	}{
		"no arguments":                         {added: added, removed: removed},
		"empty arguments":                      {args: `{}`, added: added, removed: removed},
		"no windows":                           {args: `{"windows": [], "removals": false}`, added: added},
		"inside":                               {args: `{` + midday + `}`, added: added, removed: removed},
		"an addition outside":                  {args: `{` + night + `}`, added: added, wantWait: true, wantOpening: opening},
		"a removal outside":                    {args: `{` + night + `}`, removed: removed, wantWait: true, wantOpening: opening},
		"nothing changes":                      {args: `{` + night + `}`},
		"additions are free":                   {args: `{` + night + `, "additions": false}`, added: added},
		"additions are free, removals are not": {args: `{` + night + `, "additions": false}`, added: added, removed: removed, wantWait: true, wantOpening: opening},
		"removals are free":                    {args: `{` + night + `, "removals": false}`, removed: removed},
		"approved":                             {args: `{` + night + `, "approvable": true}`, added: added, approved: true},
		"approvable, and not approved":         {args: `{` + night + `, "approvable": true}`, added: added, wantWait: true, wantOpening: opening},
		"approval does not count":              {args: `{` + night + `}`, added: added, approved: true, wantWait: true, wantOpening: opening},
		"inside, approved":                     {args: `{` + midday + `}`, added: added, approved: true},
		"the earliest of several": {
			args:  `{"windows": [{"schedule": "0 23 * * *", "duration": "1h"}, {"schedule": "0 22 * * *", "duration": "1h"}]}`,
			added: added, wantWait: true, wantOpening: opening,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMaintenanceWindow(t, tc.args)
			now := at(t, "2026-07-01T12:00:00Z")
			state := framework.NewCycleState(&framework.Snapshot{Now: now})
			proposal := &framework.Proposal{Added: tc.added, Removed: tc.removed, Approved: tc.approved}
			status, timeout := m.Permit(context.Background(), state, &v1alpha1.Placement{}, proposal)
			if !tc.wantWait {
				if !status.IsSuccess() || timeout != 0 || !state.Requeue().IsZero() {
					t.Errorf("got %s %q for %s, again at %v: want Success", status.Code(), status.Reason(), timeout, state.Requeue())
				}
				return
			}
			if tc.wantOpening.IsZero() {
				if status.Code() != framework.Wait || timeout <= 0 || !state.Requeue().IsZero() {
					t.Errorf("got %s %q for %s, again at %v: want Wait until something changes", status.Code(), status.Reason(), timeout, state.Requeue())
				}
				return
			}
			if status.Code() != framework.Wait || !strings.Contains(status.Reason(), tc.wantOpening.Format(time.RFC3339)) {
				t.Errorf("got %s %q, want Wait with the opening", status.Code(), status.Reason())
			}
			if !state.Requeue().Equal(tc.wantOpening) {
				t.Errorf("asks again at %v, want %v", state.Requeue(), tc.wantOpening)
			}
			if want := tc.wantOpening.Add(openingSlack); !now.Add(timeout).Equal(want) {
				t.Errorf("holds until %v, want %v", now.Add(timeout), want)
			}
		})
	}
}

// TestMaintenanceWindowOpening says for an instant when the open window opened, or the next one
// will.
func TestMaintenanceWindowOpening(t *testing.T) {
	type windows []RecurringWindow
	nights := RecurringWindow{Schedule: "0 22 * * 1-5", Duration: "4h"}
	berlin := func(schedule, duration string) windows {
		return windows{{Schedule: schedule, Duration: duration, TimeZone: "Europe/Berlin"}}
	}
	tests := map[string]struct {
		windows windows
		now     string
		want    string
		open    bool
	}{
		"before it opens":                        {windows: windows{nights}, now: "2026-07-01T21:59:59Z", want: "2026-07-01T22:00:00Z"},
		"the moment it opens":                    {windows: windows{nights}, now: "2026-07-01T22:00:00Z", want: "2026-07-01T22:00:00Z", open: true},
		"past midnight":                          {windows: windows{nights}, now: "2026-07-02T01:59:59Z", want: "2026-07-01T22:00:00Z", open: true},
		"the moment it closes":                   {windows: windows{nights}, now: "2026-07-02T02:00:00Z", want: "2026-07-02T22:00:00Z"},
		"Friday's reaches into Saturday":         {windows: windows{nights}, now: "2026-07-04T01:00:00Z", want: "2026-07-03T22:00:00Z", open: true},
		"over the weekend":                       {windows: windows{nights}, now: "2026-07-04T02:00:00Z", want: "2026-07-06T22:00:00Z"},
		"fractions of a second":                  {windows: windows{nights}, now: "2026-07-02T01:59:59.999Z", want: "2026-07-01T22:00:00Z", open: true},
		"now in another zone":                    {windows: windows{nights}, now: "2026-07-01T23:59:59+02:00", want: "2026-07-01T22:00:00Z"},
		"overlapping, in the first":              {windows: windows{nights, {Schedule: "0 23 * * *", Duration: "8h"}}, now: "2026-07-01T22:30:00Z", want: "2026-07-01T22:00:00Z", open: true},
		"overlapping, in the second only":        {windows: windows{nights, {Schedule: "0 23 * * *", Duration: "8h"}}, now: "2026-07-02T06:59:59Z", want: "2026-07-01T23:00:00Z", open: true},
		"overlapping, after both":                {windows: windows{nights, {Schedule: "0 23 * * *", Duration: "8h"}}, now: "2026-07-02T07:00:00Z", want: "2026-07-02T22:00:00Z"},
		"longer than its period is always open":  {windows: windows{{Schedule: "0 22 * * *", Duration: "30h"}}, now: "2026-07-02T21:59:59Z", want: "2026-07-01T22:00:00Z", open: true},
		"as long as its period is always open":   {windows: windows{{Schedule: "0 22 * * *", Duration: "24h"}}, now: "2026-07-02T21:59:59Z", want: "2026-07-01T22:00:00Z", open: true},
		"each minute, for a year":                {windows: windows{{Schedule: "* * * * *", Duration: "8760h"}}, now: "2026-07-01T00:00:30Z", want: "2025-07-01T00:01:00Z", open: true},
		"29 February":                            {windows: windows{{Schedule: "0 0 29 2 *", Duration: "1h"}}, now: "2026-07-01T00:00:00Z", want: "2028-02-29T00:00:00Z"},
		"a zone in winter":                       {windows: berlin("0 22 * * *", "1h"), now: "2026-01-15T12:00:00Z", want: "2026-01-15T21:00:00Z"},
		"a zone in summer":                       {windows: berlin("0 22 * * *", "1h"), now: "2026-07-15T12:00:00Z", want: "2026-07-15T20:00:00Z"},
		"weekdays are the zone's":                {windows: berlin("30 0 * * 1", "1h"), now: "2026-07-05T12:00:00Z", want: "2026-07-05T22:30:00Z"},
		"spring, the skipped hour":               {windows: berlin("30 2 * * *", "1h"), now: "2026-03-28T12:00:00Z", want: "2026-03-29T01:00:00Z"},
		"spring, in the skipped hour's window":   {windows: berlin("30 2 * * *", "1h"), now: "2026-03-29T01:59:59Z", want: "2026-03-29T01:00:00Z", open: true},
		"spring, after it":                       {windows: berlin("30 2 * * *", "1h"), now: "2026-03-29T02:00:00Z", want: "2026-03-30T00:30:00Z"},
		"spring, a window across":                {windows: berlin("0 1 * * *", "2h"), now: "2026-03-29T01:59:59Z", want: "2026-03-29T00:00:00Z", open: true},
		"spring, its length is elapsed time":     {windows: berlin("0 1 * * *", "2h"), now: "2026-03-29T02:00:00Z", want: "2026-03-29T23:00:00Z"},
		"autumn, the first of two":               {windows: berlin("30 2 * * *", "15m"), now: "2026-10-24T12:00:00Z", want: "2026-10-25T00:30:00Z"},
		"autumn, not the second":                 {windows: berlin("30 2 * * *", "15m"), now: "2026-10-25T01:30:00Z", want: "2026-10-26T01:30:00Z"},
		"autumn, between the two":                {windows: berlin("30 2 * * *", "15m"), now: "2026-10-25T00:50:00Z", want: "2026-10-26T01:30:00Z"},
		"autumn, a window across":                {windows: berlin("30 2 * * *", "90m"), now: "2026-10-25T01:59:59Z", want: "2026-10-25T00:30:00Z", open: true},
		"midnight is skipped":                    {windows: windows{{Schedule: "0 0 * * *", Duration: "1h", TimeZone: "America/Santiago"}}, now: "2026-09-05T12:00:00Z", want: "2026-09-06T04:00:00Z"},
		"a zone that changes by half an hour":    {windows: windows{{Schedule: "15 2 * * *", Duration: "10m", TimeZone: "Australia/Lord_Howe"}}, now: "2026-10-03T12:00:00Z", want: "2026-10-03T15:30:00Z"},
		"a zone a quarter of an hour off, steps": {windows: windows{{Schedule: "*/20 * * * *", Duration: "1m", TimeZone: "Asia/Kathmandu"}}, now: "2026-07-01T00:00:00Z", want: "2026-07-01T00:15:00Z"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(map[string]any{"windows": tc.windows})
			if err != nil {
				t.Fatal(err)
			}
			now := at(t, tc.now)
			got := newMaintenanceWindow(t, string(raw)).opening(now)
			if !got.Equal(at(t, tc.want)) {
				t.Errorf("opening at %s, want %s", got.UTC().Format(time.RFC3339), tc.want)
			}
			if open := !got.After(now); open != tc.open {
				t.Errorf("open: %t", open)
			}
		})
	}
}

// TestMaintenanceWindowNext holds each opening to what a clock on the wall shows, over ten years of
// changing clocks.
func TestMaintenanceWindowNext(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca"}
	schedules := []string{"0 0 * * *", "30 2 * * *", "15 1,2,3 * * 0", "*/20 * * * *", "0 3 1 * *"}
	rapid.Check(t, func(t *rapid.T) {
		w, err := newRecurrence(RecurringWindow{
			Schedule: rapid.SampledFrom(schedules).Draw(t, "schedule"), Duration: "1h", TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"),
		})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Unix(rapid.Int64Range(1.7e9, 2.0e9).Draw(t, "from"), 0)
		opening := w.next(from)
		if !opening.After(from) {
			t.Fatalf("%v is not after %v", opening, from)
		}
		// None in between was left out, and all agree which is next.
		between := from.Add(time.Duration(rapid.Int64Range(0, int64(opening.Sub(from))-1).Draw(t, "later")))
		if again := w.next(between); !again.Equal(opening) {
			t.Fatalf("from %v the next is %v, from %v it is %v", from, opening, between, again)
		}
		shown := opening.In(w.zone)
		fits := time.Date(shown.Year(), shown.Month(), shown.Day(), shown.Hour(), shown.Minute(), 0, 0, time.UTC)
		start, _ := shown.ZoneBounds()
		if !opening.Equal(start) && !w.schedule.Next(fits.Add(-time.Second)).Equal(fits) {
			t.Fatalf("the schedule has no opening at %v", shown)
		}
	})
}

func TestNewMaintenanceWindow(t *testing.T) {
	tests := map[string]struct {
		args    string
		wantErr []string
	}{
		"no arguments":        {},
		"all":                 {args: `{"windows": [{"schedule": "0 22 * * 1-5", "duration": "4h", "timeZone": "Europe/Berlin"}], "additions": false, "removals": true, "approvable": false}`},
		"names of days":       {args: `{"windows": [{"schedule": "0 22 * jan mon-fri", "duration": "4h"}]}`},
		"an unknown field":    {args: `{"window": []}`, wantErr: []string{`"window"`}},
		"one in a window":     {args: `{"windows": [{"shedule": "0 22 * * *"}]}`, wantErr: []string{`shedule"`}},
		"of another type":     {args: `{"additions": "yes"}`, wantErr: []string{"additions"}},
		"no schedule":         {args: `{"windows": [{"duration": "1h"}]}`, wantErr: []string{"windows[0].schedule: "}},
		"four fields":         {args: `{"windows": [{"schedule": "0 22 * *", "duration": "1h"}]}`, wantErr: []string{"windows[0].schedule: ", `"0 22 * *"`}},
		"a field too large":   {args: `{"windows": [{"schedule": "0 24 * * *", "duration": "1h"}]}`, wantErr: []string{"windows[0].schedule: ", "24"}},
		"a descriptor":        {args: `{"windows": [{"schedule": "@daily", "duration": "1h"}]}`, wantErr: []string{"windows[0].schedule: "}},
		"a zone in front":     {args: `{"windows": [{"schedule": "TZ=UTC 0 22 * * *", "duration": "1h"}]}`, wantErr: []string{"windows[0].schedule: ", "timeZone"}},
		"only a zone":         {args: `{"windows": [{"schedule": "TZ=UTC", "duration": "1h"}]}`, wantErr: []string{"windows[0].schedule: "}},
		"a day that is not":   {args: `{"windows": [{"schedule": "0 0 30 2 *", "duration": "1h"}]}`, wantErr: []string{"windows[0].schedule: ", "never occurs"}},
		"no duration":         {args: `{"windows": [{"schedule": "0 22 * * *"}]}`, wantErr: []string{"windows[0].duration: "}},
		"a bare number":       {args: `{"windows": [{"schedule": "0 22 * * *", "duration": "4"}]}`, wantErr: []string{"windows[0].duration: ", `"4"`}},
		"a duration of none":  {args: `{"windows": [{"schedule": "0 22 * * *", "duration": "0s"}]}`, wantErr: []string{"windows[0].duration: ", "positive"}},
		"a negative duration": {args: `{"windows": [{"schedule": "0 22 * * *", "duration": "-1h"}]}`, wantErr: []string{"windows[0].duration: ", "positive"}},
		"an unknown zone":     {args: `{"windows": [{"schedule": "0 22 * * *", "duration": "1h", "timeZone": "Mars/Olympus"}]}`, wantErr: []string{"windows[0].timeZone: ", "Mars/Olympus"}},
		"the machine's zone":  {args: `{"windows": [{"schedule": "0 22 * * *", "duration": "1h", "timeZone": "Local"}]}`, wantErr: []string{"windows[0].timeZone: ", "Local"}},
		"each mistake": {
			args:    `{"windows": [{"schedule": "x", "duration": "1h"}, {"schedule": "0 22 * * *", "duration": "1h"}, {"schedule": "0 22 * * *", "duration": "x"}]}`,
			wantErr: []string{"windows[0].schedule: ", "windows[2].duration: "},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewMaintenanceWindow(context.Background(), json.RawMessage(tc.args), nil)
			if (err != nil) != (len(tc.wantErr) > 0) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tc.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not say %q", err, want)
				}
			}
		})
	}
}

// FuzzMaintenanceWindow takes any window: it is refused, or has openings in order.
func FuzzMaintenanceWindow(f *testing.F) {
	f.Add("0 22 * * 1-5", "4h", "Europe/Berlin", int64(1.78e9))
	f.Add("*/7 1,2-5/2 29 2 *", "1ns", "Australia/Lord_Howe", int64(-1))
	f.Add("TZ=", "1h", "", int64(0))
	f.Fuzz(func(t *testing.T, schedule, duration, zone string, from int64) {
		w, err := newRecurrence(RecurringWindow{Schedule: schedule, Duration: duration, TimeZone: zone})
		if err != nil {
			return
		}
		// From 1900 to 2200.
		last := time.Unix(from%7_258_118_400, 0)
		if last.Year() < 1900 {
			last = last.AddDate(300, 0, 0)
		}
		for range 3 {
			next := w.next(last)
			if next.IsZero() {
				return
			}
			if !next.After(last) {
				t.Fatalf("%v is not after %v", next, last)
			}
			last = next
		}
	})
}
