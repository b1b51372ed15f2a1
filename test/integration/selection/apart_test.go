package selection

import (
	"fmt"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("Two Placements apart from each other", func() {
	It("never share a cluster in any page, while the fleet and their numbers change and the controller is killed", func(ctx SpecContext) {
		const steps, kills = 120, 3
		ns := testhub.CreateTeam(ctx, hub, "team-")
		pages := observe(ctx, func(o *observer, page []string) string {
			for _, cluster := range page {
				if users := o.users[cluster]; len(users) > 1 {
					return fmt.Sprintf("%s is listed for %v", cluster, users)
				}
			}
			return ""
		}, client.InNamespace(ns))
		selecting(ctx, ns, "active", "affinity: {apartFrom: [{placement: standby}]}")
		selecting(ctx, ns, "standby", "affinity: {apartFrom: [{placement: active}]}")
		clusters := region(ctx, ns, "eu", 8, "8")
		other := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, other, "eu", 1, "8")
		place(ctx, ns, "active", 4)
		place(ctx, ns, "standby", 4)
		controller := startProcess(0)
		Eventually(pages.counts).Should(HaveLen(8))

		random := rand.New(rand.NewPCG(1, 2))
		for step := range steps {
			switch i := random.IntN(len(clusters)); random.IntN(3) {
			case 0:
				placement := []string{"active", "standby"}[random.IntN(2)]
				Expect(testhub.Patch(ctx, hub, fixture.Placement(ns, placement).Obj(), fmt.Sprintf(`{"spec": {"numberOfClusters": %d}}`, 1+random.IntN(6)))).To(Succeed())
			case 1:
				setFailed(ctx, clusters[i:i+1], true)
			default:
				setFailed(ctx, clusters[i:i+1], false)
			}
			if step%(steps/kills) == steps/kills/2 {
				controller.Kill()
				controller = startProcess(0)
			}
			if step%3 == 0 {
				// The controller decides this Placement after most of the changes so far.
				probe := fmt.Sprint("probe-", step)
				place(ctx, other, probe, 1)
				eventually(ctx, other, probe, "eu-0")
			}
		}
		setFailed(ctx, clusters, false)
		for _, placement := range []string{"active", "standby"} {
			Expect(testhub.Patch(ctx, hub, fixture.Placement(ns, placement).Obj(), `{"spec": {"numberOfClusters": 4}}`)).To(Succeed())
		}
		Eventually(func() int { return len(listed(ctx, ns, "active")) }).Should(Equal(4))
		Eventually(func() int { return len(listed(ctx, ns, "standby")) }).Should(Equal(4))
		Eventually(pages.counts).Should(HaveLen(8))
		Expect(pages.violated()).To(BeEmpty())
		written := len(pages.history(keyOf(ns, "active"))) + len(pages.history(keyOf(ns, "standby")))
		Expect(written).To(BeNumerically(">", 10), "too few changes of pages to prove anything")
		AddReportEntry("pages written", written)
		controller.Kill()
	})

	It("leave the clusters to the older one, if both have them when the controller starts", func(ctx SpecContext) {
		controller := startProcess(0)
		ns := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 3, "8")
		for _, name := range []string{"first", "second"} {
			// Without prioritizers the order is by name.
			Expect(hub.Create(ctx, fixture.Placement(ns, name).Number(2).Mode(v1alpha1.PrioritizerPolicyModeExact).Obj())).To(Succeed())
		}
		eventually(ctx, ns, "first", "eu-0", "eu-1")
		eventually(ctx, ns, "second", "eu-0", "eu-1")
		controller.Kill()
		selecting(ctx, ns, "first", "affinity: {apartFrom: [{placement: second}]}")
		selecting(ctx, ns, "second", "affinity: {apartFrom: [{placement: first}]}")
		controller = startProcess(0)
		eventually(ctx, ns, "second", "eu-2")
		Expect(strings.Join(listed(ctx, ns, "first"), " ")).To(Equal("eu-0 eu-1"))
		By("the older one leaves a cluster")
		Expect(testhub.Patch(ctx, hub, fixture.Placement(ns, "first").Obj(), `{"spec": {"numberOfClusters": 1}}`)).To(Succeed())
		Eventually(func() int { return len(listed(ctx, ns, "second")) }).Should(Equal(2))
		controller.Kill()
	})
})
