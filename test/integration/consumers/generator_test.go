package consumers

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/pkg/generator"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// serveGenerator runs the server with the permissions of config/generator until the spec ends.
func serveGenerator(cfg *rest.Config) string {
	GinkgoHelper()
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate.UserName = "system:serviceaccount:berth-system:berth-generator"
	server, err := generator.New(generator.Options{Config: cfg, ArgoCDNamespace: "argocd", Log: GinkgoLogr})
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	listening := httptest.NewServer(server)
	DeferCleanup(func() {
		listening.Close()
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		server.Run(running)
	}()
	return listening.URL
}

// user returns the token of a service account that may get decisions in a namespace.
func user(ctx context.Context, name, namespace string) string {
	GinkgoHelper()
	hub.ApplyYAML(ctx, `
{apiVersion: v1, kind: Namespace, metadata: {name: people}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: decision-reader},
 rules: [{apiGroups: [cluster.open-cluster-management.io], resources: [placementdecisions], verbs: [get]}]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: `+name+`, namespace: people}}
`)
	testhub.Grant(ctx, hub, namespace, testhub.AccountName("people", name), "decision-reader")
	return testhub.Token(ctx, hub, "people", name)
}

// request sends a request with a token, and returns the code and the body.
func request(ctx context.Context, method, url, token, body string) (int, string) {
	GinkgoHelper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is generated at start.
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := insecure.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// parameters asks as Argo CD does. The names are "code: body" after an error.
func parameters(ctx context.Context, url, token, placement string) []string {
	code, text := request(ctx, http.MethodPost, url+generator.ArgoCDPath, token, `{"applicationSetName":"x","input":{"parameters":{"placement":"`+placement+`"}}}`)
	var answer struct {
		Output struct{ Parameters []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK {
		return []string{fmt.Sprintf("%d: %s", code, text)}
	}
	names := []string{}
	for _, p := range answer.Output.Parameters {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

var _ = Describe("berth generator", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		hub.ApplyYAML(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: berth-system}}")
		hub.Kubectl(ctx, "apply", "-k", filepath.Join("..", "..", "..", "config", "generator-argocd"))
	})

	It("answers each user for the namespaces that they may read", func(ctx SpecContext) {
		team(ctx, "shop", 3)
		team(ctx, "bank", 1)
		Expect(hub.Create(ctx, fixture.Placement("shop", "web").Number(2).Obj())).To(Succeed())
		Expect(hub.Create(ctx, fixture.Placement("bank", "safe").Number(1).Obj())).To(Succeed())
		hub.ApplyYAML(ctx, `{apiVersion: v1, kind: Secret, metadata: {name: one, namespace: argocd, labels: {argocd.argoproj.io/secret-type: cluster}},
  stringData: {name: shop-1, server: "https://shop-1.example", config: hidden}}`)
		own := hub.As("system:serviceaccount:berth-system:berth-generator")
		Expect(own.List(ctx, &corev1.SecretList{}, client.InNamespace("shop"))).To(MatchError(ContainSubstring("is forbidden")))
		Expect(own.Create(ctx, fixture.Placement("shop", "other").Obj())).To(MatchError(ContainSubstring("is forbidden")))
		Expect(own.Delete(ctx, fixture.Placement("shop", "web").Obj())).To(MatchError(ContainSubstring("is forbidden")))
		url, token := serveGenerator(hub.Config), user(ctx, "ann", "shop")
		Eventually(parameters).WithContext(ctx).WithArguments(url, token, "shop/web").Should(Equal([]string{"shop-1", "shop-2"}))
		Eventually(func() string {
			_, text := request(ctx, http.MethodGet, url+generator.FluxPath+"?placement=shop/web", token, "")
			return text
		}).WithContext(ctx).Should(MatchJSON(`{"inputs":[
			{"id":"shop-1","name":"shop-1","server":"https://shop-1.example","labels":{"cluster.open-cluster-management.io/clusterset":"shop","region":"eu"},"claims":{},"group":"","groupIndex":"0","revision":"1"},
			{"id":"shop-2","name":"shop-2","labels":{"cluster.open-cluster-management.io/clusterset":"shop","region":"us"},"claims":{},"group":"","groupIndex":"0","revision":"1"}]}`))
		Expect(parameters(ctx, url, token, "shop/nosuch")).To(ConsistOf(HavePrefix("404: ")))

		By("another namespace")
		for _, name := range []string{"bank/safe", "bank/nosuch", "nosuch/nosuch"} {
			namespace, _, _ := strings.Cut(name, "/")
			Expect(parameters(ctx, url, token, name)).To(ConsistOf(
				`403: {"error":"user system:serviceaccount:people:ann may not get placementdecisions in namespace ` + namespace + `"}`))
		}

		By("tokens that are not valid")
		parts := strings.Split(token, ".")
		forged := parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
		ended := user(ctx, "ben", "shop")
		Expect(hub.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "people", Name: "ben"}})).To(Succeed())
		for _, bad := range []string{"", "forged", forged, ended} {
			Expect(parameters(ctx, url, bad, "shop/web")).To(ConsistOf(HavePrefix("401: ")))
		}

		By("a Placement that selects nothing, and one that is deleted")
		patch(ctx, "shop", `{"spec":{"numberOfClusters":0}}`)
		Eventually(parameters).WithContext(ctx).WithArguments(url, token, "shop/web").Should(Equal([]string{}))
		Expect(hub.Delete(ctx, fixture.Placement("shop", "web").Obj())).To(Succeed())
		Eventually(parameters).WithContext(ctx).WithArguments(url, token, "shop/web").Should(ConsistOf(HavePrefix("404: ")))
	})

	It("has the tiers that the controller used, and answers although one cluster reports very much", func(ctx SpecContext) {
		team(ctx, "tier", 3)
		policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "tier", Name: "web"}}
		policy.Spec.Placement, policy.Spec.TierMode = "web", berthv1alpha1.TierOverflow
		policy.Spec.Tiers = []berthv1alpha1.SelectionTier{
			{Name: "near", ClusterSelector: v1alpha1.ClusterSelector{CelSelector: v1alpha1.ClusterCelSelector{
				CelExpressions: []string{`managedCluster.metadata.labels["region"] == "eu"`}}}},
			{Name: "far"},
		}
		Expect(hub.Create(ctx, policy)).To(Succeed())
		Expect(hub.Create(ctx, fixture.Placement("tier", "web").Obj())).To(Succeed())
		cluster := &v1alpha1.ManagedCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: "tier-2"}, cluster)).To(Succeed())
		for i := range 20 {
			cluster.Status.ClusterClaims = append(cluster.Status.ClusterClaims, v1alpha1.ManagedClusterClaim{Name: fmt.Sprint("c", i), Value: strings.Repeat("<", 1024)})
		}
		Expect(hub.Status().Update(ctx, cluster)).To(Succeed())
		url, token := serveGenerator(hub.Config), user(ctx, "eve", "tier")
		Eventually(func(g Gomega) []string {
			code, text := request(ctx, http.MethodGet, url+generator.FluxPath+"?placement=tier/web", token, "")
			var answer struct {
				Inputs []struct{ Name, Tier, Cut string }
			}
			g.Expect(code).To(Equal(http.StatusOK), text)
			g.Expect(json.Unmarshal([]byte(text), &answer)).To(Succeed())
			var all []string
			for _, input := range answer.Inputs {
				all = append(all, strings.Join([]string{input.Name, input.Tier, input.Cut}, " "))
			}
			return all
		}).WithContext(ctx).Should(Equal([]string{"tier-1 near ", "tier-2 far claims", "tier-3 near "}))
	})

	It("never misses a cluster that stays, also while the hub is lost and after it is back", func(ctx SpecContext) {
		team(ctx, "farm", 6)
		Expect(hub.Create(ctx, fixture.Placement("farm", "web").Obj())).To(Succeed())
		proxy := testhub.StartProxy(hub.Config.Host)
		url, token := serveGenerator(proxy.Config(hub.Config)), user(ctx, "cat", "farm")
		all := []string{"farm-1", "farm-2", "farm-3", "farm-4", "farm-5", "farm-6"}
		Eventually(parameters).WithContext(ctx).WithArguments(url, token, "farm/web").Should(Equal(all))

		// A reader that asks all the time sees all clusters, or an error.
		reading, stop := context.WithCancel(ctx)
		var readers sync.WaitGroup
		refused := 0
		readers.Go(func() {
			defer GinkgoRecover()
			for reading.Err() == nil {
				names := parameters(reading, url, token, "farm/web")
				if len(names) == 1 {
					Expect(names[0]).To(Or(HavePrefix("503: "), HavePrefix("0: ")))
					refused++
					continue
				}
				Expect(names).To(Equal(all))
			}
		})
		regroup := func(region string) {
			patch(ctx, "farm", `{"spec":{"decisionStrategy":{"groupStrategy":{"decisionGroups":[{"groupName":"first","groupClusterSelector":{"labelSelector":{"matchLabels":{"region":"`+region+`"}}}}]}}}}`)
			Eventually(func(g Gomega) []string {
				var first []string
				code, text := request(ctx, http.MethodGet, url+generator.FluxPath+"?placement=farm/web", token, "")
				var answer struct {
					Inputs []struct{ Name, Group string }
				}
				g.Expect(code).To(Equal(http.StatusOK))
				g.Expect(json.Unmarshal([]byte(text), &answer)).To(Succeed())
				for _, input := range answer.Inputs {
					if input.Group == "first" {
						first = append(first, input.Name)
					}
				}
				return first
			}).WithContext(ctx).Should(HaveLen(3))
		}
		for range 5 {
			regroup("eu")
			regroup("us")
		}
		proxy.Set(false)
		Eventually(parameters).WithContext(ctx).WithArguments(url, token, "farm/web").Should(ConsistOf(HavePrefix("503: ")))
		code, _ := request(ctx, http.MethodGet, url+"/readyz", "", "")
		Expect(code).To(Equal(http.StatusServiceUnavailable))
		patch(ctx, "farm", `{"spec":{"decisionStrategy":null}}`)
		proxy.Set(true)
		Eventually(parameters).WithContext(ctx).WithArguments(url, token, "farm/web").Should(Equal(all))
		stop()
		readers.Wait()
		Expect(refused).To(BeNumerically(">", 0))
	})

	It("runs as a command over TLS, closes slow connections, and guards its metrics", func(ctx SpecContext) {
		team(ctx, "road", 1)
		Expect(hub.Create(ctx, fixture.Placement("road", "web").Obj())).To(Succeed())
		token := user(ctx, "dan", "road")
		out, said := io.Pipe()
		log := &lockedText{}
		command := app.NewCommand()
		command.SetArgs([]string{"generator", "--kubeconfig", hub.Kubeconfig, "--address", "127.0.0.1:0", "--secure"})
		command.SetOut(said)
		command.SetErr(log)
		running, cancel := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		DeferCleanup(cancel)
		go func() { stopped <- command.ExecuteContext(running) }()
		line, err := bufio.NewReader(out).ReadString('\n')
		Expect(err).NotTo(HaveOccurred())
		go func() { _, _ = io.Copy(io.Discard, out) }()
		url := strings.Fields(line)[2]
		Expect(url).To(HavePrefix("https://127.0.0.1:"))
		Eventually(parameters).WithContext(ctx).WithArguments(url, token, "road/web").Should(Equal([]string{"road-1"}))

		By("a request that does not end")
		slow, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(slow.Close)
		fmt.Fprintf(slow, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", generator.ArgoCDPath, token)
		Expect(slow.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed())
		answer, err := io.ReadAll(slow)
		Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeFalse(), "the connection is still open")
		Expect(string(answer)).NotTo(HavePrefix("HTTP/1.1 200"))
		code, text := request(ctx, http.MethodPost, url+generator.ArgoCDPath, token, strings.Repeat(" ", 1<<20))
		Expect(code).To(Or(Equal(http.StatusRequestEntityTooLarge), BeZero()), text)

		By("metrics")
		code, _ = request(ctx, http.MethodGet, url+"/metrics", token, "")
		Expect(code).To(Equal(http.StatusForbidden))
		testhub.Grant(ctx, hub, "", testhub.AccountName("people", "eve"), "berth-metrics-reader")
		reader := user(ctx, "eve", "road")
		Eventually(func() string { _, text := request(ctx, http.MethodGet, url+"/metrics", reader, ""); return text }).WithContext(ctx).Should(And(
			ContainSubstring("berth_generator_view_complete 1"), ContainSubstring(`berth_generator_request_duration_seconds_count{code="200",format="argocd"}`),
			Not(ContainSubstring(token)), Not(ContainSubstring("road"))))

		cancel()
		Eventually(stopped).WithContext(ctx).Should(Receive(BeNil()))
		Expect(log.String()).NotTo(Or(ContainSubstring(token), ContainSubstring("road/web")))
	})
})

// lockedText collects what several goroutines write.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
