package queues

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// drains joins clusters to the set of a queue that drains, and to another set, before and after a
// restart.
func drains(ctx context.Context) {
	GinkgoHelper()
	join := func(set string) {
		cluster := fixture.Cluster(set + "-3").Set(set).Obj()
		Expect(hub.Create(ctx, cluster)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.Delete(ctx, cluster)).To(Succeed())
			Eventually(clusters).WithContext(ctx).WithArguments("all").Should(Equal([]string{"dev-1", "dev-2"}))
		})
	}
	Expect(clusters(ctx, "all")).To(Equal([]string{"dev-1", "dev-2"}))
	join("lab")
	join("dev")
	Eventually(clusters).WithContext(ctx).WithArguments("all").Should(Equal([]string{"dev-1", "dev-2", "dev-3"}))

	berth.Stop()
	before := pagesOf(ctx, "all")
	berth = start(hub.Config, withQueues())
	Eventually(admitted).WithContext(ctx).WithArguments("all").Should(HavePrefix("False QueueDraining: queue root.dev drains since before the controller started"))
	Eventually(answers).WithContext(ctx).Should(Succeed())
	Expect(pagesOf(ctx, "all")).To(Equal(before))
	configure(ctx, everything)
	Eventually(admitted).WithContext(ctx).WithArguments("all").Should(HavePrefix("True Placed: queue root.dev"))
}

// refusesReloads tries configurations that the queues of Placements do not survive: with the
// webhooks, without them, and at a start.
func refusesReloads(ctx context.Context) {
	GinkgoHelper()
	configure(ctx, everything)
	parent := strings.Replace(everything, "{name: dev, ", "{name: dev, parent: true, ", 1)
	unused := strings.Replace(everything, "name: default", "name: other", 1)
	Expect(reconfigure(ctx, parent)).To(MatchError(ContainSubstring("queue root.dev is a parent in the configuration, and only leaves hold Placements")))
	Expect(reconfigure(ctx, unused)).To(MatchError(ContainSubstring("there is no partition default")))

	names := []string{"all", "live", "moved"}
	before := map[string][]string{}
	for _, name := range names {
		before[name] = testhub.Must(clusters(ctx, name))
		Expect(before[name]).NotTo(BeEmpty(), name)
	}
	kept := func(text, reason string, affected ...string) {
		guarded := withoutGuard(ctx)
		configure(ctx, text)
		Eventually(configEvents).WithContext(ctx).Should(ContainElement(ContainSubstring(reason)))
		for _, name := range names {
			Expect(admitted(ctx, name)).To(HavePrefix("True Placed: "), name)
		}
		berth.Stop()
		berth = start(hub.Config, withQueues())
		for _, name := range affected {
			Eventually(admitted).WithContext(ctx).WithArguments(name).Should(And(HavePrefix("False ConfigInvalid: "), ContainSubstring(reason)), name)
		}
		for _, name := range names {
			Expect(clusters(ctx, name)).To(Equal(before[name]), name)
		}
		configure(ctx, everything)
		for _, name := range names {
			Eventually(admitted).WithContext(ctx).WithArguments(name).Should(HavePrefix("True Placed: "), name)
			Expect(clusters(ctx, name)).To(Equal(before[name]), name)
		}
		guarded()
		Eventually(answers).WithContext(ctx).Should(Succeed())
	}
	kept(parent, "queue root.dev is a parent", "all")
	kept(unused, "there is no partition default", names...)
}
