package changes

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// collector is the hub's garbage collector, which may patch and delete every object.
const collector = "system:serviceaccount:kube-system:generic-garbage-collector"

const owners = `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "1"}]}}`

func byLabels(labels map[string]string, expressions ...metav1.LabelSelectorRequirement) berthv1alpha1.DisruptionPolicySpec {
	return berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{MatchLabels: labels, MatchExpressions: expressions}}
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) berthv1alpha1.DisruptionPolicySpec {
	return byLabels(nil, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: values})
}

// numbered are n names, the last of which is last.
func numbered(n int, last string) []string {
	var names []string
	for i := range n - 1 {
		names = append(names, fmt.Sprintf("%0*d", v1alpha1.MaxLabelValueLength, i))
	}
	return append(names, last)
}

// The decided Placement has the labels tier=web and region=eu.
var _ = Describe("A Placement whose changes need an approval", func() {
	DescribeTable("can be deleted, and removed from the selection of the policy, only by an approver",
		func(ctx SpecContext, spec berthv1alpha1.DisruptionPolicySpec, leaving string) {
			ns := testhub.CreateNamespace(ctx, hub, "team-")
			policy := require(ctx, ns, spec)
			pl := decided(ctx, ns, "web")
			author, approver := hub.Author(ctx, ns), approver(ctx, ns)
			// The API server watches the policies.
			Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(forbidden(
				"user author-of-" + ns + " may not delete Placement web while DisruptionPolicy " + policy.Name + " requires approval"))
			Expect(author.DeleteAllOf(ctx, &v1alpha1.Placement{}, client.InNamespace(ns), client.DryRunAll)).To(forbidden("may not delete Placement web"))
			Expect(hub.As(collector).Delete(ctx, pl.DeepCopy(), client.DryRunAll)).To(forbidden("may not delete Placement web"))
			Expect(edit(ctx, author, pl, owners)).To(forbidden("may not add owners to Placement web"))
			Expect(edit(ctx, author, pl, `{"metadata": {"labels": {"other": "label"}}, "spec": {"numberOfClusters": 1}}`)).To(Succeed())
			if leaving != "" {
				patch := `{"metadata": {"labels": ` + leaving + `}}`
				Expect(edit(ctx, author, pl, patch)).To(forbidden("DisruptionPolicy " + policy.Name + " no longer selects it while DisruptionPolicy " + policy.Name + " requires approval"))
				Expect(edit(ctx, approver, pl, patch)).To(Succeed())
				Expect(edit(ctx, hub, pl, patch)).To(Succeed())
			}
			for _, user := range []client.Client{approver, hub} {
				Expect(user.Delete(ctx, pl.DeepCopy(), client.DryRunAll)).To(Succeed())
				Expect(edit(ctx, user, pl, owners)).To(Succeed())
			}
		},
		Entry("by name", berthv1alpha1.DisruptionPolicySpec{Placements: []string{"api", "web"}}, ""),
		Entry("by one of 1,000 names", berthv1alpha1.DisruptionPolicySpec{Placements: numbered(1_000, "web")}, ""),
		Entry("the whole namespace", byLabels(nil), ""),
		Entry("by a label", byLabels(map[string]string{"tier": "web"}), `{"tier": "api"}`),
		Entry("by a label, taken away", byLabels(map[string]string{"tier": "web"}), `{"tier": null}`),
		Entry("by two labels", byLabels(map[string]string{"tier": "web", "region": "eu"}), `{"region": null}`),
		Entry("In", expression("tier", metav1.LabelSelectorOpIn, "api", "web"), `{"tier": "db"}`),
		Entry("In, taken away", expression("tier", metav1.LabelSelectorOpIn, "web"), `{"tier": null}`),
		Entry("NotIn", expression("tier", metav1.LabelSelectorOpNotIn, "api", "db"), `{"tier": "db"}`),
		Entry("NotIn without the label", expression("zone", metav1.LabelSelectorOpNotIn, "a"), `{"zone": "a"}`),
		Entry("Exists", expression("tier", metav1.LabelSelectorOpExists), `{"tier": null}`),
		Entry("DoesNotExist", expression("zone", metav1.LabelSelectorOpDoesNotExist), `{"zone": "a"}`),
		Entry("by a label and an expression", byLabels(map[string]string{"tier": "web"},
			metav1.LabelSelectorRequirement{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: []string{"eu", "us"}}), `{"region": "asia"}`),
		Entry("by the largest selector", func() berthv1alpha1.DisruptionPolicySpec {
			spec := byLabels(map[string]string{"tier": "web", "region": "eu"})
			for range 10 {
				spec.PlacementSelector.MatchExpressions = append(spec.PlacementSelector.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: numbered(1_000, "web")})
			}
			return spec
		}(), `{"tier": "api"}`),
	)

	It("can be deleted only by an approver, also if the lists of the policy were applied empty", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		policy := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": berthv1alpha1.GroupVersion.String(), "kind": "DisruptionPolicy",
			"metadata": map[string]any{"namespace": ns, "name": "empty", "labels": map[string]any{}, "annotations": map[string]any{}},
			"spec": map[string]any{
				"approval": "Required", "placementSelector": map[string]any{"matchLabels": map[string]any{}, "matchExpressions": []any{}}, "windows": []any{},
			},
		}}
		for range 2 {
			Expect(hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(policy.DeepCopy()), client.FieldOwner("gitops"))).To(Succeed())
		}
		pl := decided(ctx, ns, "web")
		author, approver := hub.Author(ctx, ns), approver(ctx, ns)
		Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(forbidden("while DisruptionPolicy empty requires approval"))
		Expect(edit(ctx, author, pl, `{"metadata": {"labels": {"other": "label"}}}`)).To(Succeed())
		Expect(approver.Delete(ctx, pl.DeepCopy(), client.DryRunAll)).To(Succeed())
	})

	DescribeTable("can be edited and deleted if no policy requires an approval",
		func(ctx SpecContext, prepare func(ctx SpecContext, ns string)) {
			ns := testhub.CreateNamespace(ctx, hub, "team-")
			prepare(ctx, ns)
			// This policy shows when the API server has seen those before it.
			require(ctx, ns, berthv1alpha1.DisruptionPolicySpec{Placements: []string{"probe"}})
			probe, author := decided(ctx, ns, "probe"), hub.Author(ctx, ns)
			Eventually(func() error { return author.Delete(ctx, probe.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete"))
			pl := fixture.Placement(ns, "web").Obj()
			if err := hub.Get(ctx, client.ObjectKeyFromObject(pl), pl); apierrors.IsNotFound(err) {
				pl = decided(ctx, ns, "web")
			}
			Expect(author.Delete(ctx, pl.DeepCopy(), client.DryRunAll)).To(Succeed())
			Expect(edit(ctx, author, pl, owners)).To(Succeed())
			Expect(edit(ctx, author, pl, `{"metadata": {"labels": {"tier": null}}}`)).To(Succeed())
		},
		Entry("without a policy", func(SpecContext, string) {}),
		Entry("with a policy that requires no approval", func(ctx SpecContext, ns string) {
			policy := &berthv1alpha1.DisruptionPolicy{Spec: byLabels(nil)}
			policy.Namespace, policy.Name = ns, "history"
			Expect(hub.Create(ctx, policy)).To(Succeed())
		}),
		Entry("with a policy of other names", func(ctx SpecContext, ns string) {
			require(ctx, ns, berthv1alpha1.DisruptionPolicySpec{Placements: []string{"api", "webs"}})
		}),
		Entry("with a policy of other labels", func(ctx SpecContext, ns string) { require(ctx, ns, byLabels(map[string]string{"tier": "api"})) }),
		Entry("with a policy that excludes its labels", func(ctx SpecContext, ns string) {
			require(ctx, ns, expression("tier", metav1.LabelSelectorOpNotIn, "web"))
		}),
		Entry("with a policy of another namespace", func(ctx SpecContext, _ string) {
			require(ctx, testhub.CreateNamespace(ctx, hub, "team-"), byLabels(nil))
		}),
		Entry("with a policy that only slows changes down", func(ctx SpecContext, ns string) {
			spec := byLabels(nil)
			spec.MaxUnavailable, spec.MinAvailable, spec.StabilizationWindowSeconds = new(intstr.FromInt32(0)), new(intstr.FromString("0%")), 60
			spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
			protect(ctx, ns, spec)
		}),
	)

	It("is protected although its author keeps it from getting a status", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		require(ctx, ns, byLabels(nil))
		pl, author := fixture.Placement(ns, "web").Obj(), hub.Author(ctx, ns)
		Eventually(func() error { return author.Create(ctx, pl) }).Should(Succeed())
		Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete Placement web"))
		Expect(edit(ctx, author, pl, owners)).To(forbidden("may not add owners to Placement web"))
	})

	It("is deleted with its namespace, but not with an owner that an author deletes", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}}
		Expect(hub.Create(ctx, owner)).To(Succeed())
		pl := decided(ctx, ns, "web")
		pl.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}
		Expect(hub.Update(ctx, pl)).To(Succeed())
		require(ctx, ns, berthv1alpha1.DisruptionPolicySpec{Placements: []string{"web"}})
		author := hub.Author(ctx, ns)
		Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete"))
		Expect(hub.Delete(ctx, owner)).To(Succeed())
		Consistently(func() error { return hub.Get(ctx, client.ObjectKeyFromObject(pl), pl) }).WithTimeout(3 * time.Second).Should(Succeed())

		Expect(hub.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())
		Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(WithTransform(client.IgnoreNotFound, Succeed()))
		Eventually(func() error { return hub.Get(ctx, client.ObjectKeyFromObject(pl), pl) }).Should(WithTransform(apierrors.IsNotFound, BeTrue()))
	})

	It("can be edited in other fields in a namespace with 1,000 policies", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		for i := range 1_000 {
			policy := &berthv1alpha1.DisruptionPolicy{Spec: byLabels(map[string]string{"tier": fmt.Sprint("t", i)})}
			policy.Namespace, policy.Name, policy.Spec.Approval = ns, fmt.Sprint("policy-", i), berthv1alpha1.ApprovalRequired
			Expect(hub.Create(ctx, policy)).To(Succeed())
		}
		// A controller of another spec would report the status of all.
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.DeleteAllOf(ctx, &berthv1alpha1.DisruptionPolicy{}, client.InNamespace(ns))).To(Succeed())
		})
		pl, author := decided(ctx, ns, "web"), hub.Author(ctx, ns)
		Expect(edit(ctx, author, pl, `{"metadata": {"labels": {"tier": null}}}`)).To(Succeed())
		require(ctx, ns, byLabels(map[string]string{"tier": "web"}))
		Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete"))
		Expect(edit(ctx, author, pl, `{"spec": {"numberOfClusters": 1}}`)).To(Succeed())
	})
})

