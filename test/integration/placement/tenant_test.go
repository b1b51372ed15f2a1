package placement

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// tenant is a namespace with a cluster set of its own, named alike and bound to it. Whatever a spec
// makes through it is gone after the spec, for Balance counts the decisions of the whole hub.
type tenant struct {
	namespace string
	markers   int
}

// newTenant makes the namespace, the set and the binding.
func newTenant(ctx context.Context) *tenant {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	Expect(hub.Create(ctx, namespace)).To(Succeed())
	t := &tenant{namespace: namespace.Name}
	testhub.DeleteAfterwards(hub, namespace)
	t.apply(ctx, "kind: ManagedClusterSet", "kind: ManagedClusterSetBinding")
	DeferCleanup(t.vacate)
	return t
}

// vacate deletes what could be on other specs' minds: Placements, and then the pages that they left
// to the garbage collector.
func (t *tenant) vacate(ctx SpecContext) {
	in := client.InNamespace(t.namespace)
	Expect(hub.DeleteAllOf(ctx, &v1alpha1.Placement{}, in)).To(Succeed())
	Expect(hub.DeleteAllOf(ctx, &v1alpha1.PlacementDecision{}, in)).To(Succeed())
	Eventually(ctx, testhub.PagesIn).WithArguments(hub, in).Should(BeEmpty())
}

// apiVersions are the versions that consumers read.
var apiVersions = map[string]string{
	"Namespace": "v1", "Placement": v1alpha1.GroupName + "/v1beta1", "ManagedCluster": v1alpha1.GroupName + "/v1",
	"ManagedClusterSet": v1alpha1.GroupName + "/v1beta2", "ManagedClusterSetBinding": v1alpha1.GroupName + "/v1beta2",
	"AddOnPlacementScore": v1alpha1.GroupName + "/v1alpha1",
}

// apply applies manifests as a user would, and fills in what the specs leave out: the version; for
// a cluster the prefix of its name and, unless it names another, the tenant's set; for a score the
// namespace, which bears the name of a cluster; for a set and a binding their name; for all else
// the tenant's namespace. "$NS" stands for the tenant's namespace.
func (t *tenant) apply(ctx context.Context, manifests ...string) {
	GinkgoHelper()
	text := strings.ReplaceAll(strings.Join(manifests, "\n---\n"), "$NS", t.namespace)
	for _, object := range testhub.Parse(text) {
		if object.GetAPIVersion() == "" {
			object.SetAPIVersion(apiVersions[object.GetKind()])
		}
		switch object.GetKind() {
		case "ManagedCluster":
			object.SetName(t.full(object.GetName()))
			labels := object.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			if _, ok := labels[v1alpha1.ClusterSetLabel]; !ok {
				labels[v1alpha1.ClusterSetLabel] = t.namespace
			}
			object.SetLabels(labels)
			if object.Object["spec"] == nil {
				object.Object["spec"] = map[string]any{"hubAcceptsClient": true}
			}
		case "AddOnPlacementScore":
			object.SetNamespace(t.full(object.GetNamespace()))
			t.apply(ctx, "{kind: Namespace, metadata: {name: "+object.GetNamespace()+"}}")
		case "ManagedClusterSet":
			if object.GetName() == "" {
				object.SetName(t.namespace)
			}
		case "ManagedClusterSetBinding":
			if object.GetName() == "" {
				object.SetName(t.namespace)
			}
			if object.Object["spec"] == nil {
				object.Object["spec"] = map[string]any{"clusterSet": object.GetName()}
			}
			object.SetNamespace(t.namespace)
		case "Namespace":
		default:
			object.SetNamespace(t.namespace)
		}
		hub.ApplyObject(ctx, object)
		if object.GetNamespace() == "" {
			testhub.DeleteAfterwards(hub, object)
		}
	}
}

// clusters makes clusters that have nothing but names.
func (t *tenant) clusters(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		t.apply(ctx, "{kind: ManagedCluster, metadata: {name: "+name+"}}")
	}
}

// placement makes or edits a Placement; spec is YAML in flow style.
func (t *tenant) placement(ctx context.Context, name, spec string) {
	GinkgoHelper()
	t.apply(ctx, "{kind: Placement, metadata: {name: "+name+"}, spec: "+spec+"}")
}

func (t *tenant) full(name string) string { return t.namespace + "-" + name }

func (t *tenant) key(placement string) key { return key{Namespace: t.namespace, Name: placement} }

func (t *tenant) cluster(name string) *v1alpha1.ManagedCluster {
	return &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: t.full(name)}}
}

func (t *tenant) published(ctx context.Context, placement string) func() []string {
	return published(ctx, t.key(placement), t.namespace+"-")
}

func (t *tenant) satisfied(ctx context.Context, placement string) func() (string, error) {
	return satisfied(ctx, t.key(placement))
}

func (t *tenant) misconfigured(ctx context.Context, placement string) func() (string, error) {
	return misconfigured(ctx, t.key(placement))
}

// waitForDecision returns when the controller has processed all events of clusters so far and has
// decided the affected Placements. It labels a cluster, and waits for the decision of a Placement
// that reads this label and is queued last.
func (t *tenant) waitForDecision(ctx context.Context, cluster string) {
	GinkgoHelper()
	t.markers++
	name := fmt.Sprintf("zz-marker-%d", t.markers)
	testhub.Edit(ctx, hub, &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, func(c *v1alpha1.ManagedCluster) {
		c.Labels["marker"] = name
	})
	// The spread keeps it from selecting the cluster, which would count for Balance.
	t.placement(ctx, name, "{predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {marker: "+name+"}}}}],"+
		"spreadPolicy: {spreadConstraints: [{topologyKey: none, topologyKeyType: Label, whenUnsatisfiable: DoNotSchedule}]}}")
	Eventually(t.satisfied(ctx, name)).Should(HavePrefix("False SpreadUnsatisfiable"))
}
