package placement

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// records are the records of Placement p as "phase, number of added and removed clusters: cause".
func (t *tenant) records(ctx context.Context) func() []string {
	return func() []string {
		list := &berthv1alpha1.PlacementChangeList{}
		Expect(hub.List(ctx, list, client.InNamespace(t.namespace), client.MatchingLabels{v1alpha1.PlacementLabel: "p"})).To(Succeed())
		slices.SortFunc(list.Items, func(a, b berthv1alpha1.PlacementChange) int { return int(a.Spec.Revision - b.Spec.Revision) })
		var all []string
		for _, r := range list.Items {
			all = append(all, fmt.Sprintf("%s +%d -%d: %s", r.Status.Phase, r.Spec.AddedCount, r.Spec.RemovedCount, r.Spec.Cause))
		}
		return all
	}
}

// namedIs is a spec that selects the cluster with a label.
func namedIs(name string) string {
	return "{predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: name, operator: In, values: [" + name + "]}]}}}]}"
}

var _ = Describe("Another writer's pages", func() {
	const adopted = "Published +1 -1: pages edited while scheduling was disabled"
	disabled := func(ctx context.Context, t *tenant) func() bool {
		return func() bool {
			return meta.IsStatusConditionTrue(placementAt(ctx, t.key("p")).Status.Conditions, v1alpha1.PlacementConditionSchedulingDisabled)
		}
	}
	annotate := func(ctx context.Context, t *tenant, annotations map[string]string) {
		GinkgoHelper()
		testhub.Edit(ctx, hub, placementAt(ctx, t.key("p")), func(p *v1alpha1.Placement) { p.Annotations = annotations })
	}
	restart := func(during func()) {
		GinkgoHelper()
		berth.Interrupt()
		during()
		startBerth()
	}
	restartAt := func(now, at string, during func()) {
		GinkgoHelper()
		if now == at {
			restart(during)
		} else {
			during()
		}
	}

	for _, when := range []string{"never", "while disabled", "while the pages are edited", "while it is enabled"} {
		for _, approval := range []bool{false, true} {
			It(fmt.Sprintf("are what Berth goes on from after a failover; restarted %s, approval %t", when, approval), func(ctx SpecContext) {
				t := newTenant(ctx)
				t.apply(ctx, "{kind: ManagedCluster, metadata: {name: q1, labels: {name: q1}}}", "{kind: ManagedCluster, metadata: {name: q2, labels: {name: q2}}}")
				t.placement(ctx, "p", namedIs("q1"))
				Eventually(t.published(ctx, "p")).Should(Equal([]string{"q1"}))
				Eventually(t.records(ctx)).Should(HaveLen(1))
				if approval {
					t.apply(ctx, "{apiVersion: "+berthv1alpha1.GroupVersion.String()+", kind: DisruptionPolicy, metadata: {name: careful}, spec: {placementSelector: {}, approval: Required}}")
				}
				annotate(ctx, t, map[string]string{v1alpha1.PlacementDisableAnnotation: "true"})
				Eventually(disabled(ctx, t)).Should(BeTrue())
				restartAt(when, "while disabled", func() {})
				restartAt(when, "while the pages are edited", func() {
					testhub.EditStatus(ctx, hub, &pagesOf(ctx, t.key("p"))[0], func(p *v1alpha1.PlacementDecision) { p.Status.Decisions[0].ClusterName = t.full("q2") })
				})
				t.placement(ctx, "p", namedIs("q2"))
				restartAt(when, "while it is enabled", func() { annotate(ctx, t, nil) })

				Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
				Expect(t.published(ctx, "p")()).To(Equal([]string{"q2"}))
				Expect(disabled(ctx, t)()).To(BeFalse())
				Expect(t.records(ctx)()).To(HaveExactElements(ContainSubstring("Published +1 -0"), Equal(adopted)))

				By("moving from there")
				t.placement(ctx, "p", namedIs("q1"))
				if !approval {
					Eventually(t.published(ctx, "p")).Should(Equal([]string{"q1"}))
					return
				}
				Eventually(t.records(ctx)).Should(HaveExactElements(ContainSubstring("Published"), Equal(adopted), HavePrefix("Held +1 -1: ")))
				Expect(t.published(ctx, "p")()).To(Equal([]string{"q2"}))
			})
		}
	}

	It("move nothing while scheduling is enabled, also while no controller runs", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "b")
		t.placement(ctx, "p", "{numberOfClusters: 1, prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: Steady}}]}}")
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"b"}))
		Eventually(t.records(ctx)).Should(HaveLen(1))
		t.clusters(ctx, "a")
		remove := func() { Expect(hub.Delete(ctx, &pagesOf(ctx, t.key("p"))[0])).To(Succeed()) }
		list := func() {
			testhub.EditStatus(ctx, hub, &pagesOf(ctx, t.key("p"))[0], func(p *v1alpha1.PlacementDecision) { p.Status.Decisions[0].ClusterName = t.full("a") })
		}
		for _, damage := range []func(){remove, list} {
			damage()
			Eventually(t.published(ctx, "p")).Should(Equal([]string{"b"}))
			restart(damage)
			Eventually(t.published(ctx, "p")).Should(Equal([]string{"b"}))
		}
		t.waitForDecision(ctx, t.full("a"))
		Expect(t.published(ctx, "p")()).To(Equal([]string{"b"}))
		Expect(t.records(ctx)()).To(HaveLen(1))
	})
})

var _ = Describe("A start", func() {
	It("moves nothing, although decision counts have changed since", func(ctx SpecContext) {
		t := newTenant(ctx)
		var names []string
		for _, c := range []string{"a", "b", "c", "d"} {
			t.apply(ctx, "{kind: ManagedCluster, metadata: {name: "+c+", labels: {name: "+c+"}}}")
		}
		for i := range 8 {
			name := fmt.Sprint("p", i)
			names = append(names, name)
			t.placement(ctx, name, "{numberOfClusters: 1}")
			Eventually(t.satisfied(ctx, name)).Should(Equal(allScheduled))
		}
		for i := range 6 {
			name := fmt.Sprint("q", i)
			names = append(names, name)
			t.placement(ctx, name, namedIs("a"))
			Eventually(t.satisfied(ctx, name)).Should(Equal(allScheduled))
		}
		before := versions(ctx, t.namespace, names...)
		for range 3 {
			restart := pageWrites()
			berth.Interrupt()
			startBerth()
			t.waitForDecision(ctx, t.full("b"))
			Expect(pageWrites()-restart).To(Equal(1), "the page of the Placement that came last")
			Expect(versions(ctx, t.namespace, names...)).To(Equal(before))
		}
	})
})
