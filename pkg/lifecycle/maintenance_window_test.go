package lifecycle

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

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
			now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
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
