package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/lru"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PolicyWindowName is the plugin's name.
const PolicyWindowName = "PolicyWindow"

// PolicyWindow is a Permit plugin that holds changes until a window of each DisruptionPolicy with
// windows is open. An approval does not replace a window. Forced removals do not wait.
type PolicyWindow struct{}

// NewPolicyWindow is the plugin's factory.
func NewPolicyWindow(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(raw, struct{}{})
	return PolicyWindow{}, err
}

// Name implements framework.Plugin.
func (PolicyWindow) Name() string { return PolicyWindowName }

// PermitsForcedRemovals implements framework.ForcedRemovalPermitter.
func (PolicyWindow) PermitsForcedRemovals() {}

// RenewsHolds implements framework.HoldRenewer: a change waits for the next window if no controller
// ran in one, or if the windows were changed.
func (PolicyWindow) RenewsHolds() {}

// Permit implements framework.PermitPlugin.
func (PolicyWindow) Permit(_ context.Context, state *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	snapshot := state.Snapshot()
	if p.Forced {
		return nil, 0
	}
	opening, err := policyOpening(snapshot.Subject.Policies, snapshot.Now)
	if err != nil {
		return framework.NewStatus(framework.Wait, err.Error()), defaultTimeout
	}
	if !opening.After(snapshot.Now) {
		return nil, 0
	}
	state.RequeueAt(opening)
	reason := "outside the windows of the DisruptionPolicies; they are open next at " + opening.UTC().Format(time.RFC3339)
	return framework.NewStatus(framework.Wait, reason), opening.Add(openingSlack).Sub(snapshot.Now)
}

// maxOpenings is how many openings policyOpening compares.
const maxOpenings = 100

// policyOpening returns the first time from now on at which a window of each policy with windows is
// open.
func policyOpening(policies []*berthv1alpha1.DisruptionPolicy, now time.Time) (time.Time, error) {
	var all []*MaintenanceWindow
	for _, policy := range policies {
		if len(policy.Spec.Windows) == 0 {
			continue
		}
		windows, err := windowsOf(policy)
		if err != nil {
			return now, fmt.Errorf("DisruptionPolicy %s: %w", policy.Name, err)
		}
		all = append(all, &MaintenanceWindow{windows: windows})
	}
	at := now
	for range maxOpenings {
		next := at
		for _, m := range all {
			opening := m.opening(at)
			if opening.IsZero() {
				return now, errors.New("no window of the DisruptionPolicies opens within five years")
			}
			if opening.After(next) {
				next = opening
			}
		}
		if next.Equal(at) {
			return at, nil
		}
		at = next
	}
	return now, fmt.Errorf("the windows of the DisruptionPolicies are not open at the same time in their next %d openings", maxOpenings)
}

// CheckWindows returns the first mistake in the windows of a policy.
func CheckWindows(policy *berthv1alpha1.DisruptionPolicy) error {
	_, err := windowsOf(policy)
	return err
}

// parsedWindows caches the windows of policies, because each attempt reads them. The key is a
// RecurringWindow.
var parsedWindows = lru.New(1000)

type parsedWindow struct {
	recurrence
	err error
}

func windowsOf(policy *berthv1alpha1.DisruptionPolicy) ([]recurrence, error) {
	all := make([]recurrence, len(policy.Spec.Windows))
	for i, w := range policy.Spec.Windows {
		parsed, known := parsedWindows.Get(RecurringWindow(w))
		if !known {
			r, err := newRecurrence(RecurringWindow(w))
			parsed = parsedWindow{r, err}
			parsedWindows.Add(RecurringWindow(w), parsed)
		}
		window := parsed.(parsedWindow)
		if window.err != nil {
			return nil, fmt.Errorf("spec.windows[%d].%w", i, window.err)
		}
		all[i] = window.recurrence
	}
	return all, nil
}
