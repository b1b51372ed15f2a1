package framework

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// Timers are the engine's measurements across attempts. They are in memory; a restart resets them,
// which only delays changes.
type Timers struct {
	// Change is for the change to the target, Forced for the removal of all clusters that the
	// Placement cannot keep alone, Revoked for that of revoked clusters alone.
	Change  Stability `json:"change,omitzero"`
	Forced  Stability `json:"forced,omitzero"`
	Revoked Stability `json:"revoked,omitzero"`
	// Tiers are the states of the tiers of the SelectionPolicy TiersOf after the last attempt.
	Tiers   []berthv1alpha1.SelectionTierStatus `json:"tiers,omitzero"`
	TiersOf types.UID                           `json:"tiersOf,omitempty"`
	// NextAttempt is the time for which the last attempt asked, NextAttemptCause the reason.
	NextAttempt      time.Time `json:"nextAttempt,omitzero"`
	NextAttemptCause string    `json:"nextAttemptCause,omitempty"`
	// ReadySince is since when attempts have seen clusters that were added to a Placement with a
	// DisruptionPolicy published and ready, by name; zero for one that is not ready. Clusters that
	// were added long ago are not in it. Nil without policies.
	ReadySince map[string]time.Time `json:"readySince,omitzero"`
	// Unchanged is when the selected clusters were last those that were published.
	Unchanged time.Time `json:"unchanged,omitzero"`
	// LastStep is when the last step of a change was published.
	LastStep time.Time `json:"lastStep,omitzero"`
	// RefusedSince is since when records that must come first cannot be written; zero if the last
	// ones were.
	RefusedSince time.Time `json:"refusedSince,omitzero"`
	// Unrecorded are the clusters that were added by changes without a record yet, and UnrecordedAt
	// is when the last of them was published. They are set only for the attempt that begins
	// ReadySince.
	Unrecorded   []string  `json:"unrecorded,omitzero"`
	UnrecordedAt time.Time `json:"unrecordedAt,omitzero"`
	// DecidedGeneration is the Placement's generation that attempts decide, DecidedProfile its
	// profile, and DecidedSince the time of the first of them.
	DecidedGeneration int64     `json:"decidedGeneration,omitempty"`
	DecidedProfile    string    `json:"decidedProfile,omitempty"`
	DecidedSince      time.Time `json:"decidedSince,omitzero"`
}

// Stability measures for how long attempts have proposed the same change.
type Stability struct {
	// Digest is that of the clusters proposed last.
	Digest string `json:"digest,omitempty"`
	// Since is when these clusters were first proposed, without others in between. RemovingSince is
	// since when each attempt has proposed to remove clusters; zero if the last one did not.
	Since         time.Time `json:"since,omitzero"`
	RemovingSince time.Time `json:"removingSince,omitzero"`
}

// Answers are the answers of plugins to a Placement's held change. They are in memory only.
type Answers struct {
	// Revision, From, Digest and Generation identify the held change.
	Revision   int64  `json:"revision,omitempty"`
	From       string `json:"from,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	// Plugins are those that hold it, with their deadlines.
	Plugins map[string]time.Time `json:"plugins,omitzero"`
	// Allowed holds the plugins whose hold Allow ended. Rejected is `<plugin>: <reason>` of Reject;
	// empty if the change was not rejected.
	Allowed  map[string]struct{} `json:"allowed,omitzero"`
	Rejected string              `json:"rejected,omitempty"`
}

// NotAfter returns the timers without times after now: after the clock was set back, what began
// later begins now.
func (t Timers) NotAfter(now time.Time) Timers {
	limit := func(at time.Time) time.Time {
		if at.After(now) {
			return now
		}
		return at
	}
	for _, s := range []*Stability{&t.Change, &t.Forced, &t.Revoked} {
		s.Since, s.RemovingSince = limit(s.Since), limit(s.RemovingSince)
	}
	for _, at := range []*time.Time{&t.DecidedSince, &t.UnrecordedAt, &t.LastStep, &t.RefusedSince, &t.Unchanged} {
		*at = limit(*at)
	}
	if t.ReadySince != nil {
		since := make(map[string]time.Time, len(t.ReadySince))
		for name, at := range t.ReadySince {
			since[name] = limit(at)
		}
		t.ReadySince = since
	}
	t.Tiers = slices.Clone(t.Tiers)
	for i := range t.Tiers {
		tier := &t.Tiers[i]
		if since := tier.SufficientSince; since != nil {
			tier.SufficientSince = &metav1.Time{Time: limit(since.Time)}
		}
		tier.Left = slices.Clone(tier.Left)
		for j := range tier.Left {
			if since := tier.Left[j].QualifyingSince; since != nil {
				tier.Left[j].QualifyingSince = &metav1.Time{Time: limit(since.Time)}
			}
		}
	}
	return t
}
