package changes

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestWindowOpening says for an instant when the open window opened, or the next one
// will.
func TestWindowOpening(t *testing.T) {
	type windows []berthv1alpha1.RecurringWindow
	nights := berthv1alpha1.RecurringWindow{Schedule: "0 22 * * 1-5", Duration: "4h"}
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
			now := at(t, tc.now)
			var got time.Time
			for _, w := range tc.windows {
				parsed, err := newRecurrence(w)
				if err != nil {
					t.Fatal(err)
				}
				c := windowCursor{recurrence: parsed}
				if first := c.opening(now); got.IsZero() || first.Before(got) {
					got = first
				}
			}
			if !got.Equal(at(t, tc.want)) {
				t.Errorf("opening at %s, want %s", got.UTC().Format(time.RFC3339), tc.want)
			}
			if open := !got.After(now); open != tc.open {
				t.Errorf("open: %t", open)
			}
		})
	}
}

// TestWindowNext holds each opening to what a clock on the wall shows, over ten years of
// changing clocks.
func TestWindowNext(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca"}
	schedules := []string{"0 0 * * *", "30 2 * * *", "15 1,2,3 * * 0", "*/20 * * * *", "0 3 1 * *"}
	rapid.Check(t, func(t *rapid.T) {
		w, err := newRecurrence(berthv1alpha1.RecurringWindow{
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

// FuzzWindow takes any window: it is refused, or has openings in order.
func FuzzWindow(f *testing.F) {
	f.Add("0 22 * * 1-5", "4h", "Europe/Berlin", int64(1.78e9))
	f.Add("*/7 1,2-5/2 29 2 *", "1ns", "Australia/Lord_Howe", int64(-1))
	f.Add("TZ=", "1h", "", int64(0))
	f.Fuzz(func(t *testing.T, schedule, duration, zone string, from int64) {
		w, err := newRecurrence(berthv1alpha1.RecurringWindow{Schedule: schedule, Duration: duration, TimeZone: zone})
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
