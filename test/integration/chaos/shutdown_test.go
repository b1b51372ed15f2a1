package chaos

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// graceTime is how long a controller may take to end when it is asked to.
const graceTime = 15 * time.Second

// stopping is what a controller says before it asks its workers to stop.
const stopping = "Stopping and waiting for leader election runnables"

var _ = DescribeTable("A controller that gets SIGTERM between two pages exits with 0, and the next controller writes the remaining pages",
	// The hub takes so many of the pages. Its answer to the last of them may be held.
	func(ctx SpecContext, name string, taken int, held bool) {
		freeLease(ctx)
		t := begin(ctx, name)
		leaving, first := t.controller(electing...)
		t.waitForSimulated(ctx)
		_, second := t.controller(electing...)

		By("publishing another answer, of many pages")
		before := first.Written()
		reached, answered := make(chan struct{}), make(chan struct{})
		var writes atomic.Int32
		first.Fail(func(r *http.Request) faults.Fault {
			if !faults.IsPageWrite(r) {
				return faults.Fault{}
			}
			switch n := int(writes.Add(1)); {
			case n == taken && held:
				close(reached)
				return faults.Fault{Held: answered}
			case n == taken+1:
				if !held {
					close(reached)
				}
				fallthrough
			case n > taken:
				return faults.Fault{Code: faults.Cut, After: time.Hour}
			}
			return faults.Fault{}
		})
		Expect(t.Change(ctx, faults.Ringed, func(pl *v1alpha1.Placement) {
			pl.Spec.DecisionStrategy.GroupStrategy = v1alpha1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromInt32(5)}
			pl.Spec.Predicates = fixture.Placement("", "").
				Predicate(fixture.MatchLabelExpression(faults.PoolLabel, metav1.LabelSelectorOpIn, "in", "still")).Obj().Spec.Predicates
		})).To(Succeed())
		Eventually(reached).Should(BeClosed())

		By("ending")
		leaving.Terminate()
		t.injected["SIGTERM"]++
		asked := time.Now()
		Eventually(leaving.Log).Should(ContainSubstring(stopping))
		close(answered)
		Eventually(leaving.Ended, graceTime).Should(BeClosed())
		ended := time.Since(asked)
		Expect(leaving.Command.ProcessState.ExitCode()).To(BeZero())
		made := first.Written()
		Expect(made).To(HaveLen(len(before) + taken))

		By("going on")
		Eventually(second.Writes, leaseTime).Should(BeNumerically(">", 0))
		t.waitForSimulated(ctx)
		expectInTurn(first, second)
		inEvents := t.versionsInEvents(ctx)
		maps.DeleteFunc(made, func(version uint64, _ string) bool { return before[version] != "" })
		for version := range made {
			Expect(inEvents).To(HaveKey(fmt.Sprint(version)), "each written page has an event")
		}
		t.end("SIGTERM between two pages, "+CurrentSpecReport().LeafNodeText, fmt.Sprintf("it ended after %s, %d of its writes done", faults.Seconds(ended), taken))
	},
	Entry("the hub does not answer the second write", "hanging", 2, false, NodeTimeout(3*time.Minute)),
	Entry("the hub answers the first write late", "late", 3, true, NodeTimeout(3*time.Minute)),
)

// versionsInEvents returns the resource versions of the pages in events.
func (t *trial) versionsInEvents(ctx context.Context) map[string]bool {
	GinkgoHelper()
	all := testhub.Must(testhub.Events(ctx, hub, t.Name))
	versions := map[string]bool{}
	for _, e := range all {
		if e.Related != nil {
			versions[e.Related.ResourceVersion] = true
		}
	}
	return versions
}
