package property

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// selectionWorld is a hub with a controller that decides each affected Placement, without gates and
// without Balance, which affects no Placement. Namespace n3 never has SelectionPolicies.
type selectionWorld struct {
	*replayHub
	t      *rapid.T
	engine *scheduler.Scheduler
	// queue are the affected Placements; due the times of their next attempts.
	queue map[inventory.Key]bool
	due   map[inventory.Key]time.Time
	// has are the clusters that Placements have: those of the last published decision, and those
	// that pages list, or may list while they could not be read after a failed write.
	has, published map[inventory.Key]map[string]bool
	tiers          map[string]map[string]tierMemory
	// deciding is the Placement whose attempt runs.
	deciding inventory.Key
	// written are the clusters on the pages that this attempt writes, or tries to.
	written map[string]bool
	// lost is true while writes succeed, but neither they nor reads get a response.
	lost    bool
	stats   map[string]int
	history []string
}

const ownNamespace = "n3"

func newSelectionWorld(t *rapid.T, stats map[string]int) *selectionWorld {
	w := &selectionWorld{
		replayHub: &replayHub{world: newWorld(), now: fixture.Now}, t: t, stats: stats, due: map[inventory.Key]time.Time{},
		has: map[inventory.Key]map[string]bool{}, published: map[inventory.Key]map[string]bool{}, tiers: map[string]map[string]tierMemory{},
	}
	w.put(fixture.Set("s1"))
	for _, namespace := range []string{"n1", "n2", ownNamespace} {
		w.put(fixture.Binding(namespace, "s1"))
	}
	for _, name := range clusterNames[:5] {
		w.put(w.drawSelectionCluster(name))
	}
	w.put(w.created(fixture.Placement(ownNamespace, "p1").Number(2).Obj()))
	for _, name := range placementNames[:oneOf(t, "placements", 1, 2, 3)] {
		pl := w.drawSelectionPlacement()
		pl.Namespace, pl.Name, pl.Spec.Predicates = "n1", name, nil
		w.put(w.created(pl))
	}
	w.restart()
	return w
}

// restart drops all state that is not on the hub, and lists the objects in a random order.
func (w *selectionWorld) restart() {
	w.inv, w.engine = w.newController(func(keys []inventory.Key) { w.affect("a write", keys) })
	w.queue, w.due = map[inventory.Key]bool{}, map[inventory.Key]time.Time{}
	w.has, w.published, w.tiers = map[inventory.Key]map[string]bool{}, map[inventory.Key]map[string]bool{}, map[string]map[string]tierMemory{}
	for _, key := range w.inv.Placements() {
		w.queue[key] = true
		w.setPublished(key)
	}
	for _, o := range w.all() {
		if policy, ok := o.(*berthv1alpha1.SelectionPolicy); ok {
			w.tiers[string(policy.UID)] = memoryOf(policy)
		}
	}
}

