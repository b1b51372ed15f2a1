package lifecycle

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// InFlightName is the plugin's name.
const InFlightName = "InFlight"

// InFlight is a Reserve plugin that counts decisions for Balance before their pages are published.
// Without it, Placements that are decided at the same time would all select the clusters with the
// fewest decisions.
type InFlight struct{ handle *framework.Handle }

// NewInFlight is the plugin's factory.
func NewInFlight(_ context.Context, raw json.RawMessage, handle *framework.Handle) (framework.Plugin, error) {
	_, err := framework.DecodeArgs(raw, struct{}{})
	return &InFlight{handle}, err
}

// Name implements framework.Plugin.
func (*InFlight) Name() string { return InFlightName }

// Reserve counts the added clusters.
func (f *InFlight) Reserve(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) *framework.Status {
	if f.handle != nil && f.handle.Reserve != nil {
		f.handle.Reserve(types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}, p.Added)
	}
	return nil
}

// Unreserve implements framework.ReservePlugin.
func (f *InFlight) Unreserve(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, _ *framework.Proposal) {
	if f.handle != nil && f.handle.Unreserve != nil {
		f.handle.Unreserve(types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name})
	}
}
