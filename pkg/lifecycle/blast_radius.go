package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// BlastRadiusName is the plugin's name.
const BlastRadiusName = "BlastRadius"

// BlastRadiusArgs are the arguments of BlastRadius. Without any, the plugin is off.
type BlastRadiusArgs struct {
	// MaxRemoved is the maximum number of clusters that a Placement may lose within the window, or
	// a percentage of its clusters, for example "20%", rounded down. A change that would exceed it
	// is held. Unset: no limit.
	MaxRemoved *intstr.IntOrString `json:"maxRemoved,omitempty"`
	// MinRemoved is the number of lost clusters within the window from which MaxRemoved applies, so
	// that small Placements can change. Default 2.
	MinRemoved int `json:"minRemoved,omitempty"`
	// FleetMaxRemoved is the maximum number of removals within the window over all Placements of a
	// namespace, and over all Placements of the fleet. A change that would exceed it is held.
	// Unset: no limit. In the limit over the fleet, a removal after an edit of the Placement's own
	// spec or profile counts only in its namespace, and the other removals of one namespace count
	// for other namespaces up to half of the limit, rounded up.
	FleetMaxRemoved *int `json:"fleetMaxRemoved,omitempty"`
	// Window is the time over which removals are added up. Default 10m.
	Window metav1.Duration `json:"window,omitzero"`
	// Settle is the time for which a removal must stay the same before it is checked, so that
	// clusters that leave one after the other are checked together. It is checked after ten times
	// Settle at the latest. "0s" checks at once. Default 5s.
	Settle *metav1.Duration `json:"settle,omitempty"`
	// Timeout is the time until a held change expires if nobody approves it. Default 168h, a week.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// BlastRadius holds a change that removes too many clusters, whatever its cause, until a user
// approves it.
//
// A held change stays held even if the window has passed. A removal of revoked clusters that is
// only a part of it is made as soon as no limit is exceeded. Permit uses the counts of Reserve,
// Unreserve and PostBind before the attempt. After a restart the counts start from the records of
// changes inside the window, which are kept until then.
type BlastRadius struct {
	args   BlastRadiusArgs
	settle time.Duration

	*removalCounter
}

// settleRounds times Settle is the maximum time until a removal is checked.
const settleRounds = 10

// NewBlastRadius is the plugin's factory.
func NewBlastRadius(_ context.Context, raw json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, BlastRadiusArgs{
		MinRemoved: 2, Window: metav1.Duration{Duration: 10 * time.Minute}, Timeout: metav1.Duration{Duration: defaultTimeout},
		Settle: &metav1.Duration{Duration: 5 * time.Second},
	})
	if err != nil {
		return nil, err
	}
	if args.Settle == nil {
		args.Settle = &metav1.Duration{}
	}
	if err := args.validate(); err != nil {
		return nil, err
	}
	if len(raw) > 0 && args.MaxRemoved == nil && args.FleetMaxRemoved == nil {
		return nil, errors.New("one of maxRemoved and fleetMaxRemoved is required")
	}
	counter := framework.Shared(handle, BlastRadiusName, func() *removalCounter {
		return &removalCounter{counts: &removalCounts{}}
	})
	counter.mu.Lock()
	defer counter.mu.Unlock()
	b := &BlastRadius{args: args, settle: args.Settle.Duration, removalCounter: counter}
	if !b.off() {
		counter.window = max(counter.window, args.Window.Duration)
	}
	if handle != nil && handle.Assume == nil {
		// A simulation decides only once.
		b.settle = 0
	}
	return b, nil
}

func (a *BlastRadiusArgs) validate() error {
	if a.MaxRemoved != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(a.MaxRemoved, 100, false); err != nil || n < 0 || a.MaxRemoved.Type == intstr.String && n > 100 {
			return fmt.Errorf("maxRemoved: %q is neither a number from 0 nor a percentage from 0%% to 100%%", a.MaxRemoved.String())
		}
	}
	switch {
	case a.MinRemoved < 1:
		return errors.New("minRemoved: must be at least 1")
	case a.FleetMaxRemoved != nil && *a.FleetMaxRemoved < 0:
		return errors.New("fleetMaxRemoved: must not be negative")
	case a.Window.Duration <= 0:
		return errors.New("window: must be greater than 0")
	case a.Settle.Duration < 0:
		return errors.New("settle: must not be negative")
	case a.Timeout.Duration <= 0:
		return errors.New("timeout: must be greater than 0")
	}
	return nil
}

// Name implements framework.Plugin.
func (*BlastRadius) Name() string { return BlastRadiusName }

// off reports whether no limit is configured.
func (b *BlastRadius) off() bool { return b.args.MaxRemoved == nil && b.args.FleetMaxRemoved == nil }

// Permit implements framework.PermitPlugin.
func (b *BlastRadius) Permit(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	if b.off() || len(p.Removed) == 0 || p.Approved {
		return nil, 0
	}
	now := state.Snapshot().Now
	_, held := p.HeldBy[BlastRadiusName]
	held = held || slices.Contains(p.ExpiredBy, BlastRadiusName)
	// A change that any plugin holds has stayed the same long enough. Returning Pending would end
	// that hold and start a new one.
	if until := b.settledAt(p); !held && len(p.HeldBy) == 0 && now.Before(until) {
		state.RequeueAt(until)
		return framework.NewStatus(framework.Pending, fmt.Sprintf("a removal is checked when it has stayed the same for %s", b.settle)), 0
	}
	counts, _ := state.Snapshot().PluginCounts[BlastRadiusName].(*removalCounts)
	why := b.exceeded(cmp.Or(counts, &removalCounts{}), state.Snapshot().Subject, p, now)
	if why == "" && held {
		why = "the change was too large when it was held"
	}
	if why == "" {
		return nil, 0
	}
	if end := b.nextEnd(counts, pl, now); !held && p.Kind == framework.RevokedRemoval && !end.IsZero() {
		// As a part of a held change, it has no record that keeps it held.
		state.RequeueAt(end)
	}
	return framework.NewStatus(framework.Wait, why), b.args.Timeout.Duration
}