// newController returns an inventory and a scheduler that know the objects of the hub.
func (w *selectionWorld) newController(onAffected func([]inventory.Key)) (*inventory.Inventory, *scheduler.Scheduler) {
	inv := inventory.New(inventory.Options{OnAffected: onAffected})
	registry := builtin.Registry()
	registry[v1alpha1.PrioritizerBalance] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return noBalance{}, nil
	}
	profiles, err := builtin.Profiles(context.Background(), nil, registry, &framework.Handle{
		Pages: w, Assume: inv.AssumePage, Announce: inv.Announce,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	engine := scheduler.New(profiles, nil)
	engine.StorePublished, engine.StoreClaim = inv.SetPublished, inv.StoreClaim
	all := w.all()
	rand.New(rand.NewPCG(uint64(w.version), 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, o := range all {
		inv.Update(o)
	}
	inv.Started()
	return inv, engine
}

// affect queues Placements. A change that is not of the fleet or of the Placement itself must not
// affect one in a namespace without policies.
func (w *selectionWorld) affect(why string, keys []inventory.Key) {
	for _, key := range keys {
		if key.Namespace == ownNamespace && !strings.HasPrefix(why, "fleet") && !strings.Contains(why, key.String()) {
			w.fail("%s affects %s", why, key)
		}
		w.queue[key] = true
	}
}

func (w *selectionWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nhistory:\n%s", fmt.Sprintf(format, args...), strings.Join(w.history, "\n"))
}

func (w *selectionWorld) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// created sets the creation time of a new object; several have the same one.
func (w *selectionWorld) created(o client.Object) client.Object {
	if old := w.objects[idOf(o)]; old != nil {
		o.SetCreationTimestamp(old.GetCreationTimestamp())
	} else {
		o.SetCreationTimestamp(metav1.NewTime(w.now.Truncate(time.Minute)))
	}
	return o
}

func (w *selectionWorld) update(o client.Object) {
	text, _ := json.Marshal(specOf(o))
	w.log("put %s %s labels %v annotations %v", idOf(o), text, o.GetLabels(), o.GetAnnotations())
	w.affect(reasonOf(o), w.inv.Update(w.put(w.created(o)).object))
}

func specOf(o client.Object) any {
	switch o := o.(type) {
	case *v1alpha1.Placement:
		return o.Spec
	case *berthv1alpha1.SelectionPolicy:
		return o.Spec
	case *v1alpha1.ManagedCluster:
		return []any{o.Spec.Taints, o.Status.Allocatable}
	}
	return nil
}

func reasonOf(o client.Object) string {
	switch o.(type) {
	case *v1alpha1.ManagedCluster:
		return "fleet"
	default:
		return o.GetNamespace() + "/" + o.GetName()
	}
}

func (w *selectionWorld) delete(o client.Object) {
	w.log("delete %s", idOf(o))
	w.affect(reasonOf(o), w.inv.Delete(w.remove(o).object))
	if pl, ok := o.(*v1alpha1.Placement); ok {
		key := inventory.Key{Namespace: pl.Namespace, Name: pl.Name}
		w.engine.Forget(key)
		w.inv.Claim(key, nil)
		delete(w.has, key)
		delete(w.published, key)
		// The API server deletes the pages of the Placement.
		for _, page := range w.pagesOf(key) {
			w.affect(key.String(), w.inv.Delete(w.remove(page).object))
		}
	}
}

func (w *selectionWorld) pagesOf(key inventory.Key) []*v1alpha1.PlacementDecision {
	var pages []*v1alpha1.PlacementDecision
	for _, o := range w.all() {
		if page, ok := o.(*v1alpha1.PlacementDecision); ok && page.Namespace == key.Namespace && page.Labels[v1alpha1.PlacementLabel] == key.Name {
			pages = append(pages, page)
		}
	}
	return pages
}

// listed are the clusters on the pages of a Placement.
func (w *selectionWorld) listed(key inventory.Key) map[string]bool {
	listed := map[string]bool{}
	for _, page := range w.pagesOf(key) {
		for _, d := range page.Status.Decisions {
			listed[d.ClusterName] = true
		}
	}
	return listed
}

// decideAffected decides all affected Placements until none is affected.
func (w *selectionWorld) decideAffected() {
	w.writesLeft, w.lost = oneOf(w.t, "writes", 1000, 1000, 1000, 0, 1, 2), oneOf(w.t, "lost", false, false, false, true)
	for n := 0; ; n++ {
		keys := slices.SortedFunc(maps.Keys(w.queue), func(a, b inventory.Key) int { return strings.Compare(a.String(), b.String()) })
		if len(keys) == 0 {
			return
		}
		if n > 150 {
			w.fail("the Placements do not settle")
		}
		w.attemptOne(keys[pick(w.t, len(keys))])
	}
}

// attemptOne decides and publishes one Placement, and compares the result with the model.
func (w *selectionWorld) attemptOne(key inventory.Key) *scheduler.Attempt {
	delete(w.queue, key)
	delete(w.due, key)
	w.deciding, w.written = key, map[string]bool{}
	if w.inv.Placement(key) == nil {
		return nil
	}
	want := w.expect(key)
	a := w.engine.Attempt(log.IntoContext(context.Background(), logr.Discard()), key.Namespace, func() *framework.Snapshot { return w.inv.Snapshot(key, w.now, nil) })
	defer w.engine.Release(a.Decision)
	w.stats[string(a.Outcome)]++
	w.compare(key, want, a)
	if at := a.State.NextAttempt(); !at.IsZero() {
		w.due[key] = at
	}
	w.log("decide %s: %v %s", key, namesOf(a), statusText(a.Err))
	if !a.Err.IsSuccess() {
		w.stats["failed writes"]++
		switch {
		case a.Earlier != nil:
			// The failed attempt before was published; only the response was lost.
			w.setPublished(key)
		case w.lost:
			maps.Copy(w.written, w.has[key])
			w.has[key] = w.written
		default:
			w.has[key] = w.listed(key)
			maps.Copy(w.has[key], w.published[key])
		}
		w.queue[key], w.writesLeft, w.lost = true, 1000, false
		if oneOf(w.t, "crash", false, false, true) {
			w.storePolicyStatus(a)
			w.log("restart")
			w.restart()
		}
		return a
	}
	if a.Step != nil {
		w.setPublished(key)
	}
	w.storeStatus(a)
	return a
}

// setPublished stores that the pages of a Placement list its last published decision.
func (w *selectionWorld) setPublished(key inventory.Key) {
	w.has[key], w.published[key] = w.listed(key), w.listed(key)
}

func namesOf(a *scheduler.Attempt) []string {
	names := []string{}
	for _, s := range a.Selected {
		names = append(names, s.Cluster.Name)
	}
	slices.Sort(names)
	return names
}

// storeStatus writes the status of the Placement and of its policies.
func (w *selectionWorld) storeStatus(a *scheduler.Attempt) {
	pl := a.Snapshot.Subject.Placement.DeepCopy()
	before := pl.Status.DeepCopy()
	report.SetConditions(a, &pl.Status.Conditions)
	if fmt.Sprint(before.Conditions) != fmt.Sprint(pl.Status.Conditions) {
		w.storeQuietly(pl)
	}
	w.storePolicyStatus(a)
}

func (w *selectionWorld) storePolicyStatus(a *scheduler.Attempt) {
	for _, policy := range a.Snapshot.Subject.SelectionPolicies {
		next := policy.DeepCopy()
		next.Status = *a.SelectionStatus(policy)
		w.checkStatus(next, a)
		if text(next.Status) != text(policy.Status) {
			w.storeQuietly(next)
		}
	}
}

// storeQuietly writes a status, which affects nobody.
func (w *selectionWorld) storeQuietly(o client.Object) {
	generation := o.GetGeneration()
	w.put(o)
	o.SetGeneration(generation)
	defer w.inv.AnnounceStatus(o)()
	if keys := w.inv.Update(o); len(keys) > 0 {
		w.fail("the status of %s affects %v", idOf(o), keys)
	}
}

func text(v any) string {
	all, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(all)
}

// Create implements framework.PageClient.
func (w *selectionWorld) Create(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	w.checkPage(page)
	return w.respond(w.replayHub.Create(ctx, page))
}

// Update implements framework.PageClient.
func (w *selectionWorld) Update(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	w.checkPage(page)
	return w.respond(w.replayHub.Update(ctx, page))
}

// Read implements framework.PageClient.
func (w *selectionWorld) Read(ctx context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error) {
	if w.lost {
		return nil, errHub
	}
	return w.replayHub.Read(ctx, namespace, name)
}

// respond returns the result of a write, or that there is no response.
func (w *selectionWorld) respond(page *v1alpha1.PlacementDecision, err error) (*v1alpha1.PlacementDecision, error) {
	if w.lost && err == nil {
		w.stats["lost responses"]++
		return nil, errHub
	}
	return page, err
}

// conditionOf returns a condition as "status/reason".
func conditionOf(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return string(c.Status) + "/" + c.Reason
	}
	return ""
}
