package selection

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A Placement that requires its SelectionPolicy", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	const satisfied = v1alpha1.PlacementConditionSatisfied
	const missing = "False SelectionPolicyMissing: SelectionPolicy web, which the annotation berth.dev/selection-policy requires, "
	policyOf := func(ns, name, fields string) *berthv1alpha1.SelectionPolicy {
		GinkgoHelper()
		policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		Expect(yaml.UnmarshalStrict([]byte("{placement: "+name+", "+fields+"}"), &policy.Spec)).To(Succeed())
		return policy
	}
	// onlyEU observes that no page has a cluster outside of the region eu.
	onlyEU := func(ctx SpecContext, ns string) *observer {
		GinkgoHelper()
		return observe(ctx, func(_ *observer, page []string) string {
			if slices.ContainsFunc(page, func(name string) bool { return !strings.HasPrefix(name, ns+"-eu-") }) {
				return fmt.Sprint("a page lists ", page)
			}
			return ""
		}, client.InNamespace(ns))
	}

	It("is never seen outside of it, in whatever order both are applied and deleted, also at once", func(ctx SpecContext) {
		const pairs = 20
		ns := testhub.CreateTeam(ctx, hub, "team-")
		pages := onlyEU(ctx, ns)
		clusters := region(ctx, ns, "eu", 1, "8")
		region(ctx, ns, "ap", 1, "8")
		region(ctx, ns, "us", 1, "8")
		pair := func(i int) []client.Object {
			name := fmt.Sprint("p", i)
			both := []client.Object{policyOf(ns, name, "clusterNames: {include: ["+clusters[0]+"]}"), requiring(ns, name).Obj()}
			if i%2 == 0 {
				slices.Reverse(both)
			}
			return both
		}
		each := func(change func(object client.Object) error) {
			faults.InParallel(pairs, func(i int) error {
				for _, object := range pair(i) {
					if err := change(object); err != nil {
						return err
					}
				}
				return nil
			})
		}
		each(func(object client.Object) error { return hub.Create(ctx, object) })
		for i := range pairs {
			eventually(ctx, ns, fmt.Sprint("p", i), "eu-0")
		}
		By("deleting the policies while clusters join, and creating them again")
		faults.InParallel(pairs, func(i int) error { return hub.Delete(ctx, policyOf(ns, fmt.Sprint("p", i), "")) })
		region(ctx, ns, "sa", 1, "8")
		for i := range pairs {
			name := fmt.Sprint("p", i)
			Eventually(ctx, testhub.Condition).WithArguments(hub, fixture.Placement(ns, name).Obj(), satisfied).Should(HavePrefix("False SelectionPolicyMissing: "))
			Expect(listed(ctx, ns, name)).To(Equal([]string{"eu-0"}))
		}
		faults.InParallel(pairs, func(i int) error {
			return hub.Create(ctx, policyOf(ns, fmt.Sprint("p", i), "clusterNames: {include: ["+clusters[0]+"]}"))
		})
		for i := range pairs {
			Eventually(ctx, testhub.Condition).WithArguments(hub, fixture.Placement(ns, fmt.Sprint("p", i)).Obj(), satisfied).Should(HavePrefix("True AllDecisionsScheduled"))
		}
		By("deleting both")
		each(func(object client.Object) error { return hub.Delete(ctx, object) })
		Eventually(func() map[string]int { return pages.counts() }).Should(BeEmpty())
		Expect(pages.violated()).To(BeEmpty())
	})

	It("is decided once the policy is for it, and is not while the policy is being deleted", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		pages := onlyEU(ctx, ns)
		clusters := region(ctx, ns, "eu", 1, "8")
		region(ctx, ns, "us", 1, "8")
		Expect(hub.Create(ctx, requiring(ns, "web").Obj())).To(Succeed())
		condition := func() (string, error) {
			return testhub.Condition(ctx, hub, fixture.Placement(ns, "web").Obj(), satisfied)
		}
		Eventually(condition).Should(Equal(missing + "does not exist or names another Placement; nothing is published"))
		policy := policyOf(ns, "web", "clusterNames: {include: ["+clusters[0]+"]}")
		policy.Spec.Placement, policy.Finalizers = "other", []string{"example.com/keep"}
		Expect(hub.Create(ctx, policy)).To(Succeed())
		Consistently(condition).Should(HavePrefix(missing))
		Expect(pages.history(keyOf(ns, "web"))).To(BeEmpty(), "not even an empty page")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"placement": "web"}}`)).To(Succeed())
		eventually(ctx, ns, "web", "eu-0")
		Eventually(condition).Should(HavePrefix("True AllDecisionsScheduled"))

		By("deleting the policy, which a finalizer keeps")
		Expect(hub.Delete(ctx, policy)).To(Succeed())
		Eventually(condition).Should(Equal(missing + "is being deleted; the published decision stays"))
		By("losing the cluster's set, as without the policy")
		Expect(hub.Delete(ctx, policy.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		Expect(testhub.Patch(ctx, hub, policy, `{"metadata": {"finalizers": null}}`)).To(Succeed())
		Eventually(condition).Should(HavePrefix(missing + "does not exist"))
		region(ctx, ns, "ap", 1, "8")
		Expect(testhub.Patch(ctx, hub, &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: clusters[0]}}, `{"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": "none"}}}`)).To(Succeed())
		eventually(ctx, ns, "web")
		Expect(pages.violated()).To(BeEmpty())
	})

	It("has a policy with the condition Required", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 1, "8")
		policy := selecting(ctx, ns, "web", "clusterNames: {include: []}")
		required := func() (string, error) { return testhub.Condition(ctx, hub, policy, berthv1alpha1.SelectionRequired) }
		pl := place(ctx, ns, "web", 1)
		Eventually(required).Should(Equal("False NotRequiredByPlacement: Placement web does not require SelectionPolicy web, and is decided without it while the policy does not exist; " +
			"to require it, add the annotation berth.dev/selection-policy: web to the Placement"))
		Expect(testhub.Patch(ctx, hub, pl, `{"metadata": {"annotations": {"berth.dev/selection-policy": "web"}}}`)).To(Succeed())
		Eventually(required).Should(Equal("True RequiredByPlacement: Placement web is not decided without the policy"))
		Expect(listed(ctx, ns, "web")).To(BeEmpty(), "include: [] selects nothing")
		By("including what was left out")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"clusterNames": null}}`)).To(Succeed())
		eventually(ctx, ns, "web", "eu-0")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"clusterNames": {"include": []}}}`)).To(Succeed())
		eventually(ctx, ns, "web")
		Expect(hub.Delete(ctx, pl)).To(Succeed())
		Eventually(required).Should(BeEmpty())
	})
})
