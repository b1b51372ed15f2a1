package placement

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A page", func() {
	var t *tenant
	page := func(name string) *v1alpha1.PlacementDecision {
		return &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name}}
	}
	byHand := func(ctx SpecContext, p *v1alpha1.PlacementDecision, clusters ...string) {
		GinkgoHelper()
		Expect(hub.Create(ctx, p)).To(Succeed())
		testhub.EditStatus(ctx, hub, p, func(p *v1alpha1.PlacementDecision) {
			p.Status.Decisions = []v1alpha1.ClusterDecision{}
			for _, c := range clusters {
				p.Status.Decisions = append(p.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: t.full(c)})
			}
		})
	}
	labels := func(placement string) map[string]string {
		return map[string]string{
			v1alpha1.PlacementLabel: placement, v1alpha1.DecisionGroupNameLabel: "", v1alpha1.DecisionGroupIndexLabel: "0",
		}
	}

	BeforeEach(func(ctx SpecContext) {
		t = newTenant(ctx)
		t.clusters(ctx, "a", "b")
	})

	Describe("of Berth", func() {
		BeforeEach(func(ctx SpecContext) {
			t.placement(ctx, "p", "{}")
			Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b"}))
		})
		restored := func(ctx SpecContext) {
			GinkgoHelper()
			Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b"}))
			got := page("p-decision-1")
			Expect(hub.Get(ctx, t.key(got.Name), got)).To(Succeed())
			Expect(got.Labels).To(Equal(labels("p")))
			owner := placementAt(ctx, t.key("p"))
			Expect(got.OwnerReferences).To(Equal([]metav1.OwnerReference{
				*metav1.NewControllerRef(owner, v1alpha1.GroupVersionV1Beta1.WithKind("Placement")),
			}))
			Expect(pagesOf(ctx, t.key("p"))).To(HaveLen(1))
		}

		It("has the labels and the owner that consumers and the garbage collector need", restored)

		It("is created again after a deletion", func(ctx SpecContext) {
			Expect(hub.Delete(ctx, page("p-decision-1"))).To(Succeed())
			restored(ctx)
		})

		It("gets a removed cluster back", func(ctx SpecContext) {
			testhub.EditStatus(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) { p.Status.Decisions = p.Status.Decisions[1:] })
			restored(ctx)
		})

		It("loses a cluster that was not selected", func(ctx SpecContext) {
			testhub.EditStatus(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) {
				p.Status.Decisions = append(p.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "foreign"})
			})
			restored(ctx)
		})

		It("gets changed or removed group labels back", func(ctx SpecContext) {
			testhub.Edit(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) {
				p.Labels[v1alpha1.DecisionGroupIndexLabel] = "7"
				delete(p.Labels, v1alpha1.DecisionGroupNameLabel)
			})
			Eventually(func() map[string]string {
				p := page("p-decision-1")
				Expect(hub.Get(ctx, t.key(p.Name), p)).To(Succeed())
				return p.Labels
			}).Should(Equal(labels("p")))
			restored(ctx)
		})

		It("gets all its labels back", func(ctx SpecContext) {
			testhub.Edit(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) { p.Labels = nil })
			restored(ctx)
		})

		It("with another Placement's label belongs to that Placement, and is replaced under the next name", func(ctx SpecContext) {
			testhub.Edit(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) { p.Labels[v1alpha1.PlacementLabel] = "another" })
			Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b"}))
			Expect(pagesOf(ctx, t.key("p"))[0].Name).To(Equal("p-decision-2"))
			Expect(pagesOf(ctx, t.key("another"))).To(HaveLen(1))

			By("getting it back: every cluster stands on one page again")
			testhub.Edit(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) { p.Labels[v1alpha1.PlacementLabel] = "p" })
			Eventually(func() int { return len(pagesOf(ctx, t.key("p"))) }).Should(Equal(1))
			restored(ctx)
		})

		It("is adopted again after it loses its owner", func(ctx SpecContext) {
			testhub.Edit(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) { p.OwnerReferences = nil })
			Eventually(func() []metav1.OwnerReference {
				p := page("p-decision-1")
				Expect(hub.Get(ctx, t.key(p.Name), p)).To(Succeed())
				return p.OwnerReferences
			}).ShouldNot(BeEmpty())
			restored(ctx)
		})

		It("has its edits by another client reported: by an event each, and by a condition if they are repeated", func(ctx SpecContext) {
			other := client.WithFieldOwner(hub, "placement")
			reverted := func() (edits int) {
				for _, e := range eventsOf(ctx, placementAt(ctx, t.key("p")))() {
					if e.Reason == "DecisionEdited" {
						Expect(e.Type).To(Equal(corev1.EventTypeWarning))
						Expect(e.Note).To(ContainSubstring("field manager placement) edited PlacementDecisions p-decision-1"))
						edits++
					}
				}
				return edits
			}
			edited := func() *metav1.Condition {
				return meta.FindStatusCondition(placementAt(ctx, t.key("p")).Status.Conditions, v1alpha1.PlacementConditionDecisionEdited)
			}
			for i := range 3 {
				Expect(edited()).To(BeNil())
				Eventually(func() error {
					p := page("p-decision-1")
					Expect(hub.Get(ctx, t.key(p.Name), p)).To(Succeed())
					p.Status.Decisions = p.Status.Decisions[:1]
					return other.Status().Update(ctx, p)
				}).Should(Succeed())
				restored(ctx)
				Eventually(reverted).Should(Equal(i + 1))
			}
			Eventually(edited).Should(HaveValue(And(HaveField("Reason", v1alpha1.ReasonEditsReverted), HaveField("Message", ContainSubstring("field manager placement")))))

			By("disabling scheduling, so that the page belongs to the other client")
			testhub.Edit(ctx, hub, placementAt(ctx, t.key("p")), func(p *v1alpha1.Placement) {
				p.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
			})
			Eventually(edited).Should(BeNil())
		})

		It("keeps labels and annotations of other clients", func(ctx SpecContext) {
			testhub.Edit(ctx, hub, page("p-decision-1"), func(p *v1alpha1.PlacementDecision) {
				p.Labels["team"], p.Annotations = "x", map[string]string{"note": "y"}
			})
			t.clusters(ctx, "c")
			Eventually(t.published(ctx, "p")).Should(Equal([]string{"a", "b", "c"}))
			got := pagesOf(ctx, t.key("p"))[0]
			Expect(got.Labels).To(HaveKeyWithValue("team", "x"))
			Expect(got.Annotations).To(HaveKeyWithValue("note", "y"))
		})
	})

	It("without an owner is adopted with its decisions", func(ctx SpecContext) {
		p := page("older-name")
		p.Labels = map[string]string{v1alpha1.PlacementLabel: "p"}
		byHand(ctx, p, "b")
		t.placement(ctx, "p", "{numberOfClusters: 1}")
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
		Expect(t.published(ctx, "p")()).To(Equal([]string{"b"}), "what is published counts for Steady")
		got := pagesOf(ctx, t.key("p"))
		Expect(got).To(HaveLen(1))
		Expect(got[0].Name).To(Equal("older-name"))
		Expect(got[0].UID).To(Equal(p.UID))
		Expect(got[0].Labels).To(Equal(labels("p")))
		Expect(metav1.GetControllerOf(&got[0])).To(HaveField("Name", "p"))
	})

	It("of another controller with the Placement's label is not changed, does not count as published, and is named in a warning", func(ctx SpecContext) {
		keeper := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "keeper"}}
		Expect(hub.Create(ctx, keeper)).To(Succeed())
		p := page("theirs")
		p.Labels = labels("p")
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(keeper, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		byHand(ctx, p, "b")
		t.placement(ctx, "p", "{numberOfClusters: 1}")

		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
		pages := pagesOf(ctx, t.key("p"))
		Expect(pages).To(HaveLen(2))
		Expect(pages[0].Name).To(Equal("p-decision-1"))
		Expect(testhub.ClustersOn(pages[0])).To(Equal([]string{t.full("a")}), "Steady does not read it")
		Expect(pages[1].ResourceVersion).To(Equal(p.ResourceVersion))
		Eventually(eventsOf(ctx, placementAt(ctx, t.key("p")))).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Note", ContainSubstring("theirs")))))
	})

	It("of another Placement with the wanted name is skipped", func(ctx SpecContext) {
		p := page("p-decision-1")
		p.Labels = labels("another")
		byHand(ctx, p, "a")
		t.placement(ctx, "p", "{}")
		Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
		Expect(t.published(ctx, "p")()).To(Equal([]string{"a", "b"}))
		Expect(pagesOf(ctx, t.key("p"))[0].Name).To(Equal("p-decision-2"))
		Expect(pagesOf(ctx, t.key("another"))[0].ResourceVersion).To(Equal(p.ResourceVersion))
	})
})

