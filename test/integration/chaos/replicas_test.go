package chaos

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/faults"
)

const (
	// leaseTime is how long a lease holds that nobody renews, and retryTime the most that a replica
	// waits before it asks again.
	leaseTime = 15 * time.Second
	retryTime = 2400 * time.Millisecond
	// slack is for a busy machine.
	slack = 10 * time.Second
)

// electing are the flags of a replica.
var electing = []string{"--leader-elect=true", "--leader-election-namespace=default"}

var _ = Describe("Two replicas", func() {
	It("do not write at the same time: a leader that loses its lease stops before the other replica starts", func(ctx SpecContext) {
		freeLease(ctx)
		t := begin(ctx, "lease")
		loser, first := t.controller(electing...)
		Eventually(first.Writes).Should(BeNumerically(">", 0))
		_, second := t.controller(electing...)
		t.churn(ctx, false)
		lost := time.Now()
		// Renewals hang, and so does each write for a moment, so that one is under way at any time.
		first.Fail(func(r *http.Request) faults.Fault {
			switch {
			case faults.IsLease(r):
				return faults.Fault{Code: http.StatusGatewayTimeout, After: 20 * time.Second}
			case faults.IsPageWrite(r):
				return faults.Fault{After: 200 * time.Millisecond}
			}
			return faults.Fault{}
		})
		Eventually(loser.Ended).Should(BeClosed())
		stopped := time.Since(lost)
		t.injected["lease lost"]++
		Expect(loser.Log()).To(ContainSubstring("leader election lost"))
		Expect(stopped).To(BeNumerically("<", leaseTime))
		Eventually(second.Writes, leaseTime+retryTime+slack).Should(BeNumerically(">", 0))
		began := time.Since(lost)
		t.waitForSimulated(ctx)
		expectInTurn(first, second)
		t.end("the leader loses its lease while it writes", fmt.Sprintf("it stopped after %s, the other began after %s",
			faults.Seconds(stopped), faults.Seconds(began)))
	}, NodeTimeout(3*time.Minute))
})

// expectInTurn wants all writes of one controller to come before those of the other.
func expectInTurn(first, second *faults.Proxy) {
	GinkgoHelper()
	last, next := uint64(0), uint64(math.MaxUint64)
	for v := range first.Written() {
		last = max(last, v)
	}
	for v := range second.Written() {
		next = min(next, v)
	}
	Expect(last).To(BeNumerically("<", next), "two controllers wrote at a time")
}

// freeLease deletes the lease of the former leader.
func freeLease(ctx context.Context) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "berth.berth.dev"}}
	Expect(client.IgnoreNotFound(hub.Delete(ctx, lease))).To(Succeed())
}
