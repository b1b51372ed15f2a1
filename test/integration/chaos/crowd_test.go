package chaos

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("Many Placements", func() {
	It("are deleted with their namespace while they are decided, and Berth continues to decide the others", func(ctx SpecContext) {
		t := begin(ctx, "doomed", false)
		berth, proxy := t.controller()
		t.waitForSimulated(ctx)
		t.churn(ctx, false)
		crowd := times(40, 300)
		for round := range times(1, 5) {
			namespace := fmt.Sprintf("doomed-%d", round)
			faults.Bind(ctx, hub, namespace, t.Name)
			before := writesOf(proxy)
			faults.InParallel(crowd, func(i int) error {
				return hub.Create(ctx, fixture.Placement(namespace, fmt.Sprintf("p%03d", i)).Number(int32(1+i%3)).Obj())
			})
			Eventually(func() int { return writesOf(proxy) }).Should(BeNumerically(">", before+crowd/4))
			doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			Expect(hub.Delete(ctx, doomed)).To(Succeed())
			t.injected["namespace deleted"]++
			Eventually(func() error { return hub.Get(ctx, client.ObjectKeyFromObject(doomed), doomed) }).Should(MatchError(ContainSubstring("not found")))
		}
		t.waitForSimulated(ctx)
		Expect(berth.Alive()).To(BeTrue())
		Expect(berth.Log()).NotTo(ContainSubstring("panic"))
		t.end("namespaces are deleted while they are decided", fmt.Sprintf("%d Placements in each", crowd))
	}, NodeTimeout(6*time.Minute))

	It("are created at once: Berth decides each of them once, and the decisions of other Placements stay", func(ctx SpecContext) {
		t := begin(ctx, "crowd", false)
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
		written := proxy.Made().Written
		for i := range crowd {
			Expect(written[name(i)+"-decision-1"]).To(Equal(1), name(i))
		}
		t.end(fmt.Sprintf("%d Placements are created at once", crowd),
			fmt.Sprintf("created in %s, all decided after %s", faults.Seconds(created), faults.Seconds(took)))
	}, NodeTimeout(6*time.Minute))
})

func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
}