var _ = Describe("Without a DisruptionPolicy", func() {
	DescribeTable("an author cannot",
		func(ctx SpecContext, patch, why string) {
			ns := testhub.CreateNamespace(ctx, hub, "team-")
			author, approver := hub.Author(ctx, ns), approver(ctx, ns)
			pl, undecided := decided(ctx, ns, "web"), fixture.Placement(ns, "new").Obj()
			Expect(hub.Create(ctx, undecided)).To(Succeed())
			Expect(edit(ctx, author, pl, patch)).To(forbidden("user author-of-" + ns + " may not " + why))
			Expect(edit(ctx, author, undecided, patch)).To(forbidden(why))
			for _, user := range []client.Client{approver, hub} {
				for _, p := range []*v1alpha1.Placement{pl, undecided} {
					Expect(edit(ctx, user, p, patch)).To(Succeed())
				}
			}
		},
		Entry("disable scheduling", `{"metadata": {"annotations": {"`+v1alpha1.PlacementDisableAnnotation+`": "true"}}}`, "set or end the annotation"),
		Entry("add a finalizer", `{"metadata": {"finalizers": ["example.com/stay"]}}`, "add finalizers"),
		Entry("change the profile", `{"metadata": {"annotations": {"berth.dev/profile": "other"}}}`, "change the annotation berth.dev/profile"),
	)

	It("an author cannot create a Placement that is disabled or has a finalizer", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		author, approver := hub.Author(ctx, ns), approver(ctx, ns)
		disabled := fixture.Placement(ns, "disabled").Annotation(v1alpha1.PlacementDisableAnnotation, "true").Obj()
		stays := fixture.Placement(ns, "stays").Obj()
		stays.Finalizers = []string{"example.com/stay"}
		for _, pl := range []*v1alpha1.Placement{disabled, stays} {
			Expect(author.Create(ctx, pl.DeepCopy(), client.DryRunAll)).To(forbidden("may not"))
			Expect(approver.Create(ctx, pl.DeepCopy(), client.DryRunAll)).To(Succeed())
		}
		Expect(author.Create(ctx, fixture.Placement(ns, "other").Annotation(v1alpha1.ProfileAnnotation, "other").Obj())).To(Succeed())

		By("editing what an approver disabled")
		Expect(approver.Create(ctx, disabled)).To(Succeed())
		Expect(edit(ctx, author, disabled, `{"metadata": {"annotations": {"note": "mine"}}}`)).To(Succeed())
		Expect(edit(ctx, author, disabled, `{"metadata": {"annotations": null}}`)).To(forbidden("may not set or end the annotation"))
		Expect(approver.Create(ctx, stays)).To(Succeed())
		Expect(edit(ctx, author, stays, `{"metadata": {"labels": {"a": "b"}}}`)).To(Succeed())
		Expect(edit(ctx, author, stays, `{"metadata": {"finalizers": ["example.com/stay", "example.com/more"]}}`)).To(forbidden("may not add finalizers"))
		Expect(edit(ctx, author, stays, `{"metadata": {"finalizers": null}}`)).To(Succeed())
	})

	It("an author can delete a Placement with every propagation policy except Orphan", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		author, approver := hub.Author(ctx, ns), approver(ctx, ns)
		for _, policy := range []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
		} {
			pl := decided(ctx, ns, "gone-"+strings.ToLower(string(policy)))
			deletes := client.Client(author)
			if policy == metav1.DeletePropagationOrphan {
				keeps := forbidden("user author-of-" + ns + " may not delete a Placement and keep its decisions")
				Expect(author.Delete(ctx, pl.DeepCopy(), client.PropagationPolicy(policy))).To(keeps)
				deprecated := &metav1.DeleteOptions{OrphanDependents: new(true)} //nolint:staticcheck // The API server still obeys it.
				Expect(author.Delete(ctx, pl.DeepCopy(), &client.DeleteOptions{Raw: deprecated})).To(keeps)
				deletes = approver
			}
			Expect(deletes.Delete(ctx, pl.DeepCopy(), client.PropagationPolicy(policy))).To(Succeed())
			// The garbage collector removes the finalizer of the deletion.
			Eventually(func() error { return hub.Get(ctx, client.ObjectKeyFromObject(pl), pl) }).Should(WithTransform(apierrors.IsNotFound, BeTrue()))
		}
	})
})
