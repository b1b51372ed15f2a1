package plugins_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

const configHead = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\nprofiles:\n"

// Plugins that only have a name and points.
type (
	bare      struct{ name string }
	sorter    struct{ bare }
	filter    struct{ bare }
	scorer    struct{ bare }
	publisher struct{ bare }
	// undescribed panics in Describe.
	undescribed struct{ bare }
)

func (b bare) Name() string { return b.name }

func (sorter) Less(a, b *v1alpha1.Placement) bool { return a.Name < b.Name }

func (filter) Filter(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) *framework.Status {
	return nil
}

func (scorer) Score(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (int64, *framework.Status) {
	return 0, nil
}

func (undescribed) Describe() framework.Traits { panic("boom") }

// partly is a plugin with Traits.
type partly struct {
	filter
	traits framework.Traits
}

func (p partly) Describe() framework.Traits { return p.traits }

func (publisher) Bind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

// stubs are the plugins of these tests and the defaults among them; built counts how often each
// factory was called.
func stubs(built map[string]int) (framework.Registry, config.Profile) {
	registry := framework.Registry{}
	add := func(plugin framework.Plugin) {
		registry[plugin.Name()] = func(_ context.Context, args json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
			built[plugin.Name()]++
			_, err := framework.DecodeArgs(args, struct {
				Size int `json:"size"`
			}{})
			return plugin, err
		}
	}
	for _, plugin := range []framework.Plugin{
		sorter{bare{"sort"}}, sorter{bare{"sort2"}}, filter{bare{"foo"}}, filter{bare{"bar"}}, scorer{bare{"cost"}}, publisher{bare{"publish"}}, bare{"bare"},
	} {
		add(plugin)
	}
	registry["misnamed"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return bare{"other"}, nil
	}
	registry["nil"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) { return nil, nil }
	registry["typedNil"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return (*bare)(nil), nil
	}
	registry["panicking"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) { panic("boom") }
	registry["undescribed"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return undescribed{bare{"undescribed"}}, nil
	}
	for name, traits := range map[string]framework.Traits{
		"halfCounts":   {Counter: framework.Counter{Recount: func([]*berthv1alpha1.PlacementChange) {}}},
		"halfPrepares": {PreparePolicy: func(*berthv1alpha1.SelectionPolicy, func() bool) bool { return true }},
	} {
		registry[name] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return partly{filter{bare{name}}, traits}, nil
		}
	}
	registry["failing"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return nil, errors.New("broken")
	}
	return registry, config.Profile{Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{
		{Name: "sort"}, {Name: "foo"}, {Name: "cost", Weight: new(int32(0))}, {Name: "publish"},
	}}}}
}

func newProfiles(file string, built map[string]int) (map[string]*plugins.Profile, error) {
	c, err := config.Load([]byte(file))
	if err != nil {
		return nil, err
	}
	registry, defaults := stubs(built)
	return plugins.NewProfiles(context.Background(), c, defaults, registry, nil)
}

func TestNewProfiles(t *testing.T) {
	tests := map[string]struct {
		file string
		// want is what runs, by profile; wantBuilt how often each plugin was built.
		want      map[string]string
		wantBuilt map[string]int
	}{
		"no profile: the built-in one": {
			file:      configHead,
			want:      map[string]string{"default": "sort | foo | cost=0 | publish"},
			wantBuilt: map[string]int{"sort": 1, "foo": 1, "cost": 1, "publish": 1},
		},
		"another profile, and the built-in one beside it": {
			file: configHead + "- {name: cheap, plugins: {score: {enabled: [{name: cost, weight: -3}]}, multiPoint: {disabled: [{name: foo}]}}}",
			want: map[string]string{"default": "sort | foo | cost=0 | publish", "cheap": "sort |  | cost=-3 | publish"},
			// Nothing is built for a profile that does not use it.
			wantBuilt: map[string]int{"sort": 2, "foo": 1, "cost": 2, "publish": 2},
		},
		"the default one, changed": {
			file:      configHead + "- {plugins: {filter: {enabled: [{name: bar}, {name: foo}], disabled: [{name: foo}]}}, pluginConfig: [{name: bar, args: {size: 3}}]}",
			want:      map[string]string{"default": "sort | bar foo | cost=0 | publish"},
			wantBuilt: map[string]int{"sort": 1, "foo": 1, "bar": 1, "cost": 1, "publish": 1},
		},
		"another order of the queue, in all profiles": {
			file: configHead + "- {plugins: &p {queueSort: {enabled: [{name: sort2}], disabled: [{name: '*'}]}}, pluginConfig: [{name: sort2, args: {size: 1}}]}\n" +
				"- {name: b, plugins: *p, pluginConfig: [{name: sort2, args: { 'size' : 1 }}]}",
			want:      map[string]string{"default": "sort2 | foo | cost=0 | publish", "b": "sort2 | foo | cost=0 | publish"},
			wantBuilt: map[string]int{"sort": 2, "sort2": 2, "foo": 2, "cost": 2, "publish": 2},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			built := map[string]int{}
			profiles, err := newProfiles(tc.file, built)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for name, p := range profiles {
				got[name] = strings.Join([]string{p.QueueSort.Name(), names(p.Filter), weights(p.Score), names(p.Bind)}, " | ")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("what runs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantBuilt, built); diff != "" {
				t.Errorf("what was built (-want +got):\n%s", diff)
			}
		})
	}
}

