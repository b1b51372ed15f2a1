package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	argov1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// movementObjects are a Placement of five clusters, the ApplicationSet that follows it, and the
// policy that makes a cluster leave only after its replacement is healthy.
const movementObjects = `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: movement}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: movement, namespace: argocd}
spec: {clusterSet: movement}
---
apiVersion: berth.dev/v1alpha1
kind: DisruptionPolicy
metadata: {name: web, namespace: argocd}
spec:
  placements: [web]
  readiness: {source: argocd, selector: {matchLabels: {app: web}}}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: argocd}
spec:
  numberOfClusters: 5
  clusterSets: [movement]
  predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {wave: old}}}}]
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: web, namespace: argocd}
spec:
  generators:
  - clusterDecisionResource:
      configMapRef: ocm-placement
      labelSelector: {matchLabels: {cluster.open-cluster-management.io/placement: web}}
      requeueAfterSeconds: 1
  template:
    metadata: {name: "web-{{name}}", labels: {app: web}}
    spec:
      project: default
      source: {repoURL: "https://github.com/argoproj/argocd-example-apps.git", targetRevision: HEAD, path: guestbook}
      destination: {name: "{{name}}", namespace: web}
`

// The specs replace all five clusters of a Placement while Argo CD's ApplicationSet controller
// follows its decisions: with a DisruptionPolicy that reads the health of the Applications, and
// without one.
var _ = Describe("Five clusters are replaced while Argo CD deploys to them", Ordered, func() {
	var health *healthWatch

	BeforeAll(func(ctx SpecContext) {
		background, end := context.WithCancel(context.Background())
		argo := newArgoCD(background)
		objects := append(parse(movementObjects), read("20-role.yaml")...)
		objects = append(objects, read("30-configmap.yaml")...)
		for n := range 10 {
			name, wave := fmt.Sprintf("m%02d", n+1), "old"
			if n >= 5 {
				wave = "new"
			}
			object := cluster(name)
			object.SetLabels(map[string]string{group + "/clusterset": "movement", "wave": wave})
			apply(ctx, object)
			addSecret(ctx, name)
			objects = append(objects, object, named("v1", "Secret", namespace, "cluster-"+name))
		}
		health = watchHealth(background)
		for _, object := range objects {
			if object.GetKind() != "Secret" && object.GetKind() != "ManagedCluster" {
				apply(ctx, object)
			}
		}
		argo.run(background)
		DeferCleanup(func(ctx SpecContext) {
			for _, object := range slices.Backward(objects) {
				Expect(client.IgnoreNotFound(hub.Delete(ctx, object))).To(Succeed())
			}
			Expect(hub.DeleteAllOf(ctx, &argov1alpha1.Application{}, client.InNamespace(namespace))).To(Succeed())
			Eventually(health.apps).Should(BeEmpty())
			end()
			Eventually(argo.stopped).Should(Receive(BeNil()))
		})
		Eventually(health.healthy).Should(HaveExactElements("m01", "m02", "m03", "m04", "m05"))
	})

	move := func(ctx context.Context, wave string) {
		GinkgoHelper()
		health.start()
		patch(ctx, named(group+"/v1beta1", "Placement", namespace, "web"),
			`{"spec":{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"wave":%q}}}}]}}`, wave)
	}

	It("with a DisruptionPolicy, at least five have a healthy Application at every moment", func(ctx SpecContext) {
		move(ctx, "new")
		Eventually(health.apps).Should(HaveExactElements("m06", "m07", "m08", "m09", "m10"))
		Expect(health.fewest()).To(BeNumerically(">=", 5), health.plot())
		fmt.Printf("\nobserved: with a DisruptionPolicy\n%s", health.plot())
	})

	It("without one, fewer have", func(ctx SpecContext) {
		Expect(hub.Delete(ctx, named("berth.dev/v1alpha1", "DisruptionPolicy", namespace, "web"))).To(Succeed())
		move(ctx, "old")
		Eventually(health.healthy).Should(HaveExactElements("m01", "m02", "m03", "m04", "m05"))
		Eventually(health.apps).Should(HaveLen(5))
		Expect(health.fewest()).To(BeNumerically("<", 5), health.plot())
		fmt.Printf("\nobserved: without a DisruptionPolicy\n%s", health.plot())
	})
})

