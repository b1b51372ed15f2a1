package framework

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	schedulerconfig "github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("The plugin Resilience", func() {
	// shown is a check for Eventually: status, reason and message of the condition Resilient.
	shown := func(ctx context.Context, pl *v1alpha1.Placement) func() []string {
		return func() []string {
			got := testhub.Must(testhub.Get(ctx, hub, pl))
			c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.PlacementConditionResilient)
			if c == nil {
				return nil
			}
			return []string{string(c.Status), c.Reason, c.Message}
		}
	}

	It("reports which regions can be lost, follows their labels, and leaves nothing when it is off", func(ctx SpecContext) {
		t := newTeam(ctx)
		regions := []string{"eu", "eu", "us"}
		names := t.names(0, len(regions))
		for i, region := range regions {
			Expect(hub.Create(ctx, fixture.Cluster(names[i]).Set(string(t)).Label("region", region).Obj())).To(Succeed())
		}
		pl := fixture.Placement(string(t), "web").Number(2).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		config, err := schedulerconfig.Load([]byte(`apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles: [{pluginConfig: [{name: Resilience, args: {key: "label:region"}}]}]
`))
		Expect(err).NotTo(HaveOccurred())
		running := hub.StartController(controllers.Options{Config: config})
		DeferCleanup(func() { running.Stop() })
		Eventually(shown(ctx, pl)).Should(Equal([]string{"False", v1alpha1.ReasonDomainsCritical,
			"1 of 2 domains of label region can be lost; not eu: 1 of 2 clusters would be missing (the cluster sets have no others)"}))

		By("moving a cluster to another region, which changes no decision")
		cluster := fixture.Cluster(names[1]).Obj()
		Expect(testhub.Patch(ctx, hub, cluster, `{"metadata":{"labels":{"region":"ap"}}}`)).To(Succeed())
		Eventually(shown(ctx, pl)).Should(HaveExactElements("True", v1alpha1.ReasonDomainsCanBeLost, HavePrefix("3 of 3 domains of label region can be lost")))

		By("turning the plugin off")
		running.Stop()
		running = hub.StartController(controllers.Options{})
		Eventually(shown(ctx, pl)).Should(BeNil())
	})
})
