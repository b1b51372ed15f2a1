package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// attemptOn is an attempt for Placement ns/p of generation 2 with clusters in its one set s, after
// last was published.
func attemptOn(last *framework.Published, clusters ...fixture.ClusterBuilder) *Attempt {
	inv := inventory.New(inventory.Options{})
	inv.Update(fixture.Set("s"))
	inv.Update(fixture.Binding("ns", "s"))
	inv.Update(fixture.Placement("ns", "p").Generation(2).Obj())
	for _, c := range clusters {
		inv.Update(c.Obj())
	}
	snapshot := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
	snapshot.Subject.Last = last
	d := &decide.Decision{Snapshot: snapshot, State: framework.NewCycleState(snapshot), Profile: &plugins.Profile{}}
	return &Attempt{Plan: &plan.Plan{Decision: d}}
}

// lastOf is a published decision that lists names.
func lastOf(names ...string) *framework.Published {
	return &framework.Published{Names: names, Digest: framework.DigestOf(names)}
}

// profilesOf is a default profile of plugins with their traits.
func profilesOf(t *testing.T, enabled config.Plugins, all ...framework.Plugin) map[string]*plugins.Profile {
	t.Helper()
	registry := framework.Registry{}
	for _, plugin := range all {
		registry[plugin.Name()] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return plugin, nil
		}
	}
	profiles, err := plugins.NewProfiles(t.Context(), nil, config.Profile{Plugins: enabled}, registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	return profiles
}

// at enables plugins at one point.
func at(names ...string) (set config.PluginSet) {
	for _, name := range names {
		set.Enabled = append(set.Enabled, config.Plugin{Name: name})
	}
	return set
}

// lastPoints is a plugin at the points that reserve, permit and publish, and at those that a
// profile needs. It stores what it is called with.
type lastPoints struct {
	name       string
	permit     *framework.Status
	step       *framework.Transition
	bindFails  bool
	bound      []framework.Proposal
	unreserved []*framework.Proposal
	forgotten  *[]string
	reserved   int
	whenBound  func()
}

func (p *lastPoints) Name() string { return p.name }

func (*lastPoints) Less(_, _ *v1alpha1.Placement) bool { return false }

func (*lastPoints) Filter(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) *framework.Status {
	return nil
}

func (p *lastPoints) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	p.reserved++
	return nil
}

func (p *lastPoints) Unreserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) {
	p.unreserved = append(p.unreserved, proposal)
}

func (p *lastPoints) Permit(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) (*framework.Status, time.Duration) {
	return p.permit, time.Hour
}

func (p *lastPoints) Transition(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Change) (*framework.Transition, *framework.Status) {
	return p.step, nil
}

func (p *lastPoints) Bind(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) *framework.Status {
	p.bound = append(p.bound, *proposal)
	if p.whenBound != nil {
		p.whenBound()
	}
	if p.bindFails {
		return framework.NewStatus(framework.Error, "down")
	}
	return nil
}

func (p *lastPoints) Forget(types.NamespacedName) { *p.forgotten = append(*p.forgotten, p.name) }

