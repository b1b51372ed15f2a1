package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPartOf: what is published of a step from clusters a and b after one of its writes failed.
func TestPartOf(t *testing.T) {
	written := []framework.PageWrite{{}}
	for name, tc := range map[string]struct {
		step   framework.Proposal
		listed []string
		// want is nil if nothing came or left.
		want, wantAdded, wantRemoved, wantLeaves []string
		wantWhole                                bool
	}{
		"nothing":            {step: framework.Proposal{Clusters: []string{"b", "c"}, Writes: written}, listed: []string{"a", "b"}},
		"no write succeeded": {step: framework.Proposal{Clusters: []string{"b", "c"}}, listed: []string{"a", "b", "c"}},
		"an edit":            {step: framework.Proposal{Clusters: []string{"a", "b"}, Writes: written, Kind: framework.Republication}, listed: []string{"b"}},
		"another cluster":    {step: framework.Proposal{Clusters: []string{"b", "c"}, Writes: written}, listed: []string{"a", "b", "x"}},
		"one came": {
			step: framework.Proposal{Clusters: []string{"b", "c"}, Writes: written}, listed: []string{"a", "b", "c"},
			want: []string{"a", "b", "c"}, wantAdded: []string{"c"}, wantLeaves: []string{"a"},
		},
		"one left": {
			step: framework.Proposal{Clusters: []string{"b", "c"}, Writes: written}, listed: []string{"b"},
			want: []string{"b"}, wantRemoved: []string{"a"},
		},
		"one came and one left": {
			step: framework.Proposal{Clusters: []string{"c", "d"}, Writes: written}, listed: []string{"b", "c"},
			want: []string{"b", "c"}, wantAdded: []string{"c"}, wantRemoved: []string{"a"}, wantLeaves: []string{"b"},
		},
		"all of it": {step: framework.Proposal{Clusters: []string{"b", "c"}, Writes: written}, listed: []string{"b", "c"}, want: []string{"b", "c"}, wantWhole: true},
	} {
		t.Run(name, func(t *testing.T) {
			last := lastOf("a", "b")
			last.Scores = map[string]int64{"a": 1, "b": 2}
			a := planOf(decisionOn(last))
			a.Change = &Move{Proposal: &tc.step}
			for i, cluster := range tc.step.Clusters {
				tc.step.Selected = append(tc.step.Selected, framework.SelectedCluster{Cluster: framework.NewCluster(fixture.Cluster(cluster).Obj(), i), Score: 7})
			}
			p := a.PartOf(&tc.step, tc.listed)
			if p == nil || tc.want == nil {
				if p != nil || tc.want != nil {
					t.Errorf("got %v", p)
				}
				return
			}
			got := p.Publish
			if diff := cmp.Diff(tc.want, got.Clusters); diff != "" || got.Partial == tc.wantWhole || !tc.wantWhole && got.Digest != framework.DigestOf(tc.want) {
				t.Errorf("partial %t, digest %s, clusters (-want +got):\n%s", got.Partial, got.Digest, diff)
			}
			if diff := cmp.Diff([][]string{tc.wantAdded, tc.wantRemoved, tc.wantLeaves}, [][]string{got.Added, got.Removed, got.Leaves}); diff != "" {
				t.Errorf("added, removed and leaving (-want +got):\n%s", diff)
			}
			scores := map[string]int64{}
			for _, s := range got.Selected {
				scores[s.Cluster.Name] = s.Score
			}
			for _, cluster := range got.Clusters {
				want, leaves := last.Scores[cluster], len(got.Leaves) > 0 && got.Leaves[0] == cluster
				if !leaves {
					want = 7
				}
				if scores[cluster] != want || len(scores) != len(got.Clusters) {
					t.Errorf("scores %v, want %d for %s", scores, want, cluster)
				}
			}
		})
	}
}
