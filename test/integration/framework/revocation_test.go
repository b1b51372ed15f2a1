package framework

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("While a change is pending", Ordered, ContinueOnFailure, func() {
	BeforeAll(func() { runBerth(0) })

	// pendings are ways in which a change stays pending.
	pendings := map[string]func(ctx SpecContext, pl *v1alpha1.Placement){
		"held": func(SpecContext, *v1alpha1.Placement) {},
		"rejected": func(ctx SpecContext, pl *v1alpha1.Placement) {
			Expect(answerChange(ctx, hub, pl, revisionOf(ctx, pl, held(1, 0)), berthv1alpha1.Rejected)).To(Succeed())
			Eventually(pending(ctx, pl)).Should(HavePrefix("False Rejected: "))
		},
	}

	for name, become := range pendings {
		It("clusters of a set that is no longer bound are removed at once, "+name, func(ctx SpecContext) {
			t := newTeam(ctx)
			t.clusters(ctx, 4)
			other := fixture.Set(string(t) + "-other")
			Expect(hub.Create(ctx, other)).To(Succeed())
			Expect(hub.Create(ctx, fixture.Binding(string(t), other.Name))).To(Succeed())
			Expect(hub.Create(ctx, fixture.Cluster(string(t)+"-z").Set(other.Name).Label(poolLabel, "in").Obj())).To(Succeed())
			pl := testhub.Place(ctx, hub, t.placement("p").Number(4), 4)
			all := t.names(0, 4)
			Expect(testhub.Clusters(ctx, hub, pl)).To(Equal(all))
			require(ctx, pl, v1alpha1.DefaultProfile)
			testhub.SetNumber(ctx, hub, pl, 5)
			revisionOf(ctx, pl, held(1, 0))
			become(ctx, pl)

			By("a cluster leaving its set")
			Expect(testhub.Patch(ctx, hub, fixture.Cluster(all[0]).Obj(), `{"metadata":{"labels":{"`+v1alpha1.ClusterSetLabel+`":"elsewhere"}}}`)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.IgnoreNotFound(hub.Delete(ctx, fixture.Cluster(all[0]).Obj()))).To(Succeed())
				Expect(client.IgnoreNotFound(hub.Delete(ctx, fixture.Cluster(string(t)+"-z").Obj()))).To(Succeed())
			})
			Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(Equal(all[1:]))
			Eventually(pending(ctx, pl)).Should(held(1, 0), "what would replace it still waits")

			By("the binding being revoked")
			Expect(hub.Delete(ctx, fixture.Binding(string(t), string(t)))).To(Succeed())
			Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(BeEmpty())
			Consistently(ctx, testhub.Clusters).WithArguments(hub, pl).Should(BeEmpty(), "the cluster of the other set waits")
			Eventually(pending(ctx, pl)).Should(held(1, 0))
			approve(ctx, pl, revisionOf(ctx, pl, held(1, 0)))
			Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(Equal([]string{string(t) + "-z"}))
		})

		It("an edited page is restored, "+name, func(ctx SpecContext) {
			t := newTeam(ctx)
			t.clusters(ctx, 3)
			pl := testhub.Place(ctx, hub, t.placement("p").Number(2), 2)
			require(ctx, pl, v1alpha1.DefaultProfile)
			testhub.SetNumber(ctx, hub, pl, 3)
			revisionOf(ctx, pl, held(1, 0))
			become(ctx, pl)
			before := testhub.Must(pending(ctx, pl)())
			content := func() any {
				pages := testhub.Must(testhub.Pages(ctx, hub, pl))
				if len(pages) != 1 {
					return len(pages)
				}
				return []any{pages[0].Labels, pages[0].OwnerReferences, pages[0].Status.Decisions}
			}
			published, name := content(), testhub.Must(testhub.Pages(ctx, hub, pl))[0].Name
			for _, patch := range []string{
				`{"metadata":{"labels":{"` + v1alpha1.DecisionGroupIndexLabel + `":"7"}}}`,
				`{"metadata":{"labels":{"` + v1alpha1.DecisionGroupNameLabel + `":"canary"}}}`,
				`{"metadata":{"labels":{"` + v1alpha1.PlacementLabel + `":null}}}`,
				`{"metadata":{"ownerReferences":null}}`,
				`{"status":{"decisions":[]}}`,
				`{"status":{"decisions":[{"clusterName":"` + t.names(0, 1)[0] + `","reason":"because"},{"clusterName":"` + t.names(1, 2)[0] + `","reason":""}]}}`,
				`{"status":{"decisions":[{"clusterName":"` + t.names(0, 1)[0] + `","reason":""},{"clusterName":"` + t.names(1, 2)[0] +
					`","reason":""},{"clusterName":"` + t.names(2, 3)[0] + `","reason":""}]}}`,
			} {
				By("damage by " + patch)
				page := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: name}}
				Expect(testhub.Patch(ctx, hub, page, patch)).To(Succeed())
				if strings.HasPrefix(patch, `{"status"`) {
					Expect(hub.Status().Patch(ctx, page, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
				}
				Eventually(content).Should(Equal(published))
			}
			Consistently(content).Should(Equal(published))
			Expect(pending(ctx, pl)()).To(Equal(before), "the change is pending as before")
		})
	}

	It("an author cannot keep the clusters of a lost set by an invalid Placement", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 3)
		pl := testhub.Place(ctx, hub, t.placement("p"), 3)
		annotate(ctx, pl, v1alpha1.ProfileAnnotation, "none")
		Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionMisconfigured).Should(HavePrefix("True "))
		Consistently(ctx, testhub.Clusters).WithArguments(hub, pl).Should(HaveLen(3), "the mistake alone changes nothing")
		Expect(hub.Delete(ctx, fixture.Binding(string(t), string(t)))).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(BeEmpty())
		Expect(testhub.Condition(ctx, hub, pl, v1alpha1.PlacementConditionMisconfigured)).To(HavePrefix("True "))
	})

	It("a recreated Placement of the same name does not inherit the change", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 3)
		pl := testhub.Place(ctx, hub, t.placement("p").Number(2), 2)
		require(ctx, pl, v1alpha1.DefaultProfile)
		testhub.SetNumber(ctx, hub, pl, 3)
		revision := revisionOf(ctx, pl, held(1, 0))
		former := testhub.Must(testhub.Get(ctx, hub, pl)).UID
		By("creating it again, with the former one's change approved, at once")
		again := t.placement("p").Number(2).Obj()
		again.UID, again.Generation = "", 0
		Expect(hub.Delete(ctx, pl)).To(Succeed())
		approve(ctx, pl, revision)
		Expect(hub.Create(ctx, again)).To(Succeed())
		Eventually(pending(ctx, again)).Should(held(2, 0), "the first decision is a change of two clusters, although the former pages are there")
		Expect(revisionOf(ctx, again, held(2, 0))).To(Equal("1"), "revisions begin at 1 again")
		own := func() []string {
			names := []string{}
			for _, page := range testhub.Must(testhub.Pages(ctx, hub, again)) {
				if owner := metav1.GetControllerOf(&page); owner != nil && owner.UID != former {
					names = append(names, testhub.ClustersOn(page)...)
				}
			}
			return names
		}
		Consistently(own, 500*time.Millisecond).Should(BeEmpty())
		approve(ctx, again, revisionOf(ctx, again, held(2, 0)))
		Eventually(own).Should(HaveLen(2))
	})
})

