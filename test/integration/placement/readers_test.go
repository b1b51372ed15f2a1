package placement

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// reader follows the pages of a Placement as a consumer does, by label, and keeps every state that
// there was.
type reader struct {
	watch  watch.Interface
	pages  map[string][]string
	states [][]string
}

func readerOf(ctx SpecContext, k key) *reader {
	GinkgoHelper()
	w, err := hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(k.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: k.Name})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.Stop)
	return &reader{watch: w, pages: map[string][]string{}}
}

// clusters reads the events since the last call and returns the clusters on all pages, each once.
func (r *reader) clusters() []string {
	for {
		select {
		case e := <-r.watch.ResultChan():
			page, ok := e.Object.(*v1alpha1.PlacementDecision)
			Expect(ok).To(BeTrue(), "%v", e)
			delete(r.pages, page.Name)
			if e.Type != watch.Deleted {
				r.pages[page.Name] = testhub.ClustersOn(*page)
			}
			r.states = append(r.states, r.now())
		default:
			return r.now()
		}
	}
}

func (r *reader) now() []string {
	var all []string
	for _, clusters := range r.pages {
		all = append(all, clusters...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readersSeeWholeAnswers moves clusters between pages and checks every state on the way.
func readersSeeWholeAnswers(ctx SpecContext) {
	GinkgoHelper()
	t := newTenant(ctx)
	staying := []string{}
	for i := range 6 {
		name := fmt.Sprintf("stays%d", i)
		t.clusters(ctx, name)
		staying = append(staying, t.full(name))
	}
	t.clusters(ctx, "leaves")
	r := readerOf(ctx, t.key("p"))
	group := func(label string, size int) string {
		return fmt.Sprintf("{decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: %d, decisionGroups: [{groupName: canary, groupClusterSelector: {labelSelector: {matchLabels: {canary: %q}}}}]}}}", size, label)
	}
	t.placement(ctx, "p", group("first", 2))
	before := append([]string{t.full("leaves")}, staying...)
	Eventually(r.clusters).Should(Equal(before))
	Expect(len(r.pages)).To(BeNumerically(">", 1))
	published := len(r.states)

	By("groups changing their members")
	for i, name := range staying {
		testhub.Edit(ctx, hub, &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(c *v1alpha1.ManagedCluster) {
			c.Labels["canary"] = []string{"first", "second"}[i%2]
		})
	}
	t.placement(ctx, "p", group("second", 3))
	t.clusters(ctx, "zz-comes")
	Expect(hub.Delete(ctx, t.cluster("leaves"))).To(Succeed())
	Eventually(r.clusters).Should(Equal(append(slices.Clone(staying), t.full("zz-comes"))))
	Eventually(t.satisfied(ctx, "p")).Should(Equal(allScheduled))
	r.clusters()
	for _, state := range r.states[published-1:] {
		Expect(state).To(ContainElements(staying), "a cluster of both answers is never missing")
	}
	Expect(r.states[0]).NotTo(BeEmpty(), "no page is seen without its content")
}

var _ = Describe("Readers that list pages by label", func() {
	It("never miss a cluster that stays, and never see a page without its content", readersSeeWholeAnswers)

	It("never miss a cluster that stays on OCM's CRDs, where pages have a status subresource in every version", Serial, func(ctx SpecContext) {
		setPagesStatus(ctx, &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}})
		DeferCleanup(func(ctx SpecContext) { setPagesStatus(ctx, nil) })
		readersSeeWholeAnswers(ctx)
	})
})

// setPagesStatus says whether v1alpha1 PlacementDecisions have a status subresource, which the
// controller looks at when it starts.
func setPagesStatus(ctx SpecContext, subresources *apiextensionsv1.CustomResourceSubresources) {
	GinkgoHelper()
	berth.Stop()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "placementdecisions." + v1alpha1.GroupName}}
	testhub.Edit(ctx, hub, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		for i := range crd.Spec.Versions {
			if crd.Spec.Versions[i].Name == "v1alpha1" {
				crd.Spec.Versions[i].Subresources = subresources
			}
		}
	})
	discover, err := discovery.NewDiscoveryClientForConfig(hub.Config)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() bool {
		list, err := discover.ServerResourcesForGroupVersion(v1alpha1.GroupName + "/v1alpha1")
		Expect(err).NotTo(HaveOccurred())
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "placementdecisions/status" })
	}).Should(Equal(subresources != nil))
	startBerth()
}
