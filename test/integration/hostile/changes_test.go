package hostile

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// manyEvictions is how many evictions one tenant creates.
const manyEvictions = 1000

// evictor is a user who may create evictions in one namespace, and nothing else.
func evictor(ctx context.Context, namespace string) client.Client {
	GinkgoHelper()
	user := "evictor-of-" + namespace
	testhub.Grant(ctx, hub, namespace, user, "berth-evictor")
	return hub.As(user)
}

func evictionOf(namespace, name, placement, cluster string) *berthv1alpha1.PlacementEviction {
	return &berthv1alpha1.PlacementEviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       berthv1alpha1.PlacementEvictionSpec{Placement: placement, Cluster: cluster},
	}
}

// conditionsOf is a check for Eventually: the conditions of an eviction, "Valid=False
// ClusterNotSelected". Messages must be short.
func conditionsOf(ctx context.Context, e *berthv1alpha1.PlacementEviction) func() string {
	return func() string {
		got := &berthv1alpha1.PlacementEviction{}
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(e), got)).To(Succeed())
		var all []string
		for _, c := range got.Status.Conditions {
			Expect(len(c.Message)).To(BeNumerically("<=", v1alpha1.MaxMessageLength))
			all = append(all, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		}
		return strings.Join(all, ", ")
	}
}

var _ = Describe("Evictions of a tenant", func() {
	It("concern only Placements of its own namespace, and values out of bounds are refused", func(ctx SpecContext) {
		other, own := newNamespace(ctx, "victim", 2), newNamespace(ctx, "evicting", 1)
		victim := fixture.Placement(other, "web").Obj()
		Expect(hub.Create(ctx, victim)).To(Succeed())
		Eventually(selected(ctx, victim)).Should(BeEquivalentTo(2))
		tenant := evictor(ctx, own)

		Expect(tenant.Create(ctx, evictionOf(other, "foreign", "web", other+"-0"))).To(WithTransform(apierrors.IsForbidden, BeTrue()))
		for name, placement := range map[string]string{"slash": other + "/web", "dots": "../" + other + "/web", "same-name": "web"} {
			e := evictionOf(own, name, placement, other+"-0")
			Expect(tenant.Create(ctx, e)).To(Succeed())
			Eventually(conditionsOf(ctx, e)).Should(Equal("Valid=False PlacementNotFound"), placement)
		}
		long := evictionOf(own, strings.Repeat("n", 253), strings.Repeat("p", 63), strings.Repeat("c", 253))
		Expect(tenant.Create(ctx, long)).To(Succeed())
		Eventually(conditionsOf(ctx, long)).Should(Equal("Valid=False PlacementNotFound"))
		Expect(tenant.Create(ctx, evictionOf(own, "too-long", "web", strings.Repeat("c", 254)))).To(MatchError(ContainSubstring("spec.cluster: Too long")))
		Expect(tenant.Create(ctx, evictionOf(own, "too-long", strings.Repeat("p", 64), "c"))).To(MatchError(ContainSubstring("spec.placement: Too long")))
		for _, seconds := range []int64{-1, 31536001, 1 << 62} {
			e := evictionOf(own, "seconds", "web", "c")
			e.Spec.ExcludeForSeconds = seconds
			Expect(tenant.Create(ctx, e)).To(MatchError(ContainSubstring("spec.excludeForSeconds")))
		}
		By("writing a status")
		forged := evictionOf(own, "slash", "", "")
		Expect(tenant.Status().Patch(ctx, forged, client.RawPatch("application/merge-patch+json", []byte(`{"status": {"conditions": []}}`)))).
			To(WithTransform(apierrors.IsForbidden, BeTrue()))
		expectAsAlone(ctx)
		Expect(selected(ctx, victim)()).To(BeEquivalentTo(2))
	})

	It("do not delay others, however many they are", func(ctx SpecContext) {
		own := newNamespace(ctx, "crowd", 3)
		pl := fixture.Placement(own, "web").Number(2).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(2))
		tenant := evictor(ctx, own)
		var writers sync.WaitGroup
		for writer := range 8 {
			writers.Go(func() {
				defer GinkgoRecover()
				for i := writer; i < manyEvictions; i += 8 {
					// One in ten is of a cluster that exists.
					cluster := fmt.Sprintf("nowhere-%d", i)
					if i%10 == 0 {
						cluster = fmt.Sprintf("%s-%d", own, i%3)
					}
					Expect(tenant.Create(ctx, evictionOf(own, fmt.Sprintf("e-%05d", i), "web", cluster))).To(Succeed())
				}
			})
		}
		expectAsAlone(ctx)
		writers.Wait()
		expectAsAlone(ctx)
		Eventually(func(g Gomega) {
			list := &berthv1alpha1.PlacementEvictionList{}
			g.Expect(hub.List(ctx, list, client.InNamespace(own))).To(Succeed())
			for i := range list.Items {
				g.Expect(meta.FindStatusCondition(list.Items[i].Status.Conditions, berthv1alpha1.EvictionValid)).NotTo(BeNil())
			}
		}).WithPolling(patience / 60).Should(Succeed())
		By("deleting them all")
		Expect(hub.DeleteAllOf(ctx, &berthv1alpha1.PlacementEviction{}, client.InNamespace(own))).To(Succeed())
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(2))
		expectAsAlone(ctx)
	})

	It("are evaluated again when they are created again under the same name", func(ctx SpecContext) {
		own := newNamespace(ctx, "again", 3)
		pl := fixture.Placement(own, "web").Number(1).Mode(v1alpha1.PrioritizerPolicyModeExact).Prioritizer("ResourceAllocatableMemory", 1).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		published := func() []string { return clustersOf(ctx, Default, own, "web") }
		Eventually(published).Should(Equal([]string{"2"}))
		tenant := evictor(ctx, own)
		for round := range 10 {
			e := evictionOf(own, "again", "web", own+"-2")
			Expect(tenant.Create(ctx, e)).To(Succeed())
			Eventually(conditionsOf(ctx, e)).Should(Equal("Valid=True Accepted, Executed=True ClusterRemoved"), "round %d", round)
			Expect(published()).To(Equal([]string{"1"}))
			Expect(tenant.Delete(ctx, e)).To(Succeed())
			Eventually(published).Should(Equal([]string{"2"}))
		}
		By("creating it again at once, while the first one is being processed")
		for range 20 {
			e := evictionOf(own, "again", "web", own+"-2")
			Expect(tenant.Create(ctx, e)).To(Succeed())
			Expect(tenant.Delete(ctx, e)).To(Succeed())
		}
		// On the way to the answer it is the right one several times.
		Eventually(published).MustPassRepeatedly(100).Should(Equal([]string{"2"}))
		expectAsAlone(ctx)
	})
})