// TestPublishStores: what is remembered as published after step 9.
func TestPublishStores(t *testing.T) {
	target := &framework.Proposal{Clusters: []string{"a"}, Digest: framework.DigestOf([]string{"a"}), Added: []string{"a"}}
	restored := &framework.Proposal{Clusters: []string{"a"}, Digest: target.Digest, Kind: framework.Republication}
	scored := &framework.Proposal{Clusters: []string{"a"}, Writes: []framework.PageWrite{{Page: fixture.Page("ns", "p-decision-1").Obj()}}, Result: framework.BindResult{ScoresWritten: true}}
	for name, tc := range map[string]struct {
		step      *framework.Proposal
		failure   *framework.Status
		last      *framework.Published
		timeouts  int
		bindFails bool
		wantBound int
		want      []string
	}{
		"the target":                         {step: target, wantBound: 1, want: []string{"a"}},
		"an empty page, nothing was decided": {step: target, failure: framework.NewStatus(framework.Pending, ""), wantBound: 1},
		"restored pages":                     {step: restored, failure: framework.NewStatus(framework.Pending, ""), wantBound: 1, want: []string{"a"}},
		"a failed step":                      {step: target, last: lastOf("b"), bindFails: true, wantBound: 1},
		"a failed first step":                {step: scored, bindFails: true, wantBound: 1},
		"scores before the failure":          {step: scored, last: lastOf("b"), bindFails: true, wantBound: 1, want: []string{"b"}},
		"after the first timeout":            {step: target, timeouts: 1},
		"after the second timeout":           {step: target, timeouts: 2, wantBound: 1, want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := &lastPoints{name: "x", bindFails: tc.bindFails}
			p := attemptOn(tc.last).Plan
			p.Profile = &plugins.Profile{Bind: []framework.BindPlugin{plugin}}
			p.Publish, p.Failure, p.Timeouts, p.Outcome = tc.step, tc.failure, tc.timeouts, plan.Published
			var got []string
			s := New(nil, nil)
			s.StorePublished = func(_ *framework.Subject, last *framework.Published) {
				if got = last.Names; tc.bindFails && !last.ScoresAt.Equal(fixture.Now) {
					t.Errorf("the scores are of %v", last.ScoresAt)
				}
			}
			a := s.execute(t.Context(), p)
			if diff := cmp.Diff(tc.want, got); diff != "" || len(plugin.bound) != tc.wantBound || a.Err.IsSuccess() == tc.bindFails {
				t.Errorf("%d steps, error %v, stored (-want +got):\n%s", len(plugin.bound), a.Err.Err(), diff)
			}
		})
	}
}

// TestFailureAfterATimeout: an attempt that failed after its cycle timed out counts as a failure,
// also after the first timeout.
func TestFailureAfterATimeout(t *testing.T) {
	for outcome, want := range map[plan.Outcome]time.Duration{plan.Failed: 5 * time.Millisecond, plan.Undecided: 0} {
		s := New(nil, nil)
		s.Clock, s.CycleTimeout = clocktesting.NewFakeClock(fixture.Now), time.Second
		p := attemptOn(nil).Plan
		p.Outcome, p.Timeouts, p.PlanErr = outcome, 1, framework.NewStatus(framework.Error, "down")
		pl := p.Snapshot.Subject.Placement
		s.EndAttempt(pl, time.Millisecond, 0, false)
		for range 3 {
			s.execute(t.Context(), p)
		}
		if got := s.AttemptDelay(pl); got != want {
			t.Errorf("%s: the next attempt is in %s, want %s", outcome, got, want)
		}
	}
}

// TestPublishUnrecorded: if no record can be written, forced removals of a change in steps are
// published, and pages are restored.
func TestPublishUnrecorded(t *testing.T) {
	part := &framework.Transition{Added: []string{"c"}}
	for name, tc := range map[string]struct {
		step     *framework.Transition
		permit   *framework.Status
		names    []string // published before; cluster b does not exist
		outcome  plan.Outcome
		want     []framework.Proposal
		stored   []string
		reserved bool // what was reserved stays
	}{
		"a forced removal":   {step: part, names: []string{"a", "b"}, outcome: plan.Progressing, want: []framework.Proposal{{Clusters: []string{"a"}, Revision: 7, Partial: true, Kind: framework.ForcedRemoval}}, stored: []string{"a"}, reserved: true},
		"no forced removal":  {step: part, names: []string{"a"}, outcome: plan.Progressing, want: []framework.Proposal{{Clusters: []string{"a"}, Revision: 6, Kind: framework.Republication}}, stored: []string{"a"}},
		"a change at once":   {names: []string{"a", "b"}, outcome: plan.Published, want: []framework.Proposal{{Clusters: []string{"a", "b"}, Revision: 6, Kind: framework.Republication}}, stored: []string{"a", "b"}},
		"pages are restored": {permit: framework.NewStatus(framework.Wait, ""), names: []string{"a"}, outcome: plan.Held, want: []framework.Proposal{{Clusters: []string{"a"}, Revision: 6, Kind: framework.Republication}}, stored: []string{"a"}, reserved: true},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := &lastPoints{name: "x", permit: tc.permit, step: tc.step}
			last := lastOf(tc.names...)
			last.FromPages, last.Revision = true, 6
			s, stored := New(map[string]*plugins.Profile{"default": {
				Reserve: []framework.ReservePlugin{plugin}, Permit: []framework.PermitPlugin{plugin},
				Transition: []framework.TransitionPlugin{plugin}, Bind: []framework.BindPlugin{plugin},
			}}, nil), []string(nil)
			s.StorePublished = func(_ *framework.Subject, last *framework.Published) { stored = last.Names }
			s.WriteRecordsBefore = func(context.Context, *Attempt) error { return errors.New("down") }
			snapshot := attemptOn(last, fixture.Cluster("a").Set("s"), fixture.Cluster("c").Set("s"), fixture.Cluster("d").Set("s")).Snapshot
			a := s.Attempt(t.Context(), "ns", func() *framework.Snapshot { return snapshot })
			var got []framework.Proposal
			for _, p := range plugin.bound {
				got = append(got, framework.Proposal{Clusters: p.Clusters, Revision: p.Revision, Partial: p.Partial, Kind: p.Kind})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || a.Outcome != tc.outcome {
				t.Errorf("%s, published (-want +got):\n%s", a.Outcome, diff)
			}
			if diff := cmp.Diff(tc.stored, stored); diff != "" || a.Err.IsSuccess() {
				t.Errorf("stored with error %v (-want +got):\n%s", a.Err.Err(), diff)
			}
			if (len(plugin.unreserved) == 0) != tc.reserved {
				t.Errorf("%d times unreserved", len(plugin.unreserved))
			}
		})
	}
}

