package queueconfig

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/fixture"
)

// TestUnknownField: the error names what to write instead.
func TestUnknownField(t *testing.T) {
	for text, want := range map[string]string{
		"Partitions: []":                                                               "line 1: Partitions: unknown field: write partitions",
		fixture.Partition("queues: [{nam: a}]"):                                        ".nam: unknown field: write name",
		fixture.Partition("queues: [{name: a, clusterSets: prod}]"):                    ".clusterSets: unknown field: write properties: {clustersets: …}",
		fixture.Partition("queues: [{name: a, clusters: 3}]"):                          ".clusters: unknown field: write resources: {max: {clusters: …}}",
		fixture.Partition("queues: [{name: a, maxApplications: 3}]"):                   ".maxApplications: unknown field: write maxapplications",
		fixture.Partition("queues: [{name: a, resources: {capacity: {}}}]"):            ".capacity: unknown field; the fields are guaranteed, max",
		fixture.Partition("queues: []\nplacementrules: [{name: user, created: true}]"): ".created: unknown field: write create",
	} {
		if _, _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
