package prioritizers

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// TestReads: a change of an amount is no news for Placements that do not read it.
func TestReads(t *testing.T) {
	for name, tc := range map[string]struct {
		build func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error)
		want  framework.Reads
	}{
		"ResourceAllocatableCPU":    {NewResourceAllocatableCPU, framework.Reads{CPU: true}},
		"ResourceAllocatableMemory": {NewResourceAllocatableMemory, framework.Reads{Memory: true}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := tc.build(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if plugin.Name() != name {
				t.Errorf("named %s", plugin.Name())
			}
			if diff := cmp.Diff(tc.want, plugin.(framework.ClusterReader).Reads(nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
