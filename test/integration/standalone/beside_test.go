package standalone

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/config/crd"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/controllers/housekeeping"
	"github.com/berth-dev/berth/pkg/install"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// foreignCRDs are what Open Cluster Management installs: its versions and no v1alpha1 beside them,
// its fields with its constraints and no rules over several fields, and not Berth's to replace.
func foreignCRDs() []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crds, err := crd.All()
	Expect(err).NotTo(HaveOccurred())
	crds = slices.DeleteFunc(crds, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Spec.Group != v1alpha1.GroupName })
	for _, c := range crds {
		c.Labels = nil
		var versions []apiextensionsv1.CustomResourceDefinitionVersion
		for _, v := range c.Spec.Versions {
			if v.Name == "v1alpha1" && !v.Storage {
				continue
			}
			Expect(v.Subresources.Status).NotTo(BeNil())
			testhub.EditSchemas("", v.Schema.OpenAPIV3Schema, loosen)
			v.Schema.OpenAPIV3Schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
			versions = append(versions, v)
		}
		Expect(versions).To(HaveLen(1))
		c.Spec.Versions = versions
	}
	return crds
}

// listed is an object of a kind of admission policies, to delete all of them.
func listed(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("admissionregistration.k8s.io/v1")
	object.SetKind(kind)
	return object
}

// loosen takes away the constraints that are Berth's own.
func loosen(field string, schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations = nil
	delete(schema.Properties, "metadata")
	switch field {
	case "numberOfClusters":
		schema.Minimum = nil
	case "operator", "mode":
		schema.Enum = nil
	}
}

// fleet makes a set of n clusters and a namespace it is bound to.
func fleet(ctx context.Context, n int) (namespace string, set *v1alpha1.ManagedClusterSet, clusters []*v1alpha1.ManagedCluster) {
	GinkgoHelper()
	set = fixture.Set(unique("set"))
	beside.make(ctx, set)
	for i := range n {
		c := fixture.Cluster(fmt.Sprintf("%s-%d", set.Name, i)).Set(set.Name).Obj()
		beside.make(ctx, c)
		clusters = append(clusters, c)
	}
	return beside.namespace(ctx, set.Name), set, clusters
}

// grouped is a Placement whose pages list two clusters each, but for a canary.
func grouped(namespace, name, canary string) *v1alpha1.Placement {
	pl := fixture.Placement(namespace, name).Obj()
	pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(2)
	pl.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []v1alpha1.DecisionGroup{{
		GroupName: "canary",
		ClusterSelector: v1alpha1.GroupClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"name": canary}},
		},
	}}
	return pl
}

// observer looks at the pages of a namespace, as one that watches and as one that polls by label.
type observer struct {
	watched, polled, unlabelled int
	violations                  []string
	stop                        func()
}

func (o *observer) look(page *v1alpha1.PlacementDecision) {
	if page.Labels[v1alpha1.PlacementLabel] == "" {
		o.unlabelled++
	} else if page.Status.Decisions == nil || page.Labels[v1alpha1.DecisionGroupIndexLabel] == "" {
		o.violations = append(o.violations, fmt.Sprintf("%s has labels %v and decisions %v", page.Name, page.Labels, page.Status.Decisions))
	}
}

func observe(ctx context.Context, namespace string) *observer {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{}
	events, err := beside.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	var both sync.WaitGroup
	var alone sync.Mutex
	both.Go(func() {
		for event := range events.ResultChan() {
			page, ok := event.Object.(*v1alpha1.PlacementDecision)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			alone.Lock()
			o.watched++
			o.look(page)
			alone.Unlock()
		}
	})
	both.Go(func() {
		for ctx.Err() == nil {
			list := &v1alpha1.PlacementDecisionList{}
			if beside.List(ctx, list, client.InNamespace(namespace), client.HasLabels{v1alpha1.PlacementLabel}) != nil {
				continue
			}
			alone.Lock()
			o.polled++
			for i := range list.Items {
				o.look(&list.Items[i])
			}
			alone.Unlock()
		}
	})
	o.stop = func() {
		cancel()
		events.Stop()
		both.Wait()
	}
	DeferCleanup(o.stop)
	return o
}

