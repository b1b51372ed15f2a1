package property

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// TestSkippedAttemptsWouldDoNothing really skips attempts, over long histories with queues, time,
// failed writes and pages that others edit. A second inventory, which skips nothing, has the same
// inputs. Each skipped attempt is made on it, and must find nothing to write: no page, condition,
// event or record, and no later attempt.
func TestSkippedAttemptsWouldDoNothing(t *testing.T) {
	skipped := 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newSkippingHub(rt, &skipped)
		for range rapid.IntRange(10, 60).Draw(rt, "events") {
			h.change(rt)
			h.attemptPending(rt)
		}
	})
	if skipped < 500 {
		t.Errorf("only %d attempts were skipped", skipped)
	}
}

// skippingHub is a hub with a controller that skips attempts.
type skippingHub struct {
	*replayHub
	// mirror is the inventory that skips nothing, checker the engine that decides on it. inputs are
	// those that it has not got yet.
	mirror  *inventory.Inventory
	checker *scheduler.Scheduler
	inputs  []inventory.Input
	queues  map[inventory.Key]*framework.QueueAdmission
	// pending are the Placements that wait for an attempt, next the times at which others get one.
	pending map[inventory.Key]bool
	next    map[inventory.Key]time.Time
	// log is what happened.
	log []string
}

// newSkippingHub has Placements that are decided and clusters that most of them may use.
func newSkippingHub(t *rapid.T, skipped *int) *skippingHub {
	h := &skippingHub{
		replayHub: &replayHub{world: newWorld(), now: fixture.Now, held: scheduler.NewMemory()},
		queues:    map[inventory.Key]*framework.QueueAdmission{}, pending: map[inventory.Key]bool{}, next: map[inventory.Key]time.Time{},
	}
	firstSeen := func() time.Time { return h.now }
	h.mirror = inventory.New(inventory.Options{FirstSeen: firstSeen})
	h.inv = inventory.New(inventory.Options{
		FirstSeen: firstSeen, OnInput: func(in inventory.Input) { h.inputs = append(h.inputs, in) }, OnSettled: func(n int) { *skipped += n },
		OnAffected: h.wake, Reads: func(pl *v1alpha1.Placement) framework.Reads { return h.engine.Reads(pl) },
	})
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), &framework.Handle{
		Pages: h, Assume: h.inv.AssumePage, HeldChanges: h.held,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.engine = scheduler.New(profiles, h.held)
	h.checker = newScheduler(t, true)
	h.engine.StorePublished, h.engine.StoreClaim, h.engine.WriteRecordsBefore = h.inv.SetPublished, h.inv.StoreClaim, h.recordFirst
	for _, name := range setNames {
		h.put(fixture.Set(name))
	}
	h.put(fixture.SelectorSet("all", &metav1.LabelSelector{}))
	for _, namespace := range namespaceNames {
		for _, set := range append(slices.Clone(setNames), "all") {
			h.put(fixture.Binding(namespace, set))
		}
		for _, name := range placementNames {
			h.put(drawPlainPlacement(t, namespace, name))
		}
	}
	for _, name := range clusterNames {
		h.put(fixture.Cluster(name).Set(oneOf(t, "set", setNames...)).Label("a", oneOf(t, "a", values...)).
			Allocatable("memory", strconv.Itoa(10*rapid.IntRange(1, 9).Draw(t, "memory"))+"M").Obj())
	}
	for _, o := range h.all() {
		h.wake(h.inv.Update(o))
	}
	h.inv.Update(fixture.Placement(reserving.Namespace, reserving.Name).Obj())
	h.engine.Recount(h.inv.Records())
	h.inv.Started()
	h.mirrorInputs()
	h.attemptPending(t)
	h.attemptPending(t)
	return h
}

func (h *skippingHub) wake(keys []inventory.Key) {
	for _, key := range keys {
		h.pending[key] = true
	}
}

// mirrorInputs applies the inputs to the mirror. It returns the Placements that they affect.
func (h *skippingHub) mirrorInputs() (affected []inventory.Key) {
	for _, in := range h.inputs {
		affected = append(affected, h.mirror.Apply(in)...)
	}
	h.inputs = nil
	return affected
}

