package changes

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

func windowSet(windows ...berthv1alpha1.RecurringWindow) *WindowSet {
	return NewWindowSet("windows", windows)
}

// TestWindowsAgainstAClock: combined windows are open when each minute of a clock says so.
func TestWindowsAgainstAClock(t *testing.T) {
	schedules := []string{"* * * * *", "*/7 * * * *", "10-20/3 * * * *", "0 */3 * * *", "30 2 * * *", "0 0 * * 1", "5 4 2 * *"}
	durations := []string{"1m", "2m", "5m", "50m", "3h", "26h"}
	zones := []string{"", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"}
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.Custom(func(t *rapid.T) berthv1alpha1.RecurringWindow {
			return berthv1alpha1.RecurringWindow{
				Schedule: rapid.SampledFrom(schedules).Draw(t, "schedule"), Duration: rapid.SampledFrom(durations).Draw(t, "duration"),
				TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"),
			}
		})
		owners := rapid.SliceOfN(rapid.SliceOfN(window, 1, 3), 1, 3).Draw(t, "owners")
		w := &Windows{}
		for _, windows := range owners {
			w.sets = append(w.sets, windowSet(windows...))
		}
		isOpen := func(at time.Time) bool {
			for _, set := range w.sets {
				all, _ := set.parsed()
				open := false
				for _, r := range all {
					first := r.next(at.Add(-r.duration))
					open = open || !first.IsZero() && !first.After(at)
				}
				if !open {
					return false
				}
			}
			return true
		}
		now := time.Unix(rapid.Int64Range(1.75e9, 1.85e9).Draw(t, "now"), 0)
		opening, found, err := w.Opening(now)
		if err != nil || found && opening.After(now) && !isOpen(opening) || !found && opening.Sub(now) < 24*time.Hour {
			t.Fatalf("%v %t %v", opening, found, err)
		}
		if open := found && !opening.After(now); open != isOpen(now) {
			t.Fatalf("open at %v: %t", now, open)
		}
		last := opening
		if most := now.Add(6 * time.Hour); last.After(most) {
			last = most
		}
		for minute := now.Truncate(time.Minute).Add(time.Minute); minute.Before(last); minute = minute.Add(time.Minute) {
			if isOpen(minute) {
				t.Fatalf("from %v it is open at %v, not first at %v", now, minute, opening)
			}
		}
		again := &Windows{sets: w.sets}
		for range 3 {
			later := now.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "later")) * time.Second)
			a, b, _ := w.Opening(later)
			c, d, _ := again.Opening(later)
			if !a.Equal(c) || b != d {
				t.Fatalf("an earlier answer changes this one: %v %t, not %v %t", a, b, c, d)
			}
		}
	})
}

// manyWindows are owners with windows of which never one of each is open.
func manyWindows(owners, windows int) *Windows {
	w := &Windows{}
	for i := range owners {
		var set []berthv1alpha1.RecurringWindow
		for j := range windows {
			set = append(set, berthv1alpha1.RecurringWindow{Schedule: fmt.Sprintf("%d-59/%d * * * *", i%30+30*(j%2), max(owners, 2)), Duration: "1s", TimeZone: "Europe/Berlin"})
		}
		w.sets = append(w.sets, windowSet(set...))
	}
	return w
}

