package hostile

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("SelectionPolicies of a tenant", func() {
	It("do not delay others, however large and however many they are", func(ctx SpecContext) {
		own := newNamespace(ctx, "selecting", 3)
		pl := fixture.Placement(own, "web").Number(2).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(2))
		policy := func(name string) *berthv1alpha1.SelectionPolicy {
			return &berthv1alpha1.SelectionPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: name},
				Spec:       berthv1alpha1.SelectionPolicySpec{Placement: "web"},
			}
		}
		By("naming 5,000 clusters, 16 resources and expensive expressions, and an annotation that is no time")
		large := policy(strings.Repeat("s", 253))
		large.Annotations = map[string]string{berthv1alpha1.FailbackRequestedAnnotation: strings.Repeat("9", 40_000)}
		for i := range 5_000 {
			large.Spec.ClusterNames.Exclude = append(large.Spec.ClusterNames.Exclude, fmt.Sprintf("%0200d", i))
		}
		large.Spec.Requests = map[v1alpha1.ResourceName]resource.Quantity{}
		for i := range 16 {
			large.Spec.Requests[v1alpha1.ResourceName(fmt.Sprintf("%0253d", i))] = resource.MustParse("1Pi")
		}
		for i := range 16 {
			text := strings.Repeat(`managedCluster.metadata.labels.exists(k, k.matches("(a|b|c)*d{1,20}")) || `, 4) + fmt.Sprintf(`"%d" == ""`, i)
			large.Spec.Tiers = append(large.Spec.Tiers, berthv1alpha1.SelectionTier{Name: fmt.Sprintf("t%d", i), MinClusters: new(int32(100_000)),
				ClusterSelector: v1alpha1.ClusterSelector{CelSelector: v1alpha1.ClusterCelSelector{CelExpressions: []string{text}}}})
		}
		Expect(hub.Create(ctx, large)).To(Succeed())
		expectAsAlone(ctx)
		By("creating 200 more for the same Placement, the newest first in the alphabet")
		for i := range 200 {
			Expect(hub.Create(ctx, policy(fmt.Sprintf("%s-%03d", strings.Repeat("a", 240), 200-i)))).To(Succeed())
		}
		expectAsAlone(ctx)
		Eventually(func(g Gomega) {
			all := &berthv1alpha1.SelectionPolicyList{}
			g.Expect(hub.List(ctx, all, client.InNamespace(own))).To(Succeed())
			for i := range all.Items {
				c := meta.FindStatusCondition(all.Items[i].Status.Conditions, berthv1alpha1.SelectionReady)
				g.Expect(c).NotTo(BeNil())
				g.Expect(c.Reason).To(Equal(berthv1alpha1.ReasonSelectionInvalid))
				g.Expect(len(c.Message)).To(BeNumerically("<=", v1alpha1.MaxMessageLength))
			}
		}).WithPolling(patience / 60).Should(Succeed())
		By("deleting and creating one again, and again")
		Expect(hub.DeleteAllOf(ctx, &berthv1alpha1.SelectionPolicy{}, client.InNamespace(own))).To(Succeed())
		for i := range 100 {
			again := policy("again")
			again.Spec.Requests = map[v1alpha1.ResourceName]resource.Quantity{"memory": *resource.NewQuantity(int64(i), resource.BinarySI)}
			Expect(hub.Create(ctx, again)).To(Succeed())
			Expect(hub.Delete(ctx, again)).To(Succeed())
		}
		expectAsAlone(ctx)
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(2))
	})
})