var _ = Describe("The garbage collector", func() {
	It("deletes the pages of a deleted Placement, and no other pages", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "a")
		for _, name := range []string{"p", "q"} {
			t.placement(ctx, name, "{}")
			Eventually(t.published(ctx, name)).Should(Equal([]string{"a"}))
		}
		Expect(hub.Delete(ctx, placementAt(ctx, t.key("p")))).To(Succeed())
		Eventually(func() int { return len(pagesOf(ctx, t.key("p"))) }).Should(BeZero())
		t.waitForDecision(ctx, t.full("a"))
		Expect(pagesOf(ctx, t.key("p"))).To(BeEmpty())
		Expect(t.published(ctx, "q")()).To(Equal([]string{"a"}))

		By("asking again under the same name")
		t.placement(ctx, "p", "{}")
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"a"}))
	})

	It("deletes a namespace with all its objects", func(ctx SpecContext) {
		t := newTenant(ctx)
		t.clusters(ctx, "a")
		t.placement(ctx, "p", "{}")
		Eventually(t.published(ctx, "p")).Should(Equal([]string{"a"}))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}}
		Expect(hub.Delete(ctx, namespace)).To(Succeed())
		Eventually(ctx, testhub.IsGone).WithArguments(hub, namespace).WithTimeout(3 * patience).Should(BeTrue())
		Expect(pagesOf(ctx, t.key("p"))).To(BeEmpty())
	})
})

