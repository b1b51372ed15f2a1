package selection

import (
	"slices"
	"time"
)

// Tier is one of the ordered alternatives of a demand.
type Tier struct {
	Name string
	// Min is the number of qualifying clusters from which the tier is sufficient.
	Min int
	// Usable is true if the tier need not wait before it is used; DecideTiers sets it.
	Usable bool
}

// TierState is the state of a tier after a decision. It has to outlive restarts.
type TierState struct {
	Name       string
	Qualifying int
	// SufficientSince is when the tier became sufficient after it was insufficient, in whole
	// seconds. It is zero if the tier is insufficient, or has been sufficient since it was first
	// evaluated.
	SufficientSince time.Time
	// Used is true if the decision has clusters of the tier.
	Used bool
	// Left are the clusters that left the tier, with Overflow.
	Left []LeftCluster
}

// LeftCluster is a cluster that a Placement lost because it did not qualify any more.
type LeftCluster struct {
	Name string
	// Since is when the cluster began to qualify again, in whole seconds; zero while it does not
	// qualify.
	Since time.Time
}

// Next returns the state after a decision for which the cluster qualifies or does not.
func (l LeftCluster) Next(qualifies bool, now time.Time) LeftCluster {
	switch {
	case !qualifies:
		l.Since = time.Time{}
	case l.Since.IsZero():
		l.Since = ceilSecond(now)
	}
	return l
}

// Failback defines when a tier that was insufficient, or a cluster that left, is used again.
type Failback struct {
	// After is how long the tier must have been sufficient, or the cluster must have qualified;
	// negative means that it is never used again because of time.
	After time.Duration
	// RequestedAt permits the use of everything that is sufficient or qualifies since before it,
	// also if it is in the future; zero for none.
	RequestedAt time.Time
}

// At returns the time from which a tier that is sufficient since a time, or a cluster that
// qualifies since then, is used again without a request; false if never.
func (f Failback) At(since time.Time) (at time.Time, ok bool) {
	return since.Add(f.After), f.After >= 0
}

// Usable reports whether a tier that is sufficient since a time, or a cluster that qualifies since
// then, can be used now.
func (f Failback) Usable(since, now time.Time) bool {
	at, ok := f.At(since)
	return since.IsZero() || f.After == 0 || f.RequestedAt.After(since) || ok && !now.Before(at)
}

// TierDecision are the tiers of a demand as of now.
type TierDecision struct {
	// Tiers are the tiers of the demand, with Usable.
	Tiers []Tier
	// Next is when a tier before the used one stops waiting; zero if none waits.
	Next time.Time

	states []TierState
}

// DecideTiers decides which tiers need to wait, given the states after the last decision and the
// number of qualifying clusters of each tier. A tier that is sufficient is usable if the last
// decision used it, if it never was insufficient, or if Failback permits it. Its present Min also
// decides whether it was sufficient at the last decision.
func DecideTiers(before []TierState, d *Demand, qualifying []int, failback Failback, now time.Time) TierDecision {
	t := TierDecision{Tiers: make([]Tier, len(d.Tiers)), states: make([]TierState, len(d.Tiers))}
	for i, tier := range d.Tiers {
		state := TierState{Name: tier.Name, Qualifying: qualifying[i]}
		last := slices.IndexFunc(before, func(s TierState) bool { return s.Name == tier.Name })
		tier.Usable = false
		if state.Qualifying >= tier.Min {
			switch {
			case last < 0:
			case before[last].Qualifying < tier.Min:
				state.SufficientSince = ceilSecond(now)
			default:
				state.SufficientSince = before[last].SufficientSince
			}
			tier.Usable = last >= 0 && before[last].Used || failback.Usable(state.SufficientSince, now)
		}
		t.Tiers[i], t.states[i] = tier, state
	}
	used, ok := firstTier(t.Tiers, qualifying)
	if !ok || d.Overflow {
		return t
	}
	for i := range used {
		if t.Tiers[i].Usable || qualifying[i] < t.Tiers[i].Min {
			continue
		}
		at, ok := failback.At(t.states[i].SufficientSince)
		if ok && (t.Next.IsZero() || at.Before(t.Next)) {
			t.Next = at
		}
	}
	return t
}

// States returns the states of the tiers after the decision, given the chosen candidates.
func (t TierDecision) States(c *Candidates, chosen []int) []TierState {
	if len(t.states) == 0 {
		return nil
	}
	states := slices.Clone(t.states)
	for _, j := range chosen {
		if i := c.Tier(j); i >= 0 {
			states[i].Used = true
		}
	}
	return states
}

// Qualifying returns the number of candidates of each tier.
func Qualifying(c *Candidates, d *Demand) []int {
	qualifying := make([]int, len(d.Tiers))
	if len(d.Tiers) == 0 {
		return qualifying
	}
	for i := range c.Totals {
		if tier := c.Tier(i); tier >= 0 {
			qualifying[tier]++
		}
	}
	return qualifying
}

// firstTier returns the tier from which all clusters are chosen in the mode Fallback: the first one
// that is usable, otherwise the first that is sufficient; false if none is sufficient.
func firstTier(tiers []Tier, qualifying []int) (first int, ok bool) {
	for i, tier := range tiers {
		if qualifying[i] < tier.Min {
			continue
		}
		if tier.Usable {
			return i, true
		}
		if !ok {
			first, ok = i, true
		}
	}
	return first, ok
}

// ceilSecond rounds up to whole seconds, as states are stored. A restart never shortens a delay.
func ceilSecond(t time.Time) time.Time {
	rounded := t.Truncate(time.Second)
	if rounded.Before(t) {
		rounded = rounded.Add(time.Second)
	}
	return rounded
}
