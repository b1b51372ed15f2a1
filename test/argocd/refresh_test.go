package argocd

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	argov1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tries is how often a cluster is patched. The ApplicationSets poll after three and thirty minutes:
// only a refresh makes a change arrive before.
const tries = 50

// fastObjects are a Placement of the clusters with the label use=yes, and an ApplicationSet that
// reads it without a requeueAfterSeconds.
const fastObjects = `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: fast}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: fast, namespace: argocd}
spec: {clusterSet: fast}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: local-cluster, namespace: argocd}
spec:
  clusterSets: [fast]
  predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {use: "yes"}}}}]
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: fast, namespace: argocd}
spec:
  generators:
  - clusterDecisionResource:
      configMapRef: ocm-placement
      labelSelector: {matchLabels: {cluster.open-cluster-management.io/placement: local-cluster}}
  template:
    metadata: {name: "fast-{{name}}"}
    spec:
      project: default
      source: {repoURL: "https://github.com/argoproj/argocd-example-apps.git", targetRevision: HEAD, path: guestbook}
      destination: {name: "{{name}}", namespace: web}
`

// regions is the prefix of the Applications of config/samples/argocd-generator.
const regions = "book-import-regions-"

// The specs change the label of a cluster while Argo CD's controller follows the Placement twice:
// with the pages of the decision, and with berth generator, which fails in every way.
var _ = Describe("With ArgoCDRefresh and berth generator", Ordered, func() {
	var fast, byRegion *applications
	var g *generatorProcess

	use := func(ctx context.Context, name, value string) {
		GinkgoHelper()
		patch(ctx, cluster(name), `{"metadata":{"labels":{"use":%q}}}`, value)
	}

	BeforeAll(func(ctx SpecContext) {
		background, end := context.WithCancel(context.Background())
		argo := newArgoCD(background)
		objects := append(parse(fastObjects), read("20-role.yaml")...)
		objects = append(objects, read("30-configmap.yaml")...)
		// What other specs left behind would be polled all the time.
		Expect(hub.DeleteAllOf(ctx, &argov1alpha1.ApplicationSet{}, client.InNamespace(namespace))).To(Succeed())
		Expect(hub.DeleteAllOf(ctx, &argov1alpha1.Application{}, client.InNamespace(namespace))).To(Succeed())
		Expect(client.IgnoreNotFound(hub.Delete(ctx, placementObject()))).To(Succeed())
		fast, byRegion = watchApplications(background, "fast-"), watchApplications(background, regions)
		for n, region := range []string{"eu", "eu", "us", "us"} {
			object := cluster(fmt.Sprintf("f%02d", n+1))
			object.SetLabels(map[string]string{group + "/clusterset": "fast", "use": "yes", "region": region})
			apply(ctx, object)
			addSecret(ctx, object.GetName())
			objects = append(objects, object, named("v1", "Secret", namespace, "cluster-"+object.GetName()))
		}
		g = newGenerator()
		for _, file := range []string{"10-reader.yaml", "20-configmap.yaml", "30-applicationset.yaml"} {
			data, err := os.ReadFile(filepath.Join(samples+"-generator", file))
			Expect(err).NotTo(HaveOccurred())
			for _, object := range parse(string(data)) {
				switch object.GetKind() {
				case "ConfigMap":
					Expect(unstructured.SetNestedField(object.Object, "http://"+g.address, "data", "baseUrl")).To(Succeed())
				case "ApplicationSet":
					// Only a refresh makes a change arrive.
					generator := object.Object["spec"].(map[string]any)["generators"].([]any)[0].(map[string]any)["plugin"].(map[string]any)
					delete(generator, "requeueAfterSeconds")
				case "Secret":
					delete(object.Object, "type") // no controller fills it here
				}
				objects = append(objects, object)
			}
		}
		for _, object := range objects {
			if object.GetKind() != "ManagedCluster" && !strings.HasPrefix(object.GetName(), "cluster-") {
				apply(ctx, object)
			}
		}
		g.authorize(ctx)
		g.start()
		argo.run(background)
		DeferCleanup(func(ctx SpecContext) {
			for _, object := range slices.Backward(objects) {
				Expect(client.IgnoreNotFound(hub.Delete(ctx, object))).To(Succeed())
			}
			Expect(hub.DeleteAllOf(ctx, &argov1alpha1.Application{}, client.InNamespace(namespace))).To(Succeed())
			Eventually(fast.clusters).Should(BeEmpty())
			Eventually(byRegion.clusters).Should(BeEmpty())
			g.stop()
			end()
			Eventually(argo.stopped).Should(Receive(BeNil()))
		})
		Eventually(fast.clusters).Should(HaveExactElements("f01", "f02", "f03", "f04"))
	})

	It("Argo CD creates Applications with what berth generator passes", func(ctx SpecContext) {
		refreshSet(ctx, "book-import-regions")
		Eventually(byRegion.clusters).Should(HaveExactElements("f01", "f02", "f03", "f04"))
		for name, values := range map[string]string{"f01": "values-eu.yaml", "f03": "values-us.yaml"} {
			app := &argov1alpha1.Application{}
			Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: regions + name}, app)).To(Succeed())
			Expect(app.Spec.Source.Helm.ValueFiles).To(Equal([]string{values}))
			Expect(app.Labels).To(HaveKeyWithValue("group-index", "0"))
		}
	})

	It("a change arrives in both within seconds, without a poll", func(ctx SpecContext) {
		var pages, generated []time.Duration
		for try := range tries {
			value, want := "no", []string{"f01", "f02", "f03"}
			if try%2 == 1 {
				value, want = "yes", []string{"f01", "f02", "f03", "f04"}
			}
			began := time.Now()
			use(ctx, "f04", value)
			var both sync.WaitGroup
			for _, one := range []struct {
				apps  *applications
				times *[]time.Duration
			}{{fast, &pages}, {byRegion, &generated}} {
				both.Go(func() {
					defer GinkgoRecover()
					Eventually(one.apps.clusters).Should(HaveExactElements(want))
					*one.times = append(*one.times, time.Since(began))
				})
			}
			both.Wait()
		}
		fmt.Println()
		for name, times := range map[string][]time.Duration{"clusterDecisionResource": pages, "berth generator": generated} {
			Expect(times).To(HaveLen(tries))
			slices.Sort(times)
			fmt.Printf("observed: from a patched cluster to the changed Application, with refresh, %s: p50 %v, p95 %v, longest %v of %d\n",
				name, times[tries/2].Round(time.Millisecond), times[tries*95/100].Round(time.Millisecond), times[tries-1].Round(time.Millisecond), tries)
			Expect(times[tries*95/100]).To(BeNumerically("<", time.Minute))
		}
	})

	// kept demands that Argo CD reports the error, and keeps all Applications.
	kept := func(ctx context.Context, problem string) {
		GinkgoHelper()
		byRegion.taken()
		Eventually(func() string { refreshSet(ctx, "book-import-regions"); return errorOf(ctx, "book-import-regions") }).Should(ContainSubstring(problem))
		Expect(byRegion.clusters()).To(HaveExactElements("f01", "f02", "f03", "f04"))
		Expect(byRegion.taken()).To(BeEmpty())
	}
	// recovers demands that a change arrives again, and that only this Application is deleted.
	recovers := func(ctx context.Context) {
		GinkgoHelper()
		Eventually(func() string { refreshSet(ctx, "book-import-regions"); return errorOf(ctx, "book-import-regions") }).Should(BeEmpty())
		use(ctx, "f04", "no")
		Eventually(byRegion.clusters).Should(HaveExactElements("f01", "f02", "f03"))
		use(ctx, "f04", "yes")
		Eventually(byRegion.clusters).Should(HaveExactElements("f01", "f02", "f03", "f04"))
		Expect(byRegion.taken()).To(HaveExactElements("f04"))
	}

	It("no Application is lost while berth generator restarts", func(ctx SpecContext) {
		g.stop()
		kept(ctx, "connection refused")
		g.start()
		recovers(ctx)
	})

	It("no Application is lost while berth generator cannot reach the hub", func(ctx SpecContext) {
		g.cut(true)
		kept(ctx, "API error with status code 503")
		g.cut(false)
		recovers(ctx)
	})

	It("no Application is lost while the token is wrong, or its user may not read the namespace", func(ctx SpecContext) {
		secret := &corev1.Secret{}
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "decision-reader"}, secret)).To(Succeed())
		patch(ctx, secret, `{"stringData":{"token":"forged"}}`)
		kept(ctx, "API error with status code 401")
		g.authorizeAs(ctx, "default")
		kept(ctx, "API error with status code 403")
		g.authorize(ctx)
		recovers(ctx)
	})

	It("no Application is lost while the Placement does not exist", func(ctx SpecContext) {
		Expect(hub.Delete(ctx, placementObject())).To(Succeed())
		kept(ctx, "API error with status code 404: the Placement argocd/local-cluster does not exist")
		apply(ctx, parse(strings.Split(fastObjects, "---")[2])[0])
		recovers(ctx)
	})
})

