package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// recorder is a plugin at every point from Reserve on; it records its calls and answers as
// configured ("Reserve", "Bind" and so on).
type recorder struct {
	name    string
	calls   *[]string
	answers map[string]*framework.Status
}

func (r *recorder) Name() string { return r.name }

func (r *recorder) call(point string) *framework.Status {
	*r.calls = append(*r.calls, point+" "+r.name)
	return r.answers[point]
}

func (r *recorder) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return r.call("Reserve")
}

func (r *recorder) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
	r.call("Unreserve")
}

func (r *recorder) Permit(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) (*framework.Status, time.Duration) {
	return r.call("Permit"), time.Minute
}

func (r *recorder) PreBind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return r.call("PreBind")
}

func (r *recorder) Bind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return r.call("Bind")
}

func (r *recorder) PostBind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
	r.call("PostBind")
}

func TestPublish(t *testing.T) {
	skip, refuse := framework.NewStatus(framework.Skip, ""), framework.NewStatus(framework.Unschedulable, "no")
	wait, broken := framework.NewStatus(framework.Wait, ""), framework.AsStatus(errors.New("broken"))
	const unreserve = "Unreserve b, Unreserve a"
	// Nothing was published before: one empty page marks the Placement as seen.
	const empty = ", Bind a"
	const full = "Reserve a, Reserve b, Permit a, Permit b, PreBind a, PreBind b, "
	tests := map[string]struct {
		a, b      map[string]*framework.Status
		unchanged bool
		want      string
		wantErr   string
		// wantPending is what the condition's message ends in.
		wantPending string
		wantHeld    map[string]time.Time
	}{
		"the first Bind that does not pass publishes": {want: full + "Bind a, PostBind a, PostBind b"},
		"Bind passes on":               {a: map[string]*framework.Status{"Bind": skip}, want: full + "Bind a, Bind b, PostBind a, PostBind b"},
		"all pass":                     {a: map[string]*framework.Status{"Bind": skip}, b: map[string]*framework.Status{"Bind": skip}, want: full + "Bind a, Bind b, " + unreserve, wantErr: "no Bind plugin publishes this Placement"},
		"Bind fails":                   {a: map[string]*framework.Status{"Bind": broken}, want: full + "Bind a, " + unreserve, wantErr: "a: broken"},
		"PreBind fails":                {a: map[string]*framework.Status{"PreBind": broken}, want: "Reserve a, Reserve b, Permit a, Permit b, PreBind a, " + unreserve, wantErr: "a: broken"},
		"Reserve fails, all unreserve": {a: map[string]*framework.Status{"Reserve": refuse}, want: "Reserve a, " + unreserve + empty, wantPending: "a: no"},
		"Permit refuses":               {a: map[string]*framework.Status{"Permit": refuse}, want: "Reserve a, Reserve b, Permit a, " + unreserve + empty, wantPending: "a: no"},
		"Permit holds, the others are asked": {a: map[string]*framework.Status{"Permit": wait}, b: map[string]*framework.Status{"Permit": wait},
			want: "Reserve a, Reserve b, Permit a, Permit b, Permit a, Permit b" + empty, wantPending: "b:  (expires 2026-08-01T12:01:00Z)",
			wantHeld: map[string]time.Time{"a": fixture.Now.Add(time.Minute), "b": fixture.Now.Add(time.Minute)}},
		"a refusal beats a hold": {a: map[string]*framework.Status{"Permit": wait}, b: map[string]*framework.Status{"Permit": refuse},
			want: "Reserve a, Reserve b, Permit a, Permit b, " + unreserve + empty, wantPending: "b: no"},
		"what changes no cluster needs no leave": {unchanged: true, a: map[string]*framework.Status{"Permit": refuse},
			want: "PreBind a, PreBind b, Bind a, PostBind a, PostBind b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			var calls []string
			registry := framework.Registry{lifecycle.PrioritySortName: builtin.Registry()[lifecycle.PrioritySortName]}
			enabled := []config.Plugin{{Name: lifecycle.PrioritySortName}}
			for _, p := range []*recorder{{"a", &calls, tc.a}, {"b", &calls, tc.b}} {
				registry[p.name] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) { return p, nil }
				enabled = append(enabled, config.Plugin{Name: p.name})
			}
			defaults := config.Profile{Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: enabled}}}
			profiles, err := plugins.NewProfiles(ctx, nil, defaults, registry, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := scheduler.New(profiles, scheduler.NewMemory())
			inv := fleet(ask(), fixture.Cluster("c1"))
			if tc.unchanged {
				inv.Update(fixture.Page("ns", "p-decision-1").Of("p").Lists("c1").Obj())
			}
			a := s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
			failure := a.Err
			if diff := cmp.Diff(tc.want, strings.Join(calls, ", ")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if failure.Reason() != "" && failure.Err().Error() != tc.wantErr || tc.wantErr != "" && failure.IsSuccess() {
				t.Errorf("failed with %v, want %q", failure.Err(), tc.wantErr)
			}
			var deadlines map[string]time.Time
			if a.Outcome == plan.Held {
				deadlines = untilOf(a.Holds)
			}
			if !strings.Contains(a.Message(), tc.wantPending) || tc.wantPending == "" && a.Message() != "" {
				t.Errorf("pending %q, want %q", a.Message(), tc.wantPending)
			}
			if diff := cmp.Diff(tc.wantHeld, deadlines); diff != "" {
				t.Errorf("held until (-want +got):\n%s", diff)
			}
		})
	}
}

