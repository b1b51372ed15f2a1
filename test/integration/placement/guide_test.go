package placement

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/samples"
	"github.com/berth-dev/berth/test/testhub"
)

// The worked example of the user's guide: three clusters of 60, 80 and 100 MB of which two are
// wanted, and a fourth that comes. Balance counts every decision on the hub, so it has the hub to
// itself.
var _ = Describe("Open Cluster Management's guide, example", Serial, Ordered, func() {
	demo := key{Namespace: "ns1", Name: "demo"}
	guide := os.DirFS(filepath.Join("..", "..", "..", "config", "samples", "guide"))
	team := &tenant{namespace: "ns1"}
	var seen []event

	// ask deletes what the example before left, as the guide says, and applies a Placement.
	ask := func(ctx context.Context, fsys fs.FS, file string) {
		GinkgoHelper()
		old := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: demo.Namespace, Name: demo.Name}}
		cluster4 := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster4"}}
		for _, object := range []client.Object{old, cluster4} {
			Expect(client.IgnoreNotFound(hub.Delete(ctx, object))).To(Succeed())
			Eventually(ctx, testhub.IsGone).WithArguments(hub, object).Should(BeTrue())
		}
		Eventually(func() int { return len(pagesOf(ctx, demo)) }).Should(BeZero())
		applyFile(ctx, fsys, file)
		seen = nil
	}
	// expect waits for the selection and for exactly these events on top of those seen before.
	expect := func(ctx context.Context, selected []string, events ...event) {
		GinkgoHelper()
		seen = append(seen, events...)
		Eventually(published(ctx, demo, "")).Should(Equal(selected))
		Eventually(eventsOf(ctx, placementAt(ctx, demo))).Should(Equal(seen))
		Eventually(satisfied(ctx, demo)).Should(Equal(allScheduled))
		Expect(misconfigured(ctx, demo)()).To(Equal(wellConfigured))
		Expect(placementAt(ctx, demo).Status.NumberOfSelectedClusters).To(BeEquivalentTo(len(selected)))
		for _, page := range pagesOf(ctx, demo) {
			Expect(page.Status.Decisions).To(HaveEach(And(HaveField("Reason", ""), HaveField("Score", BeNil()))))
		}
	}
	// unmoved waits until the controller has seen cluster4 as it is, and expects nothing to have
	// come of it.
	unmoved := func(ctx context.Context, selected []string) {
		GinkgoHelper()
		before := versions(ctx, demo.Namespace, demo.Name)
		team.waitForDecision(ctx, "cluster4")
		expect(ctx, selected)
		Consistently(func() map[string]string { return versions(ctx, demo.Namespace, demo.Name) }).Should(Equal(before))
		Expect(eventsOf(ctx, placementAt(ctx, demo))()).To(Equal(seen))
	}
	normal := func(reason, action, note string) event {
		return event{"Normal", reason, action, "placementController", "PlacementDecision demo-decision-1", note}
	}
	created := normal("DecisionCreate", "DecisionCreated", "Decision demo-decision-1 is created with placement demo in namespace ns1")
	updated := normal("DecisionUpdate", "DecisionUpdated", "Decision demo-decision-1 is updated with placement demo in namespace ns1")
	scored := func(note string) event {
		return normal("ScoreUpdate", "ScoreUpdated", note)
	}

	BeforeAll(func(ctx SpecContext) {
		Eventually(ctx, testhub.PagesIn).WithArguments(hub).Should(BeEmpty())
		applyFile(ctx, samples.FS, "10-guide-fleet.yaml")
		DeferCleanup(team.vacate)
	})

	It("1: selects the most memory, until another cluster has far more", func(ctx SpecContext) {
		ask(ctx, samples.FS, "11-guide-placement.yaml")
		expect(ctx, []string{"cluster2", "cluster3"}, created, updated, scored("cluster1:0 cluster2:100 cluster3:200 "))
		describes(ctx)

		By("a fourth cluster that is little better")
		applyFile(ctx, guide, "cluster4-100M.yaml")
		unmoved(ctx, []string{"cluster2", "cluster3"})

		By("which grows")
		start := time.Now()
		testhub.EditStatus(ctx, hub, &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster4"}}, func(c *v1alpha1.ManagedCluster) {
			c.Status.Allocatable["memory"] = resource.MustParse("150M")
		})
		Eventually(published(ctx, demo, "")).WithTimeout(5 * time.Second).Should(Equal([]string{"cluster3", "cluster4"}))
		AddReportEntry("re-decided after a patch of allocatable in", time.Since(start))
		expect(ctx, []string{"cluster3", "cluster4"}, updated, scored("cluster1:0 cluster2:145 cluster3:189 cluster4:200 "))
	})

	It("1: selects the most memory with a fourth cluster of 150M from the start", func(ctx SpecContext) {
		ask(ctx, samples.FS, "11-guide-placement.yaml")
		expect(ctx, []string{"cluster2", "cluster3"}, created, updated, scored("cluster1:0 cluster2:100 cluster3:200 "))
		applyFile(ctx, guide, "cluster4-150M.yaml")
		expect(ctx, []string{"cluster3", "cluster4"}, updated, scored("cluster1:0 cluster2:145 cluster3:189 cluster4:200 "))
	})

	It("2: weighs memory three times as much", func(ctx SpecContext) {
		ask(ctx, guide, "example-2.yaml")
		expect(ctx, []string{"cluster2", "cluster3"}, created, updated, scored("cluster1:-200 cluster2:100 cluster3:400 "))
		applyFile(ctx, guide, "cluster4-100M.yaml")
		expect(ctx, []string{"cluster3", "cluster4"}, updated, scored("cluster1:-200 cluster2:200 cluster3:500 cluster4:400 "))
	})

	It("3: keeps the decision", func(ctx SpecContext) {
		ask(ctx, guide, "example-3.yaml")
		expect(ctx, []string{"cluster2", "cluster3"}, created, updated, scored("cluster1:0 cluster2:100 cluster3:200 "))
		applyFile(ctx, guide, "cluster4-150M.yaml")
		unmoved(ctx, []string{"cluster2", "cluster3"})
	})
})

