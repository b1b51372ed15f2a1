package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/test/fixture"
)

// memoryPages is a framework.PageClient on a map. writes lists what was done ("create
// p-decision-1").
type memoryPages struct {
	mu      sync.Mutex
	pages   map[inventory.Key]*v1alpha1.PlacementDecision
	version int
	writes  []string
	// refuse, when set, may fail a write.
	refuse func(write string) error
	// lost is true while writes succeed, but neither they nor reads get a response.
	lost bool
}

var decisionResource = schema.GroupResource{Group: v1alpha1.GroupName, Resource: "placementdecisions"}

func (m *memoryPages) Read(_ context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost {
		return nil, errHubDown
	}
	if page := m.pages[inventory.Key{Namespace: namespace, Name: name}]; page != nil {
		return page.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(decisionResource, name)
}

func (m *memoryPages) Create(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pages[inventory.Key{Namespace: page.Namespace, Name: page.Name}] != nil {
		return nil, apierrors.NewAlreadyExists(decisionResource, page.Name)
	}
	page = page.DeepCopy()
	page.UID = types.UID(strconv.Itoa(m.version))
	return m.store("create", page)
}

func (m *memoryPages) Update(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return m.replace("update", page)
}

func (m *memoryPages) Fence(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return m.replace("fence", page)
}

func (m *memoryPages) replace(verb string, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unchanged(page); err != nil {
		return nil, err
	}
	return m.store(verb, page.DeepCopy())
}

func (m *memoryPages) Delete(_ context.Context, page *v1alpha1.PlacementDecision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unchanged(page); err != nil {
		return err
	}
	return m.write("delete "+page.Name, func() { delete(m.pages, inventory.Key{Namespace: page.Namespace, Name: page.Name}) })
}

func (m *memoryPages) store(verb string, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	err := m.write(verb+" "+page.Name, func() {
		m.version++
		page.ResourceVersion = strconv.Itoa(m.version)
		m.pages[inventory.Key{Namespace: page.Namespace, Name: page.Name}] = page
	})
	return page.DeepCopy(), err
}

func (m *memoryPages) write(write string, do func()) error {
	if m.refuse != nil {
		if err := m.refuse(write); err != nil {
			return err
		}
	}
	do()
	m.writes = append(m.writes, write)
	if m.lost {
		return errHubDown
	}
	return nil
}

func (m *memoryPages) unchanged(page *v1alpha1.PlacementDecision) error {
	known := m.pages[inventory.Key{Namespace: page.Namespace, Name: page.Name}]
	if known == nil || known.UID != page.UID || known.ResourceVersion != page.ResourceVersion {
		return apierrors.NewConflict(decisionResource, page.Name, nil)
	}
	return nil
}

// listed are the clusters on the labelled pages, by page: "p-decision-1: a b".
func (m *memoryPages) listed() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, page := range m.pages {
		if page.Labels[v1alpha1.PlacementLabel] == "" {
			continue
		}
		text := page.Name + ":"
		for _, d := range page.Status.Decisions {
			text += " " + d.ClusterName
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// gate is a Permit plugin that answers as it is set. Without an answer it lets pass.
type gate struct {
	name    string
	answer  *framework.Status
	timeout time.Duration
	// seen is the last Proposal it was asked about.
	seen framework.Proposal
	// approvable: it lets an approved change pass.
	approvable bool
	// panicsApproved: it panics for an approved change.
	panicsApproved bool
	// ofRevoked, when set, is the answer for the removal of revoked clusters.
	ofRevoked *framework.Status
}

func (g *gate) Name() string { return g.name }

func (g *gate) Permit(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	g.seen = *p
	switch {
	case g.panicsApproved && p.Approved:
		panic("approved")
	case g.approvable && p.Approved:
		return nil, 0
	case p.Kind == framework.RevokedRemoval && g.ofRevoked != nil:
		return g.ofRevoked, g.timeout
	}
	return g.answer, g.timeout
}

// fore reserves nothing and answers as it is set: answer is that of Reserve.
type fore struct {
	bare
	answer, ofTransition, ofPreBind *framework.Status
}

func (f *fore) PreBind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return f.ofPreBind
}

func (f *fore) Transition(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Change) (*framework.Transition, *framework.Status) {
	return nil, f.ofTransition
}

func (f *fore) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return f.answer
}

func (f *fore) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

// preScorer answers as it is set.
type preScorer struct {
	bare
	answer *framework.Status
}

func (p *preScorer) PreScore(context.Context, *framework.CycleState, *v1alpha1.Placement, []*framework.Cluster) *framework.Status {
	return p.answer
}

// desk is a hub in memory and the controller's part beside: it decides Placement ns/p, and keeps
// its status. The default profile runs, with two gates, x and y, and the Reserve plugin fore.
type desk struct {
	t           *testing.T
	pages       *memoryPages
	inv         *inventory.Inventory
	heldChanges *scheduler.Memory
	scheduler   *scheduler.Scheduler
	x, y        *gate
	fore        *fore
	// preScorer, when set, is among the plugins after the next restart.
	preScorer *preScorer
	// more are further plugins after the next restart.
	more      []framework.Plugin
	now       time.Time
	placement *v1alpha1.Placement
	clusters  map[string]*v1alpha1.ManagedCluster
	scores    map[string]*v1alpha1.AddOnPlacementScore
	requeued  []inventory.Key
	// records are the PlacementChanges by name; policy may require approval.
	records map[string]*berthv1alpha1.PlacementChange
	policy  *berthv1alpha1.DisruptionPolicy
	// refuseRecords, when set, may fail the write of a record.
	refuseRecords func(record *berthv1alpha1.PlacementChange) error
	// arguments are those of the default profile's plugins, by plugin.
	arguments map[string]string
	queue     *framework.QueueAdmission
	// unbound says that nothing is bound to the namespace.
	unbound bool
}

// newDesk begins with nothing published.
func newDesk(t *testing.T, p fixture.PlacementBuilder, clusters ...string) *desk {
	t.Helper()
	d := &desk{
		t: t, now: fixture.Now, placement: p.Obj(), pages: &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}},
		records:  map[string]*berthv1alpha1.PlacementChange{},
		clusters: map[string]*v1alpha1.ManagedCluster{}, scores: map[string]*v1alpha1.AddOnPlacementScore{},
		x: &gate{name: "x", timeout: time.Hour}, y: &gate{name: "y", timeout: 2 * time.Hour}, fore: &fore{bare: bare{"fore"}},
	}
	for _, name := range clusters {
		d.clusters[name] = fixture.Cluster(name).Set("s1").Obj()
	}
	d.restart()
	return d
}

