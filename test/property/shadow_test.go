package property

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/shadow"
	"github.com/berth-dev/berth/test/fixture"
)

// The shadows of the default profile: one equals it, the other has other weights. The other one is
// without Balance, whose counts are those of the real pages.
const equalShadow, otherShadow = "equal", "other"

func weighted(weights map[string]int32) config.Plugins {
	var p config.Plugins
	for name, weight := range weights {
		p.MultiPoint.Enabled = append(p.MultiPoint.Enabled, config.Plugin{Name: name, Weight: &weight})
	}
	return p
}

var otherPlugins = weighted(map[string]int32{
	v1alpha1.PrioritizerBalance: 0, v1alpha1.PrioritizerSteady: 2, v1alpha1.PrioritizerResourceAllocatableCPU: 3,
})

// shadowWorld is a hub with a controller that has the two shadows.
type shadowWorld struct {
	*replayHub
	t       *rapid.T
	draw    *selectionWorld
	engine  *scheduler.Scheduler
	shadows *shadow.Shadows
	made    chan shadow.Decision
	// selected is what the other shadow selected last, by the UID of the Placement.
	selected map[types.UID][]string
	stats    map[string]int
}

func newShadowWorld(ctx context.Context, t *rapid.T, stats map[string]int) *shadowWorld {
	w := &shadowWorld{
		replayHub: &replayHub{world: newWorld(), now: fixture.Now, writesLeft: 1 << 30}, t: t, made: make(chan shadow.Decision, 2),
		selected: map[types.UID][]string{}, stats: stats,
	}
	w.draw = &selectionWorld{replayHub: w.replayHub, t: t, stats: stats}
	w.inv = inventory.New(inventory.Options{})
	c := &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{
		{Name: equalShadow, ShadowOf: config.DefaultProfile}, {Name: otherShadow, ShadowOf: config.DefaultProfile, Plugins: otherPlugins},
	}}
	profiles, err := scheduler.NewProfiles(ctx, c, builtin.DefaultProfile(), builtin.Registry(), &framework.Handle{
		Pages: w.replayHub, Assume: w.inv.AssumePage, Announce: w.inv.Announce, Reserve: w.inv.Reserve, Unreserve: w.inv.Unreserve,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.engine = scheduler.New(profiles, nil)
	w.engine.StorePublished = w.inv.SetPublished
	w.shadows, err = shadow.New(1, logr.Discard(), func() (map[string]*scheduler.Profile, error) {
		return scheduler.NewProfiles(ctx, c, builtin.DefaultProfile(), builtin.Registry(), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.shadows.OnShadow = func(d shadow.Decision) { w.made <- d }
	go func() { _ = w.shadows.Start(ctx) }()
	for _, set := range []string{"s1", "s2"} {
		w.put(fixture.Set(set))
	}
	for _, namespace := range []string{"n1", "n2", ownNamespace} {
		w.put(fixture.Binding(namespace, "s1"))
	}
	for _, name := range clusterNames {
		w.put(w.draw.drawSelectionCluster(name))
	}
	for _, o := range w.all() {
		w.inv.Update(o)
	}
	w.inv.Started()
	return w
}

// change changes an object and returns the affected Placements.
func (w *shadowWorld) change() []inventory.Key {
	var o client.Object
	switch oneOf(w.t, "change", "cluster", "cluster", "cluster", "placement", "placement", "policy", "delete", "time") {
	case "cluster":
		o = w.draw.drawSelectionCluster(oneOf(w.t, "name", clusterNames...))
	case "placement":
		pl := w.draw.drawSelectionPlacement()
		if weight := oneOf(w.t, "steady", int32(0), 0, 1, 2); weight > 0 {
			pl.Spec.PrioritizerPolicy.Configurations = append(pl.Spec.PrioritizerPolicy.Configurations,
				fixture.Placement("", "").Prioritizer(v1alpha1.PrioritizerSteady, weight).Obj().Spec.PrioritizerPolicy.Configurations...)
		}
		o = pl
	case "policy":
		o = w.draw.drawSelectionPolicy()
	case "delete":
		all := w.draw.removable()
		if all == nil {
			return nil
		}
		w.remove(all)
		affected := w.inv.Delete(all)
		if pl, ok := all.(*v1alpha1.Placement); ok {
			key := client.ObjectKeyFromObject(pl)
			w.engine.Forget(key)
			w.shadows.Forget(key)
			for _, page := range w.draw.pagesOf(key) {
				affected = append(affected, w.inv.Delete(w.remove(page).object)...)
			}
		}
		return affected
	case "time":
		w.now = w.now.Add(oneOf(w.t, "time", time.Second, 61*time.Second, time.Hour))
		return w.inv.Placements()
	}
	return w.inv.Update(w.put(w.draw.created(o)).object)
}

// attempt decides a Placement and compares the decisions of both shadows.
func (w *shadowWorld) attempt(key inventory.Key) {
	if w.inv.Placement(key) == nil {
		return
	}
	ctx := log.IntoContext(context.Background(), logr.Discard())
	a := w.engine.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return w.inv.Snapshot(key, w.now, nil) })
	if !a.Err.IsSuccess() {
		w.t.Fatal(a.Err.Err())
	}
	w.shadows.Decided(a)
	if a.Failure != nil {
		w.stats["undecided"]++
		return
	}
	for range 2 {
		d := <-w.made
		if d.Failure != "" {
			w.t.Fatalf("%s of %s failed: %s", d.Shadow, key, d.Failure)
		}
		if d.Shadow == equalShadow {
			w.stats["moves"] += d.ProfileMoves
			if !slices.Equal(d.ShadowClusters, d.ProfileClusters) || d.ShadowMoves != d.ProfileMoves {
				w.t.Fatalf("%s: the equal shadow selects %v with %d moves, the profile %v with %d",
					key, d.ShadowClusters, d.ShadowMoves, d.ProfileClusters, d.ProfileMoves)
			}
			continue
		}
		w.checkOther(a, d)
	}
}

// checkOther compares a decision of the other shadow with that of a controller whose profile it is,
// and whose pages list what the shadow selected before.
func (w *shadowWorld) checkOther(a *scheduler.Attempt, d shadow.Decision) {
	subject := a.Snapshot.Subject
	before, known := w.selected[subject.Placement.UID]
	if !known {
		before = subject.LastNames()
	}
	w.selected[subject.Placement.UID] = d.ShadowClusters
	if len(subject.SelectionPolicies) > 0 {
		// Tiers have a history, and capacity depends on the real clusters of the Placement.
		return
	}
	w.stats["compared"]++
	if !slices.Equal(before, subject.LastNames()) {
		w.stats["from other clusters"]++
	}
	inv := inventory.New(inventory.Options{})
	for _, o := range w.all() {
		if page, ok := o.(*v1alpha1.PlacementDecision); !ok || page.Namespace != d.Placement.Namespace || page.Labels[v1alpha1.PlacementLabel] != d.Placement.Name {
			inv.Update(o)
		}
	}
	page := fixture.Page(d.Placement.Namespace, "of-the-shadow").Of(d.Placement.Name).OwnedBy(d.Placement.Name).Lists(before...).Obj()
	page.OwnerReferences[0].UID = subject.Placement.UID
	inv.Update(page)
	inv.Started()
	c := &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{Name: config.DefaultProfile, Plugins: otherPlugins}}}
	profiles, err := scheduler.NewProfiles(context.Background(), c, builtin.DefaultProfile(), builtin.Registry(), &framework.Handle{})
	if err != nil {
		w.t.Fatal(err)
	}
	want := scheduler.New(profiles, nil).Decide(context.Background(), inv.Snapshot(d.Placement, w.now, nil))
	if want.Failure != nil || !slices.Equal(want.Target.Clusters, d.ShadowClusters) {
		w.t.Fatalf("%s had %v: the shadow selects %v, a controller with its profile %v (%v)", d.Placement, before, d.ShadowClusters, namesOf(want), want.Failure.Err())
	}
}

// TestShadows: a shadow that equals its profile always agrees and makes the same moves, with every
// plugin of the default profile. A shadow with other weights decides what a controller with its
// profile would decide that had published the shadow's decisions.
func TestShadows(t *testing.T) {
	stats := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := newShadowWorld(ctx, t, stats)
		for range rapid.IntRange(5, 30).Draw(t, "changes") {
			for _, key := range w.change() {
				w.attempt(key)
			}
		}
	})
	for _, name := range []string{"moves", "compared", "from other clusters", "undecided"} {
		if stats[name] == 0 {
			t.Errorf("the property was never tried with: %s", name)
		}
	}
	t.Log(stats)
}
