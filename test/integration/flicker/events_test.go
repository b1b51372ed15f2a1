package flicker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// The cold start: so many Placements wait for the controller, in so many namespaces.
const (
	coldPlacements = 500
	coldNamespaces = 4
	coldClusters   = 20
)

var _ = Describe("Events", func() {
	It("of a cold start are all sent, once for each successful write, and do not delay decisions", func(ctx SpecContext) {
		const set = "cold"
		namespace := func(i int) string { return fmt.Sprintf("cold-%d", i%coldNamespaces) }
		Expect(hub.Create(ctx, fixture.Set(set))).To(Succeed())
		var namespaces []string
		for i := range coldNamespaces {
			namespaces = append(namespaces, namespace(i))
			faults.Bind(ctx, hub, namespace(i), set)
		}
		faults.CleanUp(hub, set, namespaces...)
		faults.InParallel(coldClusters, func(i int) error {
			return hub.Create(ctx, fixture.Cluster(fmt.Sprintf("cold-%02d", i)).Set(set).Obj())
		})
		faults.InParallel(coldPlacements, func(i int) error {
			return hub.Create(ctx, fixture.Placement(namespace(i), fmt.Sprintf("p%04d", i)).Number(int32(1+i%3)).Obj())
		})

		// 1. Some writes of pages fail, and no event gets through before all is decided.
		faulty.Reset()
		gate := newEventGate(uint64(GinkgoRandomSeed()))
		faulty.Fail(gate.fault)
		DeferCleanup(faulty.EndFaults)
		DeferCleanup(gate.open)
		faults.StartController(throughProxy)
		began := time.Now()
		Eventually(func() int { pages, _ := faulty.Stored(); return pages }, 2*time.Minute).Should(Equal(coldPlacements))
		Eventually(func() (int, error) { return decided(ctx, namespaces) }, time.Minute, 500*time.Millisecond).Should(Equal(coldPlacements))
		_, early := faulty.Stored()
		decidedAfter := time.Since(began)
		Expect(early).To(BeZero())
		_, failed := faulty.Reset()

		// 2. Then they arrive, each once, although requests are refused and answers are lost.
		gate.open()
		want := 3 * coldPlacements
		Eventually(func() int { _, events := faulty.Stored(); return events }, 2*time.Minute).Should(BeNumerically(">=", want))
		events, err := eventsIn(ctx, namespaces)
		Expect(err).NotTo(HaveOccurred())
		writes, eventFaults := faulty.Reset()
		fmt.Printf("\nobserved: %d events of %d placements, %d of them before all was decided; faults of pages and statuses %s, of events %s; decided after %s, all sent after %s\n",
			len(events), coldPlacements, early, faults.Counts(failed), faults.Counts(eventFaults), faults.Seconds(decidedAfter), faults.Seconds(time.Since(began)))
		Expect(writes).To(BeZero(), "pages written after all was decided")
		Expect(failed).NotTo(BeEmpty())
		Expect(eventFaults).NotTo(BeEmpty())
		expectOnce(ctx, events, namespaces)
	}, NodeTimeout(5*time.Minute))
})

// eventGate holds events until it is opened, and fails some writes: half before they reach the hub,
// half after.
type eventGate struct {
	mu     sync.Mutex
	random *rand.Rand
	opened chan struct{}
	once   sync.Once
}

func newEventGate(seed uint64) *eventGate {
	return &eventGate{random: rand.New(rand.NewPCG(seed, 4)), opened: make(chan struct{})}
}

func (g *eventGate) open() { g.once.Do(func() { close(g.opened) }) }

func (g *eventGate) fault(r *http.Request) faults.Fault {
	event := faults.IsEventWrite(r)
	if event {
		select {
		case <-g.opened:
		case <-r.Context().Done():
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	codes := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError}
	switch {
	case event && g.random.IntN(100) == 0:
		return faults.Fault{Code: http.StatusInternalServerError, Lost: g.random.IntN(2) == 0}
	case (faults.IsPageWrite(r) || faults.IsStatusWrite(r)) && g.random.IntN(5) == 0:
		return faults.Fault{Code: codes[g.random.IntN(len(codes))], Lost: g.random.IntN(2) == 0}
	}
	return faults.Fault{}
}

// decided counts the Placements whose status agrees with what they ask for.
func decided(ctx context.Context, namespaces []string) (int, error) {
	n := 0
	for _, namespace := range namespaces {
		of, err := testhub.Decided(ctx, hub, namespace)
		if err != nil {
			return 0, err
		}
		n += of
	}
	return n, nil
}

func eventsIn(ctx context.Context, namespaces []string) ([]eventsv1.Event, error) {
	var all []eventsv1.Event
	for _, namespace := range namespaces {
		events, err := testhub.Events(ctx, hub, namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, events...)
	}
	return all, nil
}

// expectOnce wants of every Placement one event of each kind, about the page as it was written.
func expectOnce(ctx context.Context, events []eventsv1.Event, namespaces []string) {
	GinkgoHelper()
	pages := map[types.UID]v1alpha1.PlacementDecision{}
	for _, namespace := range namespaces {
		for _, p := range testhub.Must(testhub.PagesIn(ctx, hub, client.InNamespace(namespace))) {
			pages[p.UID] = p
		}
	}
	Expect(pages).To(HaveLen(coldPlacements))
	seen, want := map[string]int{}, map[string]int{}
	for _, e := range events {
		seen[e.Reason+" "+e.Namespace+"/"+e.Regarding.Name]++
		Expect(e.Related).NotTo(BeNil())
		about, ok := pages[e.Related.UID]
		Expect(ok).To(BeTrue(), "%s is about a page that is not there", e.Name)
		Expect(about.Labels).To(HaveKeyWithValue(v1alpha1.PlacementLabel, e.Regarding.Name))
		Expect(e.Related.ResourceVersion).To(Equal(about.ResourceVersion))
	}
	for _, p := range pages {
		for _, reason := range []string{"DecisionCreate", "DecisionUpdate", "ScoreUpdate"} {
			want[reason+" "+p.Namespace+"/"+p.Labels[v1alpha1.PlacementLabel]] = 1
		}
	}
	Expect(seen).To(Equal(want))
}
