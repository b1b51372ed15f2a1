package controllers

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func (p *probePlugin) setUp(_ context.Context, mgr manager.Manager) error {
	p.managers = append(p.managers, mgr)
	return p.setUpError
}

// TestPluginsAreSetUp: each instance gets the manager: the one that publishes, and the one that
// decides explanations.
func TestPluginsAreSetUp(t *testing.T) {
	h := startSetUpHub(t, hubOptions{})
	if len(h.probe.managers) != 2 || h.probe.managers[0] != manager.Manager(h.mgr) {
		t.Errorf("set up with %d managers", len(h.probe.managers))
	}
}

// TestPluginSetUpFails: nothing starts, and the error names the plugin.
func TestPluginSetUpFails(t *testing.T) {
	o := hubOptions{}
	o.Plugins = framework.Registry{}
	o.prepare = func(h *setUpHub) {
		h.probe.setUpError = errors.New("no such kind")
		o.Plugins[probeName] = h.probe.build
	}
	o.Config = &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{
		Name: config.DefaultProfile, Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: probeName}}}},
	}}}
	if _, err := newSetUpHub(t, o); err == nil || err.Error() != "profile default: setting up plugin Probe: no such kind" {
		t.Errorf("got %v", err)
	}
}

// TestActivate: a plugin starts attempts once the controller has started.
func TestActivate(t *testing.T) {
	f := &feed{}
	f.activate(placementKey)
	var queued []inventory.Key
	enqueue := func(keys []inventory.Key) { queued = append(queued, keys...) }
	f.enqueue.Store(&enqueue)
	f.activate(placementKey, types.NamespacedName{Namespace: "n", Name: "q"})
	if want := []inventory.Key{placementKey, {Namespace: "n", Name: "q"}}; !slices.Equal(queued, want) {
		t.Errorf("queued %v", queued)
	}
}
