// Package changes tests the objects around a change of a published decision on a real API server:
// which users may approve, what an approval protects, and the status of DisruptionPolicies.
package changes

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var hub *testhub.Hub

func TestChanges(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Changes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
	// A new admission policy takes a moment to be enforced.
	ns := testhub.CreateNamespace(ctx, hub, "team-")
	require(ctx, ns, berthv1alpha1.DisruptionPolicySpec{Placements: []string{"probe"}})
	probe, author := decided(ctx, ns, "probe"), hub.Author(ctx, ns)
	Eventually(func() error { return author.Delete(ctx, probe.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete"))
	Eventually(func() error {
		return edit(ctx, author, probe, `{"metadata": {"annotations": {"`+v1alpha1.ProfileAnnotation+`": "other"}}}`)
	}).Should(forbidden("may not change the annotation"))
	binding := fixture.Binding(ns, "probe")
	Expect(hub.Create(ctx, binding)).To(Succeed())
	Eventually(func() error { return author.Delete(ctx, binding.DeepCopy(), client.DryRunAll) }).Should(MatchError(ContainSubstring("may not delete")))
	Eventually(func() error {
		many := fixture.Placement(ns, "many").Obj()
		many.Labels = map[string]string{}
		for i := range 101 {
			many.Labels[fmt.Sprint("l", i)] = ""
		}
		return author.Create(ctx, many, client.DryRunAll)
	}).Should(MatchError(ContainSubstring("Too many")))
	record := held(ctx, probe)
	Eventually(func() error { return answer(ctx, approver(ctx, ns), record, "Approved", "other") }).Should(forbidden("spec.approval.by is other"))
})

// decided creates a Placement that has been decided: its status has a condition.
func decided(ctx context.Context, namespace, name string) *v1alpha1.Placement {
	GinkgoHelper()
	pl := fixture.Placement(namespace, name).Obj()
	pl.Labels = map[string]string{"tier": "web", "region": "eu"}
	Expect(hub.Create(ctx, pl)).To(Succeed())
	pl.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAllDecisionsScheduled, LastTransitionTime: metav1.Now(),
	}}
	Expect(hub.Status().Update(ctx, pl)).To(Succeed())
	return pl
}

// require creates a DisruptionPolicy that requires approval for what the spec selects.
func require(ctx context.Context, namespace string, spec berthv1alpha1.DisruptionPolicySpec) *berthv1alpha1.DisruptionPolicy {
	GinkgoHelper()
	spec.Approval = berthv1alpha1.ApprovalRequired
	return protect(ctx, namespace, spec)
}

// protect creates a DisruptionPolicy.
func protect(ctx context.Context, namespace string, spec berthv1alpha1.DisruptionPolicySpec) *berthv1alpha1.DisruptionPolicy {
	GinkgoHelper()
	policy := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "policy-"}, Spec: spec}
	Expect(hub.Create(ctx, policy)).To(Succeed())
	return policy
}

// held creates the record of a change that is held.
func held(ctx context.Context, pl *v1alpha1.Placement) *berthv1alpha1.PlacementChange {
	GinkgoHelper()
	record := &berthv1alpha1.PlacementChange{
		ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, GenerateName: pl.Name + "-"},
		Spec: berthv1alpha1.PlacementChangeSpec{
			Placement: pl.Name, Revision: 1, From: berthv1alpha1.Digest(nil), To: berthv1alpha1.Digest([]string{"a"}), Clusters: 1,
			Added: []string{"a"}, AddedCount: 1, Cause: "Placement: spec", PlacementGeneration: pl.Generation,
		},
	}
	Expect(hub.Create(ctx, record)).To(Succeed())
	record.Status.Phase = berthv1alpha1.PhaseHeld
	Expect(hub.Status().Update(ctx, record)).To(Succeed())
	return record
}

// approver is the hub as a user sees it who may edit and approve in one namespace.
func approver(ctx context.Context, namespace string) client.Client {
	GinkgoHelper()
	user := "approver-of-" + namespace
	for _, role := range []string{"berth-viewer", "berth-editor", "berth-approver"} {
		testhub.Grant(ctx, hub, namespace, user, role)
	}
	return hub.As(user)
}

// edit patches a Placement without storing it.
func edit(ctx context.Context, user client.Client, pl *v1alpha1.Placement, patch string) error {
	return user.Patch(ctx, fixture.Placement(pl.Namespace, pl.Name).Obj(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
}

// answer writes spec.approval.
func answer(ctx context.Context, user client.Client, record *berthv1alpha1.PlacementChange, decision, by string) error {
	patch := `{"spec": {"approval": {"decision": "` + decision + `", "by": "` + by + `", "comment": null}}}`
	return testhub.Patch(ctx, user, record.DeepCopy(), patch)
}

// forbidden matches a refusal.
func forbidden(why string) OmegaMatcher {
	GinkgoHelper()
	return And(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring(why)))
}
