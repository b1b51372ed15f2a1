package selection

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at is a time of a test, in milliseconds.
func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// decide selects from tiers with as many candidates as given.
func decide(t interface{ Fatal(args ...any) }, before []TierState, d Demand, qualifying []int, failback Failback, now time.Time) ([]TierState, time.Time) {
	var tiers []int
	for tier, n := range qualifying {
		tiers = append(tiers, slices.Repeat([]int{tier}, n)...)
	}
	c := &Candidates{Totals: make([]int64, len(tiers)), ByName: cmp.Compare[int], Tier: func(i int) int { return tiers[i] }}
	decision := DecideTiers(before, &d, Qualifying(c, &d), failback, now)
	d.Tiers = decision.Tiers
	chosen, _, err := Select(c, &d, never)
	if err != nil {
		t.Fatal(err)
	}
	return decision.States(c, chosen), decision.Next
}

func usedTiers(states []TierState) []int {
	used := []int{}
	for i, state := range states {
		if state.Used {
			used = append(used, i)
		}
	}
	return used
}

func TestDecideTiers(t *testing.T) {
	type step struct {
		at         int
		qualifying []int
		requested  int
		wantUsed   []int
		wantSince  int
		wantNext   int
	}
	for name, tc := range map[string]struct {
		overflow bool
		number   int
		min      []int
		after    int
		steps    []step
	}{
		"the first tier that is sufficient": {number: 2, min: []int{2, 2}, after: 300, steps: []step{
			{qualifying: []int{2, 9}, wantUsed: []int{0}},
		}},
		"failback after the delay": {number: 2, min: []int{2, 2}, after: 300, steps: []step{
			{at: 0, qualifying: []int{1, 2}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{2, 2}, wantUsed: []int{1}, wantSince: 10_000, wantNext: 310_000},
			{at: 309_999, qualifying: []int{2, 2}, wantUsed: []int{1}, wantSince: 10_000, wantNext: 310_000},
			{at: 310_000, qualifying: []int{2, 2}, wantUsed: []int{0}, wantSince: 10_000},
		}},
		"a break starts the delay again": {number: 2, min: []int{2, 2}, after: 300, steps: []step{
			{at: 0, qualifying: []int{1, 2}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{2, 2}, wantUsed: []int{1}, wantSince: 10_000, wantNext: 310_000},
			{at: 20_000, qualifying: []int{1, 2}, wantUsed: []int{1}},
			{at: 30_000, qualifying: []int{2, 2}, wantUsed: []int{1}, wantSince: 30_000, wantNext: 330_000},
		}},
		"the time is rounded up": {number: 1, min: []int{1, 1}, after: 1, steps: []step{
			{at: 0, qualifying: []int{0, 1}, wantUsed: []int{1}},
			{at: 10_001, qualifying: []int{1, 1}, wantUsed: []int{1}, wantSince: 11_000, wantNext: 12_000},
		}},
		"no delay": {number: 1, min: []int{1, 1}, steps: []step{
			{at: 0, qualifying: []int{0, 1}, wantUsed: []int{1}},
			{at: 10_001, qualifying: []int{1, 1}, wantUsed: []int{0}, wantSince: 11_000},
		}},
		"never by time, but by request": {number: 1, min: []int{1, 1}, after: -1, steps: []step{
			{at: 0, qualifying: []int{0, 1}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{1, 1}, requested: 10_000, wantUsed: []int{1}, wantSince: 10_000},
			{at: 99_000_000, qualifying: []int{1, 1}, requested: 10_000, wantUsed: []int{1}, wantSince: 10_000},
			{at: 99_000_001, qualifying: []int{1, 1}, requested: 11_000, wantUsed: []int{0}, wantSince: 10_000},
		}},
		"a request in the future counts now": {number: 1, min: []int{1, 1}, after: 300, steps: []step{
			{at: 0, qualifying: []int{0, 1}, requested: 60_000, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{1, 1}, wantUsed: []int{1}, wantSince: 10_000, wantNext: 310_000},
			{at: 20_000, qualifying: []int{1, 1}, requested: 60_000, wantUsed: []int{0}, wantSince: 10_000},
		}},
		"so it does if the delay never ends": {number: 1, min: []int{1, 1}, after: -1, steps: []step{
			{at: 0, qualifying: []int{0, 1}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{1, 1}, requested: 900_000, wantUsed: []int{0}, wantSince: 10_000},
		}},
		"the used tier does not wait": {number: 3, min: []int{3, 3}, after: 300, steps: []step{
			{at: 0, qualifying: []int{2, 2}, wantUsed: []int{0, 1}},
			{at: 10_000, qualifying: []int{3, 3}, wantUsed: []int{0}, wantSince: 10_000},
		}},
		"a waiting tier is better than none": {number: 1, min: []int{1, 1}, after: 300, steps: []step{
			{at: 0, qualifying: []int{0, 1}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{1, 1}, wantUsed: []int{1}, wantSince: 10_000, wantNext: 310_000},
			{at: 20_000, qualifying: []int{1, 0}, wantUsed: []int{0}, wantSince: 10_000},
		}},
		"a tier that never failed comes before one that waits": {number: 1, min: []int{1, 1, 1}, after: 300, steps: []step{
			{at: 0, qualifying: []int{0, 1, 1}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{1, 0, 1}, wantUsed: []int{2}, wantSince: 10_000, wantNext: 310_000},
		}},
		"one that never failed does not wait for a request": {number: 1, min: []int{1, 1, 1}, after: -1, steps: []step{
			{at: 0, qualifying: []int{0, 1, 1}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{1, 0, 1}, wantUsed: []int{2}, wantSince: 10_000},
		}},
		"the used tier comes before an earlier one that failed, too": {number: 2, min: []int{2, 2}, after: 300, steps: []step{
			{at: 0, qualifying: []int{0, 1}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{2, 2}, wantUsed: []int{1}, wantSince: 10_000, wantNext: 310_000},
		}},
		"no tier is sufficient": {number: 5, min: []int{5, 5, 5}, after: 300, steps: []step{
			{qualifying: []int{0, 2, 4}, wantUsed: []int{1, 2}},
		}},
		"overflow does not wait for a tier without clusters": {overflow: true, number: 1, min: []int{1, 1}, after: 300, steps: []step{
			{at: 0, qualifying: []int{0, 1}, wantUsed: []int{1}},
			{at: 10_000, qualifying: []int{1, 1}, wantUsed: []int{0}, wantSince: 10_000},
		}},
		"overflow does not wait": {overflow: true, number: 3, min: []int{2, 1}, after: 300, steps: []step{
			{at: 0, qualifying: []int{1, 4}, wantUsed: []int{0, 1}},
			{at: 10_000, qualifying: []int{3, 4}, wantUsed: []int{0}, wantSince: 10_000},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Demand{Number: tc.number, Limit: -1, Overflow: tc.overflow}
			for i, least := range tc.min {
				d.Tiers = append(d.Tiers, Tier{Name: fmt.Sprint(i), Min: least})
			}
			var states []TierState
			for n, step := range tc.steps {
				failback := Failback{After: time.Duration(tc.after) * time.Second}
				if step.requested > 0 {
					failback.RequestedAt = at(step.requested)
				}
				var next, wantSince, wantNext time.Time
				states, next = decide(t, states, d, step.qualifying, failback, at(step.at))
				if step.wantSince > 0 {
					wantSince = at(step.wantSince)
				}
				if step.wantNext > 0 {
					wantNext = at(step.wantNext)
				}
				if diff := gocmp.Diff(step.wantUsed, usedTiers(states)); diff != "" {
					t.Errorf("step %d: used (-want +got):\n%s", n, diff)
				}
				if !states[0].SufficientSince.Equal(wantSince) || !next.Equal(wantNext) {
					t.Errorf("step %d: sufficient since %s, want %s; next %s, want %s", n, states[0].SufficientSince, wantSince, next, wantNext)
				}
			}
		})
	}
}