// restart forgets all that is not on the hub.
func (d *desk) restart() {
	d.t.Helper()
	d.inv, d.heldChanges, d.requeued = inventory.New(inventory.Options{}), scheduler.NewMemory(), nil
	d.heldChanges.OnChange(func(key types.NamespacedName) { d.requeued = append(d.requeued, key) })
	handle := &framework.Handle{
		Pages: d.pages, Assume: d.inv.AssumePage, HeldChanges: d.heldChanges,
	}
	registry, defaults := builtin.Registry(), builtin.DefaultProfile()
	own := append([]framework.Plugin{d.x, d.y, d.fore}, d.more...)
	if d.preScorer != nil {
		own = append(own, d.preScorer)
	}
	for _, plugin := range own {
		registry[plugin.Name()] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return plugin, nil
		}
		defaults.Plugins.MultiPoint.Enabled = append(defaults.Plugins.MultiPoint.Enabled, config.Plugin{Name: plugin.Name()})
	}
	for name, args := range d.arguments {
		defaults.PluginConfig = append(defaults.PluginConfig, config.PluginConfig{Name: name, Args: json.RawMessage(args)})
	}
	profiles, err := plugins.NewProfiles(context.Background(), nil, defaults, registry, handle)
	if err != nil {
		d.t.Fatal(err)
	}
	d.scheduler = scheduler.New(profiles, d.heldChanges)
	d.scheduler.StorePublished, d.scheduler.StoreClaim, d.scheduler.WriteRecordsBefore = d.inv.SetPublished, d.inv.StoreClaim, d.recordFirst
	d.inv.Update(fixture.Set("s1"))
	if !d.unbound {
		d.inv.Update(fixture.Binding("ns", "s1"))
	}
	d.inv.Update(d.placement.DeepCopy())
	for _, name := range slices.Sorted(maps.Keys(d.clusters)) {
		d.inv.Update(d.clusters[name].DeepCopy())
	}
	for _, s := range d.scores {
		d.inv.Update(s.DeepCopy())
	}
	for _, page := range d.pages.pages {
		d.inv.Update(page.DeepCopy())
	}
	for _, record := range d.records {
		d.inv.Update(record.DeepCopy())
	}
	if d.policy != nil {
		d.inv.Update(d.policy.DeepCopy())
	}
	d.scheduler.Recount(d.inv.RecordsToCount())
}

