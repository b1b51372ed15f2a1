package builtin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TestArguments: each plugin is built under its name, and refuses arguments that it does not have.
func TestArguments(t *testing.T) {
	withArguments := []string{"ArgoCDRefresh", "BlastRadius", "DecisionPublisher", "MaintenanceWindow", "Resilience", "Stabilization"}
	for name, factory := range Registry() {
		t.Run(name, func(t *testing.T) {
			build := func(args string) (framework.Plugin, error) {
				return factory(t.Context(), json.RawMessage(args), &framework.Handle{})
			}
			if p, err := build(""); err != nil || p.Name() != name {
				t.Errorf("without arguments: got %v, %v", p, err)
			}
			want := `unknown field "x"`
			if !slices.Contains(withArguments, name) {
				want += "; possible arguments: none"
				if p, err := build("{}"); err != nil || p.Name() != name {
					t.Errorf("with none: got %v, %v", p, err)
				}
			}
			if _, err := build(`{"x": 1}`); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("with an unknown one: got %v", err)
			}
			if _, err := build("{"); err == nil {
				t.Error("what is not JSON was accepted")
			}
		})
	}
}
