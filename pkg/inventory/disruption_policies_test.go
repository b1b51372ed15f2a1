package inventory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// agedPolicy is a policy whose age grows with the number.
func agedPolicy(number int) *berthv1alpha1.DisruptionPolicy {
	policy := fixture.ApprovalPolicy(plainKey.Namespace, fmt.Sprintf("p%03d", 999-number))
	policy.CreationTimestamp = metav1.NewTime(fixture.Now.Add(-time.Duration(number/2) * time.Hour))
	policy.Spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: fmt.Sprintf("%d %d * * *", number%60, number/60), Duration: "1s"}}
	return policy
}

// TestPoliciesBeyondTheLimit: of 800 policies that select a Placement the oldest apply, by name
// among those of one time, in any order of events. Each of the others knows it.
func TestPoliciesBeyondTheLimit(t *testing.T) {
	const all, limit = 800, berthv1alpha1.MaxPoliciesPerPlacement
	for _, order := range [][2]int{{0, 1}, {all - 1, -1}} {
		inv := inventory.New(inventory.Options{})
		inv.Update(fixture.Placement(plainKey.Namespace, plainKey.Name).Obj())
		for i, number := 0, order[0]; i < all; i, number = i+1, number+order[1] {
			inv.Update(agedPolicy(number))
			if i == limit-1 {
				if s := inv.Snapshot(plainKey, fixture.Now, nil).Subject; len(s.DisruptionPolicies) != limit || s.MorePolicies != 0 {
					t.Errorf("%d policies and %d more", len(s.DisruptionPolicies), s.MorePolicies)
				}
			}
		}
		subject := inv.Snapshot(plainKey, fixture.Now, nil).Subject
		if len(subject.DisruptionPolicies) != limit || subject.MorePolicies != all-limit || subject.Windows == nil {
			t.Fatalf("%d policies and %d more, windows %v", len(subject.DisruptionPolicies), subject.MorePolicies, subject.Windows)
		}
		for number := range all {
			policy := agedPolicy(number)
			applies := slices.ContainsFunc(subject.DisruptionPolicies, func(p *berthv1alpha1.DisruptionPolicy) bool { return p.Name == policy.Name })
			placement, selecting := inv.ExcessPolicy(inventory.Key{Namespace: policy.Namespace, Name: policy.Name})
			if want := number >= all-limit; applies != want || (placement == "") != want || !want && (placement != plainKey.Name || selecting != all) {
				t.Fatalf("policy %d applies: %t; %q %d", number, applies, placement, selecting)
			}
		}
		for number := limit; number < all; number++ {
			inv.Delete(agedPolicy(number))
		}
		if s := inv.Snapshot(plainKey, fixture.Now, nil).Subject; len(s.DisruptionPolicies) != limit || s.MorePolicies != 0 {
			t.Errorf("after deletions: %d policies and %d more", len(s.DisruptionPolicies), s.MorePolicies)
		}
	}
}

// TestPreparedWindows: an attempt uses what was computed before it, until the policies change.
func TestPreparedWindows(t *testing.T) {
	inv := inventory.New(inventory.Options{})
	inv.PrepareWindows(plainKey, fixture.Now)
	inv.Update(fixture.Placement(plainKey.Namespace, plainKey.Name).Obj())
	inv.PrepareWindows(plainKey, fixture.Now)
	if windows := inv.Snapshot(plainKey, fixture.Now, nil).Subject.Windows; windows != nil {
		t.Errorf("windows of no policy: %v", windows)
	}
	for number := range berthv1alpha1.MaxPoliciesPerPlacement {
		inv.Update(agedPolicy(number))
	}
	inv.PrepareWindows(plainKey, fixture.Now)
	windows := inv.Snapshot(plainKey, fixture.Now, nil).Subject.Windows
	if n := testing.AllocsPerRun(10, func() { _, _, _ = windows.Opening(fixture.Now.Add(time.Minute)) }); n > 0 {
		t.Errorf("%v allocations in an attempt", n)
	}
	inv.Update(fixture.Cluster("c").Obj())
	if inv.Snapshot(plainKey, fixture.Now, nil).Subject.Windows != windows {
		t.Error("another event drops what was computed")
	}
	inv.Delete(agedPolicy(0))
	if inv.Snapshot(plainKey, fixture.Now, nil).Subject.Windows == windows {
		t.Error("the windows of a deleted policy stay")
	}
}
