package scheduler_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/model"
)

// history is a desk whose writes can fail, with what the model has to know.
type history struct {
	*desk
	rt        *rapid.T
	fleet     map[string]*model.Cluster
	policies  map[string]*berthv1alpha1.DisruptionPolicy
	evictions map[string]*berthv1alpha1.PlacementEviction
	// readiness is "ready", "not ready" or "unknown", by source and cluster. down are the sources
	// that cannot be read.
	readiness map[string]map[string]string
	down      map[string]bool
	memory    model.Memory
	edits     int
	tolerates bool
	denies    model.Denial
	// causes: what followed the last attempt is an event that causes another one.
	causes bool
	// fault is the number of writes that succeed until one fails; negative for all. If crashes, all
	// later ones fail, too, and the controller starts again.
	fault   int
	crashes bool
	// edited is the page that a user edited last, nil if deleted; unedited is as Berth wrote it.
	edited, unedited *v1alpha1.PlacementDecision
}

func newHistory(t *testing.T, rt *rapid.T) *history {
	p := ask().Predicate(fixture.MatchLabel("tier", "gold")).Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer(v1alpha1.PrioritizerSteady, 1)
	h := &history{
		desk: newDesk(t, p), rt: rt, fleet: map[string]*model.Cluster{}, policies: map[string]*berthv1alpha1.DisruptionPolicy{},
		evictions: map[string]*berthv1alpha1.PlacementEviction{}, readiness: map[string]map[string]string{"apps": {}, "jobs": {}}, down: map[string]bool{}, fault: -1,
	}
	h.pages.refuse = func(string) error { return h.use() }
	h.restart()
	for i, name := range historyClusters {
		if i < 4 {
			h.setCluster(name, &model.Cluster{Matches: true, Usable: true})
		}
		for _, source := range historySources {
			h.setReady(source, name, "ready")
		}
	}
	return h
}

// restart forgets all that is not on the hub.
func (h *history) restart() {
	h.fault, h.memory = -1, model.Memory{}
	h.undoPageEdit()
	h.desk.restart()
	h.scheduler.WriteRecordsBefore = func(_ context.Context, a *scheduler.Attempt) error {
		if len(a.Records.Before) == 0 {
			return nil
		}
		err := h.writeAll(a.Records.Before)
		if err == nil {
			a.SetRecorded()
		}
		return err
	}
	for _, e := range h.evictions {
		h.inv.Update(e.DeepCopy())
	}
	for _, policy := range h.policies {
		h.inv.Update(policy.DeepCopy())
	}
	for _, source := range historySources {
		h.listSource(source)
	}
}

func (h *history) version() string {
	h.pages.version++
	return strconv.Itoa(h.pages.version)
}

func (h *history) setCluster(name string, c *model.Cluster) {
	if c == nil {
		if h.fleet[name] != nil {
			h.remove(name)
		}
		delete(h.fleet, name)
		return
	}
	set, tier := "s1", "gold"
	if !c.Usable {
		set = "s2"
	}
	if !c.Matches {
		tier = "silver"
	}
	b := fixture.Cluster(name).Set(set).Label("tier", tier)
	if c.Drained {
		b = b.Taint(v1alpha1.DrainTaint, "", v1alpha1.TaintEffectNoSelect)
	}
	if c.Tainted {
		b = b.TaintAt("broken", "", v1alpha1.TaintEffectNoSelect, metav1.NewTime(c.TaintedSince))
	}
	if c.Unavailable {
		b = b.TaintAt(v1alpha1.ManagedClusterTaintUnavailable, "", v1alpha1.TaintEffectNoSelect, metav1.NewTime(c.UnavailableSince))
	}
	if c.OnlyOld {
		b = b.Taint("full", "", v1alpha1.TaintEffectNoSelectIfNew)
	}
	if c.Deleting {
		b = b.Deleting()
	}
	h.fleet[name], h.clusters[name] = c, b.Obj()
	h.inv.Update(b.Obj())
}

