package chaos

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("Many Placements", func() {
	It("are created at once: Berth decides each of them once, and the decisions of other Placements stay", func(ctx SpecContext) {
		t := begin(ctx, "crowd")
		berth, proxy := t.controller()
		t.waitForSimulated(ctx)
		const namespace = "crowd-all"
		faults.Bind(ctx, hub, namespace, t.Name)
		faults.CleanUp(hub, "none", namespace)
		crowd := times(300, 2000)
		name := func(i int) string { return fmt.Sprintf("p%04d", i) }
		began := time.Now()
		t.churn(ctx, false)
		// All of them choose among the core, which churn does not take away.
		faults.InParallel(crowd, func(i int) error {
			return hub.Create(ctx, fixture.Placement(namespace, name(i)).Predicate(fixture.MatchLabel(faults.PoolLabel, "in")).
				Mode(v1alpha1.PrioritizerPolicyModeExact).Number(int32(1+i%3)).Obj())
		})
		created := time.Since(began)
		t.injected["Placements created at once"] = crowd
		Eventually(ctx, testhub.Decided, 2*patience, 500*time.Millisecond).WithArguments(hub, namespace).Should(Equal(crowd))
		took := time.Since(began)
		t.waitForSimulated(ctx)
		Expect(berth.Alive()).To(BeTrue())
		writes := map[string]int{}
		for _, page := range proxy.Written() {
			writes[page]++
		}
		for i := range crowd {
			Expect(writes[name(i)+"-decision-1"]).To(Equal(1), name(i))
		}
		t.end(fmt.Sprintf("%d Placements are created at once", crowd),
			fmt.Sprintf("created in %s, all decided after %s", faults.Seconds(created), faults.Seconds(took)))
	}, NodeTimeout(6*time.Minute))
})
