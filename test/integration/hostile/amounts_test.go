package hostile

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

var _ = Describe("An amount that is not finite", func() {
	It("changes the score of no other cluster", func(ctx SpecContext) {
		namespace := newNamespace(ctx, "amount", 4)
		for i, amount := range []string{"0e309", "1e309"} {
			cluster := &v1alpha1.ManagedCluster{}
			cluster.Name = namespace + "-" + string(rune('0'+i))
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status": {"allocatable": {"memory": "`+amount+`"}}}`))
			Expect(hub.Status().Patch(ctx, cluster, patch)).To(Succeed())
		}
		hub.ApplyYAML(ctx, `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: most, namespace: `+namespace+`}
spec:
  numberOfClusters: 1
  prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableMemory}}]}
`)
		Eventually(func(g Gomega) {
			pages := &v1alpha1.PlacementDecisionList{}
			g.Expect(hub.List(ctx, pages, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: "most"})).To(Succeed())
			g.Expect(pages.Items).To(HaveLen(1))
			g.Expect(pages.Items[0].Status.Decisions).To(ConsistOf(HaveField("ClusterName", namespace+"-3")))
		}).Should(Succeed())
		expectAsAlone(ctx)
	})
})
