package selection

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/testhub"
)

// tierMessage is the message of the condition TierSufficient.
func tierMessage(ctx context.Context, policy *berthv1alpha1.SelectionPolicy) string {
	GinkgoHelper()
	got := testhub.Must(testhub.Get(ctx, hub, policy))
	return meta.FindStatusCondition(got.Status.Conditions, berthv1alpha1.SelectionTierSufficient).Message
}

// statusOf is the status of a policy as text: "Ready True Applied", "TierSufficient …" and, for
// each tier, "<name> <qualifying>" with "used", "since" if it became sufficient again, and the
// clusters that left.
func statusOf(ctx context.Context, policy *berthv1alpha1.SelectionPolicy) string {
	GinkgoHelper()
	got := testhub.Must(testhub.Get(ctx, hub, policy))
	var parts []string
	for _, kind := range []string{berthv1alpha1.SelectionReady, berthv1alpha1.SelectionTierSufficient} {
		if c := meta.FindStatusCondition(got.Status.Conditions, kind); c != nil {
			if c.ObservedGeneration != got.Generation {
				return "of an earlier generation"
			}
			parts = append(parts, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
		}
	}
	for _, t := range got.Status.Tiers {
		text := fmt.Sprintf("%s %d", t.Name, t.Qualifying)
		if t.Used {
			text += " used"
		}
		if t.SufficientSince != nil {
			text += " since"
		}
		for _, l := range t.Left {
			text += " left " + strings.TrimPrefix(l.Name, policy.Namespace+"-")
			if l.QualifyingSince != nil {
				text += " since"
			}
		}
		parts = append(parts, text)
	}
	for _, u := range got.Status.Unmet {
		parts = append(parts, fmt.Sprintf("group %s lacks %d", u.Group, u.Missing))
	}
	if len(got.Status.UnknownNames) > 0 {
		parts = append(parts, "unknown "+strings.Join(got.Status.UnknownNames, " "))
	}
	return strings.Join(parts, ", ")
}

const (
	inEU       = "Ready True Applied, TierSufficient True Sufficient, eu 2 used, us 2"
	inUS       = "Ready True Applied, TierSufficient True Sufficient, eu 0, us 2 used"
	returned   = "Ready True Applied, TierSufficient True Sufficient, eu 2 since, us 2 used"
	failedBack = "Ready True Applied, TierSufficient True Sufficient, eu 2 used since, us 2"
)

// failRegion creates two regions and a Placement that prefers the first, and lets it fail and
// return.
func failRegion(ctx context.Context, fields string) (ns string, policy *berthv1alpha1.SelectionPolicy, eu []string) {
	GinkgoHelper()
	ns = testhub.CreateTeam(ctx, hub, "team-")
	eu = region(ctx, ns, "eu", 2, "8")
	region(ctx, ns, "us", 2, "8")
	policy = selecting(ctx, ns, "web", tiers(fields, "eu", "us"))
	place(ctx, ns, "web", 2)
	eventually(ctx, ns, "web", "eu-0", "eu-1")
	Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(inEU))
	By("the region fails")
	setFailed(ctx, eu, true)
	eventually(ctx, ns, "web", "us-0", "us-1")
	Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(inUS))
	By("the region returns")
	setFailed(ctx, eu, false)
	Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(returned))
	stays(ctx, ns, policy)
	return ns, policy, eu
}

// stays expects that the Placement stays in the second region.
func stays(ctx context.Context, ns string, policy *berthv1alpha1.SelectionPolicy) {
	GinkgoHelper()
	Consistently(listed).WithContext(ctx).WithArguments(ns, "web").Should(Equal([]string{"us-0", "us-1"}))
	Expect(statusOf(ctx, policy)).To(Equal(returned))
}

var _ = Describe("A Placement with tiers, when a region fails and returns", Ordered, func() {
	clock := &testhub.Clock{}
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{Now: clock.Now})
		DeferCleanup(controller.Stop)
	})

	It("falls back at once, and back after failbackAfterSeconds and not before", func(ctx SpecContext) {
		ns, policy, _ := failRegion(ctx, "failbackAfterSeconds: 600,")
		Expect(tierMessage(ctx, policy)).To(MatchRegexp(`^Tier us is used, tier eu is sufficient again since \S+Z and is used again from \S+Z$`))
		clock.Advance(590 * time.Second)
		stays(ctx, ns, policy)
		clock.Advance(11 * time.Second)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(failedBack))
	})

	It("counts the delay from the last time the tier was insufficient", func(ctx SpecContext) {
		ns, policy, eu := failRegion(ctx, "failbackAfterSeconds: 600,")
		clock.Advance(590 * time.Second)
		setFailed(ctx, eu[:1], true)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(ContainSubstring("eu 1, us 2 used"))
		Expect(tierMessage(ctx, policy)).To(Equal("Tier us is used, tier eu is not sufficient: 1 of 2 clusters qualify"))
		setFailed(ctx, eu, false)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(returned))
		clock.Advance(20 * time.Second)
		stays(ctx, ns, policy)
		clock.Advance(581 * time.Second)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
	})

	It("goes back on the annotation only, if failbackAfterSeconds is -1", func(ctx SpecContext) {
		ns, policy, _ := failRegion(ctx, "failbackAfterSeconds: -1,")
		clock.Advance(48 * time.Hour)
		stays(ctx, ns, policy)
		By("a request from before the region was sufficient")
		Expect(requestFailback(ctx, policy, clock.Now().Add(-72*time.Hour))).To(Succeed())
		stays(ctx, ns, policy)
		By("a request now")
		Expect(requestFailback(ctx, policy, clock.Now())).To(Succeed())
		eventually(ctx, ns, "web", "eu-0", "eu-1")
	})

	It("goes back on the annotation before the delay is over, and the annotation has no effect later", func(ctx SpecContext) {
		ns, policy, eu := failRegion(ctx, "failbackAfterSeconds: 600,")
		clock.Advance(5 * time.Second)
		Expect(requestFailback(ctx, policy, clock.Now())).To(Succeed())
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		clock.Advance(5 * time.Second)
		setFailed(ctx, eu, true)
		eventually(ctx, ns, "web", "us-0", "us-1")
		setFailed(ctx, eu, false)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(returned))
		stays(ctx, ns, policy)
	})
})

