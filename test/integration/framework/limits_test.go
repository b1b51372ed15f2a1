package framework

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("BlastRadius", Ordered, ContinueOnFailure, func() {
	BeforeAll(func() { runBerth(0) })

	// mistype changes a label of clusters one after the other, as a script does.
	mistype := func(ctx context.Context, clusters []string) {
		GinkgoHelper()
		for _, name := range clusters {
			move(ctx, name, "inn")
		}
	}

	It("holds the removals that a label typo on most of the fleet causes, and reports why", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 100)
		pl := testhub.Place(ctx, hub, t.placement("p").Annotation(v1alpha1.ProfileAnnotation, careful), 100)
		consumer := observe(ctx, pl)
		mistype(ctx, t.names(0, 60))
		revision := revisionOf(ctx, pl, held(0, 60))
		Expect(pending(ctx, pl)()).To(And(ContainSubstring("is held by BlastRadius: "),
			ContainSubstring("60 of 100 clusters would be removed within 10m0s, more than 20%")))
		Expect(deadline(testhub.Must(pending(ctx, pl)()), "BlastRadius")).To(BeTemporally("~", time.Now().Add(7*24*time.Hour), time.Minute))
		Eventually(heldClusters(ctx, pl)).Should(Equal(t.names(60, 100)))
		Consistently(ctx, testhub.Clusters).WithArguments(hub, pl).Should(HaveLen(100))
		consumer.sawNoChange(ctx)

		approve(ctx, pl, revision)
		published(ctx, pl, t.names(60, 100))
	})

	It("drops a held change when its cause is reverted", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 10)
		pl := testhub.Place(ctx, hub, t.placement("p").Annotation(v1alpha1.ProfileAnnotation, careful), 10)
		consumer := observe(ctx, pl)
		mistype(ctx, t.names(0, 6))
		revisionOf(ctx, pl, held(0, 6))
		for _, name := range t.names(0, 6) {
			move(ctx, name, "in")
		}
		published(ctx, pl, t.names(0, 10))
		consumer.sawNoChange(ctx)
	})

	It("permits small removals until their sum exceeds the limit", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 40)
		pl := testhub.Place(ctx, hub, t.placement("p").Annotation(v1alpha1.ProfileAnnotation, careful), 40)
		mistype(ctx, t.names(0, 2))
		published(ctx, pl, t.names(2, 40))
		mistype(ctx, t.names(2, 8))
		published(ctx, pl, t.names(8, 40))
		mistype(ctx, t.names(8, 9))
		Eventually(pending(ctx, pl)).Should(And(held(0, 1), ContainSubstring("9 of 40 clusters")))
		Expect(testhub.Clusters(ctx, hub, pl)).To(Equal(t.names(8, 40)))
	})

	It("sums the removals over all Placements of a namespace", func(ctx SpecContext) {
		By("a restart: what was removed before counts by its records, in its own namespace")
		berth.Stop()
		startBerth(0)
		t := newTeam(ctx)
		t.clusters(ctx, 20)
		var placements []*v1alpha1.Placement
		for i := range 3 {
			placements = append(placements, testhub.Place(ctx, hub, t.placement(fmt.Sprintf("p%d", i)).Annotation(v1alpha1.ProfileAnnotation, fleetwide), 20))
		}
		By("removing 4 from each of 3, one more removal than is fine on two of them")
		mistype(ctx, t.names(0, 4))
		states := func() (passed, waiting []*v1alpha1.Placement) {
			for _, pl := range placements {
				if len(testhub.Must(testhub.Clusters(ctx, hub, pl))) == 16 {
					passed = append(passed, pl)
				} else if matches, err := held(0, 4).Match(testhub.Must(pending(ctx, pl)())); err == nil && matches {
					waiting = append(waiting, pl)
				}
			}
			return passed, waiting
		}
		Eventually(func(g Gomega) {
			passed, waiting := states()
			g.Expect(passed).To(HaveLen(2))
			g.Expect(waiting).To(HaveLen(1))
		}).Should(Succeed())
		_, waiting := states()
		Expect(pending(ctx, waiting[0])()).To(ContainSubstring("12 removals over all Placements of the namespace within 10m0s would be more than 10"))
		approve(ctx, waiting[0], revisionOf(ctx, waiting[0], held(0, 4)))
		published(ctx, waiting[0], t.names(4, 20))
	})

	It("does not restart the timeout of another plugin", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 10)
		pl := testhub.Place(ctx, hub, t.placement("p"), 10)
		require(ctx, pl, guarded)
		consumer := observe(ctx, pl)
		mistype(ctx, t.names(0, 1))
		revision := revisionOf(ctx, pl, held(0, 1))
		until := deadline(testhub.Must(pending(ctx, pl)()), "Approval")
		for i := range 5 {
			annotate(ctx, pl, "example.com/note", fmt.Sprint(i))
			Consistently(pending(ctx, pl), "100ms").Should(held(0, 1))
			Expect(deadline(testhub.Must(pending(ctx, pl)()), "Approval")).To(Equal(until))
		}
		Eventually(pending(ctx, pl), 3*hastyTimeout).Should(HavePrefix("False Expired: Change " + revision))
		consumer.sawNoChange(ctx)
	})
})

