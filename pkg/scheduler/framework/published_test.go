package framework_test

import (
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestDamaged: pages are damaged if they differ from those published last in anything that
// consumers or the garbage collector read.
func TestDamaged(t *testing.T) {
	page := func() *v1alpha1.PlacementDecision {
		page := fixture.Page("ns", "p-decision-1").Of("p").OwnedBy("p").Lists("c1", "c2").Obj()
		page.OwnerReferences[0].BlockOwnerDeletion = new(true)
		page.Status.Decisions[0].Score = new(int64(5))
		return page
	}
	placement := fixture.Placement("ns", "p").Obj()
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PlacementDecision)
		want   bool
	}{
		"nothing":               {change: func(*v1alpha1.PlacementDecision) {}},
		"a field nobody reads":  {change: func(p *v1alpha1.PlacementDecision) { p.Labels["other"], p.ResourceVersion = "x", "7" }},
		"a group label":         {change: func(p *v1alpha1.PlacementDecision) { p.Labels[v1alpha1.DecisionGroupNameLabel] = "x" }, want: true},
		"an empty group label":  {change: func(p *v1alpha1.PlacementDecision) { delete(p.Labels, v1alpha1.DecisionGroupNameLabel) }, want: true},
		"the name of the page":  {change: func(p *v1alpha1.PlacementDecision) { p.Name = "p-decision-2" }, want: true},
		"the owner's name":      {change: func(p *v1alpha1.PlacementDecision) { p.OwnerReferences[0].Name = "q" }, want: true},
		"the owner's kind":      {change: func(p *v1alpha1.PlacementDecision) { p.OwnerReferences[0].Kind = "ConfigMap" }, want: true},
		"the owner's version":   {change: func(p *v1alpha1.PlacementDecision) { p.OwnerReferences[0].APIVersion = "v1" }, want: true},
		"the owner":             {change: func(p *v1alpha1.PlacementDecision) { p.OwnerReferences = nil }, want: true},
		"whether it blocks":     {change: func(p *v1alpha1.PlacementDecision) { p.OwnerReferences[0].BlockOwnerDeletion = nil }, want: true},
		"a cluster":             {change: func(p *v1alpha1.PlacementDecision) { p.Status.Decisions[1].ClusterName = "c3" }, want: true},
		"a reason":              {change: func(p *v1alpha1.PlacementDecision) { p.Status.Decisions[1].Reason = "why" }, want: true},
		"a score":               {change: func(p *v1alpha1.PlacementDecision) { p.Status.Decisions[0].Score = new(int64(6)) }, want: true},
		"a score that is gone":  {change: func(p *v1alpha1.PlacementDecision) { p.Status.Decisions[0].Score = nil }, want: true},
		"a score of 0 is added": {change: func(p *v1alpha1.PlacementDecision) { p.Status.Decisions[1].Score = new(int64(0)) }, want: true},
		"a cluster is gone":     {change: func(p *v1alpha1.PlacementDecision) { p.Status.Decisions = p.Status.Decisions[:1] }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := page()
			before.Labels[v1alpha1.DecisionGroupNameLabel] = ""
			last := framework.PublishedOn([]*v1alpha1.PlacementDecision{before})
			now := before.DeepCopy()
			tc.change(now)
			subject := framework.Subject{Placement: placement, Pages: []*v1alpha1.PlacementDecision{now}}
			if got := last.Damaged(&subject); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
