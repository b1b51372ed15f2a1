package scheduler_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// counter is a Reserve plugin that has counts and stores how many records it got.
type counter struct {
	bare
	recounted int
	needs     time.Duration
	counts    map[string]int
}

func (c *counter) Describe() framework.Traits {
	return framework.Traits{Counter: framework.Counter{
		Counts:       func() any { return c.counts },
		DecodeCounts: func([]byte) (any, error) { return nil, nil },
		Recount:      func(records []*berthv1alpha1.PlacementChange) { c.recounted = len(records) },
		NeedsRecords: func() time.Duration { return c.needs },
	}}
}

func (c *counter) Less(a, b *v1alpha1.Placement) bool { return a.Name < b.Name }

func (c *counter) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

func (c *counter) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

func (c *counter) Bind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

// counting is a profile with one plugin.
func counting(t *testing.T, c *counter) *plugins.Profile {
	t.Helper()
	registry := framework.Registry{c.name: func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) { return c, nil }}
	defaults := config.Profile{Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: c.name}}}}}
	profiles, err := plugins.NewProfiles(t.Context(), nil, defaults, registry, &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	return profiles[config.DefaultProfile]
}

// TestNeedsRecords: the longest time of all profiles.
func TestNeedsRecords(t *testing.T) {
	profile := func(needs time.Duration) *plugins.Profile {
		return counting(t, &counter{bare: bare{"w"}, needs: needs})
	}
	s := scheduler.New(map[string]*plugins.Profile{"default": profile(time.Minute), "other": profile(time.Hour), "none": {}}, nil)
	if got := s.NeedsRecords(); got != time.Hour {
		t.Errorf("got %s", got)
	}
}

// TestCountsAreInTheSnapshot: those of Counters.
func TestCountsAreInTheSnapshot(t *testing.T) {
	c := &counter{bare: bare{"w"}, counts: map[string]int{"a": 1}}
	s := scheduler.New(map[string]*plugins.Profile{"default": counting(t, c)}, nil)
	snapshot := fleet(ask()).Snapshot(key, fixture.Now, nil)
	s.Attempt(t.Context(), key.Namespace, func() *framework.Snapshot { return snapshot })
	if diff := cmp.Diff(map[string]any{"w": any(c.counts)}, snapshot.PluginCounts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Recount(make([]*berthv1alpha1.PlacementChange, 3))
	if c.recounted != 3 {
		t.Errorf("%d records are recounted", c.recounted)
	}
}
