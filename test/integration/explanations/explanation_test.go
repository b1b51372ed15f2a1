package explanations

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

type explanationSpec = berthv1alpha1.PlacementExplanationSpec

var _ = Describe("A PlacementExplanation", Ordered, func() {
	var shop, other *team

	BeforeAll(func(ctx SpecContext) {
		shop, other = newTeam(ctx, "shop", 5), newTeam(ctx, "other", 2)
		shop.place(ctx, fixture.Placement("shop", "web").Number(2).Predicate(fixture.MatchLabel("gpu", "true")), 2)
	})

	It("explains a Placement to its author", func(ctx SpecContext) {
		e := shop.ask(ctx, "why", explanationSpec{Placement: "web"})
		got := shop.answer(ctx, e)
		Expect(testhub.Condition(ctx, hub, e, "Explained")).To(Equal("True Decided: 2 of 5 candidates are selected"))
		Expect(testhub.Condition(ctx, hub, e, v1alpha1.PlacementConditionSatisfied)).To(HavePrefix("True AllDecisionsScheduled"))
		Expect(got.Candidates).To(BeEquivalentTo(5))
		Expect(got.SelectedClusters).To(BeEquivalentTo(2))
		Expect(got.Decisions).To(Equal([]berthv1alpha1.ExplainedDecision{
			{Name: "web-decision-1", ClusterCount: 2, Clusters: []string{"shop-1", "shop-3"}},
		}))
		Expect(got.Counts).To(Equal([]berthv1alpha1.ReasonCount{{Reason: "Selected", Clusters: 2}, {Reason: "Outranked", Clusters: 1}, {Reason: "Predicate", Clusters: 2}}))
		Expect(got.Verdicts).To(HaveLen(5))
		Expect(got.Verdicts[1]).To(Equal(berthv1alpha1.ClusterVerdict{
			Cluster: "shop-2", Plugin: "Predicate", Reason: "labels do not match gpu=true", SelectedWith: got.Verdicts[1].SelectedWith,
		}))
		Expect(got.Verdicts[1].SelectedWith).To(ContainSubstring("predicate without label gpu"))
		Expect(got.Verdicts[4].Rank).To(BeEquivalentTo(3))
		Expect(got.Verdicts[4].SelectedWith).To(HavePrefix("+"))
	})

	It("decides a template as a new Placement and publishes nothing", func(ctx SpecContext) {
		before := testhub.Must(testhub.PagesIn(ctx, hub, client.InNamespace("shop")))
		e := shop.ask(ctx, "what-if", explanationSpec{Template: gpu(), Limit: 1})
		got := shop.answer(ctx, e)
		Expect(testhub.Condition(ctx, hub, e, "Explained")).To(HavePrefix("True Decided: 2 of 5"))
		Expect(got.Decisions).To(HaveLen(1))
		Expect(got.Decisions[0].Name).To(Equal("what-if-decision-1"))
		// The new Placement gets clusters that web does not use: Balance counts web's decisions.
		Expect(got.Decisions[0].Clusters).To(ContainElement("shop-5"))
		Expect(got.Verdicts).To(HaveLen(1), "limit")
		Expect(testhub.PagesIn(ctx, hub, client.InNamespace("shop"))).To(Equal(before))
	})

	It("reports mistakes of a template in the words of a Placement's condition", func(ctx SpecContext) {
		wrong := &berthv1alpha1.PlacementTemplate{Spec: fixture.Placement("", "").Predicate(fixture.MatchCEL("nonsense(")).Obj().Spec}
		e := shop.ask(ctx, "wrong", explanationSpec{Template: wrong})
		got := shop.answer(ctx, e)
		Expect(testhub.Condition(ctx, hub, e, "Explained")).To(HavePrefix("True Decided: 0 of 5"))
		Expect(testhub.Condition(ctx, hub, e, v1alpha1.PlacementConditionMisconfigured)).To(HavePrefix("True Misconfigured: Predicate:"))
		Expect(got.Counts).To(Equal([]berthv1alpha1.ReasonCount{{Reason: "NotDecided", Clusters: 5}}))
	})

	It("gives the same answer for a cluster of another set and for one that does not exist", func(ctx SpecContext) {
		answers := map[string]string{}
		for _, name := range []string{"other-1", "nowhere"} {
			for what, spec := range map[string]explanationSpec{"placement": {Placement: "web"}, "template": {Template: gpu()}} {
				spec.Clusters = []string{name, "shop-1"}
				e := shop.ask(ctx, "about-a-cluster", spec)
				got := shop.answer(ctx, e)
				Expect(got.Verdicts).To(ContainElement(berthv1alpha1.ClusterVerdict{Cluster: name, Reason: "not a candidate"}))
				got.DecidedTime = nil
				for i := range got.Conditions {
					got.Conditions[i].LastTransitionTime = metav1.Time{}
				}
				text, err := json.Marshal(got)
				Expect(err).NotTo(HaveOccurred())
				answers[name+" "+what] = strings.ReplaceAll(string(text), name, "asked")
				Expect(hub.Delete(ctx, e)).To(Succeed())
				Expect(answers[name+" "+what]).NotTo(ContainSubstring("other"))
			}
		}
		for _, what := range []string{"placement", "template"} {
			Expect(answers["other-1 "+what]).To(MatchJSON(answers["nowhere "+what]))
		}
	})

	It("does not say whether a set that is not bound exists", func(ctx SpecContext) {
		messages := map[string]string{}
		for _, set := range []string{"other", "nosuch"} {
			e := shop.ask(ctx, "about-"+set, explanationSpec{Template: &berthv1alpha1.PlacementTemplate{
				Spec: fixture.Placement("", "").Sets(set).Obj().Spec,
			}})
			got := shop.answer(ctx, e)
			Expect(got.Candidates).To(BeZero())
			messages[set] = strings.ReplaceAll(testhub.Must(testhub.Condition(ctx, hub, e, v1alpha1.PlacementConditionSatisfied)), set, "asked")
		}
		Expect(messages["other"]).To(Equal(messages["nosuch"]))
	})

	It("says that a Placement does not exist, also one of another namespace", func(ctx SpecContext) {
		other.place(ctx, fixture.Placement("other", "elsewhere").Number(1), 1)
		e := shop.ask(ctx, "missing", explanationSpec{Placement: "elsewhere"})
		shop.answer(ctx, e)
		Expect(testhub.Condition(ctx, hub, e, "Explained")).To(Equal(`False PlacementNotFound: spec.placement: there is no Placement "elsewhere" in namespace shop`))
		Expect(shop.author.Create(ctx, other.question("foreign", explanationSpec{Placement: "elsewhere"}))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	})

	It("describes the clusters that a change in steps moves", func(ctx SpecContext) {
		steps := newTeam(ctx, "steps", 3)
		steps.place(ctx, fixture.Placement("steps", "web").Number(2).Predicate(fixture.MatchLabelExpression("gpu", metav1.LabelSelectorOpIn, "true", "both")), 2)
		e := steps.ask(ctx, "before", explanationSpec{Placement: "web"})
		Expect(steps.answer(ctx, e).Pending).To(BeNil())
		policy := fixture.ApprovalPolicy("steps", "ready", "web")
		policy.Spec.Approval, policy.Spec.Readiness = "", &berthv1alpha1.ReadinessRequirement{Source: "cluster"}
		Expect(hub.Create(ctx, policy)).To(Succeed())
		leaving, joining := &v1alpha1.ManagedCluster{}, &v1alpha1.ManagedCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: "steps-2"}, joining)).To(Succeed())
		joining.Labels["gpu"] = "both"
		Expect(hub.Update(ctx, joining)).To(Succeed())
		Expect(hub.Get(ctx, client.ObjectKey{Name: "steps-1"}, leaving)).To(Succeed())
		// A cluster that is not ready would leave at once.
		v1alpha1.SetCondition(&leaving.Status.Conditions, metav1.Condition{Type: v1alpha1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "Told"})
		Expect(hub.Status().Update(ctx, leaving)).To(Succeed())
		leaving.Spec.Taints = []v1alpha1.Taint{{Key: v1alpha1.DrainTaint, Effect: v1alpha1.TaintEffectNoSelect}}
		Expect(hub.Update(ctx, leaving)).To(Succeed())
		// After the first step, the next attempt finds out what the second one waits for.
		asked := 0
		Eventually(func(g Gomega) {
			asked++
			e = steps.ask(ctx, fmt.Sprint("why-", asked), explanationSpec{Placement: "web"})
			pending := steps.answer(ctx, e).Pending
			g.Expect(pending).NotTo(BeNil())
			g.Expect(pending.Reason).To(Equal("Progressing"))
			g.Expect(pending.Moving).To(HaveLen(2))
			g.Expect(pending.Moving[0].Cluster).To(Equal("steps-1"))
			g.Expect(pending.Moving[0].State).To(MatchRegexp(`^leaves since 20\S+Z; waiting for steps-2, steps-3 \(cluster: it has no condition Available\)`))
			g.Expect(pending.Moving[1]).To(Equal(berthv1alpha1.MovingCluster{Cluster: "steps-2", State: "added, not ready: cluster: it has no condition Available"}))
		}).Should(Succeed())

		By("asking for the author, who may not list the fleet")
		text, err := berth("explain", "web", "-n", "steps", "--as", "author-of-steps")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchRegexp(`steps-2 +added, not ready: cluster: it has no condition Available`))
		Expect(text).To(MatchRegexp(`steps-1 +leaves since`))
	})

	It("does not delay the decisions of others", func(ctx SpecContext) {
		slow := gpu()
		slow.Metadata.Annotations = map[string]string{gateAnnotation: "closed"}
		shop.ask(ctx, "slow", explanationSpec{Template: slow})
		Eventually(gate.entered).Should(Receive())
		// The explanation is in a plugin that does not return, under the lock of its engine.
		other.place(ctx, fixture.Placement("other", "meanwhile").Number(1), 1)
		shop.place(ctx, fixture.Placement("shop", "meanwhile").Number(1), 1)
		close(gate.open)
	})

	It("is refused if it is malformed or too large", func(ctx SpecContext) {
		many := make([]string, 201)
		for i := range many {
			many[i] = fmt.Sprint("c", i)
		}
		long := gpu()
		long.Spec.ClusterSets = make([]string, 1001)
		huge := gpu()
		huge.Metadata.Annotations = map[string]string{"a": strings.Repeat("x", 2<<20)}
		for want, spec := range map[string]explanationSpec{
			"spec: Invalid value: placement or template is required":                                       {},
			"spec.edits: Too many: 101: must have at most 100":                                             {Placement: "web", Edits: make([]berthv1alpha1.ClusterEdit, 101)},
			`spec.edits[0].kind: Unsupported value: "number"`:                                              {Placement: "web", Edits: []berthv1alpha1.ClusterEdit{{Kind: "number"}}},
			"spec.domains: Too long: may not be more than 323":                                             {Placement: "web", Domains: strings.Repeat("x", 324)},
			"spec.limit: Invalid value: 1001":                                                              {Placement: "web", Limit: 1001},
			"spec.limit: Invalid value: -1":                                                                {Placement: "web", Limit: -1},
			"spec.clusters: Too many: 201: must have at most 200":                                          {Placement: "web", Clusters: many},
			"spec.template.spec.clusterSets: Too many: 1001":                                               {Template: long},
			"spec.placement: Too long: may not be more than 253":                                           {Placement: strings.Repeat("x", 254)},
			"spec.clusters[0]: Invalid value":                                                              {Placement: "web", Clusters: []string{""}},
			"spec.template.metadata.annotations: Invalid value: a value may have at most 4,096 characters": {Template: huge},
		} {
			Expect(shop.author.Create(ctx, shop.question("bad", spec))).To(MatchError(ContainSubstring(want)))
		}
		Expect(shop.author.Create(ctx, shop.question(strings.Repeat("x", 64), explanationSpec{Placement: "web"}))).
			To(MatchError(ContainSubstring("metadata.name: Too long: may not be more than 63")))
	})

	It("cannot be edited, nor answered by its author", func(ctx SpecContext) {
		e := shop.ask(ctx, "fixed", explanationSpec{Placement: "web"})
		shop.answer(ctx, e)
		edited := e.DeepCopy()
		edited.Spec.Placement = "another"
		Expect(hub.Update(ctx, edited)).To(MatchError(ContainSubstring("spec is immutable: create another PlacementExplanation")))
		e.Status.Candidates = 7
		Expect(shop.author.Status().Update(ctx, e)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	})

	It("has columns", func(ctx SpecContext) {
		e := shop.ask(ctx, "columns", explanationSpec{Placement: "web"})
		shop.answer(ctx, e)
		Expect(table(ctx, e)).To(Equal([]string{"columns", "web", "True", "Decided", "<nil>", "5", "2"}))
	})

	It("waits while ten others are open, and is deleted after ten minutes", func(ctx SpecContext) {
		crowd := newTeam(ctx, "crowd", 1)
		var open []*berthv1alpha1.PlacementExplanation
		for i := range berthv1alpha1.MaxOpenExplanations {
			e := crowd.ask(ctx, fmt.Sprint("open-", i), explanationSpec{Template: gpu()})
			crowd.answer(ctx, e)
			open = append(open, e)
		}
		late := crowd.ask(ctx, "late", explanationSpec{Template: gpu()})
		Eventually(ctx, testhub.Condition).WithArguments(crowd.author, late, "Throttled").Should(Equal("True TooManyOpen: Namespace crowd has more than 10 PlacementExplanations: this one waits until another one is deleted"))
		Expect(testhub.Condition(ctx, hub, late, "Explained")).To(BeEmpty())
		// Another namespace is not affected.
		e := shop.ask(ctx, "beside", explanationSpec{Placement: "web"})
		shop.answer(ctx, e)

		Expect(crowd.author.Delete(ctx, open[0])).To(Succeed())
		crowd.answer(ctx, late)
		Expect(testhub.Condition(ctx, hub, late, "Throttled")).To(HavePrefix("False NotThrottled"))

		clock.Advance(berthv1alpha1.ExplanationLifetime + time.Second)
		Eventually(func() []berthv1alpha1.PlacementExplanation {
			var left berthv1alpha1.PlacementExplanationList
			Expect(hub.List(ctx, &left, client.InNamespace("crowd"))).To(Succeed())
			return left.Items
		}).Should(BeEmpty())
		clock.Advance(-berthv1alpha1.ExplanationLifetime - time.Second)
	})
})

// table is the row of kubectl get, without the age.
func table(ctx context.Context, e *berthv1alpha1.PlacementExplanation) []string {
	GinkgoHelper()
	_, cells := hub.Row(ctx, fmt.Sprintf("/apis/berth.dev/v1alpha1/namespaces/%s/placementexplanations/%s", e.Namespace, e.Name))
	var shown []string
	for _, c := range cells[:len(cells)-1] {
		shown = append(shown, fmt.Sprint(c))
	}
	return shown
}