// TestEditedTiers: tiers are known by name, and a new one does not wait.
func TestEditedTiers(t *testing.T) {
	d := Demand{Number: 1, Limit: -1, Tiers: []Tier{{Name: "a", Min: 1}, {Name: "b", Min: 1}}}
	failback := Failback{After: time.Hour}
	states, _ := decide(t, nil, d, []int{0, 1}, failback, at(0))
	states, _ = decide(t, states, d, []int{1, 1}, failback, at(1_000))
	d.Tiers = []Tier{{Name: "b", Min: 1}, {Name: "a", Min: 1}}
	states, _ = decide(t, states, d, []int{1, 1}, failback, at(2_000))
	want := []TierState{{Name: "b", Qualifying: 1, Used: true}, {Name: "a", Qualifying: 1, SufficientSince: at(1_000)}}
	if diff := gocmp.Diff(want, states); diff != "" {
		t.Errorf("reordered (-want +got):\n%s", diff)
	}
	d.Tiers = append([]Tier{{Name: "new", Min: 1}}, d.Tiers...)
	states, _ = decide(t, states, d, []int{1, 1, 1}, failback, at(3_000))
	if diff := gocmp.Diff([]int{0}, usedTiers(states)); diff != "" {
		t.Errorf("with a new tier (-want +got):\n%s", diff)
	}
}

