package changes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	accepted = "Valid True Accepted"
	waits    = accepted + ", Executed False Waiting"
	executed = accepted + ", Executed True ClusterRemoved"
)

var _ = Describe("An eviction", Ordered, func() {
	clock := &testhub.Clock{}
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{Now: clock.Now})
		DeferCleanup(controller.Stop)
	})

	It("without a DisruptionPolicy removes the cluster at once, ends and is deleted", func(ctx SpecContext) {
		ns := fleet(ctx, 2)
		web := placed(ctx, ns, 2)
		first := listed(ctx, ns)[0]
		e := evict(ctx, web, first)
		Eventually(conditionsOf).WithContext(ctx).WithArguments(e).Should(Equal(executed))
		Expect(listed(ctx, ns)).To(And(HaveLen(1), Not(ContainElement(first))))

		By("letting the exclusion end")
		clock.Advance(time.Hour + time.Second)
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(ContainElement(first))
		Expect(conditionsOf(ctx, e)).To(Equal(executed))

		By("letting another hour pass")
		clock.Advance(time.Hour)
		Eventually(conditionsOf).WithContext(ctx).WithArguments(e).Should(Equal("deleted"))
		Expect(listed(ctx, ns)).To(ContainElement(first))
	})

	It("publishes the replacement first, as the policy demands", func(ctx SpecContext) {
		ns := fleet(ctx, 4)
		policy(ctx, ns, func(*berthv1alpha1.DisruptionPolicySpec) {})
		web := placed(ctx, ns, 2)
		first := listed(ctx, ns)[0]
		pages, err := hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(ns))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(pages.Stop)
		e := evict(ctx, web, first)
		var seen []string
		for len(seen) == 0 || strings.Contains(seen[len(seen)-1], first) {
			var event watch.Event
			Eventually(pages.ResultChan()).Should(Receive(&event))
			seen = append(seen, fmt.Sprint(len(testhub.ClustersOn(*event.Object.(*v1alpha1.PlacementDecision))), " ", testhub.ClustersOn(*event.Object.(*v1alpha1.PlacementDecision))))
		}
		Expect(seen[len(seen)-2:]).To(HaveExactElements(HavePrefix("3 "), HavePrefix("2 ")))
		Eventually(conditionsOf).WithContext(ctx).WithArguments(e).Should(Equal(executed))
	})

	It("waits without a replacement, and ends when it is deleted", func(ctx SpecContext) {
		ns := fleet(ctx, 2)
		policy(ctx, ns, func(*berthv1alpha1.DisruptionPolicySpec) {})
		web := placed(ctx, ns, 2)
		all := listed(ctx, ns)
		e := evict(ctx, web, all[0])
		Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionDecisionProgressing).
			Should(HavePrefix("True RollingUpdate: 0 of 0 added, 0 of 1 removed; no other cluster is selected"))
		Eventually(messageOf).WithContext(ctx).WithArguments(e).
			Should(Equal("The cluster is still published: DecisionProgressing=True RollingUpdate"))
		Expect(conditionsOf(ctx, e)).To(Equal(waits))
		Expect(listed(ctx, ns)).To(Equal(all))

		By("evicting the other one, too, and deleting both evictions")
		other := evict(ctx, web, all[1])
		Eventually(conditionsOf).WithContext(ctx).WithArguments(other).Should(Equal(waits))
		Expect(listed(ctx, ns)).To(Equal(all))
		Expect(hub.Delete(ctx, e)).To(Succeed())
		Expect(hub.Delete(ctx, other)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionDecisionProgressing).Should(BeEmpty())
		Expect(listed(ctx, ns)).To(Equal(all))
	})

	It("goes on once there is a replacement; the last of two evictions of a cluster counts", func(ctx SpecContext) {
		ns := fleet(ctx, 1)
		policy(ctx, ns, func(*berthv1alpha1.DisruptionPolicySpec) {})
		web := placed(ctx, ns, 1)
		all := listed(ctx, ns)
		e, other := evict(ctx, web, all[0]), evict(ctx, web, all[0])
		Eventually(conditionsOf).WithContext(ctx).WithArguments(other).Should(Equal(waits))
		Expect(hub.Create(ctx, fixture.Cluster(ns+"-new").Set(ns).Obj())).To(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal([]string{ns + "-new"}))
		Eventually(conditionsOf).WithContext(ctx).WithArguments(e).Should(Equal(executed))
		Eventually(conditionsOf).WithContext(ctx).WithArguments(other).Should(Equal(executed))
		Expect(hub.Delete(ctx, e)).To(Succeed())
		Consistently(listed).WithContext(ctx).WithArguments(ns).Should(Equal([]string{ns + "-new"}))
		Expect(hub.Delete(ctx, other)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, web, v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("True"))
	})

	It("has no effect on other namespaces, on a Placement without the cluster, and on a later Placement", func(ctx SpecContext) {
		ns, other := fleet(ctx, 2), testhub.CreateNamespace(ctx, hub, "team-")
		web := placed(ctx, ns, 1)
		all := listed(ctx, ns)
		elsewhere := evict(ctx, fixture.Placement(other, web.Name).Obj(), all[0])
		unlisted := evict(ctx, web, "nobody")
		clock.Advance(10 * time.Second)
		Eventually(conditionsOf).WithContext(ctx).WithArguments(elsewhere).Should(Equal("Valid False PlacementNotFound"))
		Eventually(conditionsOf).WithContext(ctx).WithArguments(unlisted).Should(Equal("Valid False ClusterNotSelected"))
		Expect(listed(ctx, ns)).To(Equal(all))

		e := evict(ctx, web, all[0])
		Eventually(conditionsOf).WithContext(ctx).WithArguments(e).Should(Equal(executed))
		Expect(hub.Delete(ctx, web)).To(Succeed())
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.PlacementDecision{}, client.InNamespace(ns))).To(Succeed())
		// The API server has times of whole seconds.
		Eventually(func() bool { return time.Now().After(e.CreationTimestamp.Add(2 * time.Second)) }).Should(BeTrue())
		placed(ctx, ns, 1)
		Expect(listed(ctx, ns)).To(Equal(all))
	})

	It("needs a permission that an author does not have", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		web := fixture.Placement(ns, "web").Obj()
		object := func() *berthv1alpha1.PlacementEviction { return evictionOf(web, "c") }
		Expect(hub.Author(ctx, ns).Create(ctx, object())).To(WithTransform(apierrors.IsForbidden, BeTrue()))
		Expect(approver(ctx, ns).Create(ctx, object())).To(WithTransform(apierrors.IsForbidden, BeTrue()))
		testhub.Grant(ctx, hub, ns, "evictor", "berth-viewer")
		testhub.Grant(ctx, hub, ns, "evictor", "berth-evictor")
		created := object()
		Eventually(func() error { return hub.As("evictor").Create(ctx, created) }).Should(Succeed())
		Expect(hub.As("evictor").Get(ctx, client.ObjectKeyFromObject(created), created)).To(Succeed())
		created.Status.Conditions = []metav1.Condition{{Type: "Executed", Status: "True", Reason: "Me", LastTransitionTime: metav1.Now()}}
		Expect(hub.As("evictor").Status().Update(ctx, created)).To(WithTransform(apierrors.IsForbidden, BeTrue()))
		Expect(hub.As("evictor").Delete(ctx, created)).To(Succeed())
	})
})

