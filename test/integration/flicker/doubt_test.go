package flicker

import (
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("A write whose answer is lost", func() {
	// The cluster has left the red page, and the controller does not know. When it is to be red again, the green page must
	// not let it go because a picture of the past shows it on the red one.
	It("leaves no doubt about where a cluster is before another page lets it go", func(ctx SpecContext) {
		const name = "doubt"
		Expect(hub.Create(ctx, fixture.Set(name))).To(Succeed())
		bind(ctx, name, name)
		tidy(name, name)
		for cluster, ring := range map[string]string{"a": "red", "b": "green", "moving": "red"} {
			Expect(hub.Create(ctx, fixture.Cluster(cluster).Set(name).Label(ringLabel, ring).Obj())).To(Succeed())
		}
		pl := fixture.Placement(name, "p").Obj()
		for _, ring := range []string{"red", "green"} {
			pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = append(pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups,
				v1alpha1.DecisionGroup{GroupName: ring, ClusterSelector: v1alpha1.GroupClusterSelector{
					LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{ringLabel: ring}},
				}})
		}
		Expect(hub.Create(ctx, pl)).To(Succeed())
		startController()
		Eventually(answer(ctx, name, "p")).Should(Equal([]string{"a", "moving", "b"}))
		Eventually(satisfied(ctx, name, "p")).Should(HavePrefix("True "))
		observer := startObserver(orders{Namespace: name, Placements: []string{"p"}, Core: []string{"a", "b", "moving"}, Pollers: 1})
		Eventually(func() int { return observer.soFar().Polls }).Should(BeNumerically(">", 0))

		faulty.holdEchoes()
		DeferCleanup(faulty.passEchoes)
		var lost, unread atomic.Int32
		faulty.fail(func(r *http.Request) fault {
			switch {
			case isPageWrite(r) && concerns(r, "p-decision-1") && lost.Add(1) == 1:
				return fault{code: http.StatusInternalServerError, lost: true}
			case !isWrite(r) && concerns(r, "p-decision-1") && unread.Add(1) <= 2:
				// Nor can it be asked at once.
				return fault{code: http.StatusInternalServerError}
			}
			return fault{}
		})
		DeferCleanup(faulty.calm)
		Expect(setLabel(ctx, "moving", ringLabel, "green")).To(Succeed())
		Eventually(answer(ctx, name, "p")).Should(Equal([]string{"a", "b", "moving"}))
		Expect(setLabel(ctx, "moving", ringLabel, "red")).To(Succeed())
		Eventually(answer(ctx, name, "p")).Should(Equal([]string{"a", "moving", "b"}))
		seen := observer.stop()
		Expect(seen.Violations).To(BeZero(), "%v", seen.Examples)
		Expect(lost.Load()).To(BeNumerically(">", 0))
		Expect(unread.Load()).To(BeNumerically(">", 2))
	})
})