// write stores a record as the hub would: it refuses an outdated one, and sets the version of the
// written one. Under a name that is taken by an earlier Placement's record it replaces that one.
func (d *desk) write(record *berthv1alpha1.PlacementChange) error {
	if d.refuseRecords != nil {
		if err := d.refuseRecords(record); err != nil {
			return err
		}
	}
	if old := d.records[record.Name]; old != nil && record.ResourceVersion != "" && record.ResourceVersion != old.ResourceVersion {
		return fmt.Errorf("the record %s was changed since it was read", record.Name)
	}
	d.pages.version++
	record.ResourceVersion = strconv.Itoa(d.pages.version)
	if record.UID == "" {
		record.CreationTimestamp = metav1.NewTime(d.now)
		record.UID = types.UID("record " + record.ResourceVersion)
	}
	record = record.DeepCopy()
	if old := d.records[record.Name]; old != nil && old.UID != record.UID {
		d.inv.Delete(old.DeepCopy())
	}
	d.records[record.Name] = record
	d.inv.AssumeRecord(record.DeepCopy())
	return nil
}

func (d *desk) recordFirst(_ context.Context, a *scheduler.Attempt) error {
	if len(a.Records.Before) == 0 {
		return nil
	}
	for _, record := range a.Records.Before {
		if err := d.write(record); err != nil {
			return err
		}
	}
	a.SetRecorded()
	return nil
}

// recordAfter writes what became of the change at once.
func (d *desk) recordAfter(a *scheduler.Attempt) {
	d.t.Helper()
	for _, record := range a.RecordsAfter() {
		if err := d.write(record); err != nil {
			d.t.Fatal(err)
		}
	}
	revision, change, ok := a.History()
	if !ok {
		return
	}
	record := changes.NewRecord(d.placement, 0, revision, change)
	now := metav1.NewTime(d.now)
	record.Status = berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhasePublished, StartTime: &now, PermittedTime: &now, CompletionTime: &now}
	if err := d.write(record); err != nil {
		d.t.Fatal(err)
	}
}

// require has a policy require approval.
func (d *desk) require() {
	d.policy = &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "careful"}, Spec: berthv1alpha1.DisruptionPolicySpec{
		PlacementSelector: &metav1.LabelSelector{}, Approval: berthv1alpha1.ApprovalRequired,
	}}
	d.inv.Update(d.policy.DeepCopy())
}

// answer approves or rejects the change with a revision, if the hub accepts that.
func (d *desk) answer(revision string, decision berthv1alpha1.ApprovalDecision) {
	record := d.records["p-"+revision]
	if record == nil {
		d.t.Fatalf("there is no revision %s", revision)
	}
	switch phase := record.Status.Phase; {
	case phase == berthv1alpha1.PhaseHeld, phase == berthv1alpha1.PhaseRejected, phase == berthv1alpha1.PhaseExpired,
		record.NeedsApproval() && decision == berthv1alpha1.Approved:
		record = record.DeepCopy()
		record.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: decision, By: "ann"}
		d.pages.version++
		record.ResourceVersion = strconv.Itoa(d.pages.version)
		d.records[record.Name] = record
		d.inv.Update(record.DeepCopy())
	}
}

func (d *desk) approve(revision string) { d.answer(revision, berthv1alpha1.Approved) }

// phase is that of a revision.
func (d *desk) phase(revision string) berthv1alpha1.ChangePhase {
	return d.records["p-"+revision].Status.Phase
}

