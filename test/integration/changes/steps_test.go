package changes

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A change of a Placement with a DisruptionPolicy", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	It("is published in steps: at every moment the desired number is listed, and no more than the surge", func(ctx SpecContext) {
		ns := fleet(ctx, 12)
		policy(ctx, ns, func(*berthv1alpha1.DisruptionPolicySpec) {})
		pl := fixture.Placement(ns, "web").Number(6).Predicate(fixture.MatchLabel("tier", "old")).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(HaveLen(6))
		old := listed(ctx, ns)
		pages, err := hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(ns))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(pages.Stop)

		testhub.Edit(ctx, hub, pl, func(pl *v1alpha1.Placement) {
			pl.Spec = fixture.Placement(ns, "web").Number(6).Predicate(fixture.MatchLabel("tier", "new")).Obj().Spec
		})
		sizes := map[int]bool{}
		for remaining := old; len(remaining) > 0; {
			var event watch.Event
			Eventually(pages.ResultChan()).Should(Receive(&event))
			names := testhub.ClustersOn(*event.Object.(*v1alpha1.PlacementDecision))
			remaining = slices.DeleteFunc(slices.Clone(old), func(name string) bool { return !slices.Contains(names, name) })
			sizes[len(names)] = true
		}
		// 25% of 6, rounded up, is 2.
		Expect(sizes).To(And(HaveKey(6), HaveKey(8)))
		for size := range sizes {
			Expect(size).To(And(BeNumerically(">=", 6), BeNumerically("<=", 8)))
		}
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published, 2 Published"))
		Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("True AllDecisionsScheduled"))
		Expect(testhub.Condition(ctx, hub, pl, v1alpha1.PlacementConditionDecisionProgressing)).To(BeEmpty())
	})

	It("waits while the policy suspends it, goes on after that, and is in one record", func(ctx SpecContext) {
		ns := fleet(ctx, 4)
		careful := policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
		Eventually(statusOf(ctx, careful)).Should(Equal("0 False NoPlacementsSelected"))
		pl := fixture.Placement(ns, "web").Number(2).Predicate(fixture.MatchLabel("tier", "old")).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionDecisionProgressing).
			Should(Equal("False Suspended: 0 of 2 added, 0 of 0 removed; suspended by DisruptionPolicy careful"))
		Consistently(listed).WithContext(ctx).WithArguments(ns).Should(BeEmpty())
		Expect(testhub.Condition(ctx, hub, pl, v1alpha1.PlacementConditionSatisfied)).To(HavePrefix("False DecisionPending: Clusters published: 0, wanted: 2"))
		Expect(phases(ctx, ns)).To(Equal("1 Progressing"))
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"suspend": false}}`))
		Expect(hub.Patch(ctx, careful, patch)).To(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(HaveLen(2))
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published"))
	})

	It("keeps minAvailable of its clusters until it is approved", func(ctx SpecContext) {
		ns := fleet(ctx, 4)
		policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MinAvailable = new(intstr.FromString("50%")) })
		pl := fixture.Placement(ns, "web").Predicate(fixture.MatchLabel("tier", "old")).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).ShouldNot(BeEmpty())
		before := len(listed(ctx, ns))
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published"))
		testhub.Edit(ctx, hub, pl, func(pl *v1alpha1.Placement) {
			pl.Spec.Predicates = fixture.Placement(ns, "web").Predicate(fixture.MatchLabel("tier", "none")).Obj().Spec.Predicates
		})
		Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionDecisionProgressing).Should(HavePrefix("False MinAvailable: "))
		Expect(listed(ctx, ns)).To(HaveLen((before + 1) / 2))
		record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-2"}}
		approval := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"approval": {"decision": "Approved", "by": "admin"}}}`))
		Eventually(func() error { return hub.Patch(ctx, record, approval) }).WithContext(ctx).Should(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(BeEmpty())
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published, 2 Published"))
	})

	DescribeTable("a policy is refused whose budget", func(ctx SpecContext, unavailable, surge *intstr.IntOrString, message string) {
		spec := berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}, MaxUnavailable: unavailable, MaxSurge: surge}
		err := hub.Create(ctx, &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: testhub.CreateNamespace(ctx, hub, "team-"), Name: "p"}, Spec: spec})
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("is 0", nil, new(intstr.FromInt32(0)), "maxUnavailable and maxSurge must not both be 0"),
		Entry("is 0%", new(intstr.FromString("0%")), new(intstr.FromString("0%")), "maxUnavailable and maxSurge must not both be 0"),
		Entry("is negative", new(intstr.FromInt32(-1)), nil, "spec.maxUnavailable: Invalid value"),
		Entry("is no percentage", nil, new(intstr.FromString("many")), "must be a number from 0 to 1000000 or a percentage from 0% to 100%"),
		Entry("is too large a percentage", nil, new(intstr.FromString("101%")), "must be a number from 0 to 1000000 or a percentage from 0% to 100%"),
		Entry("is too large a number", new(intstr.FromInt32(1000001)), nil, "must be a number from 0 to 1000000 or a percentage from 0% to 100%"),
	)
})

// fleet creates a namespace with a bound set of clusters, half of tier old and half of tier new.
func fleet(ctx context.Context, clusters int) string {
	GinkgoHelper()
	ns := testhub.CreateTeam(ctx, hub, "team-")
	for i := range clusters {
		tier := []string{"old", "new"}[i%2]
		Expect(hub.Create(ctx, fixture.Cluster(fmt.Sprintf("%s-%d", ns, i)).Set(ns).Label("tier", tier).Obj())).To(Succeed())
	}
	return ns
}

func policy(ctx context.Context, ns string, change func(spec *berthv1alpha1.DisruptionPolicySpec)) *berthv1alpha1.DisruptionPolicy {
	GinkgoHelper()
	p := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "careful"}, Spec: byLabels(nil)}
	change(&p.Spec)
	testhub.Govern(ctx, hub, p)
	return p
}

func listed(ctx context.Context, ns string) []string {
	GinkgoHelper()
	pages := testhub.Must(testhub.PagesIn(ctx, hub, client.InNamespace(ns)))
	return slices.Sorted(slices.Values(testhub.ClustersOn(pages...)))
}

// phases lists the records of a namespace: "1 Published, 2 Held".
func phases(ctx context.Context, ns string) string {
	GinkgoHelper()
	own := testhub.Must(testhub.Records(ctx, hub, client.InNamespace(ns)))
	text := ""
	for i, record := range own {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(record.Spec.Revision, " ", record.Status.Phase)
	}
	return text
}
