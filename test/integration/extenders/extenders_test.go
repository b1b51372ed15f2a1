package extenders

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("An extender", func() {
	It("excludes and scores clusters: the reference server", func(ctx SpecContext) {
		newTeam(ctx, "shop")
		setPrice(ctx, "shop-1", "70")
		setPrice(ctx, "shop-2", "20")
		setPrice(ctx, "shop-3", "10")
		label(ctx, "shop-3", "maintenance", "true")
		url, ca := reference(ctx)
		create(ctx, fixture.Placement("shop", "web").Number(1).Obj())
		start(fmt.Sprintf(`
- plugins: {score: {disabled: [{name: Steady}, {name: Balance}]}}
  extenders:
  - {name: cost, urlPrefix: %q, filterVerb: decide, prioritizeVerb: decide, ttl: 10s, weight: 10, tlsConfig: {caFile: %s}}
`, url+"/v1", ca))
		Eventually(published).WithContext(ctx).WithArguments("shop", "web").Should(Equal("shop-2"))
		Eventually(condition).WithContext(ctx).WithArguments("shop", "web", v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("True"))
		Eventually(condition).WithContext(ctx).WithArguments("shop", "web", v1alpha1.PlacementConditionDecisionPending).Should(BeEmpty())

		By("asking again when the answer is too old")
		label(ctx, "shop-3", "maintenance", "false")
		Eventually(published).WithContext(ctx).WithArguments("shop", "web").Should(Equal("shop-3"))

		By("asking for a new cluster at once")
		Expect(hub.Create(ctx, fixture.Cluster("shop-0").Set("shop").Obj())).To(Succeed())
		setPrice(ctx, "shop-0", "-100")
		Eventually(published).WithContext(ctx).WithArguments("shop", "web").Should(Equal("shop-0"))
	})

	It("harms only its own profile, whatever it answers", func(ctx SpecContext) {
		newTeam(ctx, "red")
		s := newServer(answering(`{"clusters":{"red-1":{},"red-2":{"excluded":true},"red-3":{"excluded":true}}}`))
		start(fmt.Sprintf(`
- name: default
- name: costly
  extenders: [{name: cost, urlPrefix: %[1]q, filterVerb: filter, httpTimeout: 200ms, failurePolicy: Fail, ttl: 10s, insecure: true}]
- name: lenient
  extenders: [{name: cost, urlPrefix: %[1]q, filterVerb: filter, httpTimeout: 200ms, failurePolicy: Ignore, ttl: 10s, insecure: true}]
`, s.url))
		create(ctx, fixture.Placement("red", "costly").Annotation(v1alpha1.ProfileAnnotation, "costly").Obj())
		Eventually(published).WithContext(ctx).WithArguments("red", "costly").Should(Equal("red-1"))
		for name, handle := range map[string]http.HandlerFunc{
			"nothing": answering(""),
			"10 MB":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte("x"), 10<<20)) },
			"NaN":     answering(`{"clusters":{"red-2":{"score":NaN}}}`),
			"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"redirect": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://"+secret+".invalid", http.StatusFound)
			},
		} {
			By("answering with " + name)
			s.handle.Store(&handle)
			// A new spec needs a new answer.
			create(ctx, fixture.Placement("red", "new").Annotation(v1alpha1.ProfileAnnotation, "costly").Obj())
			create(ctx, fixture.Placement("red", "plain").Obj())
			create(ctx, fixture.Placement("red", "lenient").Annotation(v1alpha1.ProfileAnnotation, "lenient").Obj())
			Eventually(published).WithContext(ctx).WithArguments("red", "plain").Should(Equal("red-1 red-2 red-3"))
			Eventually(published).WithContext(ctx).WithArguments("red", "lenient").Should(Equal("red-1 red-2 red-3"))
			Eventually(condition).WithContext(ctx).WithArguments("red", "new", v1alpha1.PlacementConditionDecisionPending).
				Should(ContainSubstring("True Waiting The published decision stays: cost: the extender cost does not answer"))
			Expect(published(ctx, "red", "new")).To(BeEmpty())
			for _, name := range []string{"new", "plain", "lenient"} {
				Expect(hub.Delete(ctx, fixture.Placement("red", name).Obj())).To(Succeed())
				Eventually(func() ([]v1alpha1.PlacementDecision, error) {
					var pages v1alpha1.PlacementDecisionList
					err := hub.List(ctx, &pages, client.InNamespace("red"), client.MatchingLabels{v1alpha1.PlacementLabel: name})
					return pages.Items, err
				}).WithContext(ctx).Should(BeEmpty())
			}
			Expect(published(ctx, "red", "costly")).To(Equal("red-1"), "the published decision stays")
		}

		By("answering again")
		handle := answering(`{"clusters":{"red-1":{},"red-2":{},"red-3":{"excluded":true}}}`)
		s.handle.Store(&handle)
		Eventually(published).WithContext(ctx).WithArguments("red", "costly").Should(Equal("red-1 red-2"))
		Eventually(condition).WithContext(ctx).WithArguments("red", "costly", v1alpha1.PlacementConditionDecisionPending).Should(BeEmpty())
	})

	It("that answers after 30 s delays no other Placement", func(ctx SpecContext) {
		const placements = 1000
		newTeam(ctx, "blue")
		newTeam(ctx, "green")
		release := make(chan struct{})
		end := sync.OnceFunc(func() { close(release) })
		DeferCleanup(end)
		s := newServer(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-release:
			case <-time.After(30 * time.Second):
			}
		})
		start(fmt.Sprintf(`
- name: default
- name: costly
  extenders: [{name: cost, urlPrefix: %q, filterVerb: filter, httpTimeout: 1m, insecure: true}]
`, s.url))
		for i := range 20 {
			create(ctx, fixture.Placement("green", fmt.Sprintf("slow-%d", i)).Annotation(v1alpha1.ProfileAnnotation, "costly").Obj())
		}
		Eventually(s.requests.Load).Should(BeNumerically(">=", 4), "the slow server is asked")
		beside := createMany(ctx, "green", placements)
		for i := range 20 {
			Expect(published(ctx, "green", fmt.Sprintf("slow-%d", i))).To(BeEmpty(), "it still waits")
		}
		end()
		Eventually(condition).WithContext(ctx).WithArguments("green", "slow-0", v1alpha1.PlacementConditionDecisionPending).
			Should(ContainSubstring("the extender cost does not answer: its answer is not valid JSON"))
		removeMany(ctx, "green")
		alone := createMany(ctx, "blue", placements)
		fmt.Printf("\nobserved: %d Placements were published in %s beside 20 Placements that wait for an extender, and in %s alone\n",
			placements, beside.Round(time.Millisecond), alone.Round(time.Millisecond))
	}, NodeTimeout(5*time.Minute))

	It("can be tried as a shadow", func(ctx SpecContext) {
		newTeam(ctx, "pink")
		s := newServer(answering(`{"clusters":{"pink-1":{"excluded":true},"pink-2":{},"pink-3":{}}}`))
		start(fmt.Sprintf(`
- name: careful
  shadowOf: default
  extenders: [{name: cost, urlPrefix: %q, filterVerb: filter, insecure: true}]
`, s.url))
		create(ctx, fixture.Placement("pink", "web").Number(2).Obj())
		Eventually(published).WithContext(ctx).WithArguments("pink", "web").Should(Equal("pink-1 pink-2"))
		Eventually(s.requests.Load).Should(BeNumerically(">=", 1))
		Consistently(published).WithContext(ctx).WithArguments("pink", "web").WithTimeout(time.Second).Should(Equal("pink-1 pink-2"))
	})
})

