package scheduler_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plugins"
)

// probe is a plugin at every point. Its score is 10; of the clusters, it answers as configured
// about cluster 1 only. It notes the Proposals it is given.
type probe struct {
	*recorder
	proposals []*framework.Proposal
	// result is what PreFilter returns.
	result *framework.PreFilterResult
}

func (p *probe) at(point string, cluster *framework.Cluster) *framework.Status {
	answer := p.call(point)
	(*p.calls)[len(*p.calls)-1] += cluster.Name
	if cluster.Name != "1" {
		return nil
	}
	return answer
}

func (p *probe) Less(a, b *v1alpha1.Placement) bool {
	p.call("QueueSort")
	return a.Name < b.Name
}

func (p *probe) PreFilter(context.Context, *framework.CycleState, *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	return p.result, p.call("PreFilter")
}

func (p *probe) Filter(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) *framework.Status {
	return p.at("Filter", cluster)
}

func (p *probe) PostFilter(context.Context, *framework.CycleState, *v1alpha1.Placement, framework.Filtered) ([]framework.Intent, *framework.Status) {
	return nil, p.call("PostFilter")
}

func (p *probe) PreScore(context.Context, *framework.CycleState, *v1alpha1.Placement, []*framework.Cluster) *framework.Status {
	return p.call("PreScore")
}

func (p *probe) Score(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	return 10, p.at("Score", cluster)
}

func (p *probe) NormalizeScore(context.Context, *framework.CycleState, *v1alpha1.Placement, []int64) *framework.Status {
	return p.call("NormalizeScore")
}

// probing is a scheduler with a probe for each name, which answers as configured ("Reserve a"); a
// orders the queue.
func probing(t *testing.T, names string, answers map[string]*framework.Status) (*scheduler.Scheduler, map[string]*probe, *[]string) {
	t.Helper()
	calls, probes := &[]string{}, map[string]*probe{}
	registry, enabled := framework.Registry{}, config.Plugins{}
	for name := range strings.FieldsSeq(names) {
		p := &probe{recorder: &recorder{name: name, calls: calls, answers: map[string]*framework.Status{}}}
		for call, status := range answers {
			if point, who, _ := strings.Cut(call, " "); who == name {
				p.answers[point] = status
			}
		}
		probes[name] = p
		registry[name] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) { return p, nil }
		enabled.MultiPoint.Enabled = append(enabled.MultiPoint.Enabled, config.Plugin{Name: name})
		if name != "a" {
			enabled.QueueSort.Disabled = append(enabled.QueueSort.Disabled, config.DisabledPlugin{Name: name})
		}
	}
	profiles, err := plugins.NewProfiles(context.Background(), nil, config.Profile{Plugins: enabled}, registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	return scheduler.New(profiles, scheduler.NewMemory()), probes, calls
}

func (p *probe) Reserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) *framework.Status {
	p.proposals = append(p.proposals, proposal)
	return p.call("Reserve")
}

func (p *probe) Unreserve(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) {
	p.proposals = append(p.proposals, proposal)
	p.call("Unreserve")
}

func (p *probe) Permit(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) (*framework.Status, time.Duration) {
	p.proposals = append(p.proposals, proposal)
	return p.call("Permit"), time.Minute
}

func (p *probe) PreBind(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) *framework.Status {
	p.proposals = append(p.proposals, proposal)
	return p.call("PreBind")
}

func (p *probe) Bind(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) *framework.Status {
	p.proposals = append(p.proposals, proposal)
	return p.call("Bind")
}

func (p *probe) PostBind(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, proposal *framework.Proposal) {
	p.proposals = append(p.proposals, proposal)
	p.call("PostBind")
}
