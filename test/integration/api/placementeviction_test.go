package api

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A PlacementEviction", func() {
	evict := func(placement, cluster string, seconds int64) *berthv1alpha1.PlacementEviction {
		return &berthv1alpha1.PlacementEviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "evict-"},
			Spec:       berthv1alpha1.PlacementEvictionSpec{Placement: placement, Cluster: cluster, ExcludeForSeconds: seconds},
		}
	}

	DescribeTable("is refused with the path of the field",
		func(ctx SpecContext, e *berthv1alpha1.PlacementEviction, want string) {
			err := hub.Create(ctx, e, client.DryRunAll)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring(want)))
		},
		Entry("without a Placement", evict("", "c", 1), "spec.placement"),
		Entry("with a name that no Placement has", evict(longName, "c", 1), "spec.placement"),
		Entry("without a cluster", evict("p", "", 1), "spec.cluster"),
		Entry("with a negative time", evict("p", "c", -1), "spec.excludeForSeconds"),
		Entry("with more than a year", evict("p", "c", 31536001), "spec.excludeForSeconds"),
	)

	It("excludes the cluster for an hour by default, and is immutable", func(ctx SpecContext) {
		e := evict("p", "c", 0)
		Expect(hub.Create(ctx, e)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(hub.Delete(ctx, e)).To(Succeed()) })
		Expect(e.Spec.ExcludeForSeconds).To(BeEquivalentTo(3600))
		for _, patch := range []string{`{"cluster": "d"}`, `{"placement": "q"}`, `{"excludeForSeconds": 1}`} {
			err := hub.Patch(ctx, e.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec": `+patch+`}`)))
			Expect(err).To(MatchError(ContainSubstring("spec is immutable: create another PlacementEviction")), patch)
		}
		Expect(testhub.Patch(ctx, hub, e, `{"metadata": {"labels": {"a": "b"}}}`)).To(Succeed())
	})
})
