package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// wishes is a plugin of the shadow: the annotation test/wants of a Placement lists the clusters
// that pass. Other values make it panic, fail, or wait for the test.
type wishes struct {
	entered, open chan struct{}
}

const wantsAnnotation = "test/wants"

func (*wishes) Name() string { return "Wishes" }

func (w *wishes) PreFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	switch wants := pl.Annotations[wantsAnnotation]; wants {
	case "panic":
		panic("no " + strings.Repeat("x", 40<<10))
	case "fail":
		return nil, framework.AsStatus(fmt.Errorf("no"))
	case "block":
		w.entered <- struct{}{}
		<-w.open
	}
	return nil, nil
}

func (w *wishes) Filter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, c *framework.Cluster) *framework.Status {
	if !slices.Contains(strings.Fields(pl.Annotations[wantsAnnotation]), c.Name) {
		return framework.NewStatus(framework.Unschedulable, "not wanted")
	}
	return nil
}

// harness has Shadows with the shadow "new" of the default profile.
type harness struct {
	*Shadows
	t      *testing.T
	inv    *inventory.Inventory
	plugin *wishes
	made   chan Decision
	now    time.Time
}

func newHarness(t *testing.T, workers int) *harness {
	h := &harness{t: t, inv: inventory.New(inventory.Options{}), plugin: &wishes{entered: make(chan struct{}), open: make(chan struct{})},
		made: make(chan Decision, 1000), now: fixture.Now}
	h.inv.Update(fixture.Set("s"))
	h.inv.Update(fixture.Binding("shop", "s"))
	for _, name := range []string{"a", "b", "c", "d"} {
		h.inv.Update(fixture.Cluster(name).Set("s").Obj())
	}
	c := &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{
		{Name: "new", ShadowOf: config.DefaultProfile, Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: "Wishes"}}}}},
		{Name: "other"},
	}}
	registry := builtin.Registry()
	registry["Wishes"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return h.plugin, nil
	}
	s, err := New(workers, logr.Discard(), func() (map[string]*scheduler.Profile, error) {
		return scheduler.NewProfiles(t.Context(), c, builtin.DefaultProfile(), registry, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.OnShadow = func(d Decision) { h.made <- d }
	h.Shadows = s
	return h
}

func (h *harness) start() {
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(h.t.Context())
	go func() {
		_ = h.Start(ctx)
		close(ended)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// decide passes a decision of the profile for Placement shop/<name>, after which the shadow wants
// other clusters.
func (h *harness) decide(name, target, wants string, change ...func(*v1alpha1.Placement)) {
	pl := fixture.Placement("shop", name).Annotation(wantsAnnotation, wants).Obj()
	for _, c := range change {
		c(pl)
	}
	h.inv.Update(pl)
	h.now = h.now.Add(time.Second)
	snapshot := h.inv.Snapshot(types.NamespacedName{Namespace: "shop", Name: name}, h.now, nil)
	h.Decided(&scheduler.Attempt{Result: &scheduler.Result{Snapshot: snapshot}, Target: &framework.Proposal{Clusters: strings.Fields(target)}})
}

// only returns the comparison of a Placement.
func (h *harness) only(name string) Comparison {
	h.t.Helper()
	all := h.Comparisons("shop", name)
	if len(all) != 1 {
		h.t.Fatalf("%d comparisons", len(all))
	}
	return all[0]
}

// TestCompare: results, clusters and counts after the decisions for one Placement.
func TestCompare(t *testing.T) {
	type step struct{ target, wants string }
	for name, tc := range map[string]struct {
		steps   []step
		result  Result
		counts  Counts
		shadow  string
		failure string
	}{
		"agreement":            {steps: []step{{"a b", "a b"}}, result: Agrees, counts: Counts{Compared: 1}, shadow: "a b"},
		"a difference":         {steps: []step{{"a b", "b c"}}, result: Differs, counts: Counts{Compared: 1}, shadow: "b c"},
		"the profile moves":    {steps: []step{{"a b", "a b"}, {"a c", "a b"}}, result: Differs, counts: Counts{Compared: 2, ProfileMoves: 1}, shadow: "a b"},
		"the shadow moves":     {steps: []step{{"a b", "a b"}, {"a b", "c d"}}, result: Differs, counts: Counts{Compared: 2, ShadowMoves: 2}, shadow: "c d"},
		"both move and agree":  {steps: []step{{"a", "a"}, {"b", "c"}, {"d", "d"}}, result: Agrees, counts: Counts{Compared: 3, ProfileMoves: 2, ShadowMoves: 2}, shadow: "d"},
		"one more is one move": {steps: []step{{"a", "a"}, {"a b", "a"}, {"a", "a"}}, result: Agrees, counts: Counts{Compared: 3, ProfileMoves: 2}, shadow: "a"},
		"none":                 {steps: []step{{"", ""}}, result: Agrees, counts: Counts{Compared: 1}},
		"a failure keeps the clusters": {steps: []step{{"a", "b"}, {"c", "fail"}}, result: Failed, failure: "Wishes: no",
			counts: Counts{Compared: 1, Failed: 1}, shadow: "b"},
		// What the profile did meanwhile counts with the next decision that both made.
		"after a failure": {steps: []step{{"a", "b"}, {"c", "fail"}, {"d", "b"}}, result: Differs, counts: Counts{Compared: 2, Failed: 1, ProfileMoves: 1}, shadow: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, 1)
			h.start()
			for _, s := range tc.steps {
				h.decide("web", s.target, s.wants)
				<-h.made
			}
			got := h.only("web")
			if got.Result != tc.result || got.Failure != tc.failure || strings.Join(got.ShadowClusters, " ") != tc.shadow {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(tc.counts, got.Counts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			totals := h.Totals()
			if len(totals) != 1 || totals[0].Counts != tc.counts || totals[0].Placements[tc.result] != 1 {
				t.Errorf("totals %+v", totals)
			}
		})
	}
}

// TestDecision: what OnShadow receives.
func TestDecision(t *testing.T) {
	h := newHarness(t, 1)
	h.start()
	h.decide("web", "a", "a")
	<-h.made
	h.decide("web", "a b", "c", func(pl *v1alpha1.Placement) { pl.Generation = 7 })
	want := Decision{
		Placement: types.NamespacedName{Namespace: "shop", Name: "web"}, UID: "shop/web", Generation: 7, Profile: "default", Shadow: "new", Time: h.now,
		ProfileClusters: []string{"a", "b"}, ShadowClusters: []string{"c"}, ProfileMoves: 1, ShadowMoves: 1,
	}
	if diff := cmp.Diff(want, <-h.made); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPublishedBefore: a comparison begins with the published decision, so the first decision of
// the shadow can move clusters.
func TestPublishedBefore(t *testing.T) {
	h := newHarness(t, 1)
	h.start()
	h.inv.Update(fixture.Placement("shop", "web").Obj())
	h.inv.Update(fixture.Page("shop", "web-1").Of("web").OwnedBy("web").Lists("a", "b").Obj())
	h.inv.Started()
	h.decide("web", "a b", "b c")
	if d := <-h.made; d.ProfileMoves != 0 || d.ShadowMoves != 1 {
		t.Errorf("%+v", d)
	}
}

// TestPanic: a plugin that panics fails the decision; the next one succeeds.
func TestPanic(t *testing.T) {
	h := newHarness(t, 1)
	h.start()
	h.decide("web", "a", "panic")
	<-h.made
	got := h.only("web")
	if got.Result != Failed || !strings.HasPrefix(got.Failure, "a plugin panicked: no xxx") || len(got.Failure) > 32<<10 {
		t.Errorf("%s %.80q, %d bytes", got.Result, got.Failure, len(got.Failure))
	}
	h.decide("web", "a", "a")
	if d := <-h.made; d.Failure != "" || h.only("web").Result != Agrees {
		t.Errorf("%+v", d)
	}
}

// TestSkipped: the newest decision for a Placement replaces one that waits, a full queue takes no
// more, and every decision is counted once.
func TestSkipped(t *testing.T) {
	h := newHarness(t, 1)
	h.maxQueued = 2
	h.decide("p1", "a", "a")
	h.decide("p1", "b", "b")
	h.decide("p2", "a", "b")
	h.decide("p3", "a", "a")
	if got := h.only("p3"); got.Result != Pending || got.Skipped != 1 {
		t.Errorf("a full queue: %+v", got)
	}
	h.start()
	<-h.made
	<-h.made
	if got := h.only("p1"); got.Result != Agrees || got.Counts != (Counts{Compared: 1, Skipped: 1}) || got.ShadowClusters[0] != "b" {
		t.Errorf("replaced: %+v", got)
	}
	if got := h.only("p3"); got.Result != Pending {
		t.Errorf("skipped: %+v", got)
	}
	h.decide("p3", "a", "a")
	<-h.made
	if got := h.only("p3"); got.Result != Agrees || got.Skipped != 1 {
		t.Errorf("the next decision: %+v", got)
	}
	if got := h.Totals()[0].Counts; got != (Counts{Compared: 3, Skipped: 2}) {
		t.Errorf("totals: %+v", got)
	}
}

// TestBlocked: while a plugin of the shadow blocks, decisions are accepted, and Placements are
// forgotten. Start ends nevertheless.
func TestBlocked(t *testing.T) {
	h := newHarness(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Start(ctx) }()
	h.decide("web", "a", "block")
	<-h.plugin.entered
	for i := range 50 {
		h.decide(fmt.Sprintf("p%d", i), "a", "a")
		h.decide("web", "a", "a")
	}
	if got := h.only("web"); got.Result != Pending || got.Skipped != 49 {
		t.Errorf("%+v", got)
	}
	h.Forget(types.NamespacedName{Namespace: "shop", Name: "web"})
	if got := h.Totals()[0].Placements[Pending]; got != 50 {
		t.Errorf("%d Placements wait", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(h.plugin.open)
}

// TestAttemptsFirst: no shadow begins to decide while an attempt waits for the cycle lock.
func TestAttemptsFirst(t *testing.T) {
	h := newHarness(t, 1)
	first, second := h.AttemptWaits(), h.AttemptWaits()
	h.decide("web", "a", "a")
	if c, _, _ := h.next(h.workers[0]); c != nil {
		t.Error("two attempts wait")
	}
	first()
	if c, _, _ := h.next(h.workers[0]); c != nil {
		t.Error("one attempt waits")
	}
	h.start()
	second()
	if d := <-h.made; d.Failure != "" {
		t.Errorf("%+v", d)
	}
}

// TestDropped: what is known of a Placement ends with it, with its UID and with its profile.
func TestDropped(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(h *harness)
		// left is the number of comparisons after the change.
		left int
	}{
		"deleted": {change: func(h *harness) { h.Forget(types.NamespacedName{Namespace: "shop", Name: "web"}) }},
		"created again": {left: 1, change: func(h *harness) {
			h.decide("web", "c", "d", func(pl *v1alpha1.Placement) { pl.UID = "another" })
			<-h.made
		}},
		"another profile": {change: func(h *harness) {
			h.decide("web", "c", "d", func(pl *v1alpha1.Placement) { pl.Annotations[v1alpha1.ProfileAnnotation] = "other" })
		}},
		"waiting": {change: func(h *harness) {
			defer h.AttemptWaits()()
			h.decide("web", "c", "d")
			h.Forget(types.NamespacedName{Namespace: "shop", Name: "web"})
			if h.workers[0].queue.Len() != 0 {
				h.t.Error("a forgotten Placement waits")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, 1)
			h.start()
			h.decide("web", "a", "b")
			<-h.made
			h.decide("web", "b", "b")
			<-h.made
			tc.change(h)
			if got := h.Comparisons("shop", ""); len(got) != tc.left {
				t.Fatalf("%+v", got)
			} else if len(got) == 1 && (got[0].Counts != Counts{Compared: 1}) {
				t.Errorf("it did not begin again: %+v", got)
			}
			n := 0
			for _, k := range h.Totals()[0].Placements {
				n += k
			}
			if n != tc.left || tc.left == 0 && len(h.placements) > 0 {
				t.Errorf("%d in the totals, %d namespaces", n, len(h.placements))
			}
			if got := h.Totals()[0].Compared; got < 2 {
				t.Errorf("the totals lost decisions: %d", got)
			}
		})
	}
}

// TestUndecided: only decisions are compared.
func TestUndecided(t *testing.T) {
	h := newHarness(t, 1)
	h.inv.Update(fixture.Placement("shop", "web").Obj())
	snapshot := h.inv.Snapshot(types.NamespacedName{Namespace: "shop", Name: "web"}, fixture.Now, nil)
	failed := &scheduler.Result{Snapshot: snapshot, Failure: framework.AsStatus(fmt.Errorf("no"))}
	h.Decided(&scheduler.Attempt{Result: failed, Target: &framework.Proposal{}})
	h.Decided(&scheduler.Attempt{Result: &scheduler.Result{Snapshot: snapshot}})
	if got := h.Comparisons("shop", ""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestPinned: a pinned Placement has the same clusters in the shadow.
func TestPinned(t *testing.T) {
	h := newHarness(t, 1)
	h.start()
	h.decide("web", "a", "b", func(pl *v1alpha1.Placement) { pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation] = "3" })
	<-h.made
	if got := h.only("web"); got.Result != Agrees || !slices.Equal(got.ShadowClusters, []string{"a"}) {
		t.Errorf("%+v", got)
	}
}

// TestWorkers: every worker has its own plugins, and a Placement always the same worker.
func TestWorkers(t *testing.T) {
	h := newHarness(t, 4)
	h.start()
	for range 3 {
		for i := range 20 {
			h.decide(fmt.Sprintf("p%d", i), "a", "b")
		}
		for range 20 {
			<-h.made
		}
	}
	if got := h.Totals()[0]; got.Compared+got.Skipped != 60 || got.Skipped != 0 || got.Placements[Differs] != 20 {
		t.Errorf("%+v", got)
	}
}

// TestNoShadows: without shadow profiles there is nothing to do.
func TestNoShadows(t *testing.T) {
	s, err := New(1, logr.Discard(), func() (map[string]*scheduler.Profile, error) {
		return scheduler.NewProfiles(t.Context(), nil, builtin.DefaultProfile(), builtin.Registry(), nil)
	})
	if s != nil || err != nil {
		t.Fatal(s, err)
	}
	s.AttemptWaits()()
	s.Decided(nil)
	s.Forget(types.NamespacedName{})
	if s.HasShadow("") || s.Totals() != nil || s.Comparisons("shop", "") != nil {
		t.Error("nil has shadows")
	}
}
