package config

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestLoad(t *testing.T) {
	const head = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\n"
	of := func(profiles ...Profile) *PlacementSchedulerConfiguration {
		return &PlacementSchedulerConfiguration{APIVersion: APIVersion, Kind: Kind, Profiles: profiles}
	}
	tests := map[string]struct {
		file string
		want *PlacementSchedulerConfiguration
	}{
		"nothing said":                      {file: head, want: of()},
		"null is nothing said":              {file: head + "profiles: null", want: of()},
		"no name is the default":            {file: head + "profiles: [{}, {name: careful}]", want: of(Profile{Name: "default"}, Profile{Name: "careful"})},
		"a byte order mark and empty parts": {file: "\xef\xbb\xbf" + head + "profiles:\n- {plugins: null, pluginConfig: []}", want: of(Profile{Name: "default", PluginConfig: []PluginConfig{}})},
		"arguments may be null, which is none": {file: head + "profiles: [{pluginConfig: [{name: A, args: null}]}]",
			want: of(Profile{Name: "default", PluginConfig: []PluginConfig{{Name: "A"}}})},
		"arguments are whatever the plugin takes": {file: head + "profiles: [{pluginConfig: [{name: A, args: some text}, {name: B, args: {X: 1, x: 2}}]}]",
			want: of(Profile{Name: "default", PluginConfig: []PluginConfig{
				{Name: "A", Args: json.RawMessage(`"some text"`)}, {Name: "B", Args: json.RawMessage(`{"X":1,"x":2}`)}}})},
		"YAML's anchors": {file: head + "profiles:\n- plugins: {filter: &f {disabled: [{name: A}]}, score: *f}",
			want: of(Profile{Name: "default", Plugins: Plugins{Filter: off("A"), Score: off("A")}})},
		"JSON, indented with tabs": {file: "{\n\t\"apiVersion\": \"config.berth.dev/v1alpha1\",\n\t\"kind\": \"PlacementSchedulerConfiguration\",\n\t\"profiles\": [{\"plugins\": " +
			"{\"score\": {\"enabled\": [{\"name\": \"A\", \"weight\": -10}, {\"name\": \"B\", \"weight\": 0}, {\"name\": \"C\", \"weight\": null}]}}}]\n}",
			want: of(Profile{Name: "default", Plugins: Plugins{Score: on("A=-10", "B=0", "C")}})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Load([]byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoadRefuses reads testdata/mistakes.yaml, which the test of the JSON schema reads, too.
func TestLoadRefuses(t *testing.T) {
	text, err := os.ReadFile("testdata/mistakes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct {
		Name, File, Want string
		Schema           *bool
	}
	if err := yaml.UnmarshalStrict(text, &tests); err != nil {
		t.Fatal(err)
	}
	for _, tc := range tests {
		t.Run(tc.Name, func(t *testing.T) {
			_, err := Load([]byte(tc.File))
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tc.Want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
