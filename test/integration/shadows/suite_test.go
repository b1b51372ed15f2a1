// Package shadows tests shadow profiles on a real kube-apiserver: what they would select is shown
// and counted, and what is published never depends on them.
package shadows

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = 40 * time.Second

var hub *testhub.Hub

func TestShadows(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Shadows")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
})

// A controller decides the Placements of all namespaces.
var _ = AfterEach(func(ctx SpecContext) {
	var all v1alpha1.PlacementList
	Expect(hub.List(ctx, &all)).To(Succeed())
	for i := range all.Items {
		Expect(client.IgnoreNotFound(hub.Delete(ctx, &all.Items[i]))).To(Succeed())
	}
})

// roomy is a configuration with a shadow of the default profile.
const roomy = `
- name: roomy
  shadowOf: default
  plugins: {score: {enabled: [{name: ResourceAllocatableMemory, weight: 3}], disabled: [{name: Steady}, {name: Balance}]}}
`

// run runs a controller with profiles until stop is called or the spec ends.
func run(profiles string, plugins ...framework.Plugin) (stop func()) {
	GinkgoHelper()
	registry := framework.Registry{}
	for _, plugin := range plugins {
		registry[plugin.Name()] = func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
			return plugin, nil
		}
	}
	c, err := config.Load([]byte("apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\nprofiles:" + profiles))
	Expect(err).NotTo(HaveOccurred())
	berth := hub.StartController(controllers.Options{Config: c, Plugins: registry, ShadowWorkers: 1})
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			berth.Stop()
		}
	}
	DeferCleanup(stop)
	return stop
}

// newTeam creates a namespace with clusters <name>-1 to -4 of its own, of which the last have most
// memory.
func newTeam(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	Expect(hub.Create(ctx, fixture.Set(name))).To(Succeed())
	Expect(hub.Create(ctx, fixture.Binding(name, name))).To(Succeed())
	for i := 1; i <= 4; i++ {
		setMemory(ctx, fmt.Sprintf("%s-%d", name, i), name, i)
	}
}

// setMemory sets the memory of a cluster, in GiB. It creates the cluster if there is none.
func setMemory(ctx context.Context, cluster, set string, memory int) {
	GinkgoHelper()
	c := fixture.Cluster(cluster).Set(set).Allocatable("memory", fmt.Sprintf("%dGi", memory)).Obj()
	status := c.Status
	if err := hub.Create(ctx, c); client.IgnoreAlreadyExists(err) != nil {
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
	c.Status = status
	Expect(hub.Status().Update(ctx, c)).To(Succeed())
}

// published returns the clusters on the pages of a Placement, sorted.
func published(ctx context.Context, namespace, placement string) string {
	GinkgoHelper()
	var pages v1alpha1.PlacementDecisionList
	Expect(hub.List(ctx, &pages, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: placement})).To(Succeed())
	var names []string
	for _, page := range pages.Items {
		for _, d := range page.Status.Decisions {
			names = append(names, d.ClusterName)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// versions are the pages of a namespace with their versions.
func versions(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	var pages v1alpha1.PlacementDecisionList
	Expect(hub.List(ctx, &pages, client.InNamespace(namespace))).To(Succeed())
	all := map[string]string{}
	for _, page := range pages.Items {
		all[page.Name] = page.ResourceVersion
	}
	return all
}

// command runs `kubectl placement` and returns the exit code and what it printed.
func command(words ...string) (code int, out, stderr string) {
	var stdout, errors bytes.Buffer
	root := app.NewKubectlCommand()
	root.SetOut(&stdout)
	root.SetErr(&errors)
	code = app.Run(root, append(words, "--kubeconfig", hub.Kubeconfig))
	return code, stdout.String(), errors.String()
}

// comparisons returns the comparisons that `kubectl placement shadow` prints, by Placement and
// shadow.
func comparisons(g Gomega, words ...string) map[string]berthv1alpha1.ShadowComparison {
	code, out, stderr := command(append([]string{"shadow", "-o", "json"}, words...)...)
	g.Expect(code).To(Equal(0), stderr)
	var printed struct {
		Shadows []berthv1alpha1.ShadowComparison
	}
	g.Expect(json.Unmarshal([]byte(out), &printed)).To(Succeed())
	all := map[string]berthv1alpha1.ShadowComparison{}
	for _, c := range printed.Shadows {
		all[c.Placement+" "+c.Shadow] = c
	}
	return all
}