// feed passes an event to both inventories, and checks the attempts that are skipped.
func (h *skippingHub) feed(t *rapid.T, e event) {
	h.mirrorInputs()
	var woken []inventory.Key
	if e.deleted {
		woken = h.inv.Delete(e.object)
		if pl, ok := e.object.(*v1alpha1.Placement); ok {
			key := inventory.Key{Namespace: pl.Namespace, Name: pl.Name}
			h.engine.Forget(key)
			h.inv.Claim(key, nil)
		}
	} else {
		woken = h.inv.Update(e.object)
	}
	h.addToLog("%s, deleted: %t, affects %v", text(e.object), e.deleted, woken)
	h.wake(woken)
	due := h.mirrorInputs()
	if _, ok := e.object.(*v1alpha1.ManagedCluster); !ok {
		return
	}
	for _, key := range due {
		if !slices.Contains(woken, key) && !h.pending[key] {
			h.checkSkipped(t, key)
		}
	}
}

func (h *skippingHub) addToLog(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// checkSkipped decides a Placement whose attempt was skipped.
func (h *skippingHub) checkSkipped(t *rapid.T, key inventory.Key) {
	snapshot := h.mirror.Snapshot(key, h.now, h.queues[key])
	if snapshot == nil {
		return
	}
	a := h.checker.Decide(context.Background(), snapshot)
	defer h.checker.Release(a.Decision)
	if problem := h.problemOf(a); problem != "" {
		for _, line := range h.log[max(0, len(h.log)-40):] {
			t.Log(line)
		}
		t.Fatalf("an attempt for %s was skipped at %s: %s", key, h.now, problem)
	}
}

// problemOf says what an attempt would do that was skipped; empty if it would do nothing.
func (h *skippingHub) problemOf(a *scheduler.Attempt) string {
	if a.Failure != nil || a.Outcome != plan.Unchanged || a.Step == nil || len(a.Step.Added)+len(a.Step.Removed) > 0 {
		return fmt.Sprintf("outcome %s, failure %v, step %+v after %v", a.Outcome, a.Failure.Err(), a.Step, a.Snapshot.Subject.LastNames())
	}
	plan, err := lifecycle.Plan(a.State, a.Step)
	if err != nil || len(plan.Writes) > 0 || plan.ScoresDeferred {
		return fmt.Sprintf("writes %+v, %v, scores deferred: %t", plan.Writes, err, plan.ScoresDeferred)
	}
	if at := a.State.NextAttempt(); !at.IsZero() {
		return fmt.Sprintf("asks for an attempt at %s", at)
	}
	pl := h.objects[idOf(a.Snapshot.Subject.Placement)].(*v1alpha1.Placement)
	conditions := slices.Clone(pl.Status.Conditions)
	a.Step.Result = lifecycle.OutcomeOf(plan)
	report.SetConditions(a, &conditions)
	if diff := cmp.Diff(conditionTexts(pl.Status.Conditions), conditionTexts(conditions)); diff != "" {
		return "conditions " + diff
	}
	if diff := cmp.Diff(pl.Status.DecisionGroups, a.Step.Result.Groups); diff != "" {
		return "groups " + diff
	}
	if len(a.Intents) > 0 || report.OutcomeEvent(a) != nil || report.Misconfigured(a) != nil || len(a.RecordsAfter()) > 0 {
		return "has events or records"
	}
	if len(a.Records.Before) > 0 {
		return fmt.Sprintf("has records before its pages: %v", a.Records.Before)
	}
	return ""
}

// conditionTexts returns conditions without their times.
func conditionTexts(conditions []metav1.Condition) (all []string) {
	for _, c := range conditions {
		all = append(all, fmt.Sprint(c.Type, c.Status, c.Reason, c.Message, c.ObservedGeneration))
	}
	slices.Sort(all)
	return all
}

// attemptPending makes the attempts that are due, also those that they cause. Some stay late.
func (h *skippingHub) attemptPending(t *rapid.T) {
	for range 4 {
		for _, key := range slices.SortedFunc(maps.Keys(h.pending), func(a, b inventory.Key) int { return strings.Compare(a.String(), b.String()) }) {
			if !oneOf(t, "late", false, false, false, true) {
				h.attempt(t, key)
			}
		}
	}
}

// attempt decides and publishes a Placement, unless writes fail. In some cases something changes
// meanwhile.
func (h *skippingHub) attempt(t *rapid.T, key inventory.Key) {
	delete(h.pending, key)
	delete(h.next, key)
	if pl := h.inv.Placement(key); pl == nil || framework.WhyNotDecided(pl) != "" {
		return
	}
	h.writesLeft = oneOf(t, "writes", 100, 100, 100, 100, 100, 0, 1)
	a := h.engine.Attempt(log.IntoContext(context.Background(), logr.Discard()), key.Namespace, func() *framework.Snapshot { return h.inv.Snapshot(key, h.now, h.queues[key]) })
	if a == nil {
		return
	}
	defer h.engine.Release(a.Decision)
	h.addToLog("attempt for %s: %s, error %v, failure %v", key, a.Outcome, a.Err.Err(), a.Failure.Err())
	if oneOf(t, "meanwhile", false, false, false, true) {
		h.change(t)
	}
	if !a.Err.IsSuccess() || a.Outcome == plan.Failed {
		h.pending[key] = true
		return
	}
	h.writeRecords(a)
	if !h.writeStatus(t, a) {
		h.pending[key] = true
		return
	}
	h.inv.Settle(a.Snapshot, a.Proof())
	h.addToLog("settled: %t", a.Proof() != nil)
	if a.Failure.Code() == framework.Error {
		h.pending[key] = true
	}
	if at := a.State.NextAttempt(); !at.IsZero() {
		h.next[key] = at
	}
}

// writeStatus returns false if the Placement was edited meanwhile.
func (h *skippingHub) writeStatus(t *rapid.T, a *scheduler.Attempt) bool {
	decided := a.Snapshot.Subject.Placement
	known, ok := h.objects[idOf(decided)].(*v1alpha1.Placement)
	if !ok || known.UID != decided.UID {
		return true
	}
	if known.Generation != decided.Generation {
		return false
	}
	pl := known.DeepCopy()
	report.SetConditions(a, &pl.Status.Conditions)
	if a.Step != nil {
		pl.Status.DecisionGroups, pl.Status.NumberOfSelectedClusters = a.Step.Result.Groups, int32(len(a.Step.Selected))
	}
	h.put(pl)
	pl.SetGeneration(known.Generation)
	h.inv.AssumePlacement(pl)
	h.feed(t, event{object: pl})
	return true
}

// change makes a change of users, clusters or time.
func (h *skippingHub) change(t *rapid.T) {
	switch oneOf(t, "change", "edit", "edit", "edit", "edit", "edit", "edit", "edit", "edit", "edit", "edit",
		"cluster", "placement", "others", "others", "remove", "object", "page", "queue", "time", "reserve") {
	case "edit":
		if c := h.drawEdit(t, metav1.NewTime(h.now)); c != nil {
			h.feed(t, h.put(c))
		}
	case "cluster":
		h.feed(t, h.put(drawCluster(t)))
	case "placement":
		h.feed(t, h.put(drawGroupedPlacement(t)))
	case "others":
		page := fixture.Page("others", oneOf(t, "page", "a", "b")).Of("other").Lists(rapid.SliceOfN(rapid.SampledFrom(decidedNames), 0, 6).Draw(t, "decisions")...)
		h.feed(t, h.put(page.Obj()))
	case "page":
		h.feed(t, h.put(drawPage(t)))
	case "object":
		h.feed(t, h.put(h.drawObject(t)))
	case "reserve":
		h.inv.Claim(reserving, rapid.SliceOfN(rapid.SampledFrom(clusterNames), 0, 3).Draw(t, "clusters"))
	case "remove":
		if all := h.all(); len(all) > 0 && rapid.Bool().Draw(t, "really") {
			h.feed(t, h.remove(all[pick(t, len(all))]))
		}
	case "queue":
		if key := drawKey(t); rapid.Bool().Draw(t, "really") {
			h.queues[key], h.pending[key] = drawQueue(t), true
		}
	case "time":
		h.pass(oneOf(t, "time", time.Second, 6*time.Second, time.Minute, 10*time.Minute))
	}
}

// pass lets time pass, after which Placements may be due.
func (h *skippingHub) pass(d time.Duration) {
	h.now = h.now.Add(d)
	for key, at := range h.next {
		if !h.now.Before(at) {
			h.pending[key] = true
		}
	}
}

// drawGroupedPlacement returns a Placement that may have groups, or be sorted by score.
func drawGroupedPlacement(t *rapid.T) *v1alpha1.Placement {
	key := drawKey(t)
	pl := drawPlainPlacement(t, key.Namespace, key.Name)
	if oneOf(t, "grouped", false, false, true) {
		pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup.IntVal = 1
	}
	if oneOf(t, "by score", false, false, false, true) {
		pl.Spec.SortBy = v1alpha1.SortByScore
	}
	return pl
}
