package app_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/cmd/berth/app"
)

// TestInvalidConfiguration demands that a mistake in the configuration is said before anything else
// is looked at: there is no hub here to connect to, and no input.
func TestInvalidConfiguration(t *testing.T) {
	const head = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\n"
	tests := map[string]struct{ file, want string }{
		"a field that there is not": {
			file: head + "parallelism: 3",
			want: "berth: conf.yaml: parallelism: Forbidden: unknown field\n",
		},
		"two mistakes": {
			file: head + "profiles: [{}, {}, {name: default}]",
			want: "berth: conf.yaml: profiles[1].name: Duplicate value: \"default\"\n  conf.yaml: profiles[2].name: Duplicate value: \"default\"\n",
		},
		"only its plugins know": {
			file: head + "profiles: [{pluginConfig: [{name: MaintenanceWindow, args: {window: 3}}]}]",
			want: "berth: conf.yaml: profiles[0].pluginConfig[0].args: decoding arguments: unknown field \"window\"; possible arguments: windows, additions, removals, approvable\n",
		},
		"no YAML": {file: "a: b: c", want: "berth: conf.yaml: yaml: mapping values are not allowed in this context\n"},
		"no file": {want: "berth: reading the configuration: open conf.yaml: no such file or directory\n"},
	}
	for name, tc := range tests {
		for command, args := range map[string][]string{"controller": nil, "simulate": {"-f", "nothing.yaml"}, "explain": {"demo"}} {
			t.Run(name+"/"+command, func(t *testing.T) {
				t.Chdir(t.TempDir())
				if tc.file != "" {
					if err := os.WriteFile("conf.yaml", []byte(tc.file), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				root := app.NewCommand()
				var stderr bytes.Buffer
				root.SetErr(&stderr)
				if code := app.Run(root, append([]string{command, "--config", "conf.yaml"}, args...)); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				if diff := cmp.Diff(tc.want, stderr.String()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}
