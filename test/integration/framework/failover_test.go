package framework

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A held change survives", func() {
	It("a killed controller, and another replica takes the lease", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.clusters(ctx, 130)
		leader := startProcess(hub.Kubeconfig, true)
		place := func(name string) *v1alpha1.Placement { return testhub.Place(ctx, hub, t.placement(name), 130) }
		waits, approved, expires := place("waits"), place("approved"), place("expires")
		require(ctx, waits, patient)
		require(ctx, approved, patient)
		require(ctx, expires, hasty)
		startProcess(hub.Kubeconfig, true)
		waitsConsumer, approvedConsumer, expiresConsumer := observe(ctx, waits), observe(ctx, approved), observe(ctx, expires)
		move(ctx, t.names(129, 130)[0], "out")
		for _, pl := range []*v1alpha1.Placement{expires, waits, approved} {
			revisionOf(ctx, pl, held(0, 1))
			Eventually(heldClusters(ctx, pl)).Should(Equal(t.names(0, 129)))
		}
		said, kept := testhub.Must(pending(ctx, waits)()), uids(ctx, waits)
		Expect(kept).To(HaveLen(1))
		short := revisionPattern.FindString(testhub.Must(pending(ctx, expires)()))

		leader.Kill()
		By("approving while there is no controller")
		approvedConsumer.sawNoChange(ctx)
		approve(ctx, approved, revisionOf(ctx, approved, held(0, 1)))
		By("the new leader taking over")
		published(ctx, approved, t.names(0, 129))
		Eventually(pending(ctx, expires)).Should(HavePrefix("False Expired: " + short))
		Eventually(heldClusters(ctx, expires)).Should(BeEmpty())
		annotate(ctx, waits, "example.com/note", "seen")
		Consistently(pending(ctx, waits)).Should(Equal(said), "deadline and all")
		Expect(uids(ctx, waits)).To(Equal(kept))
		waitsConsumer.sawNoChange(ctx)
		expiresConsumer.sawNoChange(ctx)

		approve(ctx, waits, revisionOf(ctx, waits, held(0, 1)))
		published(ctx, waits, t.names(0, 129))
	})

	It("a controller that is killed between two pages of the approved change", func(ctx SpecContext) {
		const old, kept, all = 150, 40, 350
		t := newTeam(ctx)
		t.clusters(ctx, all, func(i int, b fixture.ClusterBuilder) fixture.ClusterBuilder {
			if i < old {
				b = b.Label("old", "yes")
			}
			if i >= kept {
				b = b.Label("new", "yes")
			}
			return b
		})
		door := startGate()
		first := startProcess(door.kubeconfig(), false)
		pl := testhub.Place(ctx, hub, fixture.Placement(string(t), "p").Predicate(fixture.MatchLabel("old", "yes")), old)
		require(ctx, pl, v1alpha1.DefaultProfile)
		Expect(testhub.Patch(ctx, hub, fixture.Placement(pl.Namespace, pl.Name).Obj(),
			`{"spec":{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"new":"yes"}}}}]}}`)).To(Succeed())
		revision := revisionOf(ctx, pl, held(all-old, kept))
		Eventually(heldClusters(ctx, pl)).Should(Equal(t.names(kept, all)))
		text := testhub.Must(pending(ctx, pl)())

		reached := door.closeAfter(2)
		approve(ctx, pl, revision)
		Eventually(reached).Should(BeClosed())
		first.Kill()
		half := testhub.Must(testhub.Clusters(ctx, hub, pl))
		Expect(half).NotTo(Or(Equal(t.names(0, old)), Equal(t.names(kept, all))), "the change is half done")
		Expect(half).To(ContainElements(t.names(kept, old)), "what stays is there")
		Expect(pending(ctx, pl)()).To(Equal(text))
		Expect(heldClusters(ctx, pl)()).To(Equal(t.names(kept, all)))

		startProcess(hub.Kubeconfig, false)
		published(ctx, pl, t.names(kept, all))
		Eventually(func() berthv1alpha1.ChangePhase {
			return recordsOf(ctx, pl).Newest(berthv1alpha1.PhasePublished).Status.Phase
		}).Should(Equal(berthv1alpha1.PhasePublished))
		for _, record := range recordsOf(ctx, pl) {
			if fmt.Sprint(record.Spec.Revision) == revision {
				Expect(record.Status.Phase).To(Equal(berthv1alpha1.PhasePublished))
			}
		}
	})
})

// uids are those of the open records.
func uids(ctx context.Context, pl *v1alpha1.Placement) []string {
	GinkgoHelper()
	var all []string
	for _, record := range recordsOf(ctx, pl) {
		if changes.IsOpen(record) {
			all = append(all, string(record.UID))
		}
	}
	return all
}

// gate stands in front of the hub and can stop to let writes of pages through.
type gate struct {
	server  *httptest.Server
	reverse *httputil.ReverseProxy

	mu sync.Mutex
	// left is how many writes may pass before it closes; nobody counts while reached is nil.
	left    int
	reached chan struct{}
	// failing are the pages whose next writes fail, and how many of them.
	failing map[string]int
}

func startGate() *gate {
	GinkgoHelper()
	target, _, err := rest.DefaultServerUrlFor(hub.Config)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(hub.Config)
	Expect(err).NotTo(HaveOccurred())
	g := &gate{reverse: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		Transport:     transport,
		FlushInterval: -1,
		// A killed controller leaves requests behind.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	g.server = httptest.NewServer(g)
	DeferCleanup(func() {
		g.server.CloseClientConnections()
		g.server.Close()
	})
	return g
}

// kubeconfig leads through the gate.
func (g *gate) kubeconfig() string {
	GinkgoHelper()
	through := clientcmdapi.NewConfig()
	through.Clusters["hub"] = &clientcmdapi.Cluster{Server: g.server.URL}
	through.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub"}
	through.CurrentContext = "hub"
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*through, path)).To(Succeed())
	Expect(os.Chmod(path, 0o600)).To(Succeed())
	return path
}

// closeAfter lets n writes of pages pass and none after; what it returns is closed when the next
// one comes.
func (g *gate) closeAfter(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.reached = n, make(chan struct{})
	return g.reached
}

// fail has the next writes of a page fail.
func (g *gate) fail(page string, writes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing = map[string]int{page: writes}
}

// failures are the writes that are still to fail.
func (g *gate) failures(page string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failing[page]
}

// fails says whether a request is to fail.
func (g *gate) fails(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	page := path.Base(r.URL.Path)
	if r.Method == http.MethodGet || g.failing[page] == 0 {
		return false
	}
	g.failing[page]--
	return true
}

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.fails(r) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "storage is full", http.StatusInsufficientStorage)
		return
	}
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/placementdecisions") && !g.pass() {
		// Only once the body is read does the server notice that the client is gone.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	}
	g.reverse.ServeHTTP(w, r)
}

func (g *gate) pass() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.reached == nil:
		return true
	case g.left > 0:
		g.left--
		return true
	case g.left == 0:
		close(g.reached)
		g.left--
	}
	return false
}
