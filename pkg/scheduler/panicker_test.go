package scheduler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
	"github.com/berth-dev/berth/test/fixture"
)

// panicker is a plugin at every point, with every optional interface. It panics in one method.
type panicker struct {
	// in is the method that panics with value(); empty for none.
	in    string
	value func() any
	// reserved is true between Reserve and Unreserve or PostBind.
	reserved bool
	// denies makes Permit deny the change, holds hold it, waits leave it Pending. settles makes the
	// plugin need no attempt at rest.
	denies, holds, waits, settles bool
}

func (p *panicker) run(method string) {
	if p.in == method {
		panic(p.value())
	}
}

func (*panicker) Name() string { return "Panicker" }

func (p *panicker) Describe() framework.Traits {
	return framework.Traits{
		PolicyPrepared: func(*berthv1alpha1.SelectionPolicy) bool {
			p.run("PolicyPrepared")
			return p.in != "PreparePolicy"
		},
		PreparePolicy: func(*berthv1alpha1.SelectionPolicy, func() bool) bool {
			p.run("PreparePolicy")
			return true
		},
		ValidatePolicy: func(context.Context, *berthv1alpha1.SelectionPolicy) field.ErrorList {
			p.run("ValidatePolicy")
			return nil
		},
		ForcesRemoval: func(*framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (f framework.Forcing) {
			p.run("ForcesRemoval")
			return f
		},
		ReportSelection: func(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Selected) (*metav1.Condition, bool) {
			p.run("ReportSelection")
			return nil, true
		},
		Counter: framework.Counter{
			Counts: func() any {
				p.run("Counts")
				return nil
			},
			DecodeCounts: func([]byte) (any, error) {
				p.run("DecodeCounts")
				return nil, nil
			},
			NeedsRecords: func() time.Duration {
				p.run("NeedsRecords")
				return 0
			},
			Recount: func([]*berthv1alpha1.PlacementChange) { p.run("Recount") },
		},
		Verify: func(context.Context, *v1alpha1.Placement) (map[string]*v1alpha1.PlacementDecision, error) {
			p.run("Verify")
			return nil, nil
		},
	}
}

func (p *panicker) Less(a, b *v1alpha1.Placement) bool {
	p.run("Less")
	return a.Name < b.Name
}

func (p *panicker) PreEnqueue(context.Context, *framework.CycleState, *v1alpha1.Placement) *framework.Status {
	p.run("PreEnqueue")
	return nil
}

func (p *panicker) PreFilter(context.Context, *framework.CycleState, *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	p.run("PreFilter")
	return nil, nil
}

func (p *panicker) Prepared(*v1alpha1.Placement) bool {
	p.run("Prepared")
	return p.in != "Prepare"
}

func (p *panicker) Prepare(*v1alpha1.Placement, func() bool) bool {
	p.run("Prepare")
	return true
}

func (p *panicker) Validate(context.Context, *v1alpha1.Placement) field.ErrorList {
	p.run("Validate")
	return nil
}

func (p *panicker) Reads(*v1alpha1.Placement) framework.Reads {
	p.run("Reads")
	return framework.Reads{Labels: []string{"l"}}
}

func (p *panicker) Forget(types.NamespacedName) { p.run("Forget") }

func (p *panicker) Filter(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) *framework.Status {
	p.run("Filter")
	return nil
}

func (p *panicker) Relax(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) []framework.Relaxation {
	p.run("Relax")
	return nil
}

func (p *panicker) PostFilter(context.Context, *framework.CycleState, *v1alpha1.Placement, framework.Filtered) ([]framework.Intent, *framework.Status) {
	p.run("PostFilter")
	return nil, nil
}

func (p *panicker) PreScore(context.Context, *framework.CycleState, *v1alpha1.Placement, []*framework.Cluster) *framework.Status {
	p.run("PreScore")
	return nil
}

func (p *panicker) Score(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Cluster) (int64, *framework.Status) {
	p.run("Score")
	return 0, nil
}

func (p *panicker) NormalizeScore(context.Context, *framework.CycleState, *v1alpha1.Placement, []int64) *framework.Status {
	p.run("NormalizeScore")
	return nil
}

func (p *panicker) Reserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	p.reserved = true
	p.run("Reserve")
	return nil
}

func (p *panicker) Unreserve(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
	p.run("Unreserve")
	p.reserved = false
}

func (p *panicker) Permit(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) (*framework.Status, time.Duration) {
	p.run("Permit")
	switch {
	case p.denies:
		return framework.NewStatus(framework.Unschedulable, "not now"), 0
	case p.holds:
		return framework.NewStatus(framework.Wait, "later"), time.Hour
	case p.waits:
		return framework.NewStatus(framework.Pending, "soon"), 0
	}
	return nil, 0
}

func (p *panicker) Transition(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Change) (*framework.Transition, *framework.Status) {
	p.run("Transition")
	return nil, nil
}