var _ = Describe("Beside Open Cluster Management", func() {
	It("a page has its content before it has its label", func(ctx SpecContext) {
		namespace, set, clusters := fleet(ctx, 7)
		o := observe(ctx, namespace)
		var placements []*v1alpha1.Placement
		for i := range 6 {
			placements = append(placements, grouped(namespace, fmt.Sprintf("p%d", i), "x"))
		}
		beside.make(ctx, placements[0], placements[1], placements[2], placements[3], placements[4], placements[5])
		none := fixture.Placement(namespace, "none").Number(0).Obj()
		beside.make(ctx, none)
		for _, pl := range placements {
			Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(HaveLen(7))
		}
		Eventually(func() int { return len(testhub.Must(testhub.Pages(ctx, beside, none))) }).Should(Equal(1))
		testhub.Edit(ctx, beside, clusters[3], func(c *v1alpha1.ManagedCluster) { c.Labels["name"] = "x" })
		beside.make(ctx, fixture.Cluster(unique("late")).Set(set.Name).Obj())
		Expect(beside.Delete(ctx, clusters[0])).To(Succeed())
		for _, pl := range placements {
			Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(And(HaveLen(7), Not(ContainElement(clusters[0].Name))))
			beside.satisfied(ctx, pl)
		}
		o.stop()
		Expect(o.violations).To(BeEmpty())
		Expect(o.unlabelled).To(BeNumerically(">", 0), "pages begin without label")
		Expect(o.watched).To(BeNumerically(">=", 6*4*3), "three writes for each of four pages")
		Expect(o.polled).To(BeNumerically(">", 10))
		AddReportEntry("states watched, lists polled", []int{o.watched, o.polled})
	})

	It("a binding without a set has no effect, and the policy refuses it", func(ctx SpecContext) {
		set := fixture.Set(unique("set"))
		c := fixture.Cluster(unique("c")).Set(set.Name).Obj()
		beside.make(ctx, set, c)
		namespace := beside.namespace(ctx)
		nameless := binding("v1beta2", namespace, set.Name)
		delete(nameless.Object, "spec")
		Expect(beside.Create(ctx, nameless)).To(Succeed())
		pl := fixture.Placement(namespace, "p").Obj()
		beside.make(ctx, pl)
		Eventually(beside.condition(ctx, pl, v1alpha1.PlacementConditionSatisfied)).Should(HavePrefix("False NoManagedClusterSetBindings"))
		Expect(testhub.Clusters(ctx, beside, pl)).To(BeEmpty())

		By("taking the set from a binding")
		named := binding("v1beta2", namespace, set.Name)
		Expect(beside.Delete(ctx, nameless)).To(Succeed())
		Expect(beside.Create(ctx, named)).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(Equal([]string{c.Name}))
		forget := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"clusterSet":null}}`))
		Expect(beside.Patch(ctx, named, forget)).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(BeEmpty())

		By("with the policy")
		policies, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "admission", "cluster-sets.yaml"))
		Expect(err).NotTo(HaveOccurred())
		beside.ApplyYAML(ctx, string(policies))
		DeferCleanup(func(ctx SpecContext) {
			Expect(beside.DeleteAllOf(ctx, listed("ValidatingAdmissionPolicyBinding"))).To(Succeed())
			Expect(beside.DeleteAllOf(ctx, listed("ValidatingAdmissionPolicy"))).To(Succeed())
		})
		other := binding("v1beta2", namespace, "other")
		other.Object["spec"] = map[string]any{}
		refused := MatchError(ContainSubstring("spec.clusterSet must name a ManagedClusterSet"))
		Eventually(func() error { return beside.Create(ctx, other.DeepCopy(), client.DryRunAll) }).Should(refused)
		Expect(beside.Create(ctx, binding("v1beta2", namespace, "third"), client.DryRunAll)).To(Succeed())
		By("editing something else about a stored one")
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		Expect(beside.Patch(ctx, named, label)).To(Succeed())
	})

	It("consumers can read the pages", func(ctx SpecContext) {
		namespace, _, clusters := fleet(ctx, 5)
		testhub.Edit(ctx, beside, clusters[4], func(c *v1alpha1.ManagedCluster) { c.Labels["name"] = "first" })
		pl := grouped(namespace, "p", "first")
		beside.make(ctx, pl)
		beside.satisfied(ctx, pl)
		entry := func(i int) any { return map[string]any{"clusterName": clusters[i].Name, "reason": ""} }
		// The label of the last cluster may arrive late: then the other groups stay as they were.
		Eventually(func(g Gomega) {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(v1alpha1.GroupName + "/v1beta1")
			list.SetKind("PlacementDecisionList")
			g.Expect(beside.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: "p"})).To(Succeed())
			groups := map[string][]any{}
			for _, page := range list.Items {
				labels := page.GetLabels()
				g.Expect(labels).To(HaveLen(3))
				g.Expect(page.GetOwnerReferences()).To(ConsistOf(And(
					HaveField("APIVersion", v1alpha1.GroupName+"/v1beta1"), HaveField("Kind", "Placement"), HaveField("Name", "p"),
					HaveField("UID", pl.UID), HaveField("Controller", HaveValue(BeTrue())))))
				decisions, _, err := unstructured.NestedSlice(page.Object, "status", "decisions")
				g.Expect(err).NotTo(HaveOccurred())
				groups[labels[v1alpha1.DecisionGroupIndexLabel]+" "+labels[v1alpha1.DecisionGroupNameLabel]] = decisions
			}
			canary, first, second := []any{entry(4)}, []any{entry(0), entry(1)}, []any{entry(2), entry(3)}
			g.Expect(groups).To(Or(
				Equal(map[string][]any{"0 canary": canary, "1 ": first, "2 ": second}),
				Equal(map[string][]any{"0 canary": canary, "1 ": second, "2 ": first})))
		}).Should(Succeed())
	})

	It("an unfinished page is completed, and an edited page is restored", func(ctx SpecContext) {
		namespace, _, clusters := fleet(ctx, 2)
		both := []string{clusters[0].Name, clusters[1].Name}
		beside.stopBerth()
		pl := fixture.Placement(namespace, "p").Obj()
		beside.make(ctx, pl)
		page := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p-decision-1", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(pl, v1alpha1.GroupVersionV1Beta1.WithKind("Placement")),
		}}}
		beside.make(ctx, page)
		beside.startBerth("*")
		Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(Equal(both))
		Expect(testhub.Pages(ctx, beside, pl)).To(HaveExactElements(HaveField("UID", page.UID)))

		By("taking its label")
		testhub.Edit(ctx, beside, page, func(p *v1alpha1.PlacementDecision) { delete(p.Labels, v1alpha1.PlacementLabel) })
		Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(Equal(both))
		By("taking a cluster")
		Expect(beside.Get(ctx, client.ObjectKeyFromObject(page), page)).To(Succeed())
		page.Status.Decisions = page.Status.Decisions[:1]
		// Of two managers in one second, the last name counts.
		Expect(client.WithFieldOwner(beside, "zz-placement").Status().Update(ctx, page)).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(Equal(both))
		Eventually(ctx, testhub.Events).WithArguments(beside, namespace).Should(ContainElement(And(HaveField("Reason", "DecisionEdited"), HaveField("Note", ContainSubstring("field manager zz-placement")))))
		By("deleting it")
		Expect(beside.Delete(ctx, page)).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(Equal(both))
	})

	It("sets, bindings and clusters are not written, unless their loops are enabled by name", func(ctx SpecContext) {
		decided := func() {
			namespace, _, clusters := fleet(ctx, 1)
			pl := fixture.Placement(namespace, "p").Obj()
			beside.make(ctx, pl)
			Eventually(ctx, testhub.Clusters).WithArguments(beside, pl).Should(Equal([]string{clusters[0].Name}))
		}
		beside.stopBerth()
		done := beside.neglect(ctx)
		beside.startBerth("*")
		decided()
		Consistently(done).Should(BeEmpty())

		beside.restartBerth("*", "cluster-taint-time", "clustersetbinding")
		wanted := []string{"cluster-taint-time", "clustersetbinding"}
		Eventually(done).Should(Equal(wanted))
		decided()
		Consistently(done).Should(Equal(wanted))

		By("a binding that Berth's own CRDs would not let in")
		namespace := beside.namespace(ctx)
		odd := fixture.Binding(namespace, "odd")
		odd.Spec.ClusterSet = "even"
		beside.make(ctx, odd)
		Eventually(beside.bound(ctx, namespace, "odd")).Should(HavePrefix("False NameMismatch: "))
	})

	It("a disabled Placement and its pages are not written", func(ctx SpecContext) {
		namespace, _, clusters := fleet(ctx, 2)
		pl := fixture.Placement(namespace, "p").Annotation(v1alpha1.PlacementDisableAnnotation, "true").Obj()
		beside.make(ctx, pl)
		page := fixture.Page(namespace, "by-hand").Of("p").Obj()
		beside.make(ctx, page)
		page.Status.Decisions = []v1alpha1.ClusterDecision{{ClusterName: "another"}}
		Expect(beside.Status().Update(ctx, page)).To(Succeed())
		before := testhub.Must(testhub.Pages(ctx, beside, pl))
		other := fixture.Placement(namespace, "q").Obj()
		beside.make(ctx, other)
		Eventually(ctx, testhub.Clusters).WithArguments(beside, other).Should(HaveLen(len(clusters)))
		Consistently(ctx, testhub.Pages).WithArguments(beside, pl).Should(Equal(before))
		Expect(beside.condition(ctx, pl, v1alpha1.PlacementConditionSatisfied)()).To(BeEmpty())
	})

	DescribeTable("an invalid field that OCM's CRDs accept is reported, and the published decision stays:", func(ctx SpecContext, want string, mistake func(*v1alpha1.PlacementSpec)) {
		namespace, _, clusters := fleet(ctx, 2)
		pl := fixture.Placement(namespace, "p").Number(1).Obj()
		beside.make(ctx, pl)
		beside.satisfied(ctx, pl)
		before := testhub.Must(testhub.Pages(ctx, beside, pl))
		testhub.Edit(ctx, beside, pl, func(p *v1alpha1.Placement) { mistake(&p.Spec) })
		Eventually(beside.condition(ctx, pl, v1alpha1.PlacementConditionMisconfigured)).Should(And(HavePrefix("True Misconfigured: "), ContainSubstring(want)))
		Expect(beside.Delete(ctx, clusters[1])).To(Succeed())
		Consistently(ctx, testhub.Pages).WithArguments(beside, pl).Should(Equal(before))
		Expect(beside.condition(ctx, pl, v1alpha1.PlacementConditionSatisfied)()).To(HavePrefix("False Misconfigured: "))
	},
		Entry("a negative count", "spec.numberOfClusters: Invalid value: -1: should be greater than or equal to 0", func(s *v1alpha1.PlacementSpec) { s.NumberOfClusters = new(int32(-1)) }),
		Entry("a toleration of every key with Equal", `spec.tolerations[0].operator: Invalid value: "Equal": must be Exists when key is empty`, tolerate("", v1alpha1.TolerationOpEqual, "v")),
		Entry("a toleration with Exists and a value", `spec.tolerations[0].value: Invalid value: "v": must be empty when operator is Exists`, tolerate("k", v1alpha1.TolerationOpExists, "v")),
		Entry("an unknown mode", `spec.prioritizerPolicy.mode: Unsupported value: "Mixed": supported values: "Additive", "Exact"`, func(s *v1alpha1.PlacementSpec) { s.PrioritizerPolicy.Mode = "Mixed" }),
		Entry("a selector with an unknown operator", `spec.predicates[0].requiredClusterSelector.labelSelector.matchExpressions[0].operator: Unsupported value: "Like"`, func(s *v1alpha1.PlacementSpec) {
			s.Predicates = []v1alpha1.ClusterPredicate{{RequiredClusterSelector: v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
			}}}}
		}),
	)

	It("ManagedClusters are made of ClusterProfiles", func(ctx SpecContext) {
		beside.InstallCRD(ctx, testhub.ClusterProfiles)
		binding, err := os.ReadFile("../../../config/cluster-profiles/role_binding.yaml")
		Expect(err).NotTo(HaveOccurred())
		beside.ApplyYAML(ctx, string(binding))
		namespace := beside.namespace(ctx)
		beside.stopBerth()
		beside.berth = beside.StartController(controllers.Options{
			Housekeeping: []string{"cluster-profile"}, ClusterProfiles: housekeeping.ClusterProfileOptions{Namespaces: []string{namespace}},
		})
		DeferCleanup(func() {
			beside.stopBerth()
			beside.startBerth("*")
		})
		profile := fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ClusterProfile, metadata: {name: %s-a, namespace: %[1]s},\n"+
			"spec: {clusterManager: {name: m}}, status: {version: {kubernetes: v1}}}", namespace)
		beside.ApplyYAML(ctx, profile)
		c := fixture.Cluster(namespace + "-a").Obj()
		Eventually(func() (string, error) {
			err := beside.Get(ctx, client.ObjectKeyFromObject(c), c)
			return c.Status.Version.Kubernetes, client.IgnoreNotFound(err)
		}).Should(Equal("v1"))
		Expect(c.Labels).To(Equal(map[string]string{v1alpha1.ClusterProfileNamespaceLabel: namespace}))
		Expect(beside.Delete(ctx, testhub.Parse(profile)[0])).To(Succeed())
		Eventually(ctx, testhub.IsGone).WithArguments(beside, c).Should(BeTrue())
	})

	It("--install-crds adds Berth's own kinds and does not change OCM's CRDs", func(ctx SpecContext) {
		before := map[string]string{}
		for _, c := range foreignCRDs() {
			Expect(beside.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
			before[c.Name] = c.ResourceVersion
		}
		foreign, err := install.CRDs(ctx, beside.Config)
		Expect(err).NotTo(HaveOccurred())
		Expect(foreign).To(ConsistOf(slices.Collect(maps.Keys(before))))
		for name, version := range before {
			c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
			Expect(beside.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
			Expect(c.ResourceVersion).To(Equal(version), name)
		}
		Expect(beside.List(ctx, &berthv1alpha1.PlacementChangeList{})).To(Succeed())
		Expect(beside.List(ctx, &berthv1alpha1.DisruptionPolicyList{})).To(Succeed())
	})

	It("a Placement with a name that is not a label value is reported and does not affect others", func(ctx SpecContext) {
		namespace, _, _ := fleet(ctx, 1)
		pl := fixture.Placement(namespace, strings.Repeat("n", 70)).Obj()
		beside.make(ctx, pl)
		Eventually(beside.condition(ctx, pl, v1alpha1.PlacementConditionMisconfigured)).Should(And(
			HavePrefix("True Misconfigured: "), ContainSubstring("metadata.name: Too long: may not be more than 63 bytes")))
		other := fixture.Placement(namespace, "q").Obj()
		beside.make(ctx, other)
		beside.satisfied(ctx, other)
		Expect(testhub.PagesIn(ctx, beside, client.InNamespace(namespace))).To(HaveEach(HaveField("Labels", HaveKeyWithValue(v1alpha1.PlacementLabel, "q"))))
	})
})

func tolerate(key string, operator v1alpha1.TolerationOperator, value string) func(*v1alpha1.PlacementSpec) {
	return func(s *v1alpha1.PlacementSpec) {
		s.Tolerations = []v1alpha1.Toleration{{Key: key, Operator: operator, Value: value}}
	}
}
