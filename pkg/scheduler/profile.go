package scheduler

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Profile is the plugins of each extension point, in the order they run.
type Profile struct {
	Name       string
	QueueSort  framework.QueueSortPlugin
	PreFilter  []framework.PreFilterPlugin
	Filter     []framework.FilterPlugin
	PostFilter []framework.PostFilterPlugin
	PreScore   []framework.PreScorePlugin
	Score      []WeightedScore
	Reserve    []framework.ReservePlugin
	Permit     []framework.PermitPlugin
	PreBind    []framework.PreBindPlugin
	Bind       []framework.BindPlugin
	PostBind   []framework.PostBindPlugin
}

// WeightedScore is a score plugin with its weight in the Additive mode.
type WeightedScore struct {
	framework.ScorePlugin
	Weight int32
}

// NewProfile builds each plugin once and puts it at every point it implements.
func NewProfile(ctx context.Context, c config.Profile, registry framework.Registry, handle *framework.Handle) (*Profile, error) {
	p := &Profile{Name: c.Name}
	seen := map[string]bool{}
	for _, ref := range c.Plugins {
		factory := registry[ref.Name]
		if factory == nil || seen[ref.Name] {
			return nil, fmt.Errorf("profile %q: plugin %q is unknown or listed twice", c.Name, ref.Name)
		}
		seen[ref.Name] = true
		plugin, err := factory(ctx, nil, handle)
		if err != nil {
			return nil, fmt.Errorf("profile %q: building plugin %q: %w", c.Name, ref.Name, err)
		}
		if !p.add(plugin, ref.Weight) {
			return nil, fmt.Errorf("profile %q: plugin %q implements no extension point", c.Name, ref.Name)
		}
	}
	return p, nil
}

func (p *Profile) add(plugin framework.Plugin, weight int32) bool {
	used := appendIf(&p.PreFilter, plugin)
	used = appendIf(&p.Filter, plugin) || used
	used = appendIf(&p.PostFilter, plugin) || used
	used = appendIf(&p.PreScore, plugin) || used
	used = appendIf(&p.Reserve, plugin) || used
	used = appendIf(&p.Permit, plugin) || used
	used = appendIf(&p.PreBind, plugin) || used
	used = appendIf(&p.Bind, plugin) || used
	used = appendIf(&p.PostBind, plugin) || used
	if s, ok := plugin.(framework.ScorePlugin); ok {
		p.Score, used = append(p.Score, WeightedScore{s, weight}), true
	}
	if s, ok := plugin.(framework.QueueSortPlugin); ok {
		p.QueueSort, used = s, true
	}
	return used
}

func appendIf[T framework.Plugin](list *[]T, plugin framework.Plugin) bool {
	t, ok := plugin.(T)
	if ok {
		*list = append(*list, t)
	}
	return ok
}

// score returns the score plugin of a name; nil when the profile has none.
func (p *Profile) score(name string) framework.ScorePlugin {
	for _, s := range p.Score {
		if s.Name() == name {
			return s.ScorePlugin
		}
	}
	return nil
}
