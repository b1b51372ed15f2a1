package scheduler

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// call calls methods of plugins. If one panics, the result is an Error with the name that plugin
// returns then.
func call(ctx context.Context, method string, plugin func() string, do func() *framework.Status) (status *framework.Status) {
	defer framework.Recover(ctx, method, plugin, &status)
	return do()
}

// guard is call for one plugin.
func guard(ctx context.Context, method string, p framework.Plugin, do func() *framework.Status) *framework.Status {
	return call(ctx, method, p.Name, do)
}

// recovered stores the failure of a plugin that the attempt survived; nil is ignored.
func (r *Result) recovered(failure *framework.Status) {
	if failure != nil {
		r.panics = append(r.panics, failure)
	}
}

// PluginEvents returns the events for plugins that panicked, also without effect on the outcome,
// and for one that keeps the Placement from being decided.
func (a *Attempt) PluginEvents() []Event {
	var all []Event
	for _, status := range a.panicked() {
		all = append(all, Event{Type: corev1.EventTypeWarning, Reason: "PluginPanicked", Action: status.Plugin(), Note: CutNote(status.Err().Error())})
	}
	if refusal := a.Refusal(); refusal != nil {
		all = append(all, Event{Type: corev1.EventTypeWarning, Reason: "PlacementRefused", Action: refusal.Plugin(), Note: CutNote(refusal.Err().Error())})
	}
	return all
}

// panicked returns the panics of plugins in the attempt.
func (a *Attempt) panicked() []*framework.Status {
	var all []*framework.Status
	for _, status := range append([]*framework.Status{a.Failure, a.Err}, a.panics...) {
		var panicked *framework.PanicError
		if errors.As(status.Err(), &panicked) && !slices.Contains(all, status) {
			all = append(all, status)
		}
	}
	if a.Earlier != nil {
		all = append(all, a.Earlier.panicked()...)
	}
	return all
}
