package api

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A PlacementDecision", func() {
	page := func(decisions ...clusterv1alpha1.ClusterDecision) *clusterv1alpha1.PlacementDecision {
		if decisions == nil {
			decisions = []clusterv1alpha1.ClusterDecision{}
		}
		return &clusterv1alpha1.PlacementDecision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace,
				Name:      "p-decision-1",
				Labels:    map[string]string{clusterv1alpha1.PlacementLabel: "p"},
			},
			Status: clusterv1alpha1.PlacementDecisionStatus{Decisions: decisions},
		}
	}
	read := func(ctx SpecContext) *clusterv1alpha1.PlacementDecision {
		GinkgoHelper()
		got := &clusterv1alpha1.PlacementDecision{}
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(page()), got)).To(Succeed())
		return got
	}
	publish := func(ctx SpecContext, p *clusterv1alpha1.PlacementDecision) {
		GinkgoHelper()
		Expect(pages.Create(ctx, p)).To(Succeed())
		testhub.DeleteAfterwards(hub, page())
	}

	It("is created and replaced in one request through v1alpha1, and read completely through v1beta1", func(ctx SpecContext) {
		written := page(clusterv1alpha1.ClusterDecision{ClusterName: "c1"}, clusterv1alpha1.ClusterDecision{ClusterName: "c2", Score: ptr.To[int64](0)})
		publish(ctx, written)
		got := read(ctx)
		Expect(got.Labels).To(Equal(written.Labels))
		Expect(got.Status).To(Equal(written.Status))

		written.Labels[clusterv1alpha1.DecisionGroupIndexLabel] = "0"
		written.Status.Decisions = written.Status.Decisions[1:]
		Expect(pages.Update(ctx, written)).To(Succeed())
		got = read(ctx)
		Expect(got.Labels).To(Equal(written.Labels))
		Expect(got.Status).To(Equal(written.Status))
	})

	It("without clusters has an empty list", func(ctx SpecContext) {
		publish(ctx, page())
		raw := parse("{kind: PlacementDecision, metadata: {name: p-decision-1}}", "v1beta1")
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(raw), raw)).To(Succeed())
		Expect(raw.Object).To(HaveKeyWithValue("status", map[string]any{"decisions": []any{}}))
		Expect(read(ctx).Status.Decisions).To(And(BeEmpty(), Not(BeNil())))
	})

	It("accepts status writes through v1beta1, where a write of the object ignores the status", func(ctx SpecContext) {
		publish(ctx, page(clusterv1alpha1.ClusterDecision{ClusterName: "c1"}))
		got := read(ctx)
		got.Status.Decisions[0].ClusterName = "c2"
		Expect(hub.Status().Update(ctx, got)).To(Succeed())
		Expect(read(ctx).Status.Decisions).To(HaveExactElements(HaveField("ClusterName", "c2")))

		got.Status.Decisions[0].ClusterName = "c3"
		Expect(hub.Update(ctx, got)).To(Succeed())
		Expect(read(ctx).Status.Decisions).To(HaveExactElements(HaveField("ClusterName", "c2")))
	})

	It("has no status subresource in v1alpha1", func(ctx SpecContext) {
		p := page()
		publish(ctx, p)
		Expect(pages.Status().Update(ctx, p)).To(MatchError(apierrors.IsNotFound, "not found"))
	})
})