var _ = Describe("Objects", func() {
	for name, version := range map[string]func(kind string) string{
		"applied as v1alpha1":                    func(string) string { return v1alpha1.GroupName + "/v1alpha1" },
		"applied in the versions of today's OCM": func(kind string) string { return apiVersions[kind] },
	} {
		It(name+" are decided", func(ctx SpecContext) {
			t := newTenant(ctx)
			of := func(kind string) string { return "apiVersion: " + version(kind) + "\nkind: " + kind + "\n" }
			t.apply(ctx,
				of("ManagedClusterSet")+"metadata: {name: $NS-2}",
				of("ManagedClusterSetBinding")+"metadata: {name: $NS-2}",
				of("ManagedCluster")+"metadata: {name: a, labels: {cluster.open-cluster-management.io/clusterset: $NS-2}}\nstatus: {allocatable: {cpu: 1}, capacity: {cpu: 2}}",
				of("ManagedCluster")+"metadata: {name: b, labels: {cluster.open-cluster-management.io/clusterset: $NS-2}}\nstatus: {allocatable: {cpu: 2}, capacity: {cpu: 2}}",
				of("Placement")+"metadata: {name: p}\nspec: {numberOfClusters: 1, clusterSets: [$NS-2], prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableCPU}}]}}",
			)
			Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
			Eventually(t.published(ctx, "p")).Should(Equal([]string{"b"}))
		})
	}
})
