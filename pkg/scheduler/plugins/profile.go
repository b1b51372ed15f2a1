package plugins

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Profile lists the plugins of each extension point, in the order in which they run.
type Profile struct {
	Name       string
	QueueSort  framework.QueueSortPlugin
	PreEnqueue []framework.PreEnqueuePlugin
	PreFilter  []framework.PreFilterPlugin
	Filter     []framework.FilterPlugin
	PostFilter []framework.PostFilterPlugin
	PreScore   []framework.PreScorePlugin
	Score      []WeightedScore
	Reserve    []framework.ReservePlugin
	Permit     []framework.PermitPlugin
	Transition []framework.TransitionPlugin
	PreBind    []framework.PreBindPlugin
	Bind       []framework.BindPlugin
	PostBind   []framework.PostBindPlugin

	plugins instances
}

// SetUp calls SetupWithManager of the plugins that have it.
func (p *Profile) SetUp(ctx context.Context, mgr manager.Manager) error {
	for _, name := range slices.Sorted(maps.Keys(p.plugins)) {
		setUp := p.Traits(name).SetupWithManager
		if setUp == nil {
			continue
		}
		failure := Call(ctx, "SetupWithManager", p.plugins[name], func() *framework.Status {
			return framework.AsStatus(setUp(ctx, mgr))
		})
		if failure != nil {
			return fmt.Errorf("setting up plugin %w", failure.WithPlugin(name).Err())
		}
	}
	return nil
}

// WeightedScore is a score plugin with its weight in the Additive mode.
type WeightedScore struct {
	framework.ScorePlugin
	Weight int32
}

