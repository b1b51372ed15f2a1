package scheduler_test

import (
	"context"
	"encoding/json"
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

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// memoryPages is a framework.PageClient on a map. writes lists what was done ("create p-held-1").
type memoryPages struct {
	mu      sync.Mutex
	pages   map[inventory.Key]*v1alpha1.PlacementDecision
	version int
	writes  []string
	// refuse, when set, may fail a write.
	refuse func(write string) error
}

var decisionResource = schema.GroupResource{Group: v1alpha1.GroupName, Resource: "placementdecisions"}

func (m *memoryPages) Read(_ context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	return m.put("create", page)
}

func (m *memoryPages) Update(_ context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unchanged(page); err != nil {
		return nil, err
	}
	return m.put("update", page.DeepCopy())
}

func (m *memoryPages) Delete(_ context.Context, page *v1alpha1.PlacementDecision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unchanged(page); err != nil {
		return err
	}
	return m.note("delete "+page.Name, func() { delete(m.pages, inventory.Key{Namespace: page.Namespace, Name: page.Name}) })
}

func (m *memoryPages) put(verb string, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	err := m.note(verb+" "+page.Name, func() {
		m.version++
		page.ResourceVersion = strconv.Itoa(m.version)
		m.pages[inventory.Key{Namespace: page.Namespace, Name: page.Name}] = page
	})
	return page.DeepCopy(), err
}

func (m *memoryPages) note(write string, do func()) error {
	if m.refuse != nil {
		if err := m.refuse(write); err != nil {
			return err
		}
	}
	do()
	m.writes = append(m.writes, write)
	return nil
}

func (m *memoryPages) unchanged(page *v1alpha1.PlacementDecision) error {
	known := m.pages[inventory.Key{Namespace: page.Namespace, Name: page.Name}]
	if known == nil || known.UID != page.UID || known.ResourceVersion != page.ResourceVersion {
		return apierrors.NewConflict(decisionResource, page.Name, nil)
	}
	return nil
}

// listed are the clusters on the pages that a label names the Placement's, by page: "p-decision-1: a b".
func (m *memoryPages) listed(label string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, page := range m.pages {
		if page.Labels[label] == "" {
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
}

func (g *gate) Name() string { return g.name }

func (g *gate) Permit(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	g.seen = *p
	return g.answer, g.timeout
}

// fore reserves nothing and answers as it is set.
type fore struct {
	bare
	answer *framework.Status
}

func (f *fore) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	return f.answer
}

func (f *fore) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
}

// desk is a hub in memory and the controller's part beside: it decides Placement ns/p, and keeps its status. The default profile
// runs, with two gates, x and y, and the Reserve plugin fore.
type desk struct {
	t         *testing.T
	pages     *memoryPages
	inv       *inventory.Inventory
	waiting   *scheduler.Waiting
	scheduler *scheduler.Scheduler
	x, y      *gate
	fore      *fore
	now       time.Time
	placement *v1alpha1.Placement
	clusters  map[string]*v1alpha1.ManagedCluster
	scores    map[string]*v1alpha1.AddOnPlacementScore
	woken     []inventory.Key
	// arguments are those of the default profile's plugins, by plugin.
	arguments map[string]string
	// unbound says that nothing is bound to the namespace.
	unbound bool
}

// newDesk begins with nothing published.
func newDesk(t *testing.T, p fixture.PlacementBuilder, clusters ...string) *desk {
	t.Helper()
	d := &desk{
		t: t, now: fixture.Now, placement: p.Obj(), pages: &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}},
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
	d.inv, d.waiting, d.woken = inventory.New(inventory.Options{}), scheduler.NewWaiting(), nil
	d.waiting.OnChange(func(key types.NamespacedName) { d.woken = append(d.woken, key) })
	handle := &framework.Handle{
		Pages: d.pages, Assume: d.inv.Assume, Reserve: d.inv.Reserve, Unreserve: d.inv.Unreserve, Waiting: d.waiting,
	}
	registry, defaults := builtin.Registry(), builtin.DefaultProfile()
	for _, plugin := range []framework.Plugin{d.x, d.y, d.fore} {
		registry[plugin.Name()] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return plugin, nil
		}
		defaults.Plugins.MultiPoint.Enabled = append(defaults.Plugins.MultiPoint.Enabled, config.Plugin{Name: plugin.Name()})
	}
	for name, args := range d.arguments {
		defaults.PluginConfig = append(defaults.PluginConfig, config.PluginConfig{Name: name, Args: json.RawMessage(args)})
	}
	profiles, err := scheduler.NewProfiles(context.Background(), nil, defaults, registry, handle)
	if err != nil {
		d.t.Fatal(err)
	}
	d.scheduler = scheduler.New(profiles, d.waiting)
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

// try is a pass that may fail; then the status stays.
func (d *desk) try() (*scheduler.Attempt, *framework.Status) {
	ctx := context.Background()
	a := d.scheduler.Attempt(ctx, func() *framework.Snapshot { return d.inv.Snapshot(key, d.now) })
	_, failure := d.scheduler.Publish(ctx, a)
	if failure.IsSuccess() {
		a.SetConditions(&d.placement.Status.Conditions)
		d.inv.Update(d.placement.DeepCopy())
	}
	return a, failure
}

// settle goes on as long as another pass is due now.
func (d *desk) settle() *scheduler.Attempt {
	d.t.Helper()
	for range 5 {
		a := d.attempt()
		if at := a.State.Requeue(); at.IsZero() || at.After(d.now) {
			return a
		}
	}
	d.t.Fatal("it does not settle")
	return nil
}

func (d *desk) published() string { return d.pages.listed(v1alpha1.PlacementLabel) }

func (d *desk) held() string { return d.pages.listed(v1alpha1.HeldLabel) }

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

// token is the token in the condition's message.
func (d *desk) token() string {
	d.t.Helper()
	c := d.condition(v1alpha1.PlacementConditionDecisionPending)
	if c == nil {
		d.t.Fatal("nothing is pending")
	}
	words := strings.Fields(c.Message)
	if len(words) < 2 || words[0] != "Change" {
		d.t.Fatalf("the message names no change: %q", c.Message)
	}
	return words[1]
}

// state is all that readers see.
func (d *desk) state() string {
	return d.published() + " | " + d.held() + " | " + d.pending()
}
