package scheduler_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// policyDesk is a desk whose Placement requires the SelectionPolicy s, which includes only c1.
type policyDesk struct {
	*desk
	policy *berthv1alpha1.SelectionPolicy
}

func newPolicyDesk(t *testing.T) *policyDesk {
	d := newDesk(t, ask().Annotation(v1alpha1.SelectionPolicyAnnotation, "s"), "c1", "c2", "c3")
	return &policyDesk{d, selectionPolicy(berthv1alpha1.SelectionPolicySpec{ClusterNames: berthv1alpha1.ClusterNames{Include: []string{"c1"}}})}
}

// apply makes the policy exist, after an edit if there is one.
func (d *policyDesk) apply(edits ...func(*berthv1alpha1.SelectionPolicy)) {
	d.pages.version++
	for _, edit := range edits {
		edit(d.policy)
		d.policy.Generation++
	}
	d.inv.Update(d.policy.DeepCopy())
}

func (d *policyDesk) remove() { d.inv.Delete(d.policy.DeepCopy()) }

// recreate makes another object of the same name exist.
func (d *policyDesk) recreate() {
	d.policy.UID += types.UID("again")
	d.apply()
}

// seen is what readers see after an attempt, and the reason of PlacementSatisfied.
func (d *policyDesk) seen() string {
	d.attemptUntilStable()
	return strings.TrimSpace(d.published() + " " + d.condition(v1alpha1.PlacementConditionSatisfied).Reason)
}

