package changes

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// An author has the roles berth-viewer and berth-editor. The clusters of the Placement must stay.
var _ = Describe("An author whose Placement is suspended", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{})
		DeferCleanup(controller.Stop)
	})

	// suspended publishes a Placement on two clusters, one of which has a tolerated taint, and
	// suspends it.
	suspended := func(ctx SpecContext) (pl *v1alpha1.Placement, author client.Client, clusters []string) {
		GinkgoHelper()
		ns := fleet(ctx, 2)
		clusters = []string{ns + "-0", ns + "-1"}
		pl = fixture.Placement(ns, "web").Toleration("team", v1alpha1.TolerationOpExists, "", "").Obj()
		Expect(hub.Create(ctx, pl)).To(Succeed())
		Eventually(listed).WithContext(ctx).WithArguments(ns).Should(Equal(clusters))
		// A controller for cluster taints would write timeAdded.
		now := metav1.Now()
		tainted := fixture.Cluster(clusters[0]).Obj()
		testhub.Edit(ctx, hub, tainted, func(tainted *v1alpha1.ManagedCluster) {
			tainted.Spec.Taints = []v1alpha1.Taint{{Key: "team", Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: now}}
		})
		careful := policy(ctx, ns, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = true })
		Eventually(statusOf(ctx, careful)).Should(HavePrefix("1 "))
		author = hub.Author(ctx, ns)
		Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete"))
		return pl, author, clusters
	}
	merge := func(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

	DescribeTable("cannot remove a cluster by an edit of the Placement", func(ctx SpecContext, patch string) {
		pl, author, clusters := suspended(ctx)
		Expect(author.Patch(ctx, pl.DeepCopy(), merge(patch))).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionDecisionProgressing).Should(HavePrefix("False Suspended: "))
		Expect(listed(ctx, pl.Namespace)).To(Equal(clusters))
	},
		Entry("numberOfClusters", `{"spec": {"numberOfClusters": 0}}`),
		Entry("predicates", `{"spec": {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"tier": "old"}}}}]}}`),
		Entry("clusterSets", `{"spec": {"clusterSets": ["other"]}}`),
		Entry("a toleration removed", `{"spec": {"tolerations": null}}`),
		Entry("a toleration shortened", `{"spec": {"tolerations": [{"key": "team", "operator": "Exists", "tolerationSeconds": 2}]}}`),
	)

	It("cannot remove a cluster by a SelectionPolicy", func(ctx SpecContext) {
		pl, author, clusters := suspended(ctx)
		tiers := &berthv1alpha1.SelectionPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: "old"},
			Spec: berthv1alpha1.SelectionPolicySpec{
				Placement: "web",
				Tiers: []berthv1alpha1.SelectionTier{{Name: "old", ClusterSelector: v1alpha1.ClusterSelector{
					LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "old"}},
				}}},
			},
		}
		Expect(author.Create(ctx, tiers)).To(Succeed())
		Eventually(ctx, testhub.Condition).WithArguments(hub, pl, v1alpha1.PlacementConditionDecisionProgressing).Should(HavePrefix("False Suspended: "))
		Expect(listed(ctx, pl.Namespace)).To(Equal(clusters))
	})

	It("is refused every request on what protects the clusters", func(ctx SpecContext) {
		pl, author, clusters := suspended(ctx)
		ns := pl.Namespace
		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
		binding, careful, record := fixture.Binding(ns, ns), &berthv1alpha1.DisruptionPolicy{ObjectMeta: meta("careful")}, &berthv1alpha1.PlacementChange{ObjectMeta: meta("web-1")}
		page := &v1alpha1.PlacementDecision{ObjectMeta: meta("web-decision-1")}
		Eventually(phases).WithContext(ctx).WithArguments(ns).Should(Equal("1 Published"))
		for name, request := range map[string]func() error{
			"delete the Placement": func() error { return author.Delete(ctx, pl.DeepCopy()) },
			"delete it in the foreground": func() error {
				return author.Delete(ctx, pl.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground))
			},
			"delete all Placements": func() error { return author.DeleteAllOf(ctx, &v1alpha1.Placement{}, client.InNamespace(ns)) },
			"delete the binding":    func() error { return author.Delete(ctx, binding.DeepCopy()) },
			"delete all bindings": func() error {
				return author.DeleteAllOf(ctx, &v1alpha1.ManagedClusterSetBinding{}, client.InNamespace(ns))
			},
			"give the binding an owner": func() error { return author.Patch(ctx, binding.DeepCopy(), merge(owners)) },
			"create a binding":          func() error { return author.Create(ctx, fixture.Binding(ns, "other")) },
			"write the Placement's status": func() error {
				return author.Status().Patch(ctx, pl.DeepCopy(), merge(`{"status": {"conditions": []}}`))
			},
			"write the binding's status": func() error {
				return author.Status().Patch(ctx, binding.DeepCopy(), merge(`{"status": {"conditions": []}}`))
			},
			"give the Placement an owner": func() error { return author.Patch(ctx, pl.DeepCopy(), merge(owners)) },
			"add a finalizer": func() error {
				return author.Patch(ctx, pl.DeepCopy(), merge(`{"metadata": {"finalizers": ["example.com/stay"]}}`))
			},
			"disable scheduling": func() error {
				return author.Patch(ctx, pl.DeepCopy(), merge(annotated(v1alpha1.PlacementDisableAnnotation, "true")))
			},
			"change the profile": func() error {
				return author.Patch(ctx, pl.DeepCopy(), merge(annotated(v1alpha1.ProfileAnnotation, "other")))
			},
			"delete the policy": func() error { return author.Delete(ctx, careful.DeepCopy()) },
			"edit the policy":   func() error { return author.Patch(ctx, careful.DeepCopy(), merge(`{"spec": {"suspend": false}}`)) },
			"create a policy": func() error {
				return author.Create(ctx, &berthv1alpha1.DisruptionPolicy{ObjectMeta: meta("mine"), Spec: byLabels(nil)})
			},
			"delete a record": func() error { return author.Delete(ctx, record.DeepCopy()) },
			"create a record": func() error { return author.Create(ctx, &berthv1alpha1.PlacementChange{ObjectMeta: meta("web-2")}) },
			"write a record":  func() error { return author.Patch(ctx, record.DeepCopy(), merge(`{"metadata": {"labels": null}}`)) },
			"write the status of a record": func() error {
				return author.Status().Patch(ctx, record.DeepCopy(), merge(`{"status": {"phase": "Rejected"}}`))
			},
			"evict a cluster": func() error {
				return author.Create(ctx, &berthv1alpha1.PlacementEviction{ObjectMeta: meta("e"), Spec: berthv1alpha1.PlacementEvictionSpec{Placement: "web", Cluster: clusters[0]}})
			},
			"delete a page": func() error { return author.Delete(ctx, page.DeepCopy()) },
			"write a page":  func() error { return author.Patch(ctx, page.DeepCopy(), merge(`{"metadata": {"labels": null}}`)) },
			"create scores": func() error { return author.Create(ctx, fixture.Score(ns, "s").Obj()) },
			"taint a cluster": func() error {
				return author.Patch(ctx, fixture.Cluster(clusters[0]).Obj(), merge(`{"spec": {"taints": []}}`))
			},
			"create a ConfigMap":   func() error { return author.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("queues")}) },
			"delete the namespace": func() error { return author.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}) },
			"have 101 labels": func() error {
				return author.Patch(ctx, pl.DeepCopy(), merge(`{"metadata": {"labels": {`+manyLabels(101)+`}}}`))
			},
		} {
			err := request()
			Expect(err).To(HaveOccurred(), name)
			AddReportEntry(name, err.Error())
		}
		Consistently(listed).WithContext(ctx).WithArguments(ns).Should(Equal(clusters))
	})
})

func annotated(key, value string) string {
	return fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, key, value)
}

func manyLabels(n int) string {
	text := `"label-0": "x"`
	for i := 1; i < n; i++ {
		text += fmt.Sprintf(`, "label-%d": "x"`, i)
	}
	return text
}
