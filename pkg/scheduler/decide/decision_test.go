package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// excluding is a result of four clusters: PreFilter of F narrows them to a, b and c, that of G to a
// and b; Filter of G excludes b. H excludes none.
func excluding() *Decision {
	f := &plain{name: "F", filtered: map[string]*framework.Status{"d": framework.NewStatus(framework.Unschedulable, "not wanted")}}
	g, h := &plain{name: "G"}, &plain{name: "H"}
	r := &Decision{Profile: &plugins.Profile{Filter: []framework.FilterPlugin{f, g, h}}, State: framework.NewCycleState(nil)}
	clusters := &framework.Vector[*framework.Cluster]{}
	var all []*framework.Cluster
	for i, name := range []string{"d", "c", "b", "a"} {
		all = append(all, framework.NewCluster(fixture.Cluster(name).Obj(), i))
		clusters.Set(i, all[i])
		r.candidates = r.candidates.Set(i)
	}
	r.Snapshot = &framework.Snapshot{Fleet: &framework.Fleet{Clusters: clusters}, Subject: &framework.Subject{Placement: fixture.Placement("n", "p").Obj()}}
	r.narrowed = []narrowing{{plugin: "F", excluded: framework.Bitset{}.Set(0)}, {plugin: "G", excluded: framework.Bitset{}.Set(1)}}
	r.Feasible = all[3:]
	r.excluded = []exclusion{{all[2], framework.NewStatus(framework.Unschedulable, "full").WithPlugin("G")}}
	return r
}

func TestWhy(t *testing.T) {
	tests := map[string]struct {
		index                  int
		wantPlugin, wantReason string
	}{
		"narrowed, and Filter says why":     {index: 0, wantPlugin: "F", wantReason: "not wanted"},
		"narrowed, and Filter says nothing": {index: 1, wantPlugin: "G", wantReason: "not among the clusters that pass this plugin"},
		"filtered":                          {index: 2, wantPlugin: "G", wantReason: "full"},
		"feasible":                          {index: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			status := excluding().Why(t.Context(), tc.index)
			if status.Plugin() != tc.wantPlugin || status.Reason() != tc.wantReason || status.IsSuccess() != (tc.wantPlugin == "") {
				t.Errorf("got %s %q of %q", status.Code(), status.Reason(), status.Plugin())
			}
		})
	}
}

func TestFilterResults(t *testing.T) {
	r := excluding()
	if got := r.FilterResults(); got == nil || len(got) > 0 {
		t.Errorf("before the filters ran: %v", got)
	}
	r.filtered = true
	want := []FilterResult{{Name: "F", Clusters: []string{"a", "b", "c"}}, {Name: "F,G", Clusters: []string{"a"}}, {Name: "F,G,H", Clusters: []string{"a"}}}
	if diff := cmp.Diff(want, r.FilterResults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, r.CandidateNames()); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
	if got := r.Summary(); got != "of 4 candidates 1 excluded by F, 2 by G" {
		t.Errorf("got %q", got)
	}
}