// newest is the record with the highest revision of this very Placement that is not Published or
// Superseded.
func (d *desk) newest() *berthv1alpha1.PlacementChange {
	var newest *berthv1alpha1.PlacementChange
	for _, record := range d.records {
		switch {
		case !d.placement.Controls(record):
		case record.Status.Phase == berthv1alpha1.PhasePublished || record.Status.Phase == berthv1alpha1.PhaseSuperseded:
		case newest == nil || newest.Spec.Revision < record.Spec.Revision:
			newest = record
		}
	}
	return newest
}

// edit changes the Placement as the API server would: an edit of the spec is a new generation.
func (d *desk) edit(change func(*v1alpha1.Placement)) {
	before := d.placement.DeepCopy()
	change(d.placement)
	if spec, _ := json.Marshal(before.Spec); string(spec) != string(mustJSON(d.placement.Spec)) {
		d.placement.Generation++
	}
	d.inv.Update(d.placement.DeepCopy())
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// attempt is one pass of the controller.
func (d *desk) attempt() *scheduler.Attempt {
	d.t.Helper()
	a, failure := d.try()
	if !failure.IsSuccess() {
		d.t.Fatal(failure.Err())
	}
	return a
}

func (d *desk) snapshot() *framework.Snapshot { return d.inv.Snapshot(key, d.now, d.queue) }

var (
	errHubDown = errors.New("hub is down")
	errRefused = apierrors.NewForbidden(decisionResource, "", errHubDown)
)

func pageKey(name string) inventory.Key { return inventory.Key{Namespace: "ns", Name: name} }

// try is a pass that may fail; then the status stays.
func (d *desk) try() (*scheduler.Attempt, *framework.Status) {
	ctx := context.Background()
	a := d.scheduler.Attempt(ctx, key.Namespace, d.snapshot)
	if a.Earlier != nil {
		d.recordAfter(a.Earlier)
	}
	if a.Err.IsSuccess() {
		d.recordAfter(a)
		report.SetConditions(a, &d.placement.Status.Conditions)
		d.inv.Update(d.placement.DeepCopy())
	}
	return a, a.Err
}

// attemptUntilStable runs attempts as long as another one is due now.
func (d *desk) attemptUntilStable() *scheduler.Attempt {
	d.t.Helper()
	for range 5 {
		a := d.attempt()
		if at := a.State.Requeue(); at.IsZero() || at.After(d.now) {
			return a
		}
	}
	d.t.Fatal("attempts do not end")
	return nil
}

func (d *desk) published() string { return d.pages.listed() }

// held are the clusters that the open record leads to.
func (d *desk) held() string {
	record := d.newest()
	if record == nil || !changes.IsOpen(record) {
		return ""
	}
	names, _ := framework.Listed(slices.Collect(maps.Values(d.own())))
	target, err := changes.Target(record, names)
	if err != nil {
		return err.Error()
	}
	return "[" + strings.Join(target, " ") + "]"
}

// own are the published pages of this very Placement.
func (d *desk) own() map[inventory.Key]*v1alpha1.PlacementDecision {
	own := map[inventory.Key]*v1alpha1.PlacementDecision{}
	for key, page := range d.pages.pages {
		if page.Labels[v1alpha1.PlacementLabel] != "" && d.placement.Controls(page) {
			own[key] = page
		}
	}
	return own
}

// pending is the condition DecisionPending as "status/reason".
func (d *desk) pending() string {
	if c := d.condition(v1alpha1.PlacementConditionDecisionPending); c != nil {
		return string(c.Status) + "/" + c.Reason
	}
	return ""
}

func (d *desk) condition(kind string) *metav1.Condition {
	return meta.FindStatusCondition(d.placement.Status.Conditions, kind)
}

// revision is that of the change which is pending.
func (d *desk) revision() string {
	d.t.Helper()
	record := d.newest()
	if record == nil {
		d.t.Fatal("nothing is pending")
	}
	return strconv.FormatInt(record.Spec.Revision, 10)
}

// state is all that readers see.
func (d *desk) state() string {
	return d.published() + " | " + d.held() + " | " + d.pending()
}

// bare only has a name.
type bare struct{ name string }

func (b bare) Name() string { return b.name }