func (p *panicker) PreBind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	p.run("PreBind")
	return nil
}

func (p *panicker) Bind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) *framework.Status {
	p.run("Bind")
	return framework.NewStatus(framework.Skip, "")
}

func (p *panicker) PostBind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
	p.reserved = false
	p.run("PostBind")
}

func (p *panicker) Recheck(*framework.CycleState) (func(*framework.Cluster) framework.Passing, bool) {
	p.run("Recheck")
	passes := func(*framework.Cluster) framework.Passing {
		p.run("passes")
		return framework.Passes
	}
	return passes, p.settles
}

func (p *panicker) Rescore(*framework.CycleState) (framework.SettledScore, bool) {
	p.run("Rescore")
	return settledPanicker{p}, p.settles
}

// settledPanicker is what the panicker leaves behind at rest.
type settledPanicker struct{ *panicker }

func (p settledPanicker) Score(*framework.Cluster, *framework.DecisionCounts) int64 {
	p.run("settled Score")
	return 0
}

func (p settledPanicker) Keeps(*framework.Cluster, *framework.Cluster, *framework.DecisionCounts) bool {
	p.run("Keeps")
	return true
}

func (p settledPanicker) DependsOn() framework.ScoreDependency {
	p.run("DependsOn")
	return framework.OnClusters
}

// The values with which plugins panic, with their texts.
var panicValues = map[string]struct {
	value func() any
	text  string
}{
	"an error":        {func() any { return fmt.Errorf("reading %w", context.DeadlineExceeded) }, "reading context deadline exceeded"},
	"a string":        {func() any { return "boom" }, "boom"},
	"a runtime error": {func() any { return indexError() }, "runtime error: index out of range [1] with length 1"},
}

func indexError() (value any) {
	defer func() { value = recover() }()
	one := make([]int, 1)
	return one[len(one)]
}

// panicHub is a hub in memory with the default profile and a panicker, which runs first at each
// point.
type panicHub struct {
	*panicker
	t         *testing.T
	pages     *memoryPages
	inv       *inventory.Inventory
	scheduler *scheduler.Scheduler
	clusters  int
}

func newPanicHub(t *testing.T, clusters int, change ...func(*config.Plugins)) *panicHub {
	t.Helper()
	h := &panicHub{
		panicker: &panicker{value: func() any { return "boom" }}, t: t,
		pages: &memoryPages{pages: map[inventory.Key]*v1alpha1.PlacementDecision{}},
	}
	h.inv = inventory.New(inventory.Options{Reads: func(pl *v1alpha1.Placement) framework.Reads { return h.scheduler.Reads(pl) }})
	handle := &framework.Handle{Pages: h.pages, Assume: h.inv.AssumePage}
	registry, defaults := builtin.Registry(), builtin.DefaultProfile()
	registry["Panicker"] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
		return h.panicker, nil
	}
	defaults.Plugins.MultiPoint.Enabled = append([]config.Plugin{{Name: "Panicker"}}, defaults.Plugins.MultiPoint.Enabled...)
	defaults.Plugins.QueueSort.Disabled = []config.DisabledPlugin{{Name: "PrioritySort"}}
	for _, one := range change {
		one(&defaults.Plugins)
	}
	profiles, err := plugins.NewProfiles(t.Context(), nil, defaults, registry, handle)
	if err != nil {
		t.Fatal(err)
	}
	h.scheduler = scheduler.New(profiles, scheduler.NewMemory())
	h.scheduler.StorePublished, h.scheduler.StoreClaim = h.inv.SetPublished, h.inv.StoreClaim
	h.inv.Update(fixture.Set("s1"))
	h.inv.Update(fixture.Binding("ns", "s1"))
	h.inv.Update(ask().Obj())
	h.add(clusters)
	return h
}

// add adds clusters.
func (h *panicHub) add(n int) {
	for range n {
		h.clusters++
		h.inv.Update(fixture.Cluster(fmt.Sprintf("c%03d", h.clusters)).Set("s1").Obj())
	}
}

func (h *panicHub) snapshot() *framework.Snapshot { return h.inv.Snapshot(key, fixture.Now, nil) }

func (h *panicHub) attempt() *scheduler.Attempt {
	h.t.Helper()
	h.scheduler.Prepare(h.inv.Placement(key), h.inv.SelectionPolicies(key)...)
	return h.scheduler.Attempt(h.t.Context(), key.Namespace, h.snapshot)
}

// published counts the clusters on the pages.
func (h *panicHub) published() (n int) {
	for _, page := range h.pages.pages {
		n += len(page.Status.Decisions)
	}
	return n
}

// counted is how many Placements the last cluster counts, published or reserved.
func (h *panicHub) counted() int32 {
	s := h.snapshot()
	return s.Counts.ByIndex.Get(s.Cluster(fmt.Sprintf("c%03d", h.clusters)).Index)
}
