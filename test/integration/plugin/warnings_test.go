package plugin

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("The warning about unknown annotations", func() {
	It("is given for a mistake, and for none that Berth reads", func(ctx SpecContext) {
		hub.ApplyYAML(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: warned}")
		web := fixture.Placement("warned", "web").Number(1).Obj()
		Expect(hub.Create(ctx, web)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(hub.Delete(ctx, web)).To(Succeed()) })
		for _, known := range []string{
			"berth.dev/priority=5", "berth.dev/profile=default", "berth.dev/selection-policy=web", "berth.dev/pinned-revision=3", "berth.dev/failback-requested-at=2026-06-01T12:00:00Z",
		} {
			Expect(hub.Kubectl(ctx, "annotate", "placement", "web", "-n", "warned", known)).NotTo(ContainSubstring("Warning"))
		}
		Eventually(func() string {
			return hub.Kubectl(ctx, "annotate", "placement", "web", "-n", "warned", "--overwrite", "berth.dev/prioritty=5") +
				hub.Kubectl(ctx, "annotate", "placement", "web", "-n", "warned", "berth.dev/prioritty-")
		}).Should(ContainSubstring("metadata.annotations[berth.dev/prioritty]: unknown annotation"))
	})
})