var _ = Describe("The other samples", Serial, func() {
	DescribeTable("get the decisions that their comments list", func(ctx SpecContext, fleet, placement string, k key, want []string, scores string) {
		applyFile(ctx, samples.FS, fleet)
		applyFile(ctx, samples.FS, placement)
		DeferCleanup((&tenant{namespace: k.Namespace}).vacate)
		Eventually(satisfied(ctx, k)).Should(Equal(allScheduled))
		Eventually(published(ctx, k, "")).Should(Equal(want))
		Eventually(eventsOf(ctx, placementAt(ctx, k))).Should(ContainElement(HaveField("Note", scores)))
	},
		Entry("exact scores", "20-exact-fleet.yaml", "21-exact-placement.yaml", key{Namespace: "exact", Name: "placement"},
			[]string{"paris1", "paris3", "rome1", "rome2"}, "paris1:-20 paris2:-23 paris3:-17 rome1:10 rome2:-6 "),
		Entry("taints and claims", "30-edge-fleet.yaml", "31-edge-placement.yaml", key{Namespace: "edge", Name: "gpu-in-europe"},
			[]string{"edge2", "edge3"}, "edge1:100 edge2:100 edge3:100 "),
	)
})

// describes holds what kubectl describe prints for the first example against the rows of the guide.
func describes(ctx context.Context) {
	GinkgoHelper()
	text := hub.Kubectl(ctx, "describe", "placement", "demo", "-n", "ns1")
	for _, row := range []string{
		`Normal +DecisionCreate +\S+ +placementController +Decision demo-decision-1 is created with placement demo in namespace ns1`,
		`Normal +DecisionUpdate +\S+ +placementController +Decision demo-decision-1 is updated with placement demo in namespace ns1`,
		`Normal +ScoreUpdate +\S+ +placementController +cluster1:0 cluster2:100 cluster3:200`,
	} {
		Expect(text).To(MatchRegexp(row))
	}
	text = regexp.MustCompile(` +`).ReplaceAllString(hub.Kubectl(ctx, "describe", "placementdecision", "demo-decision-1", "-n", "ns1"), " ")
	Expect(text).To(ContainSubstring("Decisions:\n Cluster Name: cluster2\n Reason: \n Cluster Name: cluster3\n Reason: \n"))
}
