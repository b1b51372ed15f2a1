package property

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// replayHub is a world with a controller: attempts write pages, records and status.
type replayHub struct {
	*world
	inv       *inventory.Inventory
	held      *scheduler.Memory
	engine    *scheduler.Scheduler
	copier    *copier
	now       time.Time
	recorded  []recordedAttempt
	refuseAll bool
	// writesLeft is the number of page writes that succeed before one is refused.
	writesLeft int
}

// newReplayHub has clusters that both namespaces may use.
func newReplayHub(t *rapid.T) *replayHub {
	h := &replayHub{world: newWorld(), now: fixture.Now}
	for _, set := range setNames {
		h.put(fixture.Set(set))
	}
	for _, namespace := range namespaceNames {
		h.put(fixture.Binding(namespace, "s1"))
		for _, name := range placementNames {
			h.put(fixture.Placement(namespace, name).Number(2).Obj())
		}
	}
	for _, name := range clusterNames {
		h.put(fixture.Cluster(name).Set("s1").Label("a", "x").Obj())
	}
	h.restart(t)
	return h
}

// restart drops all state that is not on the hub.
func (h *replayHub) restart(t *rapid.T) {
	h.inv, h.held, h.copier = inventory.New(inventory.Options{}), scheduler.NewMemory(), &copier{}
	h.engine = newReplayScheduler(t, &framework.Handle{
		Pages: h, Assume: h.inv.AssumePage, HeldChanges: h.held,
	}, h.held, h.copier)
	h.engine.StorePublished, h.engine.StoreClaim, h.engine.WriteRecordsBefore = h.inv.SetPublished, h.inv.StoreClaim, h.recordFirst
	for _, o := range h.all() {
		h.inv.Update(o)
	}
	h.engine.Recount(h.inv.Records())
	h.inv.Started()
}

// store stores an object without a new generation, as a write of a subresource does.
func (h *replayHub) store(o client.Object) {
	generation := o.GetGeneration()
	h.put(o)
	o.SetGeneration(generation)
	h.inv.Update(o)
}

// change makes the changes of users and clusters before an attempt.
func (h *replayHub) change(t *rapid.T) {
	switch oneOf(t, "change", "put", "put", "put", "remove", "gate", "gate", "answer", "answer", "say", "time", "time", "restart", "none") {
	case "put":
		h.inv.Update(h.put(h.drawObject(t)).object)
	case "remove":
		if all := h.all(); len(all) > 0 {
			o := all[pick(t, len(all))]
			h.inv.Delete(h.remove(o).object)
			if pl, ok := o.(*v1alpha1.Placement); ok {
				h.engine.Forget(inventory.Key{Namespace: pl.Namespace, Name: pl.Name})
			}
		}
	case "gate":
		if pl := h.somePlacement(t); pl != nil {
			pl = pl.DeepCopy()
			metav1.SetMetaDataAnnotation(&pl.ObjectMeta, gateAnnotation+oneOf(t, "gate", "x", "y"), oneOf(t, "answer", "", "", "hold", "hold", "deny", "wait", "fail"))
			h.store(pl)
		}
	case "answer":
		h.answerRecord(t)
	case "say":
		if held := h.held.List(); len(held) > 0 {
			w, gate := held[pick(t, len(held))], oneOf(t, "gate", "x", "y")
			if rapid.Bool().Draw(t, "allow") {
				h.held.Allow(w.UID, gate)
			} else {
				h.held.Reject(w.UID, gate, "no")
			}
		}
	case "time":
		h.now = h.now.Add(oneOf(t, "time", time.Second, 6*time.Second, 10*time.Minute, time.Hour, 8*24*time.Hour))
	case "restart":
		h.restart(t)
	}
}

func (h *replayHub) somePlacement(t *rapid.T) *v1alpha1.Placement {
	keys := h.inv.Placements()
	if len(keys) == 0 {
		return nil
	}
	return h.inv.Placement(keys[pick(t, len(keys))])
}

// answerRecord approves or rejects a change if the hub accepts that.
func (h *replayHub) answerRecord(t *rapid.T) {
	var open []*berthv1alpha1.PlacementChange
	for _, o := range h.all() {
		if record, ok := o.(*berthv1alpha1.PlacementChange); ok {
			switch record.Status.Phase {
			case berthv1alpha1.PhaseHeld, berthv1alpha1.PhaseRejected, berthv1alpha1.PhaseExpired:
				open = append(open, record)
			}
		}
	}
	if len(open) == 0 {
		return
	}
	record := open[pick(t, len(open))].DeepCopy()
	record.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: oneOf(t, "decision", berthv1alpha1.Approved, berthv1alpha1.Rejected), By: "ann"}
	h.store(record)
}