// settledAt returns the time at which a removal is checked: when it has stayed the same for Settle,
// at most ten times Settle after the first removal was proposed.
func (b *BlastRadius) settledAt(p *framework.Proposal) time.Time {
	until, latest := p.Since.Add(b.settle), p.RemovingSince.Add(settleRounds*b.settle)
	if latest.Before(until) {
		return latest
	}
	return until
}

// exceeded returns the limit that the change would exceed; empty if there is none. It discloses no
// counts of other namespaces.
func (b *BlastRadius) exceeded(counts *removalCounts, subject *framework.Subject, p *framework.Proposal, now time.Time) string {
	counts, pl := counts.clone(), subject.Placement
	removes := counts.proceed(subject, p, false)
	all := union(b.openSince(counts, pl, now).Begun, removes)
	removed := len(all)
	placement, namespace, others := b.count(counts, pl, now)
	lost, had := placement+removed, placement+len(p.Clusters)-len(p.Added)+len(p.Removed)
	if namespace.all >= unknownRemovals {
		return fmt.Sprintf("the removals within %s are not known: a Placement had more than %d changes before a restart", b.args.Window.Duration, berthv1alpha1.MaxHistoryLimit)
	}
	if limit := b.args.MaxRemoved; limit != nil && lost >= b.args.MinRemoved {
		if most, err := intstr.GetScaledValueFromIntOrPercent(limit, had, false); err == nil && lost > most {
			return fmt.Sprintf("%d of %d clusters would be removed within %s, more than %s", lost, had, b.args.Window.Duration, limit.String())
		}
	}
	limit := b.args.FleetMaxRemoved
	switch {
	case limit == nil:
	case namespace.all+removed > *limit:
		return fmt.Sprintf("%d removals over all Placements of the namespace within %s would be more than %d",
			namespace.all+removed, b.args.Window.Duration, *limit)
	case !p.Edited && others+namespace.unedited+removed > *limit:
		return fmt.Sprintf("the removals over all Placements of the fleet within %s would be more than %d", b.args.Window.Duration, *limit)
	}
	return ""
}

// Describe implements framework.Describer. A held change uses up no limit.
func (b *BlastRadius) Describe() framework.Traits {
	return framework.Traits{CountsPermitted: true, Counter: framework.Counter{
		Counts: b.Counts, DecodeCounts: b.DecodeCounts, Recount: b.Recount, NeedsRecords: b.NeedsRecords,
	}}
}

// Counts is that of framework.Counter.
func (b *BlastRadius) Counts() any {
	if b.off() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts
}

// DecodeCounts is that of framework.Counter.
func (*BlastRadius) DecodeCounts(text []byte) (any, error) {
	counts := &removalCounts{}
	return counts, json.Unmarshal(text, counts)
}

// Reserve counts the removal, so that the next attempt sees it. A change that was permitted before,
// or its rest under a later revision, is not counted again; one that supersedes it gives back what
// was not removed.
func (b *BlastRadius) Reserve(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if b.off() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, subject := state.Snapshot().Now, state.Snapshot().Subject
	permitted := permittedRecord(subject.Records, 0, p.Revision, false) != nil
	if begun, progresses := b.counts.Progress[pl.UID]; len(p.Removed) == 0 && !b.counts.has(pl) || progresses && begun.Revision == p.Revision && permitted {
		return nil
	}
	b.update(now, func(next *removalCounts) {
		removes := next.proceed(subject, p, permitted)
		before := next.Open[pl.UID]
		if len(removes) == 0 {
			next.drop(pl.UID, before)
			return
		}
		next.Open[pl.UID] = openRemoval{
			removal: removal{Placement: pl.UID, Namespace: pl.Namespace, Revision: p.Revision, At: now, Edited: p.Edited && (len(before.Begun) == 0 || before.Edited)},
			Begun:   before.Begun, Reserved: removes,
		}
	})
	return nil
}

// Unreserve undoes Reserve. If a page was written, the clusters count as removed. A change that was
// permitted gives back what was not removed, if another proposal, or none, replaces it.
func (b *BlastRadius) Unreserve(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.counts.has(pl) {
		return
	}
	b.update(time.Time{}, func(next *removalCounts) {
		next.proceed(state.Snapshot().Subject, p, true)
		r := next.Open[pl.UID]
		if len(p.Writes) > 0 {
			next.made(pl.UID, p.Removed)
			r.Begun = union(r.Begun, r.Reserved)
		}
		next.drop(pl.UID, r)
	})
}

// PostBind completes the removal. The first step of a change counts the whole change.
func (b *BlastRadius) PostBind(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.counts.has(pl) {
		return
	}
	b.update(time.Time{}, func(next *removalCounts) {
		if _, progresses := next.Progress[pl.UID]; !progresses {
			next.begin(pl.UID)
		}
		next.made(pl.UID, p.Removed)
		next.begin(pl.UID) // of what leaves beside a change that goes on
		progress := next.Progress[pl.UID]
		if progress.Revision != p.Revision {
			progress.CountedAs, progress.Revision = cmp.Or(progress.CountedAs, progress.Revision), p.Revision
		}
		if next.Progress[pl.UID] = progress; !p.Partial {
			delete(next.Progress, pl.UID)
		}
	})
}