// refreshSet makes Argo CD reconcile an ApplicationSet, as a user would.
func refreshSet(ctx context.Context, name string) {
	GinkgoHelper()
	set := &argov1alpha1.ApplicationSet{}
	set.Namespace, set.Name = namespace, name
	patch(ctx, set, `{"metadata":{"annotations":{"argocd.argoproj.io/application-set-refresh":%q}}}`, time.Now().Format(time.RFC3339Nano))
}

// errorOf returns the message of the condition ErrorOccurred of an ApplicationSet; empty without
// one.
func errorOf(ctx context.Context, name string) string {
	GinkgoHelper()
	set := &argov1alpha1.ApplicationSet{}
	Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, set)).To(Succeed())
	for _, c := range set.Status.Conditions {
		if c.Type == errorOccurred && c.Status == argov1alpha1.ApplicationSetConditionStatusTrue {
			return c.Message
		}
	}
	return ""
}

// generatorProcess is `berth generator`, which reaches the hub through a connection that can be
// cut.
type generatorProcess struct {
	address, kubeconfig string
	session             *gexec.Session

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func newGenerator() *generatorProcess {
	GinkgoHelper()
	g := &generatorProcess{kubeconfig: filepath.Join(GinkgoT().TempDir(), "kubeconfig")}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	g.address = free.Addr().String()
	Expect(free.Close()).To(Succeed())
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Close)
	go func() {
		for {
			from, err := proxy.Accept()
			if err != nil {
				return
			}
			go g.pass(from)
		}
	}()
	file, err := clientcmd.LoadFromFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	for _, c := range file.Clusters {
		c.Server = "https://" + proxy.Addr().String()
	}
	Expect(clientcmd.WriteToFile(*file, g.kubeconfig)).To(Succeed())
	return g
}