// healthWatch sees every event of Applications and counts those that are healthy. It does what
// Argo CD's application controller would: it makes a new Application healthy after a while, and
// lets a deleted one go.
type healthWatch struct {
	mu      sync.Mutex
	state   map[string]bool // true: healthy
	began   time.Time
	samples []healthSample
}

// healthSample is what was seen at one time.
type healthSample struct {
	at            time.Duration
	apps, healthy int
}

// deployTime is how long an Application takes until it is healthy. m08 is slow.
func deployTime(name string) time.Duration {
	if name == "m08" {
		return 3 * time.Second
	}
	return 500 * time.Millisecond
}

func watchHealth(ctx context.Context) *healthWatch {
	GinkgoHelper()
	h := &healthWatch{state: map[string]bool{}}
	watcher, err := hub.Watch(ctx, &argov1alpha1.ApplicationList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	go func() {
		defer GinkgoRecover()
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if app, ok := event.Object.(*argov1alpha1.Application); ok && ctx.Err() == nil {
				h.see(ctx, event.Type, app)
			}
		}
	}()
	return h
}

func (h *healthWatch) see(ctx context.Context, event watch.EventType, app *argov1alpha1.Application) {
	name, healthy := app.Spec.Destination.Name, app.Status.Health.Status == "Healthy"
	switch {
	case event == watch.Deleted:
	case app.DeletionTimestamp != nil && len(app.Finalizers) > 0:
		letGo(ctx, app)
	case event == watch.Added && !healthy:
		key := client.ObjectKeyFromObject(app)
		time.AfterFunc(deployTime(name), func() {
			status := `{"status":{"health":{"status":"Healthy"},"sync":{"status":"Synced","comparedTo":{"source":{"repoURL":"x"},"destination":{}}}}}`
			deployed := &argov1alpha1.Application{}
			deployed.Namespace, deployed.Name = key.Namespace, key.Name
			// It may be gone again.
			_ = hub.Patch(ctx, deployed, client.RawPatch(types.MergePatchType, []byte(status)))
		})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if event == watch.Deleted || app.DeletionTimestamp != nil {
		delete(h.state, name)
	} else {
		h.state[name] = healthy
	}
	h.sample()
}

// sample adds what is so now.
func (h *healthWatch) sample() {
	healthy := 0
	for _, is := range h.state {
		if is {
			healthy++
		}
	}
	h.samples = append(h.samples, healthSample{time.Since(h.began), len(h.state), healthy})
}

// start forgets what was seen before.
func (h *healthWatch) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began, h.samples = time.Now(), nil
	h.sample()
}

func (h *healthWatch) names(which func(healthy bool) bool) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := []string{}
	for name, healthy := range h.state {
		if which(healthy) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// apps is a check for Eventually: the clusters that have an Application; healthy those whose
// Application is healthy.
func (h *healthWatch) apps() []string    { return h.names(func(bool) bool { return true }) }
func (h *healthWatch) healthy() []string { return h.names(func(healthy bool) bool { return healthy }) }

func (h *healthWatch) fewest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.MinFunc(h.samples, func(a, b healthSample) int { return a.healthy - b.healthy }).healthy
}

// plot draws the samples: one line for each change, # for a healthy Application and . for another.
func (h *healthWatch) plot() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	last := healthSample{apps: -1}
	for _, s := range h.samples {
		if s.apps != last.apps || s.healthy != last.healthy {
			fmt.Fprintf(&b, "%5.1f s  %-10s %d healthy of %d\n", s.at.Seconds(), strings.Repeat("#", s.healthy)+strings.Repeat(".", s.apps-s.healthy), s.healthy, s.apps)
		}
		last = s
	}
	return b.String()
}