// NewProfiles builds the profiles of a configuration, by name, always including
// config.DefaultProfile; a nil configuration uses only defaults. Each profile has one instance of
// each of its plugins. An error has one line per mistake, which starts with its path in the
// configuration.
func NewProfiles(ctx context.Context, c *config.PlacementSchedulerConfiguration, defaults config.Profile, registry framework.Registry,
	handle *framework.Handle,
) (map[string]*Profile, error) {
	all, err := config.MergeAll(c, defaults, slices.Sorted(maps.Keys(registry)))
	if err != nil {
		return nil, err
	}
	profiles := map[string]*Profile{}
	resolved := make([]map[config.Point][]config.Plugin, len(all))
	var errs []error
	for i := range all {
		plugins, err := build(ctx, &all[i], registry, handle)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		resolved[i], err = all[i].Resolve(plugins.implements)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		profiles[all[i].Name] = newProfile(all[i].Name, resolved[i], plugins)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := config.CheckOneQueue(all, resolved); err != nil {
		return nil, err
	}
	return profiles, nil
}

// instances are the plugins of one profile by name.
type instances map[string]Instance

// Instance is a plugin of a profile with its traits.
type Instance struct {
	framework.Plugin
	framework.Traits
}

func build(ctx context.Context, c *config.Merged, registry framework.Registry, handle *framework.Handle) (instances, error) {
	plugins := instances{}
	var errs []error
	for _, name := range c.Names() {
		plugin, err := buildOne(ctx, name, registry[name], c.Args(name), handle)
		if err != nil {
			errs = append(errs, c.BuildError(name, err))
			continue
		}
		plugins[name] = plugin
	}
	return plugins, errors.Join(errs...)
}

// buildOne calls the factory of a plugin, and Describe. A panic is an error.
func buildOne(ctx context.Context, name string, factory framework.PluginFactory, args json.RawMessage, handle *framework.Handle) (i Instance, err error) {
	failure := CallNamed(ctx, "the factory", func() string { return name }, func() *framework.Status {
		i.Plugin, err = factory(ctx, args, handle)
		switch value := reflect.ValueOf(i.Plugin); {
		case err != nil:
		case i.Plugin == nil || value.Kind() == reflect.Pointer && value.IsNil():
			err = fmt.Errorf("the factory of %s returned nil", name)
		case i.Name() != name:
			err = fmt.Errorf("its Name is %q", i.Name())
		}
		return nil
	})
	if describer, ok := i.Plugin.(framework.Describer); ok && err == nil && failure == nil {
		failure = Call(ctx, "Describe", i, func() *framework.Status {
			i.Traits = describer.Describe()
			err = i.Check()
			return nil
		})
	}
	return i, cmp.Or(err, failure.Err())
}

// pointOf reports whether a plugin implements an extension point.
var pointOf = map[config.Point]func(framework.Plugin) bool{
	config.QueueSort:  is[framework.QueueSortPlugin],
	config.PreEnqueue: is[framework.PreEnqueuePlugin],
	config.PreFilter:  is[framework.PreFilterPlugin],
	config.Filter:     is[framework.FilterPlugin],
	config.PostFilter: is[framework.PostFilterPlugin],
	config.PreScore:   is[framework.PreScorePlugin],
	config.Score:      is[framework.ScorePlugin],
	config.Reserve:    is[framework.ReservePlugin],
	config.Permit:     is[framework.PermitPlugin],
	config.Transition: is[framework.TransitionPlugin],
	config.PreBind:    is[framework.PreBindPlugin],
	config.Bind:       is[framework.BindPlugin],
	config.PostBind:   is[framework.PostBindPlugin],
}

func is[T framework.Plugin](plugin framework.Plugin) bool {
	_, ok := plugin.(T)
	return ok
}

func (i instances) implements(name string, at config.Point) bool { return pointOf[at](i[name].Plugin) }

// newProfile creates a profile. Each plugin implements the points at which it is listed.
func newProfile(name string, at map[config.Point][]config.Plugin, plugins instances) *Profile {
	p := &Profile{
		Name:       name,
		plugins:    plugins,
		QueueSort:  ordered[framework.QueueSortPlugin](at[config.QueueSort], plugins)[0],
		PreEnqueue: ordered[framework.PreEnqueuePlugin](at[config.PreEnqueue], plugins),
		PreFilter:  ordered[framework.PreFilterPlugin](at[config.PreFilter], plugins),
		Filter:     ordered[framework.FilterPlugin](at[config.Filter], plugins),
		PostFilter: ordered[framework.PostFilterPlugin](at[config.PostFilter], plugins),
		PreScore:   ordered[framework.PreScorePlugin](at[config.PreScore], plugins),
		Reserve:    ordered[framework.ReservePlugin](at[config.Reserve], plugins),
		Permit:     ordered[framework.PermitPlugin](at[config.Permit], plugins),
		Transition: ordered[framework.TransitionPlugin](at[config.Transition], plugins),
		PreBind:    ordered[framework.PreBindPlugin](at[config.PreBind], plugins),
		Bind:       ordered[framework.BindPlugin](at[config.Bind], plugins),
		PostBind:   ordered[framework.PostBindPlugin](at[config.PostBind], plugins),
	}
	for i, plugin := range ordered[framework.ScorePlugin](at[config.Score], plugins) {
		p.Score = append(p.Score, WeightedScore{plugin, *at[config.Score][i].Weight})
	}
	return p
}

func ordered[T framework.Plugin](names []config.Plugin, plugins instances) []T {
	list := make([]T, 0, len(names))
	for _, name := range names {
		list = append(list, plugins[name.Name].Plugin.(T))
	}
	return list
}

// ScorePlugin returns the Score plugin with a name; nil if the profile has none.
func (p *Profile) ScorePlugin(name string) framework.ScorePlugin {
	for _, s := range p.Score {
		if s.Name() == name {
			return s.ScorePlugin
		}
	}
	return nil
}

// Traits returns the Traits of the plugin with a name.
func (p *Profile) Traits(name string) framework.Traits { return p.plugins[name].Traits }

// Has reports whether a list has a plugin with a name.
func Has[T framework.Plugin](plugins []T, name string) bool {
	return slices.ContainsFunc(plugins, func(p T) bool { return p.Name() == name })
}

// Forget drops what the plugins keep for a Placement.
func (p *Profile) Forget(key types.NamespacedName) {
	for _, name := range slices.Sorted(maps.Keys(p.plugins)) {
		forget(p.plugins[name].Plugin, key)
	}
}

// ForgetPrepared drops what the Preparers keep for a Placement that does not use the profile any
// more: they may keep an old Snapshot.
func (p *Profile) ForgetPrepared(key types.NamespacedName) {
	for _, plugin := range p.PreFilter {
		_, prepares := plugin.(framework.Preparer)
		if prepares || p.Traits(plugin.Name()).PreparePolicy != nil {
			forget(plugin, key)
		}
	}
}

// forget calls Forget of a Forgetter.
func forget(plugin framework.Plugin, key types.NamespacedName) {
	if f, ok := plugin.(framework.Forgetter); ok {
		Call(context.Background(), "Forget", plugin, func() *framework.Status {
			f.Forget(key)
			return nil
		})
	}
}

// Counters returns the Reserve plugins that count over several attempts.
func (p *Profile) Counters() (all []Instance) {
	for _, plugin := range p.Reserve {
		if i := p.plugins[plugin.Name()]; i.Counts != nil {
			all = append(all, i)
		}
	}
	return all
}
