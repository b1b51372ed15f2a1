package selection

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// careful creates a DisruptionPolicy for one Placement that replaces one cluster at a time.
func careful(ctx SpecContext, ns, placement string) *berthv1alpha1.DisruptionPolicy {
	GinkgoHelper()
	policy := &berthv1alpha1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "careful"},
		Spec:       berthv1alpha1.DisruptionPolicySpec{Placements: []string{placement}, MaxSurge: new(intstr.FromInt32(1))},
	}
	testhub.Govern(ctx, hub, policy)
	return policy
}

var _ = Describe("A SelectionPolicy under a DisruptionPolicy", Ordered, func() {
	clock := &testhub.Clock{}
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{Now: clock.Now})
		DeferCleanup(controller.Stop)
	})

	It("fails back with a replacement listed before a cluster leaves, and the surge counts against capacity", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		const room = 8 // web requests 6 of them, batch 4: both do not fit
		amounts := map[string]int{"web": 6, "batch": 4}
		pages := observe(ctx, func(o *observer, page []string) string {
			for _, cluster := range page {
				sum := 0
				for _, user := range o.users[cluster] {
					sum += amounts[user.Name]
				}
				if sum > room {
					return fmt.Sprintf("%s has %d cpu and is listed for %v", cluster, room, o.users[cluster])
				}
			}
			return ""
		}, client.InNamespace(ns))
		eu := region(ctx, ns, "eu", 2, fmt.Sprint(room))
		region(ctx, ns, "us", 2, fmt.Sprint(room))
		policy := selecting(ctx, ns, "web", tiers("requests: {cpu: 6}, failbackAfterSeconds: 600,", "eu", "us"))
		selecting(ctx, ns, "batch", "requests: {cpu: 4}")
		careful(ctx, ns, "web")
		place(ctx, ns, "web", 2)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		setFailed(ctx, eu, true)
		eventually(ctx, ns, "web", "us-0", "us-1")
		setFailed(ctx, eu, false)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(returned))
		before := len(pages.history(keyOf(ns, "web")))

		By("failing back in steps")
		clock.Advance(601 * time.Second)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		steps := pages.history(keyOf(ns, "web"))[before:]
		for _, step := range steps {
			Expect(len(step)).To(And(BeNumerically(">=", 2), BeNumerically("<=", 3)), "%v", steps)
		}
		Expect(steps).To(ContainElement(HaveLen(3)), "a replacement is listed before a cluster leaves")

		By("another Placement takes the capacity that was given back")
		place(ctx, ns, "batch", 4)
		eventually(ctx, ns, "batch", "us-0", "us-1")
		Expect(pages.violated()).To(BeEmpty())
	})

	It("counts the clusters of a suspended change: no other Placement takes their capacity", func(ctx SpecContext) {
		ns := testhub.CreateTeam(ctx, hub, "team-")
		region(ctx, ns, "eu", 2, "8")
		selecting(ctx, ns, "web", "requests: {cpu: 6}")
		selecting(ctx, ns, "batch", "requests: {cpu: 4}")
		policy := careful(ctx, ns, "web")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"suspend": true}}`)).To(Succeed())
		place(ctx, ns, "web", 1)
		records := func() (added []string) {
			list := &berthv1alpha1.PlacementChangeList{}
			Expect(hub.List(ctx, list, client.InNamespace(ns))).To(Succeed())
			for i := range list.Items {
				added = append(added, list.Items[i].Spec.Added...)
			}
			return added
		}
		Eventually(records).Should(HaveLen(1))
		Expect(listed(ctx, ns, "web")).To(BeEmpty())
		taken := records()[0]
		place(ctx, ns, "batch", 2)
		Eventually(func() int { return len(listed(ctx, ns, "batch")) }).Should(Equal(1))
		Consistently(func() []string { return listed(ctx, ns, "batch") }).Should(HaveLen(1))
		Expect(slices.Contains(listed(ctx, ns, "batch"), taken[len(ns)+1:])).To(BeFalse())

		By("resuming the change, and ending it")
		Expect(testhub.Patch(ctx, hub, policy, `{"spec": {"suspend": false}}`)).To(Succeed())
		eventually(ctx, ns, "web", taken[len(ns)+1:])
		Expect(hub.Delete(ctx, fixture.Placement(ns, "web").Obj())).To(Succeed())
		Eventually(func() int { return len(listed(ctx, ns, "batch")) }).Should(Equal(2))
	})
})
