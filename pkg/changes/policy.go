package changes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	// SuspendedBy is the first policy, by name, because of which only forced removals are
	// published; empty if there is none.
	SuspendedBy string
	// MinReady is how long an added cluster must have been ready until it counts as ready.
	MinReady time.Duration
	// ProgressDeadline is the time without a step or a newly ready cluster after which a change in
	// progress is reported. From then on, clusters that are not ready count as ready if
	// ContinueAtDeadline.
	ProgressDeadline   time.Duration
	ContinueAtDeadline bool
	// ReplaceFirst is true if unavailable clusters stay until they are replaced.
	ReplaceFirst bool
	// budgets are the limits of the policies for a rolling update.
	budgets []budget
	// HistoryLimit is the number of Published records that are kept, and of others.
	HistoryLimit int
}

// budget are the limits of one policy: numbers or percentages, of the desired clusters or, for
// available, of those that were published when the change began.
type budget struct {
	policy                        string
	unavailable, surge, available *intstr.IntOrString
}

var (
	defaultUnavailable = intstr.FromInt32(0)
	defaultSurge       = intstr.FromString(berthv1alpha1.DefaultMaxSurge)
	defaultAvailable   = intstr.FromInt32(0)
)

// MinAvailable returns how many of the clusters that were published when a change began stay
// published: the highest of all policies, and the first policy, by name, that says so. Invalid
// values count as the default.
func (p *Policy) MinAvailable(original int) (available int, policy string) {
	for _, b := range p.budgets {
		n := scaled(b.available, &defaultAvailable, original, true)
		if n > available || n == available && n > 0 && b.policy < policy {
			available, policy = n, b.policy
		}
	}
	return available, policy
}

// Budget returns the numbers of a rolling update of the desired number of clusters: the lowest of
// all policies. Invalid values count as the defaults.
func (p *Policy) Budget(desired int) (unavailable, surge int) {
	for i, b := range p.budgets {
		u, s := scaled(b.unavailable, &defaultUnavailable, desired, false), scaled(b.surge, &defaultSurge, desired, true)
		if i == 0 {
			unavailable, surge = u, s
		}
		unavailable, surge = min(unavailable, u), min(surge, s)
	}
	if unavailable == 0 && surge == 0 {
		surge = 1
	}
	return unavailable, surge
}

func scaled(value, or *intstr.IntOrString, of int, up bool) int {
	if value != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(value, of, up); err == nil && n >= 0 {
			return n
		}
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(or, of, up)
	return n
}

// Selects compiles which Placements the policy selects. An invalid selector selects nothing and
// returns an error, which the policy's Ready condition reports.
func Selects(policy *berthv1alpha1.DisruptionPolicy) (func(*v1alpha1.Placement) bool, error) {
	if policy.Spec.PlacementSelector == nil {
		return func(pl *v1alpha1.Placement) bool {
			return policy.Namespace == pl.Namespace && slices.Contains(policy.Spec.Placements, pl.Name)
		}, nil
	}
	selector, err := v1alpha1.CompileSelector(policy.Spec.PlacementSelector, field.NewPath("spec", "placementSelector"))
	if err != nil {
		return func(*v1alpha1.Placement) bool { return false }, fmt.Errorf("DisruptionPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
	}
	return func(pl *v1alpha1.Placement) bool {
		return policy.Namespace == pl.Namespace && selector.Matches(labels.Set(pl.Labels))
	}, nil
}

// ComparePolicies orders policies by age, then name. If too many select a Placement, the first ones
// apply.
func ComparePolicies(a, b *berthv1alpha1.DisruptionPolicy) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// PolicyOf combines the policies that select a Placement. Stricter are the shorter approval timeout
// and progress deadline, the longer history, stabilization window and minReadySeconds, and to pause
// at the deadline.
func PolicyOf(policies []*berthv1alpha1.DisruptionPolicy) Policy {
	p := Policy{HistoryLimit: berthv1alpha1.DefaultHistoryLimit}
	p.ContinueAtDeadline = len(policies) > 0
	for _, policy := range policies {
		p.ContinueAtDeadline = p.ContinueAtDeadline && policy.Spec.OnDeadline == berthv1alpha1.DeadlineContinue
		p.MinReady = max(p.MinReady, time.Duration(policy.Spec.MinReadySeconds)*time.Second)
		limit := int(cmp.Or(policy.Spec.HistoryLimit, berthv1alpha1.DefaultHistoryLimit))
		if len(p.Names) == 0 {
			p.HistoryLimit = limit
		}
		p.Names = append(p.Names, policy.Name)
		p.HistoryLimit = max(p.HistoryLimit, limit)
		if policy.Spec.Suspend && (p.SuspendedBy == "" || policy.Name < p.SuspendedBy) {
			p.SuspendedBy = policy.Name
		}
		deadline := time.Duration(cmp.Or(policy.Spec.ProgressDeadlineSeconds, berthv1alpha1.DefaultProgressDeadline)) * time.Second
		p.ProgressDeadline = min(cmp.Or(p.ProgressDeadline, deadline), deadline)
		p.budgets = append(p.budgets, budget{policy.Name, policy.Spec.MaxUnavailable, policy.Spec.MaxSurge, policy.Spec.MinAvailable})
		p.ReplaceFirst = p.ReplaceFirst || policy.Spec.UnavailableClusters == berthv1alpha1.UnavailableReplaceFirst
		p.Stabilization = max(p.Stabilization, time.Duration(policy.Spec.StabilizationWindowSeconds)*time.Second)
		if policy.Spec.Approval != berthv1alpha1.ApprovalRequired {
			continue
		}
		timeout := time.Duration(cmp.Or(policy.Spec.ApprovalTimeoutSeconds, berthv1alpha1.DefaultApprovalTimeoutSeconds)) * time.Second
		p.ApprovalTimeout = min(cmp.Or(p.ApprovalTimeout, timeout), timeout)
		if !p.ApprovalRequired || policy.Name < p.ApprovalBy {
			p.ApprovalBy = policy.Name
		}
		p.ApprovalRequired = true
	}
	slices.Sort(p.Names)
	return p
}