// TestRequiredPolicy: without the SelectionPolicy that it requires a Placement is not decided. What
// is published stays, and nothing is published first.
func TestRequiredPolicy(t *testing.T) {
	const missing, decided = "SelectionPolicyMissing", "p-decision-1: c1 AllDecisionsScheduled"
	const stays = "p-decision-1: c1 " + missing
	other := func(policy *berthv1alpha1.SelectionPolicy) { policy.Spec.Placement = "other" }
	back := func(policy *berthv1alpha1.SelectionPolicy) { policy.Spec.Placement = "p" }
	invalid := func(policy *berthv1alpha1.SelectionPolicy) { policy.Spec.FailbackAfterSeconds = new(int64(-2)) }
	deleting := func(policy *berthv1alpha1.SelectionPolicy) {
		policy.DeletionTimestamp, policy.Finalizers = new(metav1.NewTime(fixture.Now)), []string{"f"}
	}
	type steps []func(*policyDesk)
	nothing := func(*policyDesk) {}
	apply := func(edits ...func(*berthv1alpha1.SelectionPolicy)) func(*policyDesk) {
		return func(d *policyDesk) { d.apply(edits...) }
	}
	edit := func(change func(*v1alpha1.Placement)) func(*policyDesk) {
		return func(d *policyDesk) { d.edit(change) }
	}
	for name, tc := range map[string]struct {
		steps steps
		want  []string
	}{
		"the Placement first":                   {steps{nothing, apply()}, []string{missing, decided}},
		"the policy first":                      {steps{apply(), nothing}, []string{decided, decided}},
		"the policy is deleted":                 {steps{apply(), (*policyDesk).remove, nothing}, []string{decided, stays, stays}},
		"the policy is created again":           {steps{apply(), (*policyDesk).remove, (*policyDesk).recreate}, []string{decided, stays, decided}},
		"the policy is being deleted":           {steps{apply(), apply(deleting), (*policyDesk).remove}, []string{decided, stays, stays}},
		"a policy that is being deleted, first": {steps{apply(deleting), (*policyDesk).remove, nothing}, []string{missing, missing, missing}},
		"the policy is for another Placement":   {steps{apply(other), apply(back), apply(other)}, []string{missing, decided, stays}},
		"the policy is invalid, later":          {steps{apply(), apply(invalid)}, []string{decided, "p-decision-1: c1 Misconfigured"}},
		"the policy is invalid, first":          {steps{apply(invalid), (*policyDesk).remove}, []string{"Misconfigured", missing}},
		"the Placement is edited meanwhile": {steps{apply(), (*policyDesk).remove, edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) }), (*policyDesk).recreate},
			[]string{decided, stays, stays, decided}},
		"the Placement is misconfigured, too": {steps{edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" }), apply()}, []string{"Misconfigured", "p-decision-1: Misconfigured"}},
		"a page is damaged meanwhile": {steps{apply(), (*policyDesk).remove, func(d *policyDesk) {
			d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool {
				page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "c2"})
				return true
			})
		}}, []string{decided, stays, stays}},
		"a restart meanwhile": {steps{apply(), (*policyDesk).remove, func(d *policyDesk) { d.restart() }, (*policyDesk).recreate}, []string{decided, stays, stays, decided}},
		"the set of a cluster is lost": {steps{apply(), (*policyDesk).remove, func(d *policyDesk) { d.leaveSet("c1") }},
			[]string{decided, stays, "p-decision-1: " + missing}},
		"the binding is lost": {steps{apply(), (*policyDesk).remove, func(d *policyDesk) { d.unbind() }},
			[]string{decided, stays, "p-decision-1: NoManagedClusterSetBindings"}},
		"no binding": {steps{func(d *policyDesk) { d.unbind() }}, []string{"NoManagedClusterSetBindings"}},
		"another one is required": {steps{apply(), edit(func(pl *v1alpha1.Placement) { pl.Annotations[v1alpha1.SelectionPolicyAnnotation] = "t" })},
			[]string{decided, stays}},
		"a second one": {steps{func(d *policyDesk) {
			second := d.policy.DeepCopy()
			second.Name, second.UID = "t", "t"
			d.inv.Update(second)
		}, apply()}, []string{missing, "Misconfigured"}},
		"no name": {steps{edit(func(pl *v1alpha1.Placement) { pl.Annotations[v1alpha1.SelectionPolicyAnnotation] = "" }), apply()}, []string{"Misconfigured", "Misconfigured"}},
		"it is no longer required": {steps{nothing, edit(func(pl *v1alpha1.Placement) { pl.Annotations = nil })},
			[]string{missing, "p-decision-1: c1 c2 c3 AllDecisionsScheduled"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newPolicyDesk(t)
			var got []string
			for _, step := range tc.steps {
				step(d)
				got = append(got, d.seen())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("after each step (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequiredPolicyWakesItsPlacement: every event that makes a required policy apply, or not,
// starts an attempt.
func TestRequiredPolicyWakesItsPlacement(t *testing.T) {
	d := newPolicyDesk(t)
	for name, event := range map[string]func() int{
		"deleted": func() int { d.apply(); return len(d.inv.Delete(d.policy.DeepCopy())) },
		"being deleted": func() int {
			d.apply()
			deleting := d.policy.DeepCopy()
			deleting.DeletionTimestamp = new(metav1.NewTime(fixture.Now))
			return len(d.inv.Update(deleting))
		},
	} {
		if event() != 1 {
			t.Errorf("a policy that is %s does not start an attempt", name)
		}
		d.inv.Delete(d.policy.DeepCopy())
	}
}

// TestIncludeNothing: an empty list is a list. Edits between an empty list and none are seen.
func TestIncludeNothing(t *testing.T) {
	d := newPolicyDesk(t)
	include := func(names []string) func(*berthv1alpha1.SelectionPolicy) {
		return func(policy *berthv1alpha1.SelectionPolicy) { policy.Spec.ClusterNames.Include = names }
	}
	for _, step := range []struct {
		include []string
		want    string
	}{
		{[]string{}, "p-decision-1: NoManagedClusterMatched"},
		{nil, "p-decision-1: c1 c2 c3 AllDecisionsScheduled"},
		{[]string{}, "p-decision-1: NoManagedClusterMatched"},
		{[]string{"c2"}, "p-decision-1: c2 AllDecisionsScheduled"},
	} {
		d.apply(include(step.include))
		if got := d.seen(); got != step.want {
			t.Errorf("include %#v: got %q, want %q", step.include, got, step.want)
		}
	}
}

// TestProfileWithoutPolicies: a profile without the plugin decides no Placement that has policies,
// however many there are.
func TestProfileWithoutPolicies(t *testing.T) {
	s, _, _ := probing(t, "a", nil)
	for _, policies := range [][]string{{"s"}, {"s", "t"}} {
		inv := fleet(ask(), fixture.Cluster("1"))
		for _, name := range policies {
			policy := selectionPolicy(berthv1alpha1.SelectionPolicySpec{ClusterNames: berthv1alpha1.ClusterNames{Exclude: []string{"1"}}})
			policy.Name = name
			inv.Update(policy)
		}
		a := s.Attempt(t.Context(), key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
		if a.Failure == nil || len(a.Selected) > 0 {
			t.Errorf("%d policies: failure %v, %d clusters selected", len(policies), a.Failure.Err(), len(a.Selected))
		}
	}
}
