package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const desiredInSteps = 6

// listedSizes watches how many clusters the pages of a namespace list.
type listedSizes struct{ fewest, most, writes atomic.Int64 }

func (s *listedSizes) watch(ctx context.Context, namespace string) {
	GinkgoHelper()
	pages, err := hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(pages.Stop)
	go func() {
		for event := range pages.ResultChan() {
			if page, ok := event.Object.(*v1alpha1.PlacementDecision); ok {
				size := int64(len(page.Status.Decisions))
				if event.Type == watch.Deleted {
					size = 0
				}
				s.writes.Add(1)
				s.fewest.Store(min(s.fewest.Load(), size))
				s.most.Store(max(s.most.Load(), size))
			}
		}
	}()
}

var _ = Describe("A change in steps", func() {
	It("keeps its budget and its records while the controller is killed at any of its writes", func(ctx SpecContext) {
		const name = "steps"
		Expect(hub.Create(ctx, fixture.Set(name))).To(Succeed())
		faults.Bind(ctx, hub, name, name)
		faults.CleanUp(hub, name, name)
		for i := range 2 * desiredInSteps {
			wave := []string{"a", "b"}[i%2]
			Expect(hub.Create(ctx, fixture.Cluster(fmt.Sprintf("%s-%02d", name, i)).Set(name).Label("wave", wave).Obj())).To(Succeed())
		}
		policy := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "careful"}}
		policy.Spec.PlacementSelector = &metav1.LabelSelector{}
		policy.Spec.HistoryLimit = berthv1alpha1.MaxHistoryLimit
		Expect(hub.Create(ctx, policy)).To(Succeed())
		pl := fixture.Placement(name, "web").Number(desiredInSteps).Predicate(fixture.MatchLabel("wave", "a")).Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())

		proxy := faults.StartProxy(hub.Config)
		berth := faults.StartController(proxy.Kubeconfig())
		listed := func() ([]string, error) { return answer(ctx, name, "web") }
		Eventually(listed).Should(HaveLen(desiredInSteps))
		sizes := &listedSizes{}
		sizes.fewest.Store(desiredInSteps)
		sizes.watch(ctx, name)

		random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 18))
		rounds, kills := times(4, 40), 0
		revive := func() {
			if !berth.Alive() {
				kills++
				proxy.EndFaults()
				berth = faults.StartController(proxy.Kubeconfig())
			}
		}
		for round := range rounds {
			wave, old := "b", "a"
			if round%2 == 1 {
				wave, old = "a", "b"
			}
			killAt(proxy, berth, 1+random.IntN(12), random.IntN(2) == 0)
			Eventually(func() error {
				if err := hub.Get(ctx, client.ObjectKeyFromObject(pl), pl); err != nil {
					return err
				}
				pl.Spec = fixture.Placement(name, "web").Number(desiredInSteps).Predicate(fixture.MatchLabel("wave", wave)).Obj().Spec
				return hub.Update(ctx, pl)
			}).Should(Succeed())
			Eventually(func() (int, error) {
				revive()
				return left(ctx, name, old)
			}).Should(BeZero(), "round %d", round)
			Eventually(listed).Should(HaveLen(desiredInSteps))
			proxy.EndFaults()
		}
		Eventually(func() (string, error) {
			revive()
			return openRecords(ctx, name)
		}).Should(BeEmpty())
		fmt.Printf("\nobserved: a change in steps: %d rounds, %d kills, %d page events; from %d to %d clusters listed, %d desired\n",
			rounds, kills, sizes.writes.Load(), sizes.fewest.Load(), sizes.most.Load(), desiredInSteps)
		Expect(kills).To(BeNumerically(">", 0))
		Expect(sizes.fewest.Load()).To(BeEquivalentTo(desiredInSteps))
		// 25% of 6, rounded up, is 2.
		Expect(sizes.most.Load()).To(BeNumerically("<=", desiredInSteps+2))
		expectHistory(ctx, name)
	}, NodeTimeout(10*time.Minute))
})

// killAt kills the controller at one of its next writes of pages and records, which the hub
// executes or not.
func killAt(proxy *faults.Proxy, berth *faults.Process, write int, executed bool) {
	var writes atomic.Int64
	proxy.Fail(func(r *http.Request) faults.Fault {
		ours := strings.Contains(r.URL.Path, "/placementdecisions") || strings.Contains(r.URL.Path, "/placementchanges")
		if r.Method == http.MethodGet || !ours || writes.Add(1) != int64(write) {
			return faults.Fault{}
		}
		berth.Kill()
		return faults.Fault{Code: faults.Cut, Lost: executed}
	})
}

// left counts the clusters of a wave that are listed.
func left(ctx context.Context, namespace, wave string) (int, error) {
	names, err := answer(ctx, namespace, "web")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		c := &v1alpha1.ManagedCluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: name}, c); err != nil {
			return 0, err
		}
		if c.Labels["wave"] == wave {
			n++
		}
	}
	return n, nil
}

// openRecords lists the records of changes that have not ended.
func openRecords(ctx context.Context, namespace string) (string, error) {
	history, err := testhub.Records(ctx, hub, client.InNamespace(namespace))
	var open []string
	for _, record := range history {
		if changes.IsOpen(record) {
			open = append(open, record.Name)
		}
	}
	return strings.Join(open, " "), err
}

// expectHistory checks that each record begins where the one before it ended, because changes in
// steps have theirs first, and that the last one is what the pages list.
func expectHistory(ctx context.Context, namespace string) {
	GinkgoHelper()
	history, err := testhub.Records(ctx, hub, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	names, err := answer(ctx, namespace, "web")
	Expect(err).NotTo(HaveOccurred())
	Expect(history.Gaps()).To(BeEmpty())
	Expect(history.Newest(berthv1alpha1.PhasePublished).Spec.To).To(Equal(berthv1alpha1.Digest(names)))
	fmt.Printf("observed: a change in steps: %d records\n", len(history))
}
