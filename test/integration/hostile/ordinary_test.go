package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// history is what a consumer and a user see of the ordinary Placement, without the namespace's
// name.
type history struct {
	// Published are the sets of clusters that a reader of the page saw, in order.
	Published []string
	// Conditions are those of the Placement at the end: type, status, reason, message.
	Conditions []string
	// Events are type, reason and note, in order.
	Events []string
}

var namespaces atomic.Int32

// newNamespace makes a namespace with a cluster set of the same name bound to it, and n clusters
// named <namespace>-0 and so on with memory of 10Gi, 20Gi and so on. All of it is deleted after the
// spec.
func newNamespace(ctx context.Context, prefix string, n int) string {
	GinkgoHelper()
	name := fmt.Sprintf("%s-%d", prefix, namespaces.Add(1))
	var manifests strings.Builder
	fmt.Fprintf(&manifests, `
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: %[1]s}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: %[1]s, namespace: %[1]s}, spec: {clusterSet: %[1]s}}
`, name)
	for i := range n {
		fmt.Fprintf(&manifests, `---
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: %[1]s-%[2]d, labels: {cluster.open-cluster-management.io/clusterset: %[1]s}}
spec: {hubAcceptsClient: true}
status: {allocatable: {memory: %[3]dGi}, capacity: {memory: 100Gi}}
`, name, i, 10*(i+1))
	}
	hub.ApplyYAML(ctx, manifests.String())
	DeferCleanup(func(ctx SpecContext) {
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.Placement{}, client.InNamespace(name))).To(Succeed())
		Expect(hub.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.ManagedCluster{}, client.MatchingLabels{v1alpha1.ClusterSetLabel: name})).To(Succeed())
		Expect(hub.Delete(ctx, &v1alpha1.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	})
	return name
}

// ordinary places a Placement of two clusters by allocatable memory in a namespace of its own and
// makes three of its clusters the best one, one after the other. It returns what others saw of it.
func ordinary(ctx context.Context) history {
	GinkgoHelper()
	namespace := newNamespace(ctx, "ordinary", 5)
	pages, err := hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	defer pages.Stop()
	hub.ApplyYAML(ctx, `
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: `+namespace+`}
spec:
  numberOfClusters: 2
  prioritizerPolicy: {mode: Exact, configurations: [{scoreCoordinate: {builtIn: ResourceAllocatableMemory}}]}
`)
	h := history{}
	h.await(pages, namespace, "3 4")
	for i, want := range []string{"0 4", "0 1", "1 2"} {
		hub.ApplyYAML(ctx, fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: %s-%d, labels: {cluster.open-cluster-management.io/clusterset: %[1]s}}
spec: {hubAcceptsClient: true}
status: {allocatable: {memory: %[3]dGi}, capacity: {memory: 100Gi}}
`, namespace, i, 60+10*i))
		h.await(pages, namespace, want)
	}
	key := client.ObjectKey{Namespace: namespace, Name: "web"}
	Eventually(func(g Gomega) {
		pl := &v1alpha1.Placement{}
		g.Expect(hub.Get(ctx, key, pl)).To(Succeed())
		h.Conditions = nil
		for _, c := range pl.Status.Conditions {
			g.Expect(c.ObservedGeneration).To(Equal(pl.Generation))
			h.Conditions = append(h.Conditions, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
		g.Expect(h.Conditions).To(ContainElement(HavePrefix("PlacementSatisfied True")))
		h.Events = h.events(ctx, g, namespace)
		g.Expect(h.Events).To(HaveLen(9))
	}).WithContext(ctx).Should(Succeed())
	return h
}

// await reads the watch until a page lists the wanted clusters, and keeps each set that it lists.
func (h *history) await(pages watch.Interface, namespace, want string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var event watch.Event
		g.Expect(pages.ResultChan()).To(Receive(&event))
		page, ok := event.Object.(*v1alpha1.PlacementDecision)
		g.Expect(ok).To(BeTrue())
		var clusters []string
		for _, d := range page.Status.Decisions {
			clusters = append(clusters, strings.TrimPrefix(d.ClusterName, namespace+"-"))
		}
		slices.Sort(clusters)
		if seen := strings.Join(clusters, " "); len(h.Published) == 0 || h.Published[len(h.Published)-1] != seen {
			h.Published = append(h.Published, seen)
		}
		g.Expect(h.Published[len(h.Published)-1]).To(Equal(want))
	}).Should(Succeed())
}

func (h *history) events(ctx context.Context, g Gomega, namespace string) []string {
	list := &eventsv1.EventList{}
	g.Expect(hub.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var events []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "Placement" {
			events = append(events, fmt.Sprintf("%s %s %s", e.Type, e.Reason, strings.ReplaceAll(e.Note, namespace, "NS")))
		}
	}
	return events
}

// expectAsAlone checks that the ordinary Placement is decided beside what the spec made as it is
// alone.
func expectAsAlone(ctx context.Context) {
	GinkgoHelper()
	Expect(ordinary(ctx)).To(Equal(alone))
}

var _ = Describe("The ordinary Placement", func() {
	It("has the same history each time", func(ctx SpecContext) {
		expectAsAlone(ctx)
	})
})
