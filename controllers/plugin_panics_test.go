package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestReconcileReportsPanics: the status and one event name the plugin, the published decision
// stays, and the attempt is repeated with backoff.
func TestReconcileReportsPanics(t *testing.T) {
	for method, set := range map[string]func(p *probePlugin){
		"Filter": func(p *probePlugin) { p.filter = func(string) *framework.Status { panic("boom") } },
		"Permit": func(p *probePlugin) { p.permit = func() (*framework.Status, time.Duration) { panic("boom") } },
	} {
		t.Run(method, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{}, "a")
			h.place(fixture.Placement("n", "p").Obj())
			h.succeed()
			h.sent()
			h.reconciler.Inventory.Update(fixture.Cluster("b").Set("s1").Obj())
			set(h.probe)
			want := "Probe: panic in " + method + ": boom"
			for range 2 {
				if _, err := h.reconcile(); err == nil || err.Error() != want {
					t.Fatalf("got %v", err)
				}
			}
			if got := h.condition(satisfied); got != "False NotAllDecisionsScheduled: "+want {
				t.Errorf("condition %q", got)
			}
			h.checkSent("Warning PluginPanicked Probe: " + want)
			h.probe.filter, h.probe.permit = nil, nil
			h.succeed()
			if got := h.condition(satisfied); !strings.HasPrefix(got, "True ") {
				t.Errorf("condition %q", got)
			}
		})
	}
}

// TestReconcileReportsPostBindPanics: pages and status are equal, and an event names the plugin.
func TestReconcileReportsPostBindPanics(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.probe.postBind = func() { panic("boom") }
	h.place(fixture.Placement("n", "p").Obj())
	h.succeed()
	if status := h.placement().Status; status.NumberOfSelectedClusters != 1 || !strings.HasPrefix(h.condition(satisfied), "True ") {
		t.Errorf("status %+v", status)
	}
	sent := strings.Join(h.sent(), "\n")
	if !strings.Contains(sent, "Warning PluginPanicked Probe: Probe: panic in PostBind: boom") || !strings.Contains(sent, "DecisionCreate") {
		t.Errorf("events %s", sent)
	}
}

func (p *probePlugin) PostBind(context.Context, *framework.CycleState, *v1alpha1.Placement, *framework.Proposal) {
	if p.postBind != nil {
		p.postBind()
	}
}