var _ = Describe("A controller with tiers that is killed", func() {
	It("fails back on time, after the region returned", func(ctx SpecContext) {
		controller := startProcess(0)
		ns, policy, _ := failRegion(ctx, "failbackAfterSeconds: 600,")
		controller.Kill()
		By("starting again before the delay is over")
		controller = startProcess(590 * time.Second)
		// This Placement is decided by the new process.
		place(ctx, ns, "probe", 1)
		Eventually(listed).WithContext(ctx).WithArguments(ns, "probe").Should(HaveLen(1))
		stays(ctx, ns, policy)
		controller.Kill()
		By("starting again after the delay")
		controller = startProcess(time.Hour)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(failedBack))
		controller.Kill()
	})

	It("stays in the second region when the first one returns while no controller runs", func(ctx SpecContext) {
		controller := startProcess(0)
		ns := testhub.CreateTeam(ctx, hub, "team-")
		eu := region(ctx, ns, "eu", 2, "8")
		region(ctx, ns, "us", 2, "8")
		policy := selecting(ctx, ns, "web", tiers("failbackAfterSeconds: 600,", "eu", "us"))
		place(ctx, ns, "web", 2)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		setFailed(ctx, eu, true)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(inUS))
		controller.Kill()
		setFailed(ctx, eu, false)
		controller = startProcess(time.Hour)
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(returned))
		stays(ctx, ns, policy)
		By("requesting the failback with a clock that is ahead of the controller's")
		Expect(requestFailback(ctx, policy, time.Now().Add(2*time.Hour))).To(Succeed())
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		controller.Kill()
	})

	It("takes a cluster that left again on time, if tiers are filled in order", func(ctx SpecContext) {
		const applied = "Ready True Applied, TierSufficient True Sufficient, "
		controller := startProcess(0)
		ns := testhub.CreateTeam(ctx, hub, "team-")
		eu := region(ctx, ns, "eu", 2, "8")
		region(ctx, ns, "us", 2, "8")
		policy := selecting(ctx, ns, "web", tiers("failbackAfterSeconds: 600, tierMode: Overflow,", "eu", "us"))
		place(ctx, ns, "web", 2)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		setFailed(ctx, eu[:1], true)
		eventually(ctx, ns, "web", "eu-1", "us-0")
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(applied + "eu 1 used left eu-0, us 2 used"))
		controller.Kill()
		By("starting again after it returned")
		setFailed(ctx, eu[:1], false)
		controller = startProcess(time.Hour)
		waiting := applied + "eu 2 used since left eu-0 since, us 2 used"
		Eventually(statusOf).WithContext(ctx).WithArguments(policy).Should(Equal(waiting))
		controller.Kill()
		By("starting again before the delay is over")
		controller = startProcess(time.Hour + 9*time.Minute)
		place(ctx, ns, "probe", 1)
		Eventually(listed).WithContext(ctx).WithArguments(ns, "probe").Should(HaveLen(1))
		Expect(listed(ctx, ns, "web")).To(Equal([]string{"eu-1", "us-0"}))
		Expect(statusOf(ctx, policy)).To(Equal(waiting))
		controller.Kill()
		By("starting again after the delay")
		controller = startProcess(2 * time.Hour)
		eventually(ctx, ns, "web", "eu-0", "eu-1")
		controller.Kill()
	})
})

func requestFailback(ctx context.Context, policy *berthv1alpha1.SelectionPolicy, at time.Time) error {
	object := &berthv1alpha1.SelectionPolicy{}
	object.SetNamespace(policy.Namespace)
	object.SetName(policy.Name)
	return testhub.Patch(ctx, hub, object, `{"metadata": {"annotations": {"`+berthv1alpha1.FailbackRequestedAnnotation+`": "`+at.UTC().Format(time.RFC3339)+`"}}}`)
}

// keyOf is the name of a Placement of a namespace.
func keyOf(ns, placement string) types.NamespacedName {
	return types.NamespacedName{Namespace: ns, Name: placement}
}
