package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A Placement whose changes need approval", Ordered, ContinueOnFailure, func() {
	BeforeAll(func() { runBerth(0) })

	It("keeps its pages until the change is approved, and shows the held change", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 15)
		pl := testhub.Place(ctx, hub, t.placement("p").Number(2), 2)
		before := testhub.Must(testhub.Clusters(ctx, hub, pl))
		require(ctx, pl, v1alpha1.DefaultProfile)
		consumer := observe(ctx, pl)

		testhub.SetNumber(ctx, hub, pl, 14)
		Eventually(pending(ctx, pl)).Should(held(12, 0))
		text := testhub.Must(pending(ctx, pl)())
		revision := revisionOf(ctx, pl, held(12, 0))
		Expect(text).To(And(ContainSubstring("12 added: "), ContainSubstring(" and 2 more"), ContainSubstring("0 removed")))
		Expect(strings.Count(text, string(t)+"-")).To(Equal(10), "the first ten names: %s", text)
		Expect(deadline(text, "Approval")).To(BeTemporally("~", time.Now().Add(7*24*time.Hour), time.Minute))
		Eventually(heldClusters(ctx, pl)).Should(And(HaveLen(14), ContainElements(before)))
		record := recordsOf(ctx, pl).Open()
		Expect(fmt.Sprint(record.Spec.Revision)).To(Equal(revision))
		Expect(record.Spec.Cause).To(Equal("Placement: numberOfClusters: 2 → 14"))
		Expect(wideRow(ctx, pl)).To(And(HaveKeyWithValue("Pending", "Held"), HaveKeyWithValue("Pending Change", ContainSubstring("Change "+revision))))
		reconcilesNothing(ctx)
		Expect(testhub.Clusters(ctx, hub, pl)).To(Equal(before))
		Expect(testhub.Condition(ctx, hub, pl, v1alpha1.PlacementConditionSatisfied)).To(HavePrefix("False DecisionPending: Clusters published: 2, wanted: 14; "))
		consumer.sawNoChange(ctx)

		waiting := heldClusters(ctx, pl)()
		approve(ctx, pl, revision)
		published(ctx, pl, waiting)
		Expect(wideRow(ctx, pl)).To(HaveKeyWithValue("Pending", BeNil()))
	})

	It("has its first decision held, too", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 2)
		pl := t.placement("p").Obj()
		requireBy(ctx, pl, berthv1alpha1.DefaultApprovalTimeoutSeconds)
		Expect(hub.Create(ctx, pl)).To(Succeed())
		revision := revisionOf(ctx, pl, held(2, 0))
		Expect(testhub.Clusters(ctx, hub, pl)).To(BeEmpty())
		Expect(testhub.Condition(ctx, hub, pl, v1alpha1.PlacementConditionSatisfied)).To(HavePrefix("False "))
		approve(ctx, pl, revision)
		published(ctx, pl, t.names(0, 2))
	})

	It("does not accept an approval of a superseded change, and reports it", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 3)
		pl := testhub.Place(ctx, hub, t.placement("p"), 3)
		require(ctx, pl, v1alpha1.DefaultProfile)
		consumer := observe(ctx, pl)

		move(ctx, t.names(0, 1)[0], "out")
		first := revisionOf(ctx, pl, held(0, 1))
		By("a newer input superseding the change")
		move(ctx, t.names(1, 2)[0], "out")
		second := revisionOf(ctx, pl, held(0, 2))
		Expect(second).NotTo(Equal(first))
		Eventually(heldClusters(ctx, pl)).Should(Equal(t.names(2, 3)))
		By("approving the change before")
		Expect(answerChange(ctx, hub, pl, first, berthv1alpha1.Approved)).To(MatchError(ContainSubstring("only a change that is Held and not permitted yet, Rejected or Expired can be approved")))
		Consistently(pending(ctx, pl)).Should(held(0, 2))
		consumer.sawNoChange(ctx)
		By("approving the right one")
		approve(ctx, pl, second)
		published(ctx, pl, t.names(2, 3))
	})

	It("needs a new approval when the same change comes again later", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 2)
		pl := testhub.Place(ctx, hub, t.placement("p"), 2)
		require(ctx, pl, v1alpha1.DefaultProfile)
		leaves := func() string {
			move(ctx, t.names(1, 2)[0], "out")
			return revisionOf(ctx, pl, held(0, 1))
		}
		first := leaves()
		move(ctx, t.names(1, 2)[0], "in")
		Eventually(pending(ctx, pl)).Should(BeEmpty(), "what is wanted is what is published")
		Eventually(heldClusters(ctx, pl)).Should(BeEmpty())
		consumer := observe(ctx, pl)
		second := leaves()
		Expect(second).NotTo(Equal(first))
		Expect(answerChange(ctx, hub, pl, first, berthv1alpha1.Approved)).NotTo(Succeed())
		Consistently(pending(ctx, pl)).Should(held(0, 1))
		consumer.sawNoChange(ctx)
		approve(ctx, pl, second)
		published(ctx, pl, t.names(0, 1))
	})

	It("keeps an expired change through time, heartbeats and a restart, and accepts a late approval", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 3)
		pl := testhub.Place(ctx, hub, t.placement("p"), 3)
		require(ctx, pl, hasty)
		consumer := observe(ctx, pl)
		move(ctx, t.names(2, 3)[0], "out")
		revision := revisionOf(ctx, pl, held(0, 1))
		until := deadline(testhub.Must(pending(ctx, pl)()), "Approval")
		Expect(until).To(BeTemporally("~", time.Now(), hastyTimeout+time.Second))

		expired := HavePrefix("False Expired: Change " + revision + " ")
		Eventually(pending(ctx, pl)).Should(expired)
		Expect(time.Now()).NotTo(BeTemporally("<", until))
		Eventually(heldClusters(ctx, pl)).Should(BeEmpty())

		By("heartbeats, and edits that change no answer")
		for _, name := range t.names(0, 3) {
			Expect(hub.Status().Patch(ctx, fixture.Cluster(name).Obj(), client.RawPatch("application/merge-patch+json",
				[]byte(`{"status":{"conditions":[{"type":"Available","status":"True","reason":"Renewed","message":"","lastTransitionTime":"2030-01-01T00:00:00Z"}]}}`)))).To(Succeed())
		}
		annotate(ctx, pl, "example.com/note", "seen")
		Consistently(pending(ctx, pl)).Should(expired)
		By("a restart")
		berth.Stop()
		startBerth(0)
		decided(ctx, t)
		annotate(ctx, pl, "example.com/note", "seen again")
		Consistently(pending(ctx, pl)).Should(expired)
		reconcilesNothing(ctx)
		Expect(heldClusters(ctx, pl)()).To(BeEmpty())
		consumer.sawNoChange(ctx)

		By("a late approval")
		approve(ctx, pl, revision)
		published(ctx, pl, t.names(0, 2))
	})

	It("holds an expired change again after an input changes", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 3)
		pl := testhub.Place(ctx, hub, t.placement("p"), 3)
		require(ctx, pl, hasty)
		move(ctx, t.names(2, 3)[0], "out")
		first := revisionOf(ctx, pl, held(0, 1))
		Eventually(pending(ctx, pl)).Should(HavePrefix("False Expired: Change " + first))
		move(ctx, t.names(1, 2)[0], "out")
		second := revisionOf(ctx, pl, held(0, 2))
		Expect(second).NotTo(Equal(first))
		By("the expired change coming back, which is not held again")
		move(ctx, t.names(1, 2)[0], "in")
		Eventually(pending(ctx, pl)).Should(HavePrefix("False Expired: Change " + first + " "))
		By("an edit, which asks again")
		testhub.SetNumber(ctx, hub, pl, 5)
		Expect([]string{first, second}).NotTo(ContainElement(revisionOf(ctx, pl, held(0, 1))))
	})

	It("keeps a held removal while scores vary slightly", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 5)
		for i, value := range []int32{90, 80, 70, 60, 0} {
			name := t.names(i, i+1)[0]
			testhub.CreateNamespace(ctx, hub, name)
			Expect(hub.Create(ctx, fixture.Score(name, "load").Obj())).To(Succeed())
			score(ctx, name, value)
		}
		exact := func(name string) fixture.PlacementBuilder {
			return t.placement(name).Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn("load", "free", 1)
		}
		pl := testhub.Place(ctx, hub, exact("p").Prioritizer(v1alpha1.PrioritizerSteady, 1).Number(4), 4)
		Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(Equal(t.names(0, 4)))
		require(ctx, pl, v1alpha1.DefaultProfile)
		testhub.SetNumber(ctx, hub, pl, 3)
		revision := revisionOf(ctx, pl, held(0, 1))
		Eventually(heldClusters(ctx, pl)).Should(Equal(t.names(0, 3)))
		witness := testhub.Place(ctx, hub, exact("witness").Number(3), 3)
		score(ctx, t.names(3, 4)[0], 75)
		Eventually(ctx, testhub.Clusters).WithArguments(hub, witness).Should(ContainElement(t.names(3, 4)[0]))
		Consistently(pending(ctx, pl)).Should(ContainSubstring("Change " + revision))
	})

	It("keeps a held change while scores vary slightly", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 5)
		for i, value := range []int32{90, 80, 70, 50, 40} {
			name := t.names(i, i+1)[0]
			testhub.CreateNamespace(ctx, hub, name)
			Expect(hub.Create(ctx, fixture.Score(name, "load").Obj())).To(Succeed())
			score(ctx, name, value)
		}
		exact := func(name string) fixture.PlacementBuilder {
			return t.placement(name).Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn("load", "free", 1)
		}
		pl := testhub.Place(ctx, hub, exact("p").Prioritizer(v1alpha1.PrioritizerSteady, 1).Number(3), 3)
		Eventually(ctx, testhub.Clusters).WithArguments(hub, pl).Should(Equal(t.names(0, 3)))
		require(ctx, pl, v1alpha1.DefaultProfile)
		testhub.SetNumber(ctx, hub, pl, 4)
		revision := revisionOf(ctx, pl, held(1, 0))
		Eventually(heldClusters(ctx, pl)).Should(Equal(t.names(0, 4)))
		consumer := observe(ctx, pl)

		By("jitter, which moves a Placement that is not steady")
		witness := testhub.Place(ctx, hub, exact("witness").Number(4), 4)
		Expect(testhub.Clusters(ctx, hub, witness)).To(Equal(t.names(0, 4)))
		score(ctx, t.names(3, 4)[0], 40)
		score(ctx, t.names(4, 5)[0], 60)
		Eventually(ctx, testhub.Clusters).WithArguments(hub, witness).Should(ContainElement(t.names(4, 5)[0]))
		Consistently(pending(ctx, pl)).Should(ContainSubstring("Change " + revision))
		Expect(heldClusters(ctx, pl)()).To(Equal(t.names(0, 4)))

		By("more than jitter, which supersedes")
		score(ctx, t.names(3, 4)[0], -90)
		Eventually(pending(ctx, pl)).Should(And(held(1, 0), Not(ContainSubstring("Change "+revision))))
		Eventually(heldClusters(ctx, pl)).Should(Equal(slices.Concat(t.names(0, 3), t.names(4, 5))))
		consumer.sawNoChange(ctx)
		approve(ctx, pl, revisionOf(ctx, pl, held(1, 0)))
		published(ctx, pl, slices.Concat(t.names(0, 3), t.names(4, 5)))
	})
})

// score says what a cluster's add-on measures.
func score(ctx context.Context, cluster string, value int32) {
	GinkgoHelper()
	patch := fmt.Sprintf(`{"status":{"scores":[{"name":"free","value":%d}]}}`, value)
	Expect(hub.Status().Patch(ctx, fixture.Score(cluster, "load").Obj(), client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// decided waits until the controller that runs now decides.
func decided(ctx context.Context, t team) {
	GinkgoHelper()
	probe := t.placement("probe").Predicate(fixture.MatchLabel("none", "such")).Obj()
	Expect(hub.Create(ctx, probe)).To(Succeed())
	Eventually(ctx, testhub.Condition).WithArguments(hub, probe, v1alpha1.PlacementConditionSatisfied).ShouldNot(BeEmpty())
}

// wideRow is what `kubectl get placement -o wide` prints, by column.
func wideRow(ctx context.Context, pl *v1alpha1.Placement) map[string]any {
	GinkgoHelper()
	columns, cells := hub.Row(ctx, "/apis/"+v1alpha1.GroupName+"/v1beta1/namespaces/"+pl.Namespace+"/placements/"+pl.Name)
	row := map[string]any{}
	for i, column := range columns {
		row[column] = cells[i]
	}
	return row
}