func names[T framework.Plugin](plugins []T) string {
	var all []string
	for _, p := range plugins {
		all = append(all, p.Name())
	}
	return strings.Join(all, " ")
}

func weights(scores []plugins.WeightedScore) string {
	var all []string
	for _, s := range scores {
		all = append(all, fmt.Sprintf("%s=%d", s.Name(), s.Weight))
	}
	return strings.Join(all, " ")
}

// TestDefaultProfile writes down what runs when nothing is configured.
func TestDefaultProfile(t *testing.T) {
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(maps.Keys(profiles)); !slices.Equal(got, []string{v1alpha1.DefaultProfile}) {
		t.Fatalf("profiles %q", got)
	}
	p := profiles[v1alpha1.DefaultProfile]
	if got := p.QueueSort.Name(); got != "PrioritySort" {
		t.Errorf("queueSort: %s", got)
	}
	for _, tc := range []struct{ point, want, got string }{
		{"filter", "Predicate TaintToleration SelectionPolicy PlacementAffinity ResourceFit Eviction", names(p.Filter)},
		{"score", "Balance=1 Steady=1 ResourceAllocatableCPU=0 ResourceAllocatableMemory=0 AddOn=0 Preference=0", weights(p.Score)},
		{"bind", "DecisionPublisher", names(p.Bind)},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %s, want %s", tc.point, tc.got, tc.want)
		}
	}
}

