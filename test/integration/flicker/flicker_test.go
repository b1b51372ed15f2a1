package flicker

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/faults"
)

// What the suite shows at least.
const (
	wantPolls = 10_000
	wantKills = 50
)

// The fleet's size: pages of 100 are filled and overflow.
const (
	coreSize    = 130
	floaterSize = 40
)

var _ = Describe("A reader", func() {
	It("misses no cluster that stays, while the fleet changes, writes fail and the controller is killed", func(ctx SpecContext) {
		seed := uint64(GinkgoRandomSeed())
		f := faults.NewFleet(ctx, hub, "fleet", coreSize, floaterSize, seed)
		faulty.Reset()
		faulty.Fail(someOf(rand.New(rand.NewPCG(seed, 2))))
		DeferCleanup(faulty.EndFaults)
		observer := faults.StartObserver(faults.Orders{Kubeconfig: hub.Kubeconfig, Placements: f.Watched(), Pollers: 12})
		began := time.Now()
		f.Publish(ctx)

		// 1. Everything changes, much fails, and the controller is killed again and again.
		done := make(chan struct{})
		churned := f.RunSteps(ctx, done, false)
		kills := killer{random: rand.New(rand.NewPCG(seed, 3))}
		for kills.count < wantKills || observer.SoFar().Polls < wantPolls {
			kills.next(kills.count*wantPolls <= observer.SoFar().Polls*wantKills)
			Expect(observer.SoFar().Violations).To(BeZero(), "%v", observer.SoFar().Examples)
		}
		close(done)
		Expect(<-churned).To(Succeed())
		faulty.EndFaults()

		// 2. Calm: the answer is what a simulation of the same objects says.
		last := faults.StartController(throughProxy)
		Eventually(func() (string, error) { return f.Difference(ctx) }).WithPolling(250 * time.Millisecond).Should(BeEmpty())
		seen := observer.Stop()
		Expect(last.Alive()).To(BeTrue())
		writes, failed := faulty.Reset()

		// 3. The counts.
		fmt.Printf("\nobserved: %d polls and %d single writes watched, %d violations; %d kills (%d between a write and its answer), "+
			"%d steps of churn, %d page writes, faults %s; up to %d pages and %d groups; seed %d, %s\n",
			seen.Polls, seen.States, seen.Violations, kills.count, kills.amidst,
			f.Steps, writes, faults.Counts(failed), seen.Pages, seen.Groups, seed, faults.Seconds(time.Since(began)))
		Expect(seen.Violations).To(BeZero(), "%v", seen.Examples)
		Expect(seen.Errors).To(BeZero(), "%s", seen.FirstError)
		Expect(seen.Polls).To(BeNumerically(">=", wantPolls))
		Expect(seen.States).To(BeNumerically(">", wantKills))
		Expect(seen.Pages).To(BeNumerically(">", 2))
		for _, kind := range []string{"409", "429", "500", "409 after the write", "429 after the write", "500 after the write", "cut after the write"} {
			Expect(failed).To(HaveKey(kind))
		}
	}, NodeTimeout(5*time.Minute))
})

// someOf fails one in five of the controller's writes, in a way of its own each.
func someOf(random *rand.Rand) func(*http.Request) faults.Fault {
	var mu sync.Mutex
	codes := []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError, faults.Cut}
	return func(r *http.Request) faults.Fault {
		if !faults.IsPageWrite(r) && !faults.IsStatusWrite(r) {
			return faults.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(5) > 0 {
			return faults.Fault{}
		}
		return faults.Fault{Code: codes[random.IntN(len(codes))], Lost: random.IntN(2) == 0}
	}
}

// killer starts the controller and kills it.
type killer struct {
	random *rand.Rand
	count  int
	// amidst counts the kills that came when a page was written and the controller had not heard of
	// it.
	amidst int
}

// next is one life of the controller. Two in three end right after a write, the others at any
// moment from the start on. A longer life leaves the machine to the readers.
func (k *killer) next(short bool) {
	GinkgoHelper()
	p := faults.StartController(throughProxy)
	limit, left, most := 1500*time.Millisecond, -1, 12
	if !short {
		limit, most = 4*limit, 8*most
	}
	if k.random.IntN(3) > 0 {
		left = 1 + k.random.IntN(most)
		limit *= 2
	} else {
		limit = time.Duration(k.random.Int64N(int64(limit)))
	}
	faulty.AfterWrites(func(*http.Request) {
		if left--; left == 0 {
			k.amidst++
			// It runs: the request is its own.
			_ = p.Command.Process.Kill()
		}
	})
	select {
	case <-p.Ended:
	case <-time.After(limit):
	}
	faulty.AfterWrites(nil)
	p.Kill()
	Expect(p.Command.ProcessState.String()).To(Equal("signal: killed"), "it ends in no other way")
	k.count++
}
