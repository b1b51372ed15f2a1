package chaos

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

var _ = Describe("The hub", func() {
	It("is killed and started again on the same data: no decision is lost", func(ctx SpecContext) {
		t := begin(ctx, "restart", false)
		berth, proxy := t.controller()
		Eventually(func() int { return writesOf(proxy) }).Should(BeNumerically(">", 0))
		for round := range times(2, 4) {
			t.churn(ctx, true)
			before := writesOf(proxy)
			Eventually(func() int { return writesOf(proxy) }).Should(BeNumerically(">", before+10))
			program := []string{"etcd", "kube-apiserver"}[round%2]
			local.kill(program)
			t.injected["SIGKILL of "+program]++
			before = writesOf(proxy)
			local.again(ctx)
			// It goes on by itself.
			Eventually(func() int { return writesOf(proxy) }).Should(BeNumerically(">", before+5))
			t.waitForSimulated(ctx)
		}
		Expect(berth.Alive()).To(BeTrue())
		t.end("etcd and API server are killed and restarted")
	}, NodeTimeout(8*time.Minute))

	It("cuts watches and fails a tenth of all requests: Berth still reaches the right decisions", func(ctx SpecContext) {
		t := begin(ctx, "requests", false)
		proxy := t.proxy()
		f := &tenth{random: rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 5))}
		proxy.Fail(f.fault)
		berth := faults.StartController(proxy.Kubeconfig())
		t.churn(ctx, false)
		wanted, cuts := times(60, 250), times(5, 30)
		for tick, cut := time.Tick(400*time.Millisecond), 0; ; <-tick {
			if cut < cuts && proxy.CutWatches() > 0 {
				cut++
			}
			if cut == cuts && f.soFar() >= wanted {
				break
			}
			Expect(ctx.Err()).NotTo(HaveOccurred(), "%d faults, %d cuts", f.soFar(), cut)
			Expect(berth.Alive()).To(BeTrue())
		}
		t.waitForSimulated(ctx)
		Expect(berth.Alive()).To(BeTrue())
		asked, failed := f.counts()
		t.end("watches are cut; a tenth of requests fails", fmt.Sprintf("%d of %d requests failed", failed, asked))
		for _, kind := range []string{"409", "429", "500", "504", "cut", "time-out", "watch cut"} {
			Expect(t.injected).To(HaveKey(kind))
		}
	}, NodeTimeout(5*time.Minute))
})

// tenth fails one request in ten, reads and watches too. Failures of reads and of writes each have
// all kinds in turn.
type tenth struct {
	mu                   sync.Mutex
	random               *rand.Rand
	asked, reads, writes int
}

func (f *tenth) fault(r *http.Request) faults.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
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

func (f *tenth) soFar() int {
	_, failed := f.counts()
	return failed
}

func (f *tenth) counts() (asked, failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked, f.reads + f.writes
}