func TestNewProfilesRefuses(t *testing.T) {
	const known = `supported values: "bar", "bare", "cost", "failing", "foo", "halfCounts", "halfPrepares", "misnamed", "nil", "panicking", "publish", "sort", "sort2", "typedNil", "undescribed"`
	tests := map[string]struct{ file, want string }{
		"names of no plugin": {
			file: "- {plugins: {filter: {enabled: [{name: foo}, {name: baz}]}, multiPoint: {disabled: [{name: qux}]}}, pluginConfig: [{name: quux}]}",
			want: `profiles[0].plugins.multiPoint.disabled[0].name: Unsupported value: "qux": ` + known + "\n" +
				`profiles[0].plugins.filter.enabled[1].name: Unsupported value: "baz": ` + known + "\n" +
				`profiles[0].pluginConfig[0].name: Unsupported value: "quux": ` + known,
		},
		"arguments for a plugin of another profile": {
			file: "- {plugins: {filter: {enabled: [{name: bar}]}}}\n- {name: b, pluginConfig: [{name: bar}]}",
			want: `profiles[1].pluginConfig[0].name: Invalid value: "bar": is not used in this profile`,
		},
		"arguments for a plugin that runs at no point": {
			file: "- {plugins: {filter: {disabled: [{name: '*'}]}}, pluginConfig: [{name: foo}]}",
			want: `profiles[0].pluginConfig[0].name: Invalid value: "foo": is not used in this profile`,
		},
		"arguments that the plugin refuses": {
			file: "- {}\n- {name: b, pluginConfig: [{name: sort}, {name: foo, args: {length: 3}}]}",
			want: `profiles[1].pluginConfig[1].args: decoding arguments: unknown field "length"; possible arguments: size`,
		},
		"plugins that cannot be built": {
			file: "- {plugins: {filter: {enabled: [{name: failing}, {name: misnamed}]}}}",
			want: "profiles[0]: building plugin failing: broken\nprofiles[0]: building plugin misnamed: its Name is \"other\"",
		},
		"factories without a result": {
			file: "- {plugins: {filter: {enabled: [{name: nil}, {name: typedNil}, {name: panicking}, {name: undescribed}]}}, pluginConfig: [{name: nil, args: {a: b}}]}",
			want: "profiles[0].pluginConfig[0].args: the factory of nil returned nil\nprofiles[0]: building plugin typedNil: the factory of typedNil returned nil\n" +
				"profiles[0]: building plugin panicking: panicking: panic in the factory: boom\n" +
				"profiles[0]: building plugin undescribed: undescribed: panic in Describe: boom",
		},
		"plugins with only a part of what belongs together": {
			file: "- {plugins: {filter: {enabled: [{name: halfCounts}, {name: halfPrepares}]}}}",
			want: "profiles[0]: building plugin halfCounts: its Describe returned only some functions of Counter\n" +
				"profiles[0]: building plugin halfPrepares: its Describe returned only one of PolicyPrepared and PreparePolicy",
		},
		"plugins of two profiles that cannot be built": {
			file: "- {plugins: {filter: {enabled: [{name: failing}]}}}\n- {name: b, plugins: {filter: {enabled: [{name: misnamed}]}}}",
			want: "profiles[0]: building plugin failing: broken\nprofiles[1]: building plugin misnamed: its Name is \"other\"",
		},
		"plugins of two profiles that lack the point": {
			file: "- {plugins: {filter: {enabled: [{name: cost}]}}}\n- {name: b, plugins: {bind: {enabled: [{name: foo}]}}}",
			want: `profiles[0].plugins.filter.enabled[0].name: Invalid value: "cost": does not implement filter, only score` + "\n" +
				`profiles[1].plugins.bind.enabled[0].name: Invalid value: "foo": does not implement bind, only filter`,
		},
		"plugins that lack the point": {
			file: "- {plugins: {multiPoint: {enabled: [{name: bare}]}, filter: {enabled: [{name: cost}]}, bind: {enabled: [{name: foo}]}}}",
			want: `profiles[0].plugins.multiPoint.enabled[0].name: Invalid value: "bare": implements no extension point` + "\n" +
				`profiles[0].plugins.filter.enabled[0].name: Invalid value: "cost": does not implement filter, only score` + "\n" +
				`profiles[0].plugins.bind.enabled[0].name: Invalid value: "foo": does not implement bind, only filter`,
		},
		"a weight for what does not score": {
			file: "- {plugins: {multiPoint: {enabled: [{name: bar, weight: 2}]}}}",
			want: "profiles[0].plugins.multiPoint.enabled[0].weight: Forbidden: bar does not score",
		},
		"two orders of the queue": {
			file: "- {plugins: {queueSort: {enabled: [{name: sort2}]}}}",
			want: `profiles[0].plugins.queueSort: Invalid value: "sort, sort2": exactly one plugin must order the queue: enable one and disable the others`,
		},
		"no order of the queue, and nobody publishes": {
			file: "- {plugins: {multiPoint: {disabled: [{name: '*'}]}}}",
			want: `profiles[0].plugins.queueSort: Invalid value: "": exactly one plugin must order the queue: enable one and disable the others` + "\n" +
				"profiles[0].plugins.bind: Required value: at least one plugin must publish decisions",
		},
		"another order of the queue than in the built-in profile": {
			file: "- {name: b, plugins: {queueSort: {enabled: [{name: sort2}], disabled: [{name: sort}]}}}",
			want: `profiles[0].plugins.queueSort: Invalid value: "sort2": all profiles share one queue, which sort orders in built-in profile`,
		},
		"another order of the queue than in the default profile": {
			file: "- {}\n- {name: b, plugins: {queueSort: {enabled: [{name: sort2}], disabled: [{name: sort}]}}}",
			want: `profiles[1].plugins.queueSort: Invalid value: "sort2": all profiles share one queue, which sort orders in profiles[0]`,
		},
		"other arguments for the order of the queue": {
			file: "- {name: b, pluginConfig: [{name: sort, args: {size: 1}}]}\n- {pluginConfig: [{name: sort, args: {size: 2}}]}",
			want: `profiles[0].pluginConfig: Invalid value: "sort": all profiles share one queue, and its plugin has other arguments in profiles[1]`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newProfiles(configHead+tc.file, map[string]int{})
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