// eventsOf renders the events of some writes as "type reason related: note".
func eventsOf(r *scheduler.Attempt, restores bool, writes ...framework.PageWrite) []string {
	var all []string
	r.Step = &framework.Proposal{Writes: writes, Kind: map[bool]framework.Kind{true: framework.Republication}[restores], Result: framework.BindResult{Changed: true}}
	for _, e := range report.Writes(r) {
		all = append(all, fmt.Sprintf("%s %s/%s %s: %s", e.Type, e.Reason, e.Action, e.Related.Name, e.Note))
	}
	return all
}

func TestEvents(t *testing.T) {
	page := func(name string, clusters ...string) *v1alpha1.PlacementDecision {
		return fixture.Page("ns", name).Of("p").Lists(clusters...).Obj()
	}
	const rest = " with placement p in namespace ns"
	const score = "Normal ScoreUpdate/ScoreUpdated "
	inv := fleet(ask(), fixture.Cluster("c2"), fixture.Cluster("c1"))
	tests := map[string]struct {
		failure  *framework.Status
		restores bool
		writes   []framework.PageWrite
		want     []string
	}{
		"no write, no event": {},
		"a new page": {
			writes: []framework.PageWrite{{Page: page("one", "c1"), Created: true, DecisionsChanged: true}},
			want: []string{
				"Normal DecisionCreate/DecisionCreated one: Decision one is created" + rest,
				"Normal DecisionUpdate/DecisionUpdated one: Decision one is updated" + rest,
				score + "one: c1:100 c2:100 ",
			},
		},
		"a new page without decisions": {
			writes: []framework.PageWrite{{Page: page("one"), Created: true, DecisionsChanged: true}},
			want:   []string{"Normal DecisionCreate/DecisionCreated one: Decision one is created" + rest},
		},
		"the first page while nothing can be decided": {
			failure: framework.NewStatus(framework.Error, "down"),
			writes:  []framework.PageWrite{{Page: page("one"), Created: true, DecisionsChanged: true}},
		},
		"the first page while the first change is held": {
			restores: true,
			writes:   []framework.PageWrite{{Page: page("one"), Created: true, DecisionsChanged: true}},
		},
		"restored labels are not reported": {writes: []framework.PageWrite{{Page: page("one", "c1")}}},
		"many writes, one list of scores": {
			writes: []framework.PageWrite{
				{Page: page("one", "c1"), DecisionsChanged: true}, {Page: page("two", "c2"), DecisionsChanged: true},
				{Page: page("three"), Deleted: true, DecisionsChanged: true},
			},
			want: []string{
				"Normal DecisionUpdate/DecisionUpdated one: Decision one is updated" + rest,
				"Normal DecisionUpdate/DecisionUpdated two: Decision two is updated" + rest,
				"Normal DecisionDelete/DecisionDeleted three: Decision three is deleted" + rest,
				score + "two: c1:100 c2:100 ",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
			r.Failure = tc.failure
			if diff := cmp.Diff(tc.want, eventsOf(r, tc.restores, tc.writes...)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the same clusters as before: silence", func(t *testing.T) {
		r := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
		r.Step = &framework.Proposal{Writes: []framework.PageWrite{{Page: page("one", "c1"), DecisionsChanged: true}}}
		if got := report.Writes(r); got != nil {
			t.Errorf("got %v", got)
		}
	})
}

func TestLongNotesAreCut(t *testing.T) {
	inv := fleet(ask().AddOn("é", "v", 1))
	for i := range 200 {
		name := fmt.Sprintf("a-cluster-%03d", i)
		inv.Update(fixture.Cluster(name).Set("s1").Obj())
		inv.Update(fixture.Score(name, "é").Value("v", 1).ValidUntil(fixture.At(-1)).Obj())
	}
	r := newScheduler(t).Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
	page := fixture.Page("ns", "p-decision-1").Of("p").Lists("a-cluster-000").Obj()
	r.Step = &framework.Proposal{
		Writes: []framework.PageWrite{{Page: page, DecisionsChanged: true}}, Result: framework.BindResult{Changed: true},
	}
	events := report.Writes(r)
	if len(events) != 2 {
		t.Fatalf("%d events, want an update and the scores", len(events))
	}
	update, scores := events[0], events[1]
	if update.Type != corev1.EventTypeWarning || !strings.Contains(update.Note, "AddOnPlacementScores a-cluster-000/é a-cluster-001/é") {
		t.Errorf("the update is %s %q", update.Type, update.Note)
	}
	if len(update.Note) > 1024 || !strings.HasSuffix(update.Note, "......") || strings.ToValidUTF8(update.Note, "") != update.Note {
		t.Errorf("the update's note has %d bytes: %q", len(update.Note), update.Note)
	}
	list, whole := strings.CutSuffix(scores.Note, "......")
	if !whole || len(list) > 1000 || len(list) < 950 {
		t.Errorf("the list of scores has %d bytes: %q", len(list), scores.Note)
	}
	for one := range strings.FieldsSeq(list) {
		if !strings.HasSuffix(one, ":200") && !strings.HasSuffix(one, ":100") {
			t.Errorf("%q is no whole score", one)
		}
	}
}
