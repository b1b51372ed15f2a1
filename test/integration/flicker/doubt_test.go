package flicker

import (
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("A write with a lost response", func() {
	// The cluster has left the red page, and the controller does not know. When it is to be red
	// again, the green page must not let it go because a picture of the past shows it on the red
	// one.
	It("is read back before the cluster is removed from its old page", func(ctx SpecContext) {
		const name = "doubt"
		Expect(hub.Create(ctx, fixture.Set(name))).To(Succeed())
		faults.Bind(ctx, hub, name, name)
		faults.CleanUp(hub, name, name)
		for cluster, ring := range map[string]string{"a": "red", "b": "green", "moving": "red"} {
			Expect(hub.Create(ctx, fixture.Cluster(cluster).Set(name).Label(faults.RingLabel, ring).Obj())).To(Succeed())
		}
		pl := fixture.Placement(name, "p").Obj()
		for _, ring := range []string{"red", "green"} {
			pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = append(pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups,
				v1alpha1.DecisionGroup{GroupName: ring, ClusterSelector: v1alpha1.GroupClusterSelector{
					LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{faults.RingLabel: ring}},
				}})
		}
		Expect(hub.Create(ctx, pl)).To(Succeed())
		faults.StartController(throughProxy)
		Eventually(answer(ctx, name, "p")).Should(Equal([]string{"a", "moving", "b"}))
		Eventually(satisfied(ctx, name, "p")).Should(HavePrefix("True "))
		observer := faults.StartObserver(faults.Orders{
			Kubeconfig: hub.Kubeconfig, Placements: []faults.Watched{{Namespace: name, Name: "p", Core: []string{"a", "b", "moving"}}}, Pollers: 1,
		})
		Eventually(func() int { return observer.SoFar().Polls }).Should(BeNumerically(">", 0))

		faulty.DelayPageEvents()
		DeferCleanup(faulty.DeliverPageEvents)
		var lost, unread atomic.Int32
		faulty.Fail(func(r *http.Request) faults.Fault {
			switch {
			case faults.IsPageWrite(r) && faults.IsAboutPage(r, "p-decision-1") && lost.Add(1) == 1:
				return faults.Fault{Code: http.StatusInternalServerError, Lost: true}
			case !faults.IsWrite(r) && faults.IsAboutPage(r, "p-decision-1") && unread.Add(1) <= 2:
				// Nor can it be asked at once.
				return faults.Fault{Code: http.StatusInternalServerError}
			}
			return faults.Fault{}
		})
		DeferCleanup(faulty.EndFaults)
		Expect(faults.SetLabel(ctx, hub, "moving", faults.RingLabel, "green")).To(Succeed())
		Eventually(answer(ctx, name, "p")).Should(Equal([]string{"a", "b", "moving"}))
		Expect(faults.SetLabel(ctx, hub, "moving", faults.RingLabel, "red")).To(Succeed())
		Eventually(answer(ctx, name, "p")).Should(Equal([]string{"a", "moving", "b"}))
		seen := observer.Stop()
		Expect(seen.Violations).To(BeZero(), "%v", seen.Examples)
		Expect(lost.Load()).To(BeNumerically(">", 0))
		Expect(unread.Load()).To(BeNumerically(">", 2))
	})
})
