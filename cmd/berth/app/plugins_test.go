package app

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

type plugin struct{}

func (plugin) Name() string { return "Mine" }

func (plugin) PostBind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

func newPlugin(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
	return plugin{}, nil
}

func TestWithPlugin(t *testing.T) {
	const names = "apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\n" +
		"profiles: [{plugins: {multiPoint: {enabled: [{name: %s}]}}}]\n"
	fleet := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(fleet, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := WithPlugin("Mine", newPlugin)
	tests := map[string]struct {
		options []Option
		enabled string
		want    int
		// wantSaid is how the one line begins.
		wantSaid string
	}{
		"a plugin that the file enables": {
			options: []Option{mine}, enabled: "Mine", want: exitFailure, wantSaid: "berth: nothing to decide: the input has no Placement",
		},
		"a plugin that nobody has": {
			options: []Option{mine}, enabled: "Yours", want: exitFailure,
			wantSaid: "berth: config.yaml: profiles[0].plugins.multiPoint.enabled[0].name: Unsupported value: \"Yours\"",
		},
		"a name of the tree": {
			options: []Option{WithPlugin("Balance", newPlugin)}, enabled: "Balance", want: exitFailure,
			wantSaid: "berth: plugin \"Balance\" is registered twice",
		},
		"one name for two": {
			options: []Option{mine, mine}, enabled: "Mine", want: exitFailure,
			wantSaid: "berth: plugin \"Mine\" is registered twice",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("config.yaml", bytes.ReplaceAll([]byte(names), []byte("%s"), []byte(tc.enabled)), 0o600); err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			command := NewCommand(tc.options...)
			command.SetOut(&said)
			command.SetErr(&said)
			if got := Run(command, []string{"simulate", "-f", fleet, "--config", "config.yaml"}); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
			wantLines := min(len(tc.wantSaid), 1)
			if !strings.HasPrefix(said.String(), tc.wantSaid) || strings.Count(said.String(), "\n") != wantLines {
				t.Errorf("said %q, want %d lines that begin with %q", said.String(), wantLines, tc.wantSaid)
			}
		})
	}
}
