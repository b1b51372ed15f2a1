package hub

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newCluster(name string) *unstructured.Unstructured {
	return newObject("cluster.open-cluster-management.io/v1", "ManagedCluster", "", name, nil)
}

// read reads an object's field, at a path from its root.
func (h *hub) read(ctx SpecContext, object *unstructured.Unstructured, path ...string) any {
	GinkgoHelper()
	Expect(h.client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	Expect(err).NotTo(HaveOccurred())
	return value
}

var _ = Describe("The samples of the local hub", func() {
	It("keep every edit at a second start, and the output names the edited objects", func(ctx SpecContext) {
		dataDir := filepath.Join(GinkgoT().TempDir(), "data")
		running := up(dataDir, "--samples")
		Expect(string(running.Out.Contents())).To(And(
			MatchRegexp(`(?m)^Applied \d+ sample objects\.$`),
			HaveSuffix("To start afresh, stop it and delete its data: rm -rf "+dataDir+"\n"),
		))

		merge := func(object *unstructured.Unstructured, patch string) {
			GinkgoHelper()
			Expect(running.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}
		merge(newPlacement("ns1", "demo"), `{"spec":{"numberOfClusters":1}}`)
		merge(newCluster("cluster2"), `{"spec":{"taints":[{"key":"added","effect":"NoSelect"}]}}`)
		memory := client.RawPatch(types.MergePatchType, []byte(`{"status":{"allocatable":{"memory":"200M"}}}`))
		Expect(running.client.Status().Patch(ctx, newCluster("cluster1"), memory)).To(Succeed())
		Expect(running.client.Delete(ctx, newCluster("cluster3"))).To(Succeed())
		By("storing a Placement of the name that a start could ask about")
		Expect(running.client.Create(ctx, newPlacement("default", "probe"))).To(Succeed())
		Eventually(running.Terminate(), stopTimeout).Should(gexec.Exit(0))

		running = up(dataDir, "--samples")
		Expect(running.read(ctx, newPlacement("ns1", "demo"), "spec", "numberOfClusters")).To(BeEquivalentTo(1))
		Expect(running.read(ctx, newCluster("cluster1"), "status", "allocatable", "memory")).To(Equal("200M"))
		Expect(running.read(ctx, newCluster("cluster2"), "spec", "taints")).To(HaveLen(1))
		Expect(running.read(ctx, newCluster("cluster3"), "status", "allocatable", "memory")).To(Equal("100M"))
		Expect(string(running.Out.Contents())).To(MatchRegexp(`(?m)^Applied 1 of \d+ sample objects; the others exist and are not changed\.
Kept 3 objects that differ from the samples: ManagedCluster cluster1, ManagedCluster cluster2, Placement ns1/demo\. To get a sample back, delete its object and start with --samples again\.$`))
		Eventually(running.Terminate(), stopTimeout).Should(gexec.Exit(0))
	})

	It("may be deleted before they are decided, and the hub continues to run", func(ctx SpecContext) {
		dataDir := filepath.Join(GinkgoT().TempDir(), "data")
		running := up(dataDir)
		Expect(running.client.Create(ctx, newNamespace("ns1"))).To(Succeed())
		By("storing a sample that nobody decides: it is being deleted")
		demo := newPlacement("ns1", "demo")
		demo.SetFinalizers([]string{"example.com/hold"})
		Expect(running.client.Create(ctx, demo)).To(Succeed())
		Eventually(func() any { return running.read(ctx, demo, "status", "conditions") }).ShouldNot(BeEmpty())
		Expect(running.client.Delete(ctx, demo)).To(Succeed())
		none := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
		Eventually(func() any {
			Expect(running.client.Status().Patch(ctx, demo, none)).To(Succeed())
			return running.read(ctx, demo, "status", "conditions")
		}).Should(BeNil())
		Eventually(running.Terminate(), stopTimeout).Should(gexec.Exit(0))

		By("deleting it while the start waits for its decision")
		session := begin(dataDir, "--samples")
		Eventually(session, startTimeout).Should(gbytes.Say(`Applied \d+ (of \d+ )?sample objects`))
		again := connect(dataDir)
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		// The admission policies refuse the patch until the API server finds the kind of their
		// parameters.
		Eventually(func() error { return again.Patch(ctx, demo, patch) }).Should(Succeed())
		Eventually(session, startTimeout).Should(Or(gbytes.Say("Try in another terminal"), gexec.Exit()))
		Expect(session.ExitCode()).To(Equal(-1), "berth up ended: %s", session.Err.Contents())
		Expect(string(session.Out.Contents())).To(And(
			ContainSubstring("Placement ns1/demo was deleted; its decision is not shown.\n"),
			MatchRegexp(`(?m)^stores +everywhere +all +250 `),
		))
		Expect(again.Get(ctx, client.ObjectKey{Name: "ns1"}, &corev1.Namespace{})).To(Succeed())
		Eventually(session.Terminate(), stopTimeout).Should(gexec.Exit(0))
	})
})