func (h *history) setPolicy(name string, spec *berthv1alpha1.DisruptionPolicySpec) {
	if spec == nil {
		if h.policies[name] != nil {
			h.inv.Delete(h.policies[name].DeepCopy())
			delete(h.policies, name)
		}
		return
	}
	h.policies[name] = &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: h.version()}, Spec: *spec}
	h.inv.Update(h.policies[name].DeepCopy())
}

func (h *history) setEviction(name string, e *berthv1alpha1.PlacementEviction) {
	e.Spec.ExcludeForSeconds, e.ResourceVersion = 30, h.version()
	h.evictions[name] = e
	h.inv.Update(e.DeepCopy())
}

// isEvicted reports whether an eviction excludes a cluster now.
func (h *history) isEvicted(name string) bool {
	e := h.evictions[name]
	if e == nil {
		return false
	}
	executed := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.EvictionExecuted)
	return executed == nil || h.now.Before(executed.LastTransitionTime.Add(30*time.Second))
}

func (h *history) setReady(source, name, state string) {
	h.readiness[source][name] = state
	if object := h.object(source, name); object != nil {
		h.inv.SetReadiness(source, *object)
	} else {
		h.inv.DeleteReadiness(source, inventory.Key{Namespace: "ns", Name: name})
	}
}

func (h *history) object(source, name string) *inventory.ReadyObject {
	if state := h.readiness[source][name]; state == "ready" || state == "not ready" {
		return &inventory.ReadyObject{Key: inventory.Key{Namespace: "ns", Name: name}, Cluster: name, Ready: state == "ready"}
	}
	return nil
}

// listSource lists the objects of a readiness source, as after a restart.
func (h *history) listSource(source string) {
	if h.down[source] {
		h.inv.FailReadiness(source, "down")
		return
	}
	var all []inventory.ReadyObject
	for _, name := range historyClusters {
		if object := h.object(source, name); object != nil {
			all = append(all, *object)
		}
	}
	h.inv.ReplaceReadiness(source, all, nil)
}

// isReady reports whether all sources of the policies say that a cluster is ready.
func (h *history) isReady(name string) bool {
	for _, policy := range h.policies {
		if r := policy.Spec.Readiness; r != nil && (h.down[r.Source] || h.readiness[r.Source][name] != "ready") {
			return false
		}
	}
	return true
}

// isUnknown reports whether it is not known that a cluster is ready, and not that it is not.
func (h *history) isUnknown(name string) bool {
	unknown := false
	for _, policy := range h.policies {
		switch r := policy.Spec.Readiness; {
		case r == nil:
		case h.down[r.Source] || h.object(r.Source, name) == nil:
			unknown = true
		case h.readiness[r.Source][name] != "ready":
			return false
		}
	}
	return unknown
}

// use counts a write. It returns an error for one that fails.
func (h *history) use() error {
	switch {
	case h.fault < 0:
		return nil
	case h.fault > 0:
		h.fault--
		return nil
	case !h.crashes:
		h.fault = -1
	}
	return errHubDown
}

// writeAll writes records as the controller does: a new one is created first, and then its status
// is written.
func (h *history) writeAll(records []*berthv1alpha1.PlacementChange) error {
	for _, record := range records {
		if record.ResourceVersion == "" {
			if old := h.records[record.Name]; old != nil && old.Status.Phase != "" {
				h.rt.Fatalf("the record %s exists", record.Name)
			}
			if err := h.use(); err != nil {
				return err
			}
			created := record.DeepCopy()
			created.Status = berthv1alpha1.PlacementChangeStatus{}
			if err := h.write(created); err != nil {
				return err
			}
			record.ObjectMeta = created.ObjectMeta
		}
		if err := h.use(); err != nil {
			return err
		}
		if err := h.write(record); err != nil {
			return err
		}
	}
	return nil
}