// TestForgetReachesPlugins: the engine and the plugins of all points forget a deleted Placement.
func TestForgetReachesPlugins(t *testing.T) {
	var forgotten []string
	of := func(name string) *lastPoints { return &lastPoints{name: name, forgotten: &forgotten} }
	s := New(profilesOf(t, config.Plugins{QueueSort: at("filters"), Filter: at("filters"), Reserve: at("reserves"), Permit: at("permits"), Bind: at("publishes")},
		of("filters"), of("reserves"), of("permits"), of("publishes")), nil)
	s.CycleTimeout = time.Second
	a := attemptOn(nil)
	pl, key := a.Snapshot.Subject.Placement, a.Snapshot.Subject.Key()
	s.memory.save(a.Plan, true)
	s.EndAttempt(pl, time.Second, 1, false)
	s.Forget(key)
	if diff := cmp.Diff([]string{"filters", "permits", "publishes", "reserves"}, forgotten); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(s.memory.placements) > 0 || s.Timeouts(pl) > 0 || s.AttemptDelay(pl) > 0 {
		t.Errorf("%d Placements are remembered; after %d timeouts, the next attempt is in %s", len(s.memory.placements), s.Timeouts(pl), s.AttemptDelay(pl))
	}
}

// TestOnlyAttemptsReserve: Decide and DecideInTime change nothing. Step 9 does not hold the lock.
func TestOnlyAttemptsReserve(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*Scheduler, *framework.Snapshot)
		want int
	}{
		"Decide":       {do: func(s *Scheduler, snapshot *framework.Snapshot) { s.Decide(t.Context(), snapshot) }},
		"DecideInTime": {do: func(s *Scheduler, snapshot *framework.Snapshot) { s.DecideInTime(t.Context(), snapshot) }},
		"Attempt": {do: func(s *Scheduler, snapshot *framework.Snapshot) {
			s.Attempt(t.Context(), "ns", func() *framework.Snapshot { return snapshot })
		}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, free := &lastPoints{name: "x"}, false
			s := New(map[string]*plugins.Profile{"default": {
				Filter: []framework.FilterPlugin{plugin}, Reserve: []framework.ReservePlugin{plugin}, Bind: []framework.BindPlugin{plugin},
			}}, nil)
			plugin.whenBound = func() {
				if free = s.cycle.TryLock(); free {
					s.cycle.Unlock()
				}
			}
			tc.do(s, attemptOn(nil, fixture.Cluster("a").Set("s")).Snapshot)
			if plugin.reserved != tc.want || len(plugin.bound) != tc.want || free != (tc.want > 0) {
				t.Errorf("%d reserved, %d published, unlocked: %t", plugin.reserved, len(plugin.bound), free)
			}
		})
	}
}
