package chaos

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The hub", func() {
	It("is killed and started again on the same data: no decision is lost", func(ctx SpecContext) {
		t := begin(ctx, "restart")
		berth, proxy := t.controller()
		Eventually(proxy.Writes).Should(BeNumerically(">", 0))
		for round := range times(2, 4) {
			t.churn(ctx, true)
			before := proxy.Writes()
			Eventually(proxy.Writes).Should(BeNumerically(">", before+10))
			program := []string{"etcd", "kube-apiserver"}[round%2]
			local.kill(program)
			t.injected["SIGKILL of "+program]++
			before = proxy.Writes()
			local.again(ctx)
			// It goes on by itself.
			Eventually(proxy.Writes).Should(BeNumerically(">", before+5))
			t.waitForSimulated(ctx)
		}
		Expect(berth.Alive()).To(BeTrue())
		t.end("etcd and API server are killed and restarted")
	}, NodeTimeout(8*time.Minute))
})