// observation is what was seen at a time, in milliseconds.
type observation struct {
	at, requested int
	qualifying    []int
	used          []int
}

// history is an independent model of tiers over time: it keeps all observations and derives from
// them, each time again, how long a tier has been sufficient.
type history struct {
	d    Demand
	all  []observation
	wait int
}

func (h *history) sufficient(n, tier int) bool {
	return h.all[n].qualifying[tier] >= h.d.Tiers[tier].Min
}

// since is when a tier that is sufficient at observation n became so: the time as it was, and in
// whole seconds. always is true if it was sufficient at all observations.
func (h *history) since(n, tier int) (exact, rounded int, always bool) {
	for n > 0 && h.sufficient(n-1, tier) {
		n--
	}
	exact = h.all[n].at
	return exact, (exact + 999) / 1_000 * 1_000, n == 0
}

// from is the time from which a tier that is sufficient at observation n may be used; -1 for never.
func (h *history) from(n, tier int) int {
	_, since, always := h.since(n, tier)
	switch {
	case always, h.wait == 0, n > 0 && slices.Contains(h.all[n-1].used, tier), h.all[n].requested > since:
		return 0
	case h.wait > 0:
		return since + h.wait
	}
	return -1
}

// want are the tiers that the last observation uses, and the time of the next change; 0 for none.
func (h *history) want() (used []int, next int) {
	n := len(h.all) - 1
	now := h.all[n]
	best, waiting := -1, []int{}
	for tier := range h.d.Tiers {
		switch from := h.from(n, tier); {
		case !h.sufficient(n, tier):
		case from >= 0 && from <= now.at && best < 0:
			best = tier
		case best < 0:
			waiting = append(waiting, tier)
		}
	}
	if best < 0 && len(waiting) > 0 {
		best, waiting = waiting[0], nil
	}
	if best >= 0 && !h.d.Overflow {
		for _, tier := range waiting {
			if from := h.from(n, tier); from > 0 && (next == 0 || from < next) {
				next = from
			}
		}
		return []int{best}, next
	}
	used = []int{}
	missing := h.d.Number
	for tier, qualifying := range now.qualifying {
		if missing > 0 && qualifying > 0 {
			used = append(used, tier)
		}
		missing -= qualifying
	}
	return used, 0
}

// TestTiersOverTime compares random histories with the model, and checks that a tier is left only
// because it is insufficient, or for an earlier one that has been sufficient for the delay or is
// requested.
func TestTiersOverTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			checkHistory(t)
		}
	})
}

func checkHistory(t *rapid.T) {
	h := &history{d: Demand{Number: rapid.IntRange(1, 5).Draw(t, "number"), Limit: -1, Overflow: rapid.IntRange(0, 4).Draw(t, "mode") == 0}}
	for i := range rapid.IntRange(1, 4).Draw(t, "tiers") {
		h.d.Tiers = append(h.d.Tiers, Tier{Name: fmt.Sprint(i), Min: rapid.IntRange(1, 4).Draw(t, "min")})
	}
	h.wait = rapid.SampledFrom([]int{-1_000, 0, 1_000, 5_000, 20_000}).Draw(t, "failback")
	var states []TierState
	now, requested := 500, 0
	qualifying := slices.Repeat([]int{2}, len(h.d.Tiers))
	for range rapid.IntRange(1, 30).Draw(t, "observations") {
		qualifying = slices.Clone(qualifying)
		if rapid.Bool().Draw(t, "change") {
			qualifying[rapid.IntRange(0, len(qualifying)-1).Draw(t, "tier")] = rapid.IntRange(0, 4).Draw(t, "qualifying")
		}
		if rapid.IntRange(0, 9).Draw(t, "request") == 0 {
			requested = max(now+rapid.IntRange(-8_000, 8_000).Draw(t, "requested"), 1)
		}
		h.all = append(h.all, observation{at: now, requested: requested, qualifying: qualifying})
		failback := Failback{After: time.Duration(h.wait) * time.Millisecond}
		if requested > 0 {
			failback.RequestedAt = at(requested)
		}
		var next time.Time
		states, next = decide(t, states, h.d, qualifying, failback, at(now))
		h.check(t, states, next)
		h.checkChange(t)
		if !next.IsZero() {
			h.checkWakeup(t, states, failback, next)
		}
		now += rapid.SampledFrom([]int{0, 1, 300, 1_000, 1_700, 6_000}).Draw(t, "step")
	}
}