// run is one attempt of the controller, with what follows it.
func (h *history) run() (a *scheduler.Attempt, failed bool) {
	defer func() { h.fault = -1 }()
	h.causes = false
	a = h.scheduler.Attempt(context.Background(), key.Namespace, h.snapshot)
	if !a.Err.IsSuccess() {
		return a, true
	}
	if err := h.writeAll(a.RecordsAfter()); err != nil {
		return a, true
	}
	if revision, change, ok := a.History(); ok {
		record := changes.NewRecord(h.placement, 0, revision, change)
		now := metav1.NewTime(h.now)
		record.Status = berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhasePublished, StartTime: &now, PermittedTime: &now, LastProgressTime: &now, CompletionTime: &now}
		if err := h.writeAll([]*berthv1alpha1.PlacementChange{record}); err != nil && h.crashes {
			return a, true
		} else if err != nil && h.writeAll([]*berthv1alpha1.PlacementChange{record}) != nil {
			h.rt.Fatal("the record is not written")
		}
	}
	report.SetConditions(a, &h.placement.Status.Conditions)
	h.inv.Update(h.placement.DeepCopy())
	for name, e := range h.evictions {
		if len(e.Status.Conditions) == 1 && !slices.Contains(h.listed(), name) {
			h.setEviction(name, fixture.Eviction("ns", "evict-"+name, "p", name).Executed(h.now).Obj())
			h.causes = true
		}
	}
	return a, false
}

// listed are the published clusters, sorted.
func (h *history) listed() []string {
	_, text, _ := strings.Cut(h.published(), ": ")
	names := strings.Fields(text)
	slices.Sort(names)
	return names
}

func (h *history) pageRevision() (highest int64) {
	for _, page := range h.own() {
		revision, _ := strconv.ParseInt(page.Annotations[berthv1alpha1.RevisionAnnotation], 10, 64)
		highest = max(highest, revision)
	}
	return highest
}

func (h *history) modelPages() model.Pages {
	return model.Pages{Listed: h.listed(), Revision: h.pageRevision()}
}

// modelRecords are the records as the model has them.
func (h *history) modelRecords() []model.Record {
	var all []model.Record
	for _, name := range slices.Sorted(maps.Keys(h.records)) {
		all = append(all, modelRecord(h.records[name]))
	}
	slices.SortFunc(all, func(a, b model.Record) int { return int(a.Revision - b.Revision) })
	return all
}

func modelRecord(r *berthv1alpha1.PlacementChange) model.Record {
	at := func(t *metav1.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.Time
	}
	m := model.Record{
		Revision: r.Spec.Revision, Generation: r.Spec.PlacementGeneration, Published: r.Spec.PublishedGeneration, Started: changes.Began(r), From: r.Spec.From, To: r.Spec.To, Added: r.Spec.Added, Removed: r.Spec.Removed, Forced: r.Spec.Forced,
		Phase: r.Status.Phase, Permitted: at(r.Status.PermittedTime), Progress: at(r.Status.LastProgressTime), Completed: at(r.Status.CompletionTime),
	}
	m.Uses = r.Status.Approval != nil
	if r.Spec.Approval != nil {
		m.Approval = r.Spec.Approval.Decision
	}
	for _, hold := range r.Status.Holds {
		if m.Holds == nil {
			m.Holds = map[string]time.Time{}
		}
		m.Holds[hold.Plugin] = time.Time{}
		if hold.Plugin == "Approval" {
			m.Holds[hold.Plugin] = at(hold.Until)
		}
	}
	if left := r.Status.Remaining; left != nil {
		m.LeftAdded, m.LeftRemoved = int(left.Added), int(left.Removed)
	} else if m.Phase == "" {
		m.LeftAdded, m.LeftRemoved = len(m.Added), len(m.Removed)
	}
	return m
}

// observed is the generation in the status if no change is pending there; else 0.
func (h *history) observed() int64 {
	satisfied := h.condition(v1alpha1.PlacementConditionSatisfied)
	misconfigured := h.condition(v1alpha1.PlacementConditionMisconfigured)
	if satisfied == nil || h.condition(v1alpha1.PlacementConditionDecisionPending) != nil || h.condition(v1alpha1.PlacementConditionDecisionProgressing) != nil ||
		misconfigured.Status == metav1.ConditionTrue {
		return 0
	}
	return satisfied.ObservedGeneration
}