var _ = Describe("BlastRadius, while writes of pages fail", func() {
	It("counts a removal once, for any number of retries", func(ctx SpecContext) {
		const clusters, page = 150, "p-decision-1" // Page 2 is written first.
		t := newTeam(ctx)
		t.clusters(ctx, clusters)
		proxy := startBehindProxy()
		pl := testhub.Place(ctx, hub, t.placement("p").Annotation(v1alpha1.ProfileAnnotation, careful), clusters)
		left := failWrites(proxy, page, 3)
		By("removing 20% of the clusters, from both pages")
		faults.InParallel(30, func(i int) error {
			return testhub.Patch(ctx, hub, fixture.Cluster(t.names(85+i, 86+i)[0]).Obj(), fmt.Sprintf(`{"metadata":{"labels":{%q:"out"}}}`, poolLabel))
		})
		Eventually(left.Load).Should(BeNumerically("<=", 0))
		published(ctx, pl, slices.Concat(t.names(0, 85), t.names(115, clusters)))
		By("removing one more")
		move(ctx, t.names(0, 1)[0], "out")
		Eventually(pending(ctx, pl)).Should(And(held(0, 1), ContainSubstring("31 of 150 clusters")))
	})
})

var _ = Describe("MaintenanceWindow", Ordered, ContinueOnFailure, func() {
	BeforeAll(func() { runBerth(0) })

	// outside is a Placement with a change outside the window.
	outside := func(ctx context.Context, profile string) (t team, pl *v1alpha1.Placement, revision string) {
		GinkgoHelper()
		t = newTeam(ctx)
		t.clusters(ctx, 4)
		pl = testhub.Place(ctx, hub, t.placement("p").Number(3), 3)
		annotate(ctx, pl, v1alpha1.ProfileAnnotation, profile)
		testhub.SetNumber(ctx, hub, pl, 4)
		return t, pl, revisionOf(ctx, pl, held(1, 0))
	}

	It("holds changes outside the window, and reports when it opens", func(ctx SpecContext) {
		t, pl, _ := outside(ctx, yearly)
		consumer := observe(ctx, pl)
		opening := time.Date(time.Now().UTC().Year(), lastOpening.Month(), lastOpening.Day(), 0, 0, 0, 0, time.UTC)
		if opening.Before(time.Now()) {
			opening = opening.AddDate(1, 0, 0)
		}
		Expect(pending(ctx, pl)()).To(And(ContainSubstring("is held by MaintenanceWindow: "),
			ContainSubstring("outside the maintenance windows; the next one opens at "+opening.Format(time.RFC3339))))
		Consistently(ctx, testhub.Clusters).WithArguments(hub, pl).Should(HaveLen(3))
		consumer.sawNoChange(ctx)

		By("moving to a profile whose window is open")
		annotate(ctx, pl, v1alpha1.ProfileAnnotation, always)
		published(ctx, pl, t.names(0, 4))
	})

	It("holds an approved change too, unless approvable is set", func(ctx SpecContext) {
		_, strict, revision := outside(ctx, yearly)
		approve(ctx, strict, revision)
		t, pl, revision := outside(ctx, exempting)
		approve(ctx, pl, revision)
		published(ctx, pl, t.names(0, 4))
		Expect(testhub.Clusters(ctx, hub, strict)).To(HaveLen(3))
		Expect(pending(ctx, strict)()).To(held(1, 0))
	})

	It("holds nothing while the window is open", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 4)
		pl := testhub.Place(ctx, hub, t.placement("p").Annotation(v1alpha1.ProfileAnnotation, always), 4)
		Expect(hub.Delete(ctx, fixture.Cluster(t.names(3, 4)[0]).Obj())).To(Succeed())
		published(ctx, pl, t.names(0, 3))
	})
})
