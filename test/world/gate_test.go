package world

import (
	"context"
	"encoding/json"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// gateName is a plugin of the platform, which holds the changes of a Placement with the label gate
// for no time: they expire at once, unless they are approved.
const gateName = "Gate"

type gate struct{}

var gates = framework.Registry{gateName: func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return gate{}, nil
}}

// Name implements framework.Plugin.
func (gate) Name() string { return gateName }

// Permit implements framework.PermitPlugin.
func (gate) Permit(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	if pl.Labels["gate"] != "shut" || p.Approved || p.Kind.Forced() {
		return nil, 0
	}
	return framework.NewStatus(framework.Wait, "the gate is shut"), 0
}

const (
	limitArgs = `
  pluginConfig:
  - name: BlastRadius
    args: {fleetMaxRemoved: 4, window: 10m, settle: 0s}
`
	gatePlugin = `
  plugins:
    permit: {enabled: [{name: Gate}]}
`
)

// configOf is the configuration of a world; nil if it has none.
func configOf(limited, gated bool) *config.PlacementSchedulerConfiguration {
	profile := ""
	if limited {
		profile += limitArgs
	}
	if gated {
		profile += gatePlugin
	}
	if profile == "" {
		return nil
	}
	c, err := config.Load([]byte(`
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles:
- name: default` + profile))
	if err != nil {
		panic(err)
	}
	return c
}
