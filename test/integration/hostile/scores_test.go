package hostile

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/caches"
)

// addScore creates an AddOnPlacementScore that a cluster's agent writes.
func addScore(ctx SpecContext, cluster, name string, value int32, annotations map[string]string) {
	GinkgoHelper()
	s := &v1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name, Annotations: annotations}}
	Expect(hub.Create(ctx, s)).To(Succeed())
	s.Status.Scores = []v1alpha1.AddOnPlacementScoreItem{{Name: "free", Value: value}}
	Expect(hub.Status().Update(ctx, s)).To(Succeed())
}

var _ = Describe("More AddOnPlacementScores than a namespace may have", func() {
	It("do not count, also after a restart", func(ctx SpecContext) {
		namespace := newNamespace(ctx, "scores", 3)
		clusters := []string{namespace + "-0", namespace + "-1", namespace + "-2"}
		for _, cluster := range clusters[:2] {
			Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}})).To(Succeed())
		}
		addScore(ctx, clusters[1], "zz-capacity", 50, nil)
		for i := range caches.MaxScores {
			addScore(ctx, clusters[0], fmt.Sprintf("s%04d", i), 0, map[string]string{"example.com/a": fmt.Sprint(i)})
		}
		addScore(ctx, clusters[0], "zz-capacity", 100, nil)
		mostFree := func(name string) {
			GinkgoHelper()
			hub.ApplyYAML(ctx, `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: `+name+`, namespace: `+namespace+`}
spec:
  numberOfClusters: 1
  prioritizerPolicy:
    mode: Exact
    configurations: [{scoreCoordinate: {type: AddOn, addOn: {resourceName: zz-capacity, scoreName: free}}}]
`)
			Eventually(func(g Gomega) {
				pages := &v1alpha1.PlacementDecisionList{}
				g.Expect(hub.List(ctx, pages, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: name})).To(Succeed())
				g.Expect(pages.Items).To(HaveLen(1))
				g.Expect(pages.Items[0].Status.Decisions).To(ConsistOf(HaveField("ClusterName", clusters[1])))
			}).Should(Succeed())
		}
		mostFree("watched")
		berth.Stop()
		berth = hub.StartController(controllers.Options{Housekeeping: []string{"*"}})
		mostFree("listed")
		expectAsAlone(ctx)
	})
})