// attempt decides and publishes a Placement, and records the inputs.
func (h *replayHub) attempt(t *rapid.T) {
	pl := h.somePlacement(t)
	if pl == nil {
		return
	}
	key := inventory.Key{Namespace: pl.Namespace, Name: pl.Name}
	h.writesLeft = oneOf(t, "writes", 100, 100, 100, 0, 1)
	h.refuseAll = oneOf(t, "records", false, false, false, true)
	queue := drawQueue(t)
	h.copier.copied = nil
	a := h.engine.Attempt(log.IntoContext(context.Background(), logr.Discard()), key.Namespace, func() *framework.Snapshot { return h.inv.Snapshot(key, h.now, queue) })
	defer h.engine.Release(a.Decision)
	failed := !a.Err.IsSuccess()
	if h.copier.copied != nil {
		h.recorded = append(h.recorded, recordedAttempt{h.copier.copied, outcomeOf(a), failed})
	}
	if a.Earlier != nil {
		h.writeRecords(a.Earlier)
	}
	if !failed {
		h.report(a)
	}
}

// drawQueue returns the limits of a Placement's queue; most have none.
func drawQueue(t *rapid.T) *framework.QueueAdmission {
	queue := &framework.QueueAdmission{Admitted: true, Reason: "Admitted", Limit: -1, Annotation: "root.q"}
	switch oneOf(t, "queue", "none", "none", "none", "none", "limited", "restricted", "parked", "rejected") {
	case "none":
		return nil
	case "limited":
		queue.Limit, queue.LimitBy = 1, "root.q"
	case "restricted":
		queue.Restricted, queue.Sets = true, []string{"s2"}
	case "parked":
		queue.Admitted, queue.Reason, queue.Message, queue.RetryAt = false, "Pending", "not yet", fixture.Now.Add(time.Hour)
	case "rejected":
		queue.Admitted, queue.Reason, queue.Message, queue.Rejected = false, "Rejected", "no queue", true
	}
	return queue
}

// recordFirst writes the records that the controller writes before pages.
func (h *replayHub) recordFirst(_ context.Context, a *scheduler.Attempt) error {
	if len(a.Records.Before) == 0 {
		return nil
	}
	if h.refuseAll {
		return errHub
	}
	h.write(a.Records.Before)
	a.SetRecorded()
	return nil
}

func (h *replayHub) write(records []*berthv1alpha1.PlacementChange) {
	for _, record := range records {
		record = record.DeepCopy()
		h.put(record)
		h.inv.AssumeRecord(record)
	}
}

// writeRecords writes the records that the controller writes after pages.
func (h *replayHub) writeRecords(a *scheduler.Attempt) {
	h.write(a.RecordsAfter())
	if revision, change, ok := a.History(); ok {
		record := changes.NewRecord(a.Snapshot.Subject.Placement, 0, revision, change)
		now := metav1.NewTime(h.now.Truncate(time.Second))
		record.Status = berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhasePublished, StartTime: &now, PermittedTime: &now, CompletionTime: &now}
		h.write([]*berthv1alpha1.PlacementChange{record})
	}
}

// report is step 10.
func (h *replayHub) report(a *scheduler.Attempt) {
	h.writeRecords(a)
	pl := a.Snapshot.Subject.Placement.DeepCopy()
	report.SetConditions(a, &pl.Status.Conditions)
	if a.Step != nil {
		pl.Status.DecisionGroups = a.Step.Result.Groups
	}
	h.store(pl)
}

var pageResource = schema.GroupResource{Group: v1alpha1.GroupName, Resource: "placementdecisions"}

// errHub is an answer: no request that got it is carried out later.
var errHub = apierrors.NewForbidden(pageResource, "", errors.New("the hub refuses"))

// Read implements framework.PageClient, as the methods below do.
func (h *replayHub) Read(_ context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error) {
	if page, ok := h.objects[idOf(fixture.Page(namespace, name).Obj())]; ok {
		return page.(*v1alpha1.PlacementDecision).DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(pageResource, name)
}

// Create implements framework.PageClient.
func (h *replayHub) Create(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	if h.objects[idOf(page)] != nil {
		return nil, apierrors.NewAlreadyExists(pageResource, page.Name)
	}
	return h.writePage(page)
}

// Update implements framework.PageClient.
func (h *replayHub) Update(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	if known := h.objects[idOf(page)]; known == nil || known.GetResourceVersion() != page.ResourceVersion {
		return nil, apierrors.NewConflict(pageResource, page.Name, nil)
	}
	return h.writePage(page)
}

// Fence implements framework.PageClient.
func (h *replayHub) Fence(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return h.Update(ctx, page)
}

// Delete implements framework.PageClient.
func (h *replayHub) Delete(_ context.Context, page *v1alpha1.PlacementDecision) error {
	if h.writesLeft--; h.writesLeft < 0 {
		return errHub
	}
	h.remove(page)
	return nil
}

func (h *replayHub) writePage(page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	if h.writesLeft--; h.writesLeft < 0 {
		return nil, errHub
	}
	page = page.DeepCopy()
	h.put(page)
	return page.DeepCopy(), nil
}

var _ framework.PageClient = (*replayHub)(nil)
