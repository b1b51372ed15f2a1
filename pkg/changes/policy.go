package changes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Policy combines the DisruptionPolicies of a Placement: the strictest value of each field.
type Policy struct {
	// Names are the policies that select the Placement, sorted.
	Names []string
	// ApprovalRequired holds every change until it is approved, for at most ApprovalTimeout.
	// ApprovalBy is the first policy, by name, that requires it.
	ApprovalRequired bool
	ApprovalBy       string
	ApprovalTimeout  time.Duration
	// Stabilization is how long a target must stay the same before its change begins.
	Stabilization time.Duration
	// HistoryLimit is the number of Published records that are kept, and of others.
	HistoryLimit int
}

// Selects reports whether the policy selects the Placement. An invalid selector selects nothing and
// returns an error.
func Selects(policy *berthv1alpha1.DisruptionPolicy, pl *v1alpha1.Placement) (bool, error) {
	if policy.Namespace != pl.Namespace {
		return false, nil
	}
	if policy.Spec.PlacementSelector == nil {
		return slices.Contains(policy.Spec.Placements, pl.Name), nil
	}
	selector, err := v1alpha1.CompileSelector(policy.Spec.PlacementSelector, field.NewPath("spec", "placementSelector"))
	if err != nil {
		return false, fmt.Errorf("DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	return selector.Matches(labels.Set(pl.Labels)), nil
}

// PolicyOf combines the policies that select the Placement. The shorter approval timeout, the
// longer history and the longer stabilization window are stricter. It ignores a policy with an
// invalid selector, which the policy's Ready condition reports.
func PolicyOf(pl *v1alpha1.Placement, policies []*berthv1alpha1.DisruptionPolicy) Policy {
	p := Policy{HistoryLimit: berthv1alpha1.DefaultHistoryLimit}
	for _, policy := range policies {
		if selects, err := Selects(policy, pl); err != nil || !selects {
			continue
		}
		limit := int(cmp.Or(policy.Spec.HistoryLimit, berthv1alpha1.DefaultHistoryLimit))
		if len(p.Names) == 0 {
			p.HistoryLimit = limit
		}
		p.Names = append(p.Names, policy.Name)
		p.HistoryLimit = max(p.HistoryLimit, limit)
		p.Stabilization = max(p.Stabilization, time.Duration(policy.Spec.StabilizationWindowSeconds)*time.Second)
		if policy.Spec.Approval != berthv1alpha1.ApprovalRequired {
			continue
		}
		timeout := time.Duration(cmp.Or(policy.Spec.ApprovalTimeoutSeconds, berthv1alpha1.DefaultApprovalTimeoutSeconds)) * time.Second
		if !p.ApprovalRequired || timeout < p.ApprovalTimeout {
			p.ApprovalTimeout = timeout
		}
		if !p.ApprovalRequired || policy.Name < p.ApprovalBy {
			p.ApprovalBy = policy.Name
		}
		p.ApprovalRequired = true
	}
	slices.Sort(p.Names)
	return p
}