// placed creates Placement web and waits until its clusters are published.
func placed(ctx context.Context, ns string, number int32) *v1alpha1.Placement {
	GinkgoHelper()
	pl := fixture.Placement(ns, "web").Number(number).Obj()
	Expect(hub.Create(ctx, pl)).To(Succeed())
	Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("True"))
	return pl
}

func evictionOf(pl *v1alpha1.Placement, cluster string) *berthv1alpha1.PlacementEviction {
	return &berthv1alpha1.PlacementEviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, GenerateName: pl.Name + "-"},
		Spec:       berthv1alpha1.PlacementEvictionSpec{Placement: pl.Name, Cluster: cluster},
	}
}

func evict(ctx context.Context, pl *v1alpha1.Placement, cluster string) *berthv1alpha1.PlacementEviction {
	GinkgoHelper()
	e := evictionOf(pl, cluster)
	Expect(hub.Create(ctx, e)).To(Succeed())
	return e
}

// conditionsOf lists the conditions of an eviction: "Valid True Accepted, Executed False Waiting".
func conditionsOf(ctx context.Context, e *berthv1alpha1.PlacementEviction) string {
	GinkgoHelper()
	got := &berthv1alpha1.PlacementEviction{}
	if err := hub.Get(ctx, client.ObjectKeyFromObject(e), got); apierrors.IsNotFound(err) {
		return "deleted"
	} else if err != nil {
		return err.Error()
	}
	var all []string
	for _, c := range got.Status.Conditions {
		all = append(all, fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason))
	}
	return strings.Join(all, ", ")
}

// messageOf is the message of the condition Executed.
func messageOf(ctx context.Context, e *berthv1alpha1.PlacementEviction) string {
	GinkgoHelper()
	got := testhub.Must(testhub.Get(ctx, hub, e))
	i := slices.IndexFunc(got.Status.Conditions, func(c metav1.Condition) bool { return c.Type == berthv1alpha1.EvictionExecuted })
	if i < 0 {
		return ""
	}
	return got.Status.Conditions[i].Message
}
