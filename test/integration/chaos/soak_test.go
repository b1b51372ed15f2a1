package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// Without BERTH_SOAK, the soak is not listed among the specs.
var _ = func() bool {
	length, err := time.ParseDuration(os.Getenv("BERTH_SOAK"))
	return err == nil && Describe("Random churn", func() {
		It(fmt.Sprintf("for %s ends with the decisions of a simulation, and without a memory leak", length), func(ctx SpecContext) {
			soak(ctx, length)
		}, NodeTimeout(length+10*time.Minute))
	})
}()

// maxGrowth is the most that the memory in use may have grown at the end, as a share of what it was
// at the beginning.
const maxGrowth = 0.15

// crowdSize is how many Placements choose from the fleet beside those that the observer follows.
const crowdSize = 50

func soak(ctx context.Context, length time.Duration) {
	GinkgoHelper()
	t := begin(ctx, "soak")
	profiles := testhub.FreeAddress()
	berth, proxy := t.controller("--pprof-address=" + profiles)
	random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 7))
	var names []string
	for i := range crowdSize {
		names = append(names, fmt.Sprintf("crowd-%02d", i))
		pl := fixture.Placement(t.Name, names[i]).Predicate(fixture.MatchLabel(faults.PoolLabel, "in")).
			Mode(v1alpha1.PrioritizerPolicyModeExact).Number(int32(1 + random.IntN(coreSize)))
		if i%2 == 0 {
			pl = pl.Prioritizer("ResourceAllocatableMemory", 1)
		}
		Expect(hub.Create(ctx, pl.Obj())).To(Succeed())
	}
	t.waitForSimulated(ctx)
	atFirst, err := inUse(ctx, profiles)
	Expect(err).NotTo(HaveOccurred())
	proxy.Fail(rarely(rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 8))))
	t.churn(ctx, false)
	var samples []sample
	began := time.Now()
	// Each change moves dozens of Placements: faster than this, events of a busy hub queue up.
	for tick, next := time.Tick(time.Second), began; time.Since(began) < length; <-tick {
		Expect(ctx.Err()).NotTo(HaveOccurred())
		name := t.Core[random.IntN(len(t.Core))]
		Expect(allocate(ctx, name, 1+random.IntN(64))).To(Succeed())
		Expect(t.Change(ctx, names[random.IntN(len(names))], func(pl *v1alpha1.Placement) {
			pl.Spec.NumberOfClusters = new(int32(1 + random.IntN(coreSize)))
		})).To(Succeed())
		if now := time.Now(); now.After(next) {
			mb, err := berth.ResidentMemory()
			Expect(err).NotTo(HaveOccurred())
			samples, next = append(samples, sample{time.Since(began), mb}), now.Add(5*time.Second)
			proxy.CutWatches()
		}
		Expect(t.observer.SoFar().Violations).To(BeZero(), "%v", t.observer.SoFar().Examples)
	}
	t.rest()
	proxy.EndFaults()
	busy, err := inUse(ctx, profiles)
	Expect(err).NotTo(HaveOccurred())
	// Every Placement is run once more.
	list := &v1alpha1.PlacementList{}
	Expect(hub.List(ctx, list, client.InNamespace(t.Name))).To(Succeed())
	for i := range list.Items {
		Expect(t.Change(ctx, list.Items[i].Name, func(pl *v1alpha1.Placement) {
			pl.Annotations = map[string]string{"soak.example.com/again": "true"}
		})).To(Succeed())
	}
	t.waitForSimulated(ctx)
	Expect(berth.Alive()).To(BeTrue())
	// What still waits to be sent takes memory, and no longer.
	atLast := 0.0
	defer func() {
		resident := func(at int) float64 { return samples[at].mb }
		t.end("a soak of "+length.String(), fmt.Sprintf("%d steps; memory in use %.1f MB at first, %.1f MB when the churn ended, %.1f MB at last; "+
			"resident %.0f MB after a third, %.0f MB when the churn ended, %+.1f MB an hour",
			t.Steps, atFirst, busy, atLast, resident(len(samples)/3), resident(len(samples)-1), slope(samples[len(samples)/3:])))
	}()
	Eventually(func() (_ float64, err error) {
		atLast, err = inUse(ctx, profiles)
		return atLast, err
	}).WithPolling(time.Second).Should(BeNumerically("<", (1+maxGrowth)*atFirst), "memory is left behind")
}

// inUse is what a controller's heap holds after a garbage collection, in MB (10⁶ bytes).
func inUse(ctx context.Context, profiles string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+profiles+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "# HeapAlloc = ")
	var bytes float64
	if _, err := fmt.Sscan(after, &bytes); err != nil {
		return 0, fmt.Errorf("reading the memory in use: %w", err)
	}
	return bytes / 1e6, nil
}

// rarely fails one write in twenty, half of them after they happened. Events are left alone: those
// that wait for their turn to be sent again take memory meanwhile.
func rarely(random *rand.Rand) func(*http.Request) faults.Fault {
	f := &tenth{random: random}
	return func(r *http.Request) faults.Fault {
		if !faults.IsWrite(r) || faults.IsEventWrite(r) {
			return faults.Fault{}
		}
		f.mu.Lock()
		lucky := random.IntN(2) == 0
		f.mu.Unlock()
		if lucky {
			return faults.Fault{}
		}
		return f.fault(r)
	}
}

// allocate gives a cluster so many GiB of memory.
func allocate(ctx context.Context, cluster string, gib int) error {
	text := fmt.Sprintf(`{"status":{"allocatable":{"memory":"%[1]dGi"},"capacity":{"memory":"%[1]dGi"}}}`, gib)
	return hub.Status().Patch(ctx, fixture.Cluster(cluster).Obj(), client.RawPatch("application/merge-patch+json", []byte(text)))
}

// sample is the controller's resident memory at a time.
type sample struct {
	at time.Duration
	mb float64
}

// slope is the growth in MB an hour, by least squares.
func slope(samples []sample) float64 {
	var x, y, xx, xy, n float64
	for _, s := range samples {
		h := s.at.Hours()
		x, y, xx, xy, n = x+h, y+s.mb, xx+h*h, xy+h*s.mb, n+1
	}
	if n*xx == x*x {
		return 0
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// tenth fails one request in ten, reads and watches too. Failures of reads and of writes each have
// all kinds in turn.
type tenth struct {
	mu            sync.Mutex
	random        *rand.Rand
	reads, writes int
}

func (f *tenth) fault(r *http.Request) faults.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.IntN(10) > 0 {
		return faults.Fault{}
	}
	kinds := []faults.Fault{
		{Code: http.StatusTooManyRequests, RetryAfter: 1},
		{Code: http.StatusInternalServerError},
		{Code: http.StatusGatewayTimeout},
		{Code: faults.Cut},
		{Code: faults.Cut, After: 2 * time.Second},
	}
	if !faults.IsWrite(r) {
		f.reads++
		return kinds[f.reads%len(kinds)]
	}
	kinds = append(kinds, faults.Fault{Code: http.StatusConflict})
	chosen := kinds[f.writes%len(kinds)]
	// Half of the writes that fail have happened.
	chosen.Lost = f.writes/len(kinds)%2 == 1
	f.writes++
	return chosen
}
