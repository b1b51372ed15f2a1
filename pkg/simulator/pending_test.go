package simulator

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPending: a simulation shows the changes that Permit would hold, the clusters last published,
// and the output of PostFilter.
func TestPending(t *testing.T) {
	tests := map[string]struct {
		placement   fixture.PlacementBuilder
		others      Objects
		args        string
		listed      []string
		want        []string
		wantPending string
		wantIntent  string
	}{
		"nothing holds it": {placement: fixture.Placement("ns", "p").Number(1), listed: []string{"c2", "c3"}, want: []string{"c2"}},
		"approval": {
			placement: fixture.Placement("ns", "p").Number(1), others: Objects{fixture.ApprovalPolicy("ns", "careful")},
			listed: []string{"c2", "c3"}, want: []string{"c2", "c3"}, wantPending: "DisruptionPolicy careful requires approval",
		},
		"a removal is decided at once": {
			placement: fixture.Placement("ns", "p").Number(1), args: `{"maxRemoved": 0, "minRemoved": 1}`,
			listed: []string{"c2", "c3"}, want: []string{"c2", "c3"}, wantPending: "more than 0",
		},
		"too few": {placement: fixture.Placement("ns", "p").Number(9), want: []string{"c1", "c2", "c3"}, wantIntent: "3 of 9 clusters fit, 6 missing"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := Objects{fixture.Set("s"), fixture.Binding("ns", "s")}
			for _, c := range []string{"c1", "c2", "c3"} {
				o = append(o, fixture.Cluster(c).Set("s").Obj())
			}
			o = append(append(o, tc.placement.Obj()), tc.others...)
			if tc.listed != nil {
				o = append(o, fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists(tc.listed...).Obj())
			}
			configuration := &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{Name: config.DefaultProfile}}}
			if tc.args != "" {
				configuration.Profiles[0].PluginConfig = []config.PluginConfig{{Name: "BlastRadius", Args: []byte(tc.args)}}
			}
			s, err := New(t.Context(), o, time.Unix(0, 0), Options{Config: configuration})
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Decide(t.Context(), s.Placements()[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, r.Decisions[0].Clusters); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
			if (r.Pending != nil) != (tc.wantPending != "") || r.Pending != nil && !strings.Contains(r.Pending.Message, tc.wantPending) {
				t.Errorf("pending %+v, want %q", r.Pending, tc.wantPending)
			}
			if len(r.Intents) > 0 != (tc.wantIntent != "") || tc.wantIntent != "" && !strings.Contains(r.Intents[0].Note, tc.wantIntent) {
				t.Errorf("intents %+v, want %q", r.Intents, tc.wantIntent)
			}
		})
	}
}
