package hostile

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
)

var _ = Describe("With a limit on removals over the fleet", Ordered, func() {
	const limit = 6

	// restart forgets the removals so far: with their records nothing remembers them.
	restart := func(ctx context.Context) {
		GinkgoHelper()
		berth.Stop()
		records := &berthv1alpha1.PlacementChangeList{}
		Expect(hub.List(ctx, records)).To(Succeed())
		for i := range records.Items {
			Expect(client.IgnoreNotFound(hub.Delete(ctx, &records.Items[i]))).To(Succeed())
		}
		scheduling, err := config.Load(fmt.Appendf(nil, `
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles:
- pluginConfig:
  - name: BlastRadius
    args: {fleetMaxRemoved: %d, settle: 0s}
`, limit))
		Expect(err).NotTo(HaveOccurred())
		berth = hub.StartController(controllers.Options{Housekeeping: []string{"*"}, Config: scheduling})
	}
	AfterAll(func() {
		berth.Stop()
		berth = hub.StartController(controllers.Options{Housekeeping: []string{"*"}})
	})

	hostile := func(ctx context.Context, clusters int) *v1alpha1.Placement {
		GinkgoHelper()
		namespace := newNamespace(ctx, "hostile", clusters)
		pl := &v1alpha1.Placement{}
		hub.ApplyYAML(ctx, `{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: greedy, namespace: `+namespace+`}, spec: {}}`)
		pl.Namespace, pl.Name = namespace, "greedy"
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(clusters))
		return pl
	}

	It("a tenant that edits its own Placement does not use up the limit of other tenants", func(ctx SpecContext) {
		restart(ctx)
		pl := hostile(ctx, limit+2)
		Expect(hub.Patch(ctx, pl, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"numberOfClusters":2}}`)))).To(Succeed())
		Eventually(selected(ctx, pl)).Should(BeEquivalentTo(2), "as many removals as one namespace may have")
		Expect(hub.Patch(ctx, pl, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"numberOfClusters":0}}`)))).To(Succeed())
		Eventually(pendingMessage(ctx, pl)).Should(ContainSubstring("8 removals over all Placements of the namespace within 10m0s would be more than 6"))
		expectAsAlone(ctx)
		Expect(selected(ctx, pl)()).To(BeEquivalentTo(2))
	})

	It("a tenant that loses clusters for other reasons uses at most half of the limit", func(ctx SpecContext) {
		restart(ctx)
		pl := hostile(ctx, limit)
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.ManagedClusterSetBinding{}, client.InNamespace(pl.Namespace))).To(Succeed())
		Eventually(selected(ctx, pl)).Should(BeZero())
		expectAsAlone(ctx)
	})
})

// selected is a check for Eventually: how many clusters are published.
func selected(ctx context.Context, pl *v1alpha1.Placement) func() int32 {
	return func() int32 {
		now := &v1alpha1.Placement{}
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), now)).To(Succeed())
		if len(now.Status.Conditions) == 0 {
			return -1
		}
		return now.Status.NumberOfSelectedClusters
	}
}

// pendingMessage is a check for Eventually: the message of a pending change.
func pendingMessage(ctx context.Context, pl *v1alpha1.Placement) func() string {
	return func() string {
		now := &v1alpha1.Placement{}
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), now)).To(Succeed())
		for _, c := range now.Status.Conditions {
			if c.Type == v1alpha1.PlacementConditionDecisionPending {
				return c.Message
			}
		}
		return ""
	}
}