var _ = Describe("While statuses cannot be written", func() {
	It("new scores are published within the rate limit", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 2)
		name := t.names(0, 1)[0]
		testhub.CreateNamespace(ctx, hub, name)
		Expect(hub.Create(ctx, fixture.Score(name, "load").Obj())).To(Succeed())
		score(ctx, name, 10)
		proxy := startBehindProxy()
		left := failWrites(proxy, "status", 1_000_000)
		pl := t.placement("p").Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn("load", "free", 1).Obj()
		pl.Spec.SortBy, pl.Spec.ScoreRateLimit = v1alpha1.SortByScore, "1h"
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(HaveLen(2))
		page := testhub.Must(testhub.Pages(ctx, hub, pl))[0]
		By("new scores, again and again")
		for i := range 4 {
			score(ctx, name, int32(20+i))
			before := left.Load()
			annotate(ctx, pl, "example.com/note", strings.Repeat("x", i+1))
			Eventually(left.Load).Should(BeNumerically("<", before-1))
		}
		Expect(testhub.Must(testhub.Pages(ctx, hub, pl))[0].ResourceVersion).To(Equal(page.ResourceVersion))
		By("the hub storing statuses again")
		proxy.EndFaults()
		// The next attempt need not wait for the backoff.
		annotate(ctx, pl, "example.com/note", "again")
		Eventually(func() *metav1.Time { return testhub.Must(testhub.Get(ctx, hub, pl)).Status.LastScoreUpdateTime }).ShouldNot(BeNil())
		Expect(testhub.Must(testhub.Pages(ctx, hub, pl))[0].ResourceVersion).To(Equal(page.ResourceVersion))
	})
})