func (g *generatorProcess) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", strings.TrimPrefix(config.Host, "https://"))
	if err != nil {
		return
	}
	defer to.Close()
	g.mu.Lock()
	g.conns = append(g.conns, from, to)
	down := g.down
	g.mu.Unlock()
	if down {
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// cut cuts all connections to the hub, or lets new ones pass.
func (g *generatorProcess) cut(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
}

func (g *generatorProcess) start() {
	GinkgoHelper()
	var err error
	g.session, err = gexec.Start(exec.Command(binary(), "generator", "--kubeconfig", g.kubeconfig, "--address", g.address, "--argocd-namespace", namespace), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	Eventually(g.session).Should(gbytes.Say("Listening on"))
}

func (g *generatorProcess) stop() {
	GinkgoHelper()
	Eventually(g.session.Terminate(), stopTimeout).Should(gexec.Exit(0))
}

// authorize gives Argo CD the token of the sample's service account.
func (g *generatorProcess) authorize(ctx context.Context) { g.authorizeAs(ctx, "decision-reader") }

func (g *generatorProcess) authorizeAs(ctx context.Context, account string) {
	GinkgoHelper()
	apply(ctx, named("v1", "ServiceAccount", namespace, account))
	request := named("authentication.k8s.io/v1", "TokenRequest", namespace, account)
	Expect(hub.SubResource("token").Create(ctx, named("v1", "ServiceAccount", namespace, account), request)).To(Succeed())
	token, _, _ := unstructured.NestedString(request.Object, "status", "token")
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = namespace, "decision-reader"
	patch(ctx, secret, `{"stringData":{"token":%q}}`, token)
}