// TestWindowSearchIsBounded: the search for a common opening takes no more steps than its limit and
// one look at each window, whatever the windows are.
func TestWindowSearchIsBounded(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	kinds := map[string]func(owner, window int) berthv1alpha1.RecurringWindow{
		"never together": func(owner, _ int) berthv1alpha1.RecurringWindow {
			return berthv1alpha1.RecurringWindow{Schedule: fmt.Sprintf("%d %d * * *", owner%60, owner/60), Duration: "1s"}
		},
		"each minute": func(int, int) berthv1alpha1.RecurringWindow {
			return berthv1alpha1.RecurringWindow{Schedule: "* * * * *", Duration: "1s", TimeZone: "Australia/Lord_Howe"}
		},
		"each minute, for a century": func(int, int) berthv1alpha1.RecurringWindow {
			return berthv1alpha1.RecurringWindow{Schedule: "* * * * *", Duration: "876000h"}
		},
		"rare": func(owner, window int) berthv1alpha1.RecurringWindow {
			return berthv1alpha1.RecurringWindow{Schedule: fmt.Sprintf("%d %d 29 2 *", window, owner%24), Duration: "1ns", TimeZone: "America/Santiago"}
		},
		"even and odd minutes, after many that are open": func(owner, _ int) berthv1alpha1.RecurringWindow {
			switch owner {
			case 30:
				return berthv1alpha1.RecurringWindow{Schedule: "*/2 * * * *", Duration: "1s"}
			case 31:
				return berthv1alpha1.RecurringWindow{Schedule: "1-59/2 * * * *", Duration: "1s"}
			}
			return berthv1alpha1.RecurringWindow{Schedule: "* * * * *", Duration: "1s"}
		},
	}
	for name, window := range kinds {
		for _, owners := range []int{1, 16, 32, 800} {
			w := &Windows{}
			for i := range owners {
				var set []berthv1alpha1.RecurringWindow
				for j := range berthv1alpha1.MaxPolicyWindows {
					set = append(set, window(i, j))
				}
				w.sets = append(w.sets, windowSet(set...))
			}
			if _, _, err := w.Opening(now); err != nil {
				t.Fatal(err)
			}
			table := w.tableOf(now)
			if most := maxWindowSteps + owners*berthv1alpha1.MaxPolicyWindows; table.steps > most {
				t.Errorf("%s, %d owners: %d steps, at most %d", name, owners, table.steps, most)
			}
			if w.tableOf(now.Add(59*time.Minute)) != table {
				t.Errorf("%s, %d owners: a second attempt searches again", name, owners)
			}
		}
	}
}

// TestWindowsOfTheNextHour: an attempt searches nothing, also if an hour begins while it waits for
// the lock, and if others are prepared for another time.
func TestWindowsOfTheNextHour(t *testing.T) {
	w := manyWindows(2, 2)
	late := time.Date(2026, 8, 1, 12, 59, 50, 0, time.UTC)
	w.Prepare(late)
	tables := func() [2]*timetable { return [2]*timetable{w.hours[0].Load(), w.hours[1].Load()} }
	prepared := tables()
	for _, after := range []time.Duration{0, 20 * time.Second, time.Minute, 0} {
		if after == time.Minute {
			w.Prepare(late.Add(after))
		}
		if _, _, err := w.Opening(late.Add(after)); err != nil || tables() != prepared {
			t.Errorf("the search begins again after %s: %v", after, err)
		}
	}
}

// TestCommonWindowsAreFound: what people configure is found within the limit.
func TestCommonWindowsAreFound(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	var sets []*WindowSet
	for range berthv1alpha1.MaxPoliciesPerPlacement - 1 {
		sets = append(sets, windowSet(berthv1alpha1.RecurringWindow{Schedule: "0 22 * * *", Duration: "4h", TimeZone: "Europe/Berlin"}))
	}
	sets = append(sets, nil, windowSet(berthv1alpha1.RecurringWindow{Schedule: "0 21 1 1 *", Duration: "1h"}))
	opening, found, err := CombineWindows(sets...).Opening(now)
	if want := time.Date(2027, 1, 1, 21, 0, 0, 0, time.UTC); err != nil || !found || !opening.Equal(want) {
		t.Errorf("%v %t %v, want %v", opening, found, err, want)
	}
	if CombineWindows(nil, nil) != nil {
		t.Error("no windows are some")
	}
}

// TestInvalidWindows: a mistake closes the windows, and is found once.
func TestInvalidWindows(t *testing.T) {
	policy := &berthv1alpha1.DisruptionPolicy{}
	policy.Name = "night"
	for _, schedule := range []string{"0 11 * * *", "61 * * * *", "0 0 31 2 *"} {
		policy.Spec.Windows = append(policy.Spec.Windows, berthv1alpha1.RecurringWindow{Schedule: schedule, Duration: "2h"})
	}
	const first = "spec.windows[1].schedule: parsing \"61 * * * *\": end of range (61) above maximum (59): 61"
	if err := CheckWindows(policy); err == nil || err.Error() != first {
		t.Errorf("%v", err)
	}
	w := CombineWindows(WindowsOfPolicy(policy))
	for range 2 {
		if _, found, err := w.Opening(time.Unix(0, 0)); found || err == nil || err.Error() != "DisruptionPolicy night: "+first {
			t.Errorf("%t %v", found, err)
		}
	}
}

// BenchmarkWindows: the windows of as many policies as may select a Placement, never open together.
func BenchmarkWindows(b *testing.B) {
	w := manyWindows(berthv1alpha1.MaxPoliciesPerPlacement, berthv1alpha1.MaxPolicyWindows)
	for b.Loop() {
		w.timetable(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	}
	b.ReportMetric(float64(w.timetable(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)).steps), "steps")
}
