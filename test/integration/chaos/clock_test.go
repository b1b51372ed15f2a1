package chaos

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// The jump is longer than anything that runs out in the spec.
const (
	jump   = 2 * time.Hour
	expiry = time.Hour
)

var _ = Describe("The system clock", func() {
	// Timers count elapsed time, but expiries are times of day. So the controller must check all of
	// them again after the clock was set.
	It("is set forward and back: time limits expire and start again, and no other cluster is removed", func(ctx SpecContext) {
		t := begin(ctx, "clock", false)
		c := &testhub.Clock{}
		t.inProcess(c)
		t.waitForSimulated(ctx)
		t.churn(ctx, false)

		// 1. Three things that run out in an hour, and a change that waits for an approval as long.
		in := metav1.NewTime(c.Now().Add(expiry))
		pool := func(name string) fixture.Match { return fixture.MatchLabel(faults.PoolLabel, name) }
		for _, name := range []string{"a", "b"} {
			Expect(hub.Create(ctx, t.timed(name).Obj())).To(Succeed())
			testhub.CreateNamespace(ctx, hub, t.Name+"-timed-"+name)
		}
		Expect(hub.Create(ctx, t.timed("tainted").Label(faults.PoolLabel, "tainted").
			TaintAt("late", "", v1alpha1.TaintEffectNoSelect, metav1.NewTime(c.Now())).Obj())).To(Succeed())
		Expect(hub.Create(ctx, t.timed("clean").Label(faults.PoolLabel, "tainted").Obj())).To(Succeed())
		tolerating := fixture.Placement(t.Name, "tolerating").Predicate(pool("tainted")).
			Toleration("late", v1alpha1.TolerationOpExists, "", "").Seconds(int64(expiry.Seconds())).Obj()
		t.score(ctx, "a", 90, &in)
		t.score(ctx, "b", 10, nil)
		scored := fixture.Placement(t.Name, "scored").Predicate(pool("timed")).Number(1).
			Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn("speed", "iops", 1).Obj()
		limited := fixture.Placement(t.Name, "limited").Predicate(pool("timed")).
			Mode(v1alpha1.PrioritizerPolicyModeExact).AddOn("speed", "rate", 1).Obj()
		limited.Spec.SortBy, limited.Spec.ScoreRateLimit = v1alpha1.SortByScore, "1h"
		Expect(hub.Create(ctx, t.timed("here").Label(faults.PoolLabel, "held").Obj())).To(Succeed())
		held := fixture.Placement(t.Name, "held").Predicate(pool("held")).Obj()
		for _, pl := range []*v1alpha1.Placement{tolerating, scored, limited, held} {
			Expect(hub.Create(ctx, pl)).To(Succeed())
		}
		Eventually(t.names(ctx, "tolerating")).Should(Equal([]string{"clean", "tainted"}))
		Eventually(t.names(ctx, "scored")).Should(Equal([]string{"a"}))
		Eventually(t.scores(ctx)).Should(Equal("a:0 b:0 "))
		Eventually(t.names(ctx, "held")).Should(Equal([]string{"here"}))
		t.score(ctx, "b", 10, nil, v1alpha1.AddOnPlacementScoreItem{Name: "rate", Value: 7})
		By("holding a change")
		policy := fixture.ApprovalPolicy(t.Name, "held", "held")
		policy.Spec.ApprovalTimeoutSeconds = int64(expiry.Seconds())
		Expect(hub.Create(ctx, policy)).To(Succeed())
		Expect(hub.Create(ctx, t.timed("joining").Label(faults.PoolLabel, "held").Obj())).To(Succeed())
		Eventually(t.pending(ctx)).Should(HavePrefix("True "))
		Expect(t.scores(ctx)()).To(HavePrefix("a:0 "), "new scores are not due yet")

		// 2. Forward over all of it. Nothing else happens that could affect a Placement.
		t.rest()
		By("setting the clock forward")
		t.injected["clock set forward"]++
		at := time.Now()
		first, err := t.pending(ctx)()
		Expect(err).NotTo(HaveOccurred())
		c.Advance(jump)
		Eventually(t.names(ctx, "tolerating")).Should(Equal([]string{"clean"}))
		Eventually(t.scores(ctx)).Should(HavePrefix("b:7 "))
		// What was held too long has expired.
		Eventually(t.pending(ctx)).ShouldNot(Equal(first))
		after := time.Since(at)
		Expect(t.names(ctx, "held")()).To(Equal([]string{"here"}))

		// 3. And back.
		By("setting the clock back")
		t.injected["clock set back"]++
		at = time.Now()
		c.Advance(-jump)
		Eventually(t.names(ctx, "tolerating")).Should(Equal([]string{"clean", "tainted"}))
		Eventually(t.names(ctx, "scored")).Should(Equal([]string{"a"}))
		back := time.Since(at)
		By("publishing new scores though the last ones were published in the future")
		c.Advance(expiry + time.Minute)
		t.injected["clock set forward"]++
		t.score(ctx, "b", 10, nil, v1alpha1.AddOnPlacementScoreItem{Name: "rate", Value: 8})
		Eventually(t.scores(ctx)).Should(HavePrefix("b:8 "))
		t.end("the clock is set forward and back over expiries", fmt.Sprintf("all obeyed it after %s, and back after %s",
			faults.Seconds(after), faults.Seconds(back)))
	}, NodeTimeout(4*time.Minute))
})

