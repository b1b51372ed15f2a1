package hostile

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

var _ = Describe("The ordinary Placement beside Placements of many pages", func() {
	It("has the same history while all of those pages are written again and again", func(ctx SpecContext) {
		const clusters, placements = 100, 30
		namespace := newNamespace(ctx, "pages", clusters)
		var all []*v1alpha1.Placement
		for i := range placements {
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: namespace}}
			pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(1)
			Expect(hub.Create(ctx, pl)).To(Succeed())
			all = append(all, pl)
		}
		Eventually(func(g Gomega) {
			pages := &v1alpha1.PlacementDecisionList{}
			g.Expect(hub.List(ctx, pages, client.InNamespace(namespace))).To(Succeed())
			g.Expect(len(pages.Items)).To(BeNumerically(">", placements))
		}).Should(Succeed())
		editing, stop := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- regroup(editing, all) }()
		defer func() {
			stop()
			Expect(<-ended).To(Succeed())
		}()
		expectAsAlone(ctx)
	})
})

// regroup changes the size of all groups of Placements each second, so that all pages are written
// again, until the context ends.
func regroup(ctx context.Context, placements []*v1alpha1.Placement) error {
	each := time.NewTicker(time.Second)
	defer each.Stop()
	for size := int32(2); ; size = 3 - size {
		select {
		case <-ctx.Done():
			return nil
		case <-each.C:
		}
		for _, pl := range placements {
			before := pl.DeepCopy()
			pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(size)
			if err := hub.Patch(ctx, pl, client.MergeFrom(before)); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}
