package changes

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// statusOf is "<placements> <status> <reason>" of the policy's condition Ready.
func statusOf(ctx context.Context, policy *berthv1alpha1.DisruptionPolicy) func() string {
	return func() string {
		got := &berthv1alpha1.DisruptionPolicy{}
		if err := hub.Get(ctx, client.ObjectKeyFromObject(policy), got); err != nil {
			return err.Error()
		}
		ready := meta.FindStatusCondition(got.Status.Conditions, berthv1alpha1.PolicyReady)
		if ready == nil || ready.ObservedGeneration != got.Generation {
			return "not reported"
		}
		return fmt.Sprintf("%d %s %s", got.Status.Placements, ready.Status, ready.Reason)
	}
}

var _ = Describe("The status of a DisruptionPolicy", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	It("counts the selected Placements when they are created, deleted and relabelled", func(ctx SpecContext) {
		ns, other := testhub.CreateNamespace(ctx, hub, "team-"), testhub.CreateNamespace(ctx, hub, "team-")
		Expect(hub.Create(ctx, fixture.Placement(other, "elsewhere").Obj())).To(Succeed())
		labelled := require(ctx, ns, byLabels(map[string]string{"tier": "web"}))
		named := require(ctx, ns, berthv1alpha1.DisruptionPolicySpec{Placements: []string{"a", "b", "c"}})
		all := require(ctx, ns, byLabels(nil))
		Eventually(statusOf(ctx, labelled)).Should(Equal("0 False NoPlacementsSelected"))
		Eventually(statusOf(ctx, named)).Should(Equal("0 False PlacementMissing"))
		Eventually(statusOf(ctx, all)).Should(Equal("0 False NoPlacementsSelected"))
		a, d := fixture.Placement(ns, "a").Obj(), fixture.Placement(ns, "d").Obj()
		a.Labels = map[string]string{"tier": "web"}
		Expect(hub.Create(ctx, a)).To(Succeed())
		Expect(hub.Create(ctx, d)).To(Succeed())
		Eventually(statusOf(ctx, labelled)).Should(Equal("1 True PlacementsSelected"))
		Eventually(statusOf(ctx, named)).Should(Equal("1 False PlacementMissing"))
		Eventually(statusOf(ctx, all)).Should(Equal("2 True PlacementsSelected"))

		By("moving a label from one Placement to another")
		Expect(testhub.Patch(ctx, hub, a, `{"metadata": {"labels": {"tier": "api"}}}`)).To(Succeed())
		Eventually(statusOf(ctx, labelled)).Should(Equal("0 False NoPlacementsSelected"))
		Expect(testhub.Patch(ctx, hub, d, `{"metadata": {"labels": {"tier": "web"}}}`)).To(Succeed())
		Eventually(statusOf(ctx, labelled)).Should(Equal("1 True PlacementsSelected"))
		Expect(hub.Delete(ctx, a)).To(Succeed())
		Eventually(statusOf(ctx, named)).Should(Equal("0 False PlacementMissing"))
		Eventually(statusOf(ctx, all)).Should(Equal("1 True PlacementsSelected"))

		By("changing the policy")
		testhub.Edit(ctx, hub, named, func(named *berthv1alpha1.DisruptionPolicy) {
			named.Spec.Placements = []string{"d"}
		})
		Eventually(statusOf(ctx, named)).Should(Equal("1 True PlacementsSelected"))
	})

	It("reports an invalid selector, also in a namespace without Placements", func(ctx SpecContext) {
		policy := require(ctx, testhub.CreateNamespace(ctx, hub, "team-"), expression("tier", metav1.LabelSelectorOpIn, "not a label value"))
		Eventually(statusOf(ctx, policy)).Should(Equal("0 False InvalidSelector"))
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		Expect(policy.Status.Conditions[0].Message).To(And(ContainSubstring("spec.placementSelector"), ContainSubstring("not a label value")))
	})

	It("is not written again for Placements that the policy does not select, or for other edits", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		pl := fixture.Placement(ns, "web").Obj()
		pl.Labels = map[string]string{"tier": "web"}
		Expect(hub.Create(ctx, pl)).To(Succeed())
		policy := require(ctx, ns, byLabels(map[string]string{"tier": "web"}))
		Eventually(statusOf(ctx, policy)).Should(Equal("1 True PlacementsSelected"))
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		writes, err := hub.Watch(ctx, &berthv1alpha1.DisruptionPolicyList{}, client.InNamespace(ns), &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: policy.ResourceVersion},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(writes.Stop)
		for i := range 5 {
			Expect(hub.Create(ctx, fixture.Placement(ns, fmt.Sprint("other-", i)).Obj())).To(Succeed())
		}
		Expect(testhub.Patch(ctx, hub, pl, `{"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}`)).To(Succeed())
		// This policy is counted after the events above.
		marker := require(ctx, ns, berthv1alpha1.DisruptionPolicySpec{Placements: []string{"marker"}})
		Expect(hub.Create(ctx, fixture.Placement(ns, "marker").Obj())).To(Succeed())
		Eventually(statusOf(ctx, marker)).Should(Equal("1 True PlacementsSelected"))
		for done := false; !done; {
			var event watch.Event
			Eventually(writes.ResultChan()).Should(Receive(&event))
			written := event.Object.(*berthv1alpha1.DisruptionPolicy)
			Expect(written.Name).To(Equal(marker.Name), "%s %s", event.Type, written.Name)
			done = written.Status.Placements == 1
		}
	})
})
