package placement

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// late is how much later than due something may happen on a busy machine.
const late = 3 * time.Second

var _ = Describe("Time", func() {
	var t *tenant
	BeforeEach(func(ctx SpecContext) {
		t = newTenant(ctx)
		t.clusters(ctx, "a", "b", "c")
	})
	// inWholeSeconds is a time at least d from now, as the API can say it.
	inWholeSeconds := func(d time.Duration) time.Time { return time.Now().Add(d + time.Second - 1).Truncate(time.Second) }
	stamp := func(at time.Time) string { return at.UTC().Format(time.RFC3339) }

	It("ends a toleration and removes the cluster", func(ctx SpecContext) {
		const seconds = 6
		end := inWholeSeconds(5 * time.Second)
		t.apply(ctx, fmt.Sprintf("{kind: ManagedCluster, metadata: {name: a}, spec: {hubAcceptsClient: true, taints: [{key: t, effect: NoSelect, timeAdded: %q}]}}",
			stamp(end.Add(-seconds*time.Second))))
		t.placement(ctx, "p", fmt.Sprintf("{numberOfClusters: 2, tolerations: [{key: t, operator: Exists, tolerationSeconds: %d}]}", seconds))
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b"}))
		Expect(time.Now()).To(BeTemporally("<", end))

		Eventually(t.published(ctx, "p")).Should(Equal([]string{"b", "c"}))
		Expect(time.Now()).To(And(BeTemporally(">=", end), BeTemporally("<", end.Add(late))))
		AddReportEntry("toleration ended, late by", time.Since(end))
	})

	It("ends a score, with a warning that names the score", func(ctx SpecContext) {
		end := inWholeSeconds(5 * time.Second)
		t.apply(ctx,
			fmt.Sprintf("{kind: AddOnPlacementScore, metadata: {name: speed, namespace: b}, status: {validUntil: %q, scores: [{name: iops, value: 90}]}}", stamp(end)),
			"{kind: AddOnPlacementScore, metadata: {name: speed, namespace: c}, status: {scores: [{name: iops, value: 10}]}}")
		t.placement(ctx, "p", "{numberOfClusters: 1, prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: speed, scoreName: iops}}}]}}")
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"b"}))
		Expect(time.Now()).To(BeTemporally("<", end))

		Eventually(t.published(ctx, "p")).Should(Equal([]string{"c"}))
		Expect(time.Now()).To(And(BeTemporally(">=", end), BeTemporally("<", end.Add(late))))
		Eventually(eventsOf(ctx, placementAt(ctx, t.key("p")))).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", "DecisionUpdate"),
			HaveField("Note", HavePrefix("Decision p-decision-1 is updated with placement p in namespace "+t.namespace+": ")),
			HaveField("Note", ContainSubstring(t.full("b")+"/speed")))))
	})

	It("limits updates that change only scores to one per scoreRateLimit", func(ctx SpecContext) {
		// seen is how much later than written a page may be seen.
		const limit, seen = 3 * time.Second, 250 * time.Millisecond
		score := func(cluster string, value int) string {
			return fmt.Sprintf("{kind: AddOnPlacementScore, metadata: {name: speed, namespace: %s}, status: {scores: [{name: iops, value: %d}]}}", cluster, value)
		}
		entries := func() []string {
			var list []string
			for _, page := range pagesOf(ctx, t.key("p")) {
				for _, d := range page.Status.Decisions {
					Expect(d.Score).NotTo(BeNil())
					list = append(list, fmt.Sprintf("%s:%d", d.ClusterName[len(t.namespace)+1:], *d.Score))
				}
			}
			return list
		}
		last := func() time.Time {
			if at := placementAt(ctx, t.key("p")).Status.LastScoreUpdateTime; at != nil {
				return at.Time
			}
			return time.Time{}
		}
		t.apply(ctx, score("a", 10), score("b", 20), score("c", -30))
		// The API keeps times in whole seconds: late in one, a limit that counts from its start
		// would end too early.
		Eventually(func() int { return time.Now().Nanosecond() }).Should(BeNumerically(">", 700*time.Millisecond))
		t.placement(ctx, "p", "{numberOfClusters: 2, sortBy: Score, scoreRateLimit: 3s, prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: speed, scoreName: iops}}}]}}")
		Eventually(entries).Should(Equal([]string{"b:20", "a:10"}))
		published := time.Now()
		Eventually(last).Should(BeTemporally("~", published, 2*time.Second))

		for _, b := range []int{30, 50} {
			By("a new order, which has to wait, and to which more is added meanwhile")
			first := entries()
			t.apply(ctx, score("a", b+5))
			t.waitForDecision(ctx, t.full("c"))
			Consistently(entries).Should(Equal(first))
			t.apply(ctx, score("b", b))
			Eventually(entries).Should(Equal([]string{fmt.Sprintf("a:%d", b+5), fmt.Sprintf("b:%d", b)}))
			gap := time.Since(published)
			Expect(gap).To(And(BeNumerically(">", limit-seen), BeNumerically("<", limit+late)))
			AddReportEntry("new scores published after", gap)
			published = time.Now()
			Eventually(last).Should(BeTemporally("~", published, 2*time.Second))
		}

		By("another set of clusters, which never waits")
		t.apply(ctx, score("c", 60))
		Eventually(entries).WithTimeout(limit / 2).Should(Equal([]string{"c:60", "a:55"}))
		Expect(t.satisfied(ctx, "p")()).To(Equal(allScheduled))
	})
})

var _ = Describe("The annotation that disables scheduling", func() {
	It("keeps the Placement and its pages unchanged until it is removed", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "a", "b")
		t.placement(ctx, "p", "{}")
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))

		pl := placementAt(ctx, t.key("p"))
		testhub.Edit(ctx, hub, pl, func(p *v1alpha1.Placement) {
			p.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
		})
		testhub.EditStatus(ctx, hub, &pagesOf(ctx, t.key("p"))[0], func(p *v1alpha1.PlacementDecision) { p.Status.Decisions = p.Status.Decisions[:1] })
		t.placement(ctx, "p", "{numberOfClusters: 5}")
		t.clusters(ctx, "c")
		Eventually(func() *metav1.Condition {
			return meta.FindStatusCondition(placementAt(ctx, t.key("p")).Status.Conditions, v1alpha1.PlacementConditionSchedulingDisabled)
		}).Should(HaveField("ObservedGeneration", placementAt(ctx, t.key("p")).Generation))
		before := versions(ctx, t.namespace, "p")
		t.waitForDecision(ctx, t.full("c"))
		Consistently(func() map[string]string { return versions(ctx, t.namespace, "p") }).Should(Equal(before))
		Expect(t.published(ctx, "p")()).To(Equal([]string{"a"}))

		testhub.Edit(ctx, hub, pl, func(p *v1alpha1.Placement) { p.Annotations = nil })
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b", "c"}))
		Eventually(t.satisfied(ctx, "p")).Should(Equal("False NotAllDecisionsScheduled: 2 cluster decisions unscheduled"))
	})

	It("prevents the first decision of a new Placement", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "a")
		t.apply(ctx, "{kind: Placement, metadata: {name: p, annotations: {"+v1alpha1.PlacementDisableAnnotation+": \"true\"}}, spec: {}}")
		t.waitForDecision(ctx, t.full("a"))
		Expect(pagesOf(ctx, t.key("p"))).To(BeEmpty())
		conditions := placementAt(ctx, t.key("p")).Status.Conditions
		Expect(conditions).To(HaveLen(1))
		Expect(conditions[0].Type).To(Equal(v1alpha1.PlacementConditionSchedulingDisabled))
	})
})
