package hostile

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("An author", func() {
	It("can create no Placement so large that it gets no status", func(ctx SpecContext) {
		namespace := newNamespace(ctx, "large", 1)
		author := hub.Author(ctx, namespace)
		pl := fixture.Placement(namespace, "large").Predicate(fixture.MatchCEL(strings.Repeat("<", 300_000))).Obj()
		Eventually(func() error { return author.Create(ctx, pl.DeepCopy()) }).Should(MatchError(ContainSubstring("must have at most 1048576")))
		pl = fixture.Placement(namespace, "large").Predicate(fixture.MatchCEL(strings.Repeat("<", 170_000))).Obj()
		pl.Labels = map[string]string{}
		for i := range 100 {
			pl.Labels[fmt.Sprint("label-", i)] = strings.Repeat("v", v1alpha1.MaxLabelValueLength)
		}
		Expect(author.Create(ctx, pl)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), pl)).To(Succeed())
			g.Expect(conditionOf(pl, v1alpha1.PlacementConditionMisconfigured)).NotTo(BeNil())
		}).Should(Succeed())
		expectAsAlone(ctx)
	})

	It("cannot keep a set by a finalizer on its binding", func(ctx SpecContext) {
		namespace := newNamespace(ctx, "kept", 1)
		author, pl := hub.Author(ctx, namespace), fixture.Placement(namespace, "web").Obj()
		Eventually(func() error { return author.Create(ctx, pl) }).Should(Succeed())
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(1))
		bindings := &v1alpha1.ManagedClusterSetBindingList{}
		Expect(author.List(ctx, bindings, client.InNamespace(namespace))).To(Succeed())
		for _, binding := range bindings.Items {
			Expect(author.Patch(ctx, &binding, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": ["example.com/stay"]}}`)))).To(Succeed())
			Expect(hub.Delete(ctx, &binding)).To(Succeed())
		}
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(0))
		for _, binding := range bindings.Items {
			Expect(author.Patch(ctx, &binding, client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"finalizers": null}}`)))).To(Succeed())
		}
	})
})
