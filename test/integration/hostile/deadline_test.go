package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// stuckLabel has Stuck wait for a Placement.
const stuckLabel = "stuck"

// stuck is a Filter plugin that waits until its context ends, for Placements with a label.
type stuck struct{}

func (stuck) Name() string { return "Stuck" }

func (stuck) Reads(*v1alpha1.Placement) framework.Reads { return framework.Reads{} }

func (stuck) Filter(ctx context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, _ *framework.Cluster) *framework.Status {
	if pl.Labels[stuckLabel] == "" {
		return nil
	}
	<-ctx.Done()
	return framework.AsStatus(ctx.Err())
}

// placement is a manifest of a Placement of two clusters, with labels and a spec in YAML's flow
// style.
func placement(namespace, name, labels, more string) string {
	return fmt.Sprintf(`
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: %s, namespace: %s, labels: {%s}}
spec: {%s}
`, name, namespace, labels, more)
}

func clustersOf(ctx context.Context, g Gomega, namespace, name string) []string {
	list := &v1alpha1.PlacementDecisionList{}
	g.Expect(hub.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: name})).To(Succeed())
	names := []string{}
	for _, page := range list.Items {
		for _, d := range page.Status.Decisions {
			names = append(names, strings.TrimPrefix(d.ClusterName, namespace+"-"))
		}
	}
	return names
}

func satisfied(ctx context.Context, g Gomega, namespace, name string) string {
	pl := &v1alpha1.Placement{}
	g.Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pl)).To(Succeed())
	c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s", c.Status, c.Message)
}

var _ = Describe("An attempt that takes too long", func() {
	It("fails only its own Placement, is reported there, and delays no other Placement", func(ctx SpecContext) {
		berth.Stop()
		berth = hub.StartController(controllers.Options{
			Housekeeping: []string{"*"},
			Config: &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{
				Name:    config.DefaultProfile,
				Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: "Stuck"}}}},
			}}},
			Plugins: framework.Registry{
				"Stuck": func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) {
					return stuck{}, nil
				},
			},
		})
		DeferCleanup(func() {
			berth.Stop()
			berth = hub.StartController(controllers.Options{Housekeeping: []string{"*"}})
		})
		namespace := newNamespace(ctx, "stuck", 3)
		hub.ApplyYAML(ctx, placement(namespace, "before", "", "numberOfClusters: 2"))
		Eventually(func(g Gomega) {
			g.Expect(clustersOf(ctx, g, namespace, "before")).To(HaveLen(2))
			g.Expect(satisfied(ctx, g, namespace, "before")).To(HavePrefix("True"))
		}).Should(Succeed())
		var manifests strings.Builder
		manifests.WriteString(placement(namespace, "before", stuckLabel+": here", "numberOfClusters: 1"))
		for i := range 50 {
			manifests.WriteString(placement(namespace, fmt.Sprint("stuck-", i), stuckLabel+": here", ""))
		}
		hub.ApplyYAML(ctx, manifests.String())

		expectAsAlone(ctx)

		Eventually(func(g Gomega) {
			g.Expect(satisfied(ctx, g, namespace, "before")).To(And(
				HavePrefix("False Stuck: the cycle was stopped in Filter after "), HaveSuffix("; cycleTimeout is 100ms")))
			g.Expect(clustersOf(ctx, g, namespace, "before")).To(HaveLen(2))
		}).Should(Succeed())
		hub.ApplyYAML(ctx, placement(namespace, "before", "", "numberOfClusters: 3"))
		Eventually(func(g Gomega) {
			g.Expect(clustersOf(ctx, g, namespace, "before")).To(HaveLen(3))
			g.Expect(satisfied(ctx, g, namespace, "before")).To(HavePrefix("True"))
		}).Should(Succeed())
	})

	It("keeps conditions True while CEL is evaluated in parts after a restart", func(ctx SpecContext) {
		namespace := newNamespace(ctx, "parts", 40)
		// About 5,000 rounds for each of 40 clusters, in parts of 500,000 units of cost.
		digits := "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
		expression := strings.Repeat(digits+".all(a, ", 3) + `["a", "b", "c", "d", "e"].all(b, managedCluster.metadata.name != b)` + strings.Repeat(")", 3)
		cel := fmt.Sprintf(`predicates: [{requiredClusterSelector: {celSelector: {celExpressions: [%q]}}}]`, expression)
		hub.ApplyYAML(ctx, placement(namespace, "cel", "", cel))
		Eventually(func(g Gomega) {
			g.Expect(clustersOf(ctx, g, namespace, "cel")).To(HaveLen(40))
			g.Expect(satisfied(ctx, g, namespace, "cel")).To(HavePrefix("True"))
		}).Should(Succeed())

		berth.Stop()
		placements, err := hub.Watch(ctx, &v1alpha1.PlacementList{}, client.InNamespace(namespace))
		Expect(err).NotTo(HaveOccurred())
		defer placements.Stop()
		hub.ApplyYAML(ctx, fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: %s-new, labels: {cluster.open-cluster-management.io/clusterset: %[1]s}}
spec: {hubAcceptsClient: true}
`, namespace))
		berth = hub.StartController(controllers.Options{Housekeeping: []string{"*"}})
		var seen []string
		Eventually(func(g Gomega) {
			var event watch.Event
			g.Expect(placements.ResultChan()).To(Receive(&event))
			pl, ok := event.Object.(*v1alpha1.Placement)
			g.Expect(ok).To(BeTrue())
			if c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied); c != nil {
				seen = append(seen, fmt.Sprintf("%s %s", c.Status, c.Message))
			}
			g.Expect(pl.Status.NumberOfSelectedClusters).To(BeEquivalentTo(41))
		}).Should(Succeed())
		Expect(seen).To(HaveEach("True All cluster decisions scheduled"))
	})
})