var _ = Describe("A DisruptionPolicy of a tenant", func() {
	It("that selects everything holds only changes of its own namespace", func(ctx SpecContext) {
		own := newNamespace(ctx, "holding", 1)
		testhub.Govern(ctx, hub, &berthv1alpha1.DisruptionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "all"},
			Spec: berthv1alpha1.DisruptionPolicySpec{
				PlacementSelector: &metav1.LabelSelector{}, Approval: berthv1alpha1.ApprovalRequired, Suspend: true,
			},
		})
		pl := fixture.Placement(own, "web").Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(pendingMessage(ctx, pl)).Should(ContainSubstring("is held by Approval"))
		expectAsAlone(ctx)
		Expect(selected(ctx, pl)()).To(BeZero())
	})

	DescribeTable("is refused with the budget", func(ctx SpecContext, value string) {
		own := newNamespace(ctx, "budget", 0)
		spec := berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}, MaxUnavailable: new(intstr.FromString(value))}
		err := hub.Create(ctx, &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "p"}, Spec: spec})
		Expect(err).To(MatchError(ContainSubstring("must be a number from 0 to 1000000 or a percentage from 0% to 100%")))
	},
		Entry(nil, "NaN%"), Entry(nil, "NaN"), Entry(nil, "1e2%"), Entry(nil, "-5%"), Entry(nil, "99999999999999999999%"), Entry(nil, "1.5%"),
		Entry(nil, "٣%"), Entry(nil, ""), Entry("a long text", strings.Repeat("9", 10_000)+"%"),
	)
})
