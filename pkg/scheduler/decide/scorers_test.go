package decide

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// reader is a plugin that says what it reads.
type reader struct {
	plain
	reads framework.Reads
}

func (r *reader) Reads(*v1alpha1.Placement) framework.Reads { return r.reads }

// coordinated is its plugin for each coordinate.
type coordinated struct{ *reader }

func (c coordinated) Describe() framework.Traits {
	return framework.Traits{ForAddOn: func(v1alpha1.AddOnScore) framework.ScorePlugin { return c.reader }}
}

func (c coordinated) Less(*v1alpha1.Placement, *v1alpha1.Placement) bool { return false }

func (c coordinated) Bind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return nil
}

// addOnProfile is a profile whose only Score plugin is that of coordinates, with weight 0.
func addOnProfile(t *testing.T, plugin *reader) *plugins.Profile {
	t.Helper()
	at := func(weight *int32) config.PluginSet {
		return config.PluginSet{Enabled: []config.Plugin{{Name: plugin.name, Weight: weight}}}
	}
	registry := framework.Registry{plugin.name: func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return coordinated{plugin}, nil
	}}
	defaults := config.Profile{Plugins: config.Plugins{QueueSort: at(nil), Score: at(new(int32(0))), Bind: at(nil)}}
	profiles, err := plugins.NewProfiles(t.Context(), nil, defaults, registry, &framework.Handle{})
	if err != nil {
		t.Fatal(err)
	}
	return profiles[config.DefaultProfile]
}

func TestReads(t *testing.T) {
	of := func(reads framework.Reads) *reader { return &reader{plain{name: "R"}, reads} }
	labels, claims := of(framework.Reads{Labels: []string{"a"}, CPU: true}), of(framework.Reads{Labels: []string{"b"}, Claims: []string{"c"}, Memory: true})
	scored := &reader{plain{name: "S"}, framework.Reads{Scores: []string{"s"}}}
	addOn := &reader{plain{name: "AddOn"}, framework.Reads{Scores: []string{"t"}}}
	everything := &plain{name: "P"}
	tests := map[string]struct {
		profile   plugins.Profile
		placement *v1alpha1.Placement
		want      framework.Reads
	}{
		"no plugins":           {},
		"a PreFilter plugin":   {profile: plugins.Profile{PreFilter: []framework.PreFilterPlugin{labels}}, want: labels.reads},
		"a Filter plugin":      {profile: plugins.Profile{Filter: []framework.FilterPlugin{claims}}, want: claims.reads},
		"a Score plugin":       {profile: plugins.Profile{Score: []plugins.WeightedScore{{ScorePlugin: scored, Weight: 1}}}, want: scored.reads},
		"one of no weight":     {profile: plugins.Profile{Score: []plugins.WeightedScore{{ScorePlugin: scored, Weight: 0}}}},
		"one that says naught": {profile: plugins.Profile{Filter: []framework.FilterPlugin{everything}}, want: framework.Reads{Everything: true}},
		"all together": {
			profile: plugins.Profile{
				PreFilter: []framework.PreFilterPlugin{labels}, Filter: []framework.FilterPlugin{claims, everything}, Score: []plugins.WeightedScore{{ScorePlugin: scored, Weight: 1}},
			},
			want: framework.Reads{Labels: []string{"a", "b"}, Claims: []string{"c"}, Scores: []string{"s"}, CPU: true, Memory: true, Everything: true},
		},
		"an AddOn, which the spec lists": {
			profile: *addOnProfile(t, addOn), placement: fixture.Placement("n", "p").AddOn("r", "v", 1).Obj(),
		},
		"a misconfigured policy": {
			profile: plugins.Profile{Filter: []framework.FilterPlugin{claims}, Score: []plugins.WeightedScore{{ScorePlugin: scored, Weight: 1}}}, want: claims.reads,
			placement: fixture.Placement("n", "p").Mode("Fuzzy").Obj(),
		},
		"an unknown profile": {
			profile: plugins.Profile{Filter: []framework.FilterPlugin{claims}}, placement: fixture.Placement("n", "p").Annotation(v1alpha1.ProfileAnnotation, "x").Obj(),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.placement == nil {
				tc.placement = fixture.Placement("n", "p").Obj()
			}
			got := (&Decider{Profiles: map[string]*plugins.Profile{"default": &tc.profile}}).Reads(tc.placement)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
