package hostile

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

var _ = Describe("The ordinary Placement beside Placements of many pages", func() {
	It("has the same history before all of those pages are written", func(ctx SpecContext) {
		const clusters, placements = 100, 30
		namespace := newNamespace(ctx, "pages", clusters)
		for i := range placements {
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: namespace}}
			pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(1)
			Expect(hub.Create(ctx, pl)).To(Succeed())
		}
		written := func() int {
			pages := &v1alpha1.PlacementDecisionList{}
			Expect(hub.List(ctx, pages, client.InNamespace(namespace))).To(Succeed())
			return len(pages.Items)
		}
		Eventually(written).Should(BeNumerically(">", placements))
		expectAsAlone(ctx)
		Expect(written()).To(BeNumerically("<", clusters*placements))
	})
})
