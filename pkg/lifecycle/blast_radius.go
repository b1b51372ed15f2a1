package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// BlastRadiusName is the plugin's name.
const BlastRadiusName = "BlastRadius"

// BlastRadiusArgs are the arguments of BlastRadius. Without any, the plugin is off.
type BlastRadiusArgs struct {
	// MaxRemoved is the most clusters that a Placement may lose within the window: a number, or a share of those it has, for
	// example "20%", rounded down. A loss beyond it is held. Unset: no limit.
	MaxRemoved *intstr.IntOrString `json:"maxRemoved,omitempty"`
	// MinRemoved is how many clusters a Placement must lose within the window for MaxRemoved to count, so that small Placements
	// can move. Default 2.
	MinRemoved int `json:"minRemoved,omitempty"`
	// FleetMaxRemoved is the most removals within the window over all Placements. A change that would exceed it is held. Unset:
	// no limit.
	FleetMaxRemoved *int `json:"fleetMaxRemoved,omitempty"`
	// Window is the time over which removals are summed up. Default 10m.
	Window metav1.Duration `json:"window,omitzero"`
	// Settle is how long a removal is looked at before it is judged, so that clusters which leave one after the other are judged
	// together: it waits until the change has stayed the same for so long, at most ten times as long. "0s" judges at once.
	// Default 5s.
	Settle *metav1.Duration `json:"settle,omitempty"`
	// Timeout is how long a held change waits for its approval before it is dropped. Default 168h, a week.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// BlastRadius is a Permit plugin that holds a change which removes more clusters than is usual, from whatever cause, until it is
// approved: an edit, a label typo, a lost feed or an expired taint toleration all look the same to the workloads. A change once
// held stays held, also when the window has moved on.
//
// What was removed before is remembered in memory: a restart begins a new window.
type BlastRadius struct {
	args   BlastRadiusArgs
	settle time.Duration

	*blastLedger
}

// blastLedger is what the instances in all profiles share: limits are over all Placements, and a Placement may change profile.
type blastLedger struct {
	mu sync.Mutex
	// removals are those let pass, in the order of their times, no older than the longest window.
	removals []removal
	window   time.Duration
	settling map[types.UID]settling
}

type removal struct {
	placement types.UID
	at        time.Time
	clusters  int
	// proposal removed them. It is known again, and not kept.
	proposal weak.Pointer[framework.Proposal]
}

// settling is a removal that is looked at.
type settling struct {
	key          types.NamespacedName
	digest       string
	first, since time.Time
}

// settleRounds bounds how long a change that does not settle is looked at.
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
	ledger := framework.Shared(handle, BlastRadiusName, func() *blastLedger { return &blastLedger{settling: map[types.UID]settling{}} })
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	ledger.window = max(ledger.window, args.Window.Duration)
	b := &BlastRadius{args: args, settle: args.Settle.Duration, blastLedger: ledger}
	if handle != nil && handle.Assume == nil {
		// A simulation looks once.
		b.settle = 0
	}
	return b, nil
}