// inProcess runs a controller that obeys the clock.
func (t *trial) inProcess(c *testhub.Clock) {
	GinkgoHelper()
	berth := testhub.StartController(t.proxy().Config(), controllers.Options{Now: c.Now})
	DeferCleanup(berth.Stop)
}

// timed is a cluster of the spec's own.
func (t *trial) timed(name string) fixture.ClusterBuilder {
	return fixture.Cluster(t.Name+"-timed-"+name).Set(t.Name).Label(faults.PoolLabel, "timed")
}

// score sets what an add-on says of a cluster; values beside iops are appended.
func (t *trial) score(ctx context.Context, cluster string, iops int32, until *metav1.Time, more ...v1alpha1.AddOnPlacementScoreItem) {
	GinkgoHelper()
	wanted := fixture.Score(t.Name+"-timed-"+cluster, "speed").Value("iops", iops).Obj()
	wanted.Status.Scores, wanted.Status.ValidUntil = append(wanted.Status.Scores, more...), until
	Eventually(func() error {
		found := fixture.Score(t.Name+"-timed-"+cluster, "speed").Obj()
		if err := hub.Get(ctx, client.ObjectKeyFromObject(found), found); client.IgnoreNotFound(err) != nil {
			return err
		} else if err != nil {
			if err := hub.Create(ctx, found); err != nil {
				return err
			}
		}
		found.Status = wanted.Status
		return hub.Status().Update(ctx, found)
	}).Should(Succeed())
}

// names is a check for Eventually: an answer's clusters, without what they have in common.
func (t *trial) names(ctx context.Context, placement string) func() ([]string, error) {
	return func() ([]string, error) {
		clusters, err := answer(ctx, t.Name, placement)
		for i := range clusters {
			clusters[i] = clusters[i][len(t.Name+"-timed-"):]
		}
		return clusters, err
	}
}

// scores is a check for Eventually: the entries of the Placement limited in their order.
func (t *trial) scores(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		list := &v1alpha1.PlacementDecisionList{}
		if err := hub.List(ctx, list, client.InNamespace(t.Name), client.MatchingLabels{v1alpha1.PlacementLabel: "limited"}); err != nil {
			return "", err
		}
		text := ""
		for i := range list.Items {
			for _, d := range list.Items[i].Status.Decisions {
				text += fmt.Sprintf("%s:%d ", d.ClusterName[len(t.Name+"-timed-"):], *d.Score)
			}
		}
		return text, nil
	}
}

// pending is a check for Eventually: the condition of the Placement whose change is held.
func (t *trial) pending(ctx context.Context) func() (string, error) {
	return func() (string, error) {
		return condition(ctx, t.Name, "held", v1alpha1.PlacementConditionDecisionPending)
	}
}