// createMany creates Placements and returns how long it takes until all are published.
func createMany(ctx context.Context, namespace string, n int) time.Duration {
	GinkgoHelper()
	began := time.Now()
	for i := range n {
		Expect(hub.Create(ctx, fixture.Placement(namespace, fmt.Sprintf("p-%d", i)).Number(1).Obj())).To(Succeed())
	}
	DeferCleanup(func(ctx SpecContext) { removeMany(ctx, namespace) })
	Eventually(func() (int, error) {
		var pages v1alpha1.PlacementDecisionList
		err := hub.List(ctx, &pages, client.InNamespace(namespace))
		full := 0
		for _, page := range pages.Items {
			full += len(page.Status.Decisions)
		}
		return full, err
	}).WithContext(ctx).WithPolling(100 * time.Millisecond).Should(Equal(n))
	return time.Since(began)
}

// removeMany deletes all Placements of a namespace and waits until their pages are gone.
func removeMany(ctx context.Context, namespace string) {
	GinkgoHelper()
	Expect(hub.DeleteAllOf(ctx, &v1alpha1.Placement{}, client.InNamespace(namespace))).To(Succeed())
	Eventually(func() ([]v1alpha1.PlacementDecision, error) {
		var pages v1alpha1.PlacementDecisionList
		err := hub.List(ctx, &pages, client.InNamespace(namespace))
		return pages.Items, err
	}).WithContext(ctx).WithPolling(100 * time.Millisecond).Should(BeEmpty())
}

// reference builds and starts the server in examples/extender. It returns its URL and the file with
// its CA.
func reference(ctx context.Context) (url, ca string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	program := filepath.Join(dir, "extender")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "../../../examples/extender")
	out, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.ParseIP("127.0.0.1")}, nil)
	Expect(err).NotTo(HaveOccurred())
	ca = filepath.Join(dir, "tls.crt")
	Expect(os.WriteFile(ca, certificate, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)).To(Succeed())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	address := free.Addr().String()
	Expect(free.Close()).To(Succeed())
	server := exec.Command(program, "-listen", address, "-cert", ca, "-key", filepath.Join(dir, "tls.key"))
	server.Stdout, server.Stderr = GinkgoWriter, io.Writer(GinkgoWriter)
	Expect(server.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(server.Process.Kill()).To(Succeed())
		_ = server.Wait() // It was killed.
	})
	Eventually(func() error {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			err = connection.Close()
		}
		return err
	}).WithContext(ctx).Should(Succeed())
	return "https://" + address, ca
}

func setPrice(ctx context.Context, cluster, price string) {
	GinkgoHelper()
	c := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Status.ClusterClaims = []v1alpha1.ManagedClusterClaim{{Name: "price.example.com", Value: price}}
	Expect(hub.Status().Update(ctx, c)).To(Succeed())
}

func label(ctx context.Context, cluster, key, value string) {
	GinkgoHelper()
	c := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	Expect(hub.Patch(ctx, c, patch)).To(Succeed())
}