func (a *BlastRadiusArgs) validate() error {
	if a.MaxRemoved != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(a.MaxRemoved, 100, false); err != nil || n < 0 || a.MaxRemoved.Type == intstr.String && n > 100 {
			return fmt.Errorf("maxRemoved: %q is neither a number from 0 nor a share from 0%% to 100%%", a.MaxRemoved.String())
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

// Permit implements framework.PermitPlugin.
func (b *BlastRadius) Permit(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	if b.args.MaxRemoved == nil && b.args.FleetMaxRemoved == nil {
		return nil, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(p.Removed) == 0 {
		delete(b.settling, pl.UID)
		return nil, 0
	}
	now := state.Snapshot().Now
	if approved(pl, p) {
		delete(b.settling, pl.UID)
		b.pass(pl, p, now)
		return nil, 0
	}
	_, held := p.HeldBy[BlastRadiusName]
	held = held || slices.Contains(p.EndedBy, BlastRadiusName)
	// A change that is held, by whichever plugin, has settled: to wait anew would end that hold, and begin it again.
	if !held && len(p.HeldBy) == 0 {
		if until := b.settled(pl, p, now); now.Before(until) {
			state.RequeueAt(until)
			return framework.NewStatus(framework.Pending, fmt.Sprintf("a removal is judged once it has stayed the same for %s", b.settle)), 0
		}
	}
	delete(b.settling, pl.UID)
	why := b.exceeded(state.Snapshot().Subject, p, now)
	if why == "" && held {
		why = "the change was too large when it was held"
	}
	if why == "" {
		b.pass(pl, p, now)
		return nil, 0
	}
	return framework.NewStatus(framework.Wait, why+"; "+howToApprove(pl, p)), b.args.Timeout.Duration
}

// settled is when a removal may be judged.
func (b *BlastRadius) settled(pl *v1alpha1.Placement, p *framework.Proposal, now time.Time) time.Time {
	if b.settle == 0 {
		return now
	}
	s, known := b.settling[pl.UID]
	// Nobody asks about a change that was given up: what is still remembered long after its judgement was due is of that one.
	if !known || now.After(s.first.Add(2*settleRounds*b.settle)) {
		s = settling{first: now, key: types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}}
	}
	if s.digest != p.Digest {
		s.digest, s.since = p.Digest, now
	}
	b.settling[pl.UID] = s
	until, latest := s.since.Add(b.settle), s.first.Add(settleRounds*b.settle)
	if latest.Before(until) {
		return latest
	}
	return until
}

// exceeded says which limit the change would exceed; empty when none.
func (b *BlastRadius) exceeded(subject *framework.Subject, p *framework.Proposal, now time.Time) string {
	before, fleet := 0, 0
	for _, r := range b.removals {
		if !r.at.After(now.Add(-b.args.Window.Duration)) {
			continue
		}
		fleet += r.clusters
		if r.placement == subject.Placement.UID {
			before += r.clusters
		}
	}
	lost, had := before+len(p.Removed), before+subject.Published.Len()
	if limit := b.args.MaxRemoved; limit != nil && lost >= b.args.MinRemoved {
		if most, err := intstr.GetScaledValueFromIntOrPercent(limit, had, false); err == nil && lost > most {
			return fmt.Sprintf("%d of %d clusters would be removed within %s, more than %s", lost, had, b.args.Window.Duration, limit.String())
		}
	}
	if limit := b.args.FleetMaxRemoved; limit != nil && fleet+len(p.Removed) > *limit {
		return fmt.Sprintf("%d removals over all Placements within %s would be more than %d", fleet+len(p.Removed), b.args.Window.Duration, *limit)
	}
	return ""
}

// pass notes a removal that is let pass.
func (b *BlastRadius) pass(pl *v1alpha1.Placement, p *framework.Proposal, now time.Time) {
	b.forgetBefore(now.Add(-b.window))
	b.removals = append(b.removals, removal{placement: pl.UID, at: now, clusters: len(p.Removed), proposal: weak.Make(p)})
}

func (b *blastLedger) forgetBefore(t time.Time) {
	kept := b.removals[:0]
	for _, r := range b.removals {
		if r.at.After(t) {
			kept = append(kept, r)
		}
	}
	clear(b.removals[len(kept):])
	b.removals = kept
}

// Reserve reserves nothing: what is removed counts once Permit lets it pass.
func (*BlastRadius) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

// Unreserve takes back what Permit noted: the change did not come to pass. One that did in part counts whole.
func (b *BlastRadius) Unreserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) {
	if len(p.Writes) > 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, r := range slices.Backward(b.removals) {
		if r.proposal == weak.Make(p) {
			b.removals = slices.Delete(b.removals, i, i+1)
			return
		}
	}
}

// Forget implements framework.Forgetter.
func (b *BlastRadius) Forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, s := range b.settling {
		if s.key == key {
			delete(b.settling, uid)
		}
	}
}
