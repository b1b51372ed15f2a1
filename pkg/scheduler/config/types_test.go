package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTimeout(t *testing.T) {
	tests := map[string]struct {
		c    *PlacementSchedulerConfiguration
		want time.Duration
	}{
		"no file":    {want: 100 * time.Millisecond},
		"none given": {c: &PlacementSchedulerConfiguration{}, want: 100 * time.Millisecond},
		"given":      {c: &PlacementSchedulerConfiguration{CycleTimeout: &metav1.Duration{Duration: time.Second}}, want: time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.c.Timeout(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestLoadCycleTimeout(t *testing.T) {
	tests := map[string]struct {
		text    string
		want    time.Duration
		refused bool
	}{
		"the least":       {text: "10ms", want: 10 * time.Millisecond},
		"less":            {text: "9999us", refused: true},
		"the most":        {text: "1m", want: time.Minute},
		"more":            {text: "60001ms", refused: true},
		"a number":        {text: "1", refused: true},
		"no duration":     {text: "soon", refused: true},
		"nothing said":    {text: "null", want: 100 * time.Millisecond},
		"in between":      {text: "250ms", want: 250 * time.Millisecond},
		"less than never": {text: "-1s", refused: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := Load([]byte("apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\ncycleTimeout: " + tc.text))
			if tc.refused {
				if want := "must be a duration from 10ms to 1m0s, for example 100ms"; err == nil || !strings.HasPrefix(err.Error(), "cycleTimeout: ") || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || c.Timeout() != tc.want {
				t.Errorf("got %v, %v", c, err)
			}
		})
	}
}

func TestNamedPlugins(t *testing.T) {
	c := &PlacementSchedulerConfiguration{Profiles: []Profile{
		{PluginConfig: []PluginConfig{{Name: "D"}, {Name: "B"}}, Plugins: Plugins{MultiPoint: on("C"), Score: on("A", "C"), Filter: off("E")}},
		{Plugins: Plugins{PostBind: on("F", "A")}},
	}}
	if diff := cmp.Diff([]string{"A", "B", "C", "D", "F"}, c.NamedPlugins()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c = nil
	if got := c.NamedPlugins(); got != nil {
		t.Errorf("without a file: %v", got)
	}
}

func TestMergedArguments(t *testing.T) {
	m := &Merged{
		at:      field.NewPath("profiles").Index(1),
		Profile: Profile{PluginConfig: []PluginConfig{{Name: "A", Args: []byte("1")}, {Name: "B", Args: []byte("2")}}},
		file:    Profile{PluginConfig: []PluginConfig{{Name: "C"}, {Name: "B", Args: []byte("2")}}},
	}
	failure := errors.New("broken")
	tests := map[string]struct{ name, want, wantErr string }{
		"of the defaults":   {name: "A", want: "1", wantErr: "profiles[1]: building plugin A: broken"},
		"of the file":       {name: "B", want: "2", wantErr: "profiles[1].pluginConfig[1].args: broken"},
		"none in the file":  {name: "C", wantErr: "profiles[1]: building plugin C: broken"},
		"of another plugin": {name: "D", wantErr: "profiles[1]: building plugin D: broken"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(m.Args(tc.name)); got != tc.want {
				t.Errorf("arguments %q, want %q", got, tc.want)
			}
			if err := m.BuildError(tc.name, failure); !errors.Is(err, failure) || err.Error() != tc.wantErr {
				t.Errorf("got %v, want %s", err, tc.wantErr)
			}
		})
	}
}

func TestCheckOneQueue(t *testing.T) {
	profile := func(i int, name, args string) Merged {
		m := Merged{Profile: Profile{Name: name}, at: profileAt(i)}
		if args != "" {
			m.PluginConfig = []PluginConfig{{Name: "Sort", Args: []byte(args)}}
		}
		return m
	}
	by := func(names ...string) (resolved []map[Point][]Plugin) {
		for _, name := range names {
			resolved = append(resolved, map[Point][]Plugin{QueueSort: {{Name: name}}})
		}
		return resolved
	}
	tests := map[string]struct {
		all      []Merged
		resolved []map[Point][]Plugin
		want     string
	}{
		"one profile":       {all: []Merged{profile(0, "default", "")}, resolved: by("Sort")},
		"the same":          {all: []Merged{profile(0, "a", `{"x": 1}`), profile(1, "default", `{"x":1}`)}, resolved: by("Sort", "Sort")},
		"another plugin":    {all: []Merged{profile(0, "a", ""), profile(1, "default", "")}, resolved: by("Other", "Sort"), want: `profiles[0].plugins.queueSort: Invalid value: "Other": all profiles share one queue, which Sort orders in profiles[1]`},
		"other arguments":   {all: []Merged{profile(0, "default", `{"x":1}`), profile(1, "a", `{"x":2}`)}, resolved: by("Sort", "Sort"), want: `profiles[1].pluginConfig: Invalid value: "Sort": all profiles share one queue, and its plugin has other arguments in profiles[0]`},
		"arguments of one":  {all: []Merged{profile(0, "default", ""), profile(1, "a", `{"x":2}`)}, resolved: by("Sort", "Sort"), want: `profiles[1].pluginConfig: Invalid value: "Sort": all profiles share one queue, and its plugin has other arguments in profiles[0]`},
		"arguments of none": {all: []Merged{profile(0, "default", `null`), profile(1, "a", `null`)}, resolved: by("Sort", "Sort")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := CheckOneQueue(tc.all, tc.resolved); tc.want == "" && got != nil || tc.want != "" && (got == nil || got.Error() != tc.want) {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

// TestResolveRefuses: what the plugins of a profile cannot do.
func TestResolveRefuses(t *testing.T) {
	points := map[string][]Point{"Sort": {QueueSort}, "Bind": {Bind}, "F": {Filter, Score}, "G": {Filter, PostFilter}, "Nothing": nil, "Sort2": {QueueSort}}
	implements := func(name string, point Point) bool { return slices.Contains(points[name], point) }
	base := on("Sort", "Bind")
	tests := map[string]struct {
		profile Profile
		want    []string
	}{
		"all is well":                 {profile: Profile{Plugins: Plugins{MultiPoint: base, Score: on("F=3")}, PluginConfig: []PluginConfig{{Name: "F"}}}},
		"a weight of what scores":     {profile: Profile{Plugins: Plugins{MultiPoint: on("Sort", "Bind", "F=3")}}},
		"no point":                    {profile: Profile{Plugins: Plugins{MultiPoint: base, Filter: on("Nothing")}}, want: []string{`profiles[2].plugins.filter.enabled[0].name: Invalid value: "Nothing": implements no extension point`}},
		"another point":               {profile: Profile{Plugins: Plugins{MultiPoint: base, Score: on("G")}}, want: []string{`profiles[2].plugins.score.enabled[0].name: Invalid value: "G": does not implement score, only filter, postFilter`}},
		"a weight where none counts":  {profile: Profile{Plugins: Plugins{MultiPoint: on("Sort", "Bind", "G=2")}}, want: []string{`profiles[2].plugins.multiPoint.enabled[2].weight: Forbidden: G does not score`}},
		"arguments of what runs not":  {profile: Profile{Plugins: Plugins{MultiPoint: base}, PluginConfig: []PluginConfig{{Name: "F"}}}, want: []string{`profiles[2].pluginConfig[0].name: Invalid value: "F": is not used in this profile`}},
		"two that sort":               {profile: Profile{Plugins: Plugins{MultiPoint: on("Sort", "Bind", "Sort2")}}, want: []string{`profiles[2].plugins.queueSort: Invalid value: "Sort, Sort2": exactly one plugin must order the queue: enable one and disable the others`}},
		"none that sorts":             {profile: Profile{Plugins: Plugins{MultiPoint: on("Bind")}}, want: []string{`profiles[2].plugins.queueSort: Invalid value: "": exactly one plugin must order the queue: enable one and disable the others`}},
		"none that publishes":         {profile: Profile{Plugins: Plugins{MultiPoint: on("Sort")}}, want: []string{`profiles[2].plugins.bind: Required value: at least one plugin must publish decisions`}},
		"mistakes in more than one":   {profile: Profile{Plugins: Plugins{MultiPoint: base, Filter: on("Nothing"), Score: on("G")}}, want: []string{"implements no extension point", "does not implement score"}},
		"a plugin that runs at a few": {profile: Profile{Plugins: Plugins{MultiPoint: base, Filter: on("G")}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := Merged{Profile: tc.profile, at: profileAt(2), file: tc.profile}
			_, err := m.Resolve(implements)
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if len(tc.want) == 1 && err.Error() != tc.want[0] {
				t.Errorf("got %v, want only %s", err, tc.want[0])
			}
		})
	}
}

// TestMergeAllRefuses: names of no plugin, and arguments for one that the profile does not name.
func TestMergeAllRefuses(t *testing.T) {
	tests := map[string]struct {
		profile Profile
		want    string
	}{
		"known plugins":         {profile: Profile{Plugins: Plugins{Filter: on("A"), Score: off("B")}, PluginConfig: []PluginConfig{{Name: "A"}}}},
		"all defaults":          {profile: Profile{Plugins: Plugins{Filter: off("*")}}},
		"an unknown one":        {profile: Profile{Plugins: Plugins{Filter: on("X")}}, want: `profiles[0].plugins.filter.enabled[0].name: Unsupported value: "X": supported values: "A", "B"`},
		"one to disable":        {profile: Profile{Plugins: Plugins{Score: off("X")}}, want: `profiles[0].plugins.score.disabled[0].name: Unsupported value: "X": supported values: "A", "B"`},
		"arguments of no name":  {profile: Profile{PluginConfig: []PluginConfig{{Name: "X"}}}, want: `profiles[0].pluginConfig[0].name: Unsupported value: "X": supported values: "A", "B"`},
		"arguments of one left": {profile: Profile{PluginConfig: []PluginConfig{{Name: "B"}}}, want: `profiles[0].pluginConfig[0].name: Invalid value: "B": is not used in this profile`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.profile.Name = "p"
			all, err := MergeAll(&PlacementSchedulerConfiguration{Profiles: []Profile{tc.profile}}, Profile{}, []string{"A", "B"})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || err.Error() != tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if len(all) != 2 || all[0].Name != "p" || all[1].Name != "default" {
				t.Errorf("merged: %v", all)
			}
		})
	}
	all, err := MergeAll(nil, Profile{}, nil)
	if err != nil || len(all) != 1 || all[0].Name != "default" || all[0].at.String() != "built-in profile" {
		t.Errorf("without a file: %v, %v", all, err)
	}
}
