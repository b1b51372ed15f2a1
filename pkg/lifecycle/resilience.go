package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ResilienceName is the plugin's name.
const ResilienceName = "Resilience"

// maxReportedDomains is the number of domains up to which Resilience selects again without each.
const maxReportedDomains = 100

// ResilienceArgs are the arguments of Resilience. Without any, the plugin is off.
type ResilienceArgs struct {
	// Key is the property of clusters whose values are the domains: "label:region" or "claim:zone".
	Key string `json:"key,omitempty"`
	// FailBelow is the number of domains of which a Placement must survive the loss, each alone.
	// Unset: all of them.
	FailBelow *int `json:"failBelow,omitempty"`
}

// Resilience reports in the condition Resilient whether a Placement stays satisfied if a failure
// domain is lost. It changes no decision.
//
// Without a key it is off, and only has the extension point.
type Resilience struct {
	key       resilience.Key
	failBelow *int
}

// NewResilience is the plugin's factory.
func NewResilience(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, ResilienceArgs{})
	if err != nil {
		return nil, err
	}
	if args.Key == "" {
		if args.FailBelow != nil {
			return nil, errors.New("failBelow: needs key")
		}
		return &Resilience{}, nil
	}
	key, err := resilience.ParseKey(args.Key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if labels, claims := key.Reads(); len(labels)+len(claims) == 0 {
		return nil, fmt.Errorf("key: %q is not label:KEY or claim:NAME; kubectl placement resilience accepts it", args.Key)
	}
	if args.FailBelow != nil && *args.FailBelow < 1 {
		return nil, fmt.Errorf("failBelow: %d is less than 1", *args.FailBelow)
	}
	return &Resilience{key, args.FailBelow}, nil
}

// Name implements framework.Plugin.
func (*Resilience) Name() string { return ResilienceName }

// Reads implements framework.ClusterReader.
func (r *Resilience) Reads(*v1alpha1.Placement) framework.Reads {
	labels, claims := r.key.Reads()
	return framework.Reads{Labels: labels, Claims: claims}
}

// PostFilter lets the next plugin run.
func (*Resilience) PostFilter(context.Context, *framework.CycleState, *v1alpha1.Placement, framework.Filtered) ([]framework.Intent, *framework.Status) {
	return nil, framework.NewStatus(framework.Unschedulable, "reports on the selection only")
}

// Describe implements framework.Describer.
func (r *Resilience) Describe() framework.Traits {
	if r.key == (resilience.Key{}) {
		return framework.Traits{}
	}
	return framework.Traits{ReportSelection: r.ReportSelection}
}

// ReportSelection is that of framework.Traits.
func (r *Resilience) ReportSelection(_ context.Context, state *framework.CycleState, pl *v1alpha1.Placement, selected *framework.Selected) (*metav1.Condition, bool) {
	condition := &metav1.Condition{Type: v1alpha1.PlacementConditionResilient, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDomainsCritical}
	p := resilience.Placement{Satisfied: selected.Satisfied, Why: selected.Why, Selected: selected.Clusters.Len()}
	if n := pl.Spec.NumberOfClusters; n != nil {
		p.Wanted = new(int(*n))
	}
	if !selected.Satisfied {
		p.Finish(r.key)
		condition.Reason, condition.Message = v1alpha1.ReasonNotSatisfied, p.Message
		return condition, true
	}
	domains, _ := resilience.CandidateDomains(r.key, state.Snapshot())
	if len(domains) > maxReportedDomains {
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonTooManyDomains
		condition.Message = fmt.Sprintf("%d domains of %s; at most %d are tried: kubectl placement resilience tries all", len(domains), r.key, maxReportedDomains)
		return condition, true
	}
	for _, domain := range domains {
		if state.ShouldYield() {
			return nil, false
		}
		lost := domain.Set()
		p.Add(LossOf(domain, lost, selected.Clusters, selected.Without(lost)))
	}
	p.Finish(r.key)
	condition.Message = p.Message
	switch {
	case p.Domains == 0:
		condition.Status, condition.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNoDomains
	case p.Survived >= ptr.Deref(r.failBelow, p.Domains):
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonDomainsCanBeLost
	}
	return condition, true
}

// LossOf describes the selection without a domain. had are the clusters that are selected with it.
func LossOf(domain resilience.Domain, lost, had framework.Bitset, after *framework.Selected) resilience.Loss {
	kept := had.Without(lost)
	l := resilience.Loss{Domain: domain.Name, Clusters: len(domain.Clusters), Lost: had.Len() - kept.Len(), Satisfied: after.Satisfied}
	if !after.Decided {
		// The published decision stays, but these clusters are gone.
		l.Why, l.Missing = after.Why, l.Lost
		return l
	}
	if !l.Satisfied {
		if l.Why, l.Missing = after.Why, after.Missing; after.OnlyFiltered {
			l.Why = DescribeExcluded(after.Excluded())
		}
	}
	l.Added, l.Removed = after.Clusters.Without(had).Len(), kept.Without(after.Clusters).Len()
	return l
}