// check compares the last decision with the model. States are stored without a loss: a restart
// changes nothing.
func (h *history) check(t *rapid.T, states []TierState, next time.Time) {
	n := len(h.all) - 1
	used, wantNext := h.want()
	h.all[n].used = used
	if diff := gocmp.Diff(used, usedTiers(states)); diff != "" {
		t.Fatalf("used of %+v (-want +got):\n%s", h.all, diff)
	}
	for tier, state := range states {
		exact, rounded, always := h.since(n, tier)
		switch got := state.SufficientSince; {
		case !h.sufficient(n, tier) || always:
			if !got.IsZero() {
				t.Fatalf("tier %d of %+v is sufficient since %s", tier, h.all, got)
			}
		case !got.Equal(at(rounded)) || got.Before(at(exact)) || !got.Equal(got.Truncate(time.Second)):
			t.Fatalf("tier %d of %+v is sufficient since %s, want %s", tier, h.all, got, at(rounded))
		}
	}
	if wantNext == 0 != next.IsZero() || wantNext > 0 && !next.Equal(at(wantNext)) {
		t.Fatalf("next is %s, want %s, of %+v", next, at(wantNext), h.all)
	}
}

// checkChange checks why the last decision uses another tier than the one before.
func (h *history) checkChange(t *rapid.T) {
	n := len(h.all) - 1
	if n == 0 || h.d.Overflow || len(h.all[n-1].used) != 1 || len(h.all[n].used) != 1 {
		return
	}
	from, to := h.all[n-1].used[0], h.all[n].used[0]
	if from == to || !h.sufficient(n, from) || !h.sufficient(n-1, from) {
		return
	}
	exact, _, always := h.since(n, to)
	requested := h.all[n].requested > exact
	waited := h.wait >= 0 && h.all[n].at-exact >= h.wait
	if to > from || always || !waited && !requested {
		t.Fatalf("tier %d is left for %d at %d, of %+v", from, to, h.all[n].at, h.all)
	}
}

// checkWakeup checks that an earlier tier is used at the next time, and not before it.
func (h *history) checkWakeup(t *rapid.T, states []TierState, failback Failback, next time.Time) {
	last := h.all[len(h.all)-1]
	if !next.After(at(last.at)) {
		t.Fatalf("next is %s, now is %s", next, at(last.at))
	}
	early, _ := decide(t, states, h.d, last.qualifying, failback, next.Add(-time.Millisecond))
	if diff := gocmp.Diff(states, early); diff != "" {
		t.Fatalf("before the next time (-now +then):\n%s", diff)
	}
	then, _ := decide(t, states, h.d, last.qualifying, failback, next)
	if usedTiers(then)[0] >= last.used[0] {
		t.Fatalf("at the next time %s tiers %v are used, of %+v", next, usedTiers(then), h.all)
	}
}

// TestLeftCluster: a cluster qualifies since the first decision after its last break, in whole
// seconds, which are never too early.
func TestLeftCluster(t *testing.T) {
	l := LeftCluster{Name: "a"}
	for _, step := range []struct {
		at        int
		qualifies bool
		want      int
	}{
		{at: 0}, {at: 10_001, qualifies: true, want: 11_000}, {at: 20_000, qualifies: true, want: 11_000},
		{at: 30_000}, {at: 40_000, qualifies: true, want: 40_000},
	} {
		l = l.Next(step.qualifies, at(step.at))
		if want := at(step.want); step.want > 0 && !l.Since.Equal(want) || step.want == 0 && !l.Since.IsZero() || l.Name != "a" {
			t.Errorf("at %s: %+v", at(step.at), l)
		}
	}
}
