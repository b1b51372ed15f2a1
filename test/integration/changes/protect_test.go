package changes

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("What a DisruptionPolicy protects", func() {
	revoke := func(ctx SpecContext, user client.Client, ns, patch string) error {
		return user.Patch(ctx, fixture.Binding(ns, "edge"), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}

	DescribeTable("only an approver can delete: Placements and the bindings that they use",
		func(ctx SpecContext, spec berthv1alpha1.DisruptionPolicySpec, why string) {
			ns := testhub.CreateNamespace(ctx, hub, "team-")
			binding, pl := fixture.Binding(ns, "edge"), decided(ctx, ns, "web")
			Expect(hub.Create(ctx, binding)).To(Succeed())
			spec.Placements = []string{"web"}
			policy := protect(ctx, ns, spec)
			author, approver := hub.Author(ctx, ns), approver(ctx, ns)
			Eventually(func() error { return author.Delete(ctx, pl.DeepCopy(), client.DryRunAll) }).Should(forbidden("DisruptionPolicy " + policy.Name + why))
			refused := forbidden("user author-of-" + ns + " may not delete ManagedClusterSetBinding edge, change its set or add owners to it while DisruptionPolicy " +
				policy.Name + why)
			Eventually(func() error { return author.Delete(ctx, binding.DeepCopy(), client.DryRunAll) }).Should(refused)
			for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
				Expect(author.Delete(ctx, binding.DeepCopy(), client.DryRunAll, client.PropagationPolicy(propagation))).To(refused)
			}
			Expect(author.DeleteAllOf(ctx, &v1alpha1.ManagedClusterSetBinding{}, client.InNamespace(ns), client.DryRunAll)).To(refused)
			Expect(hub.As(collector).Delete(ctx, binding.DeepCopy(), client.DryRunAll)).To(forbidden("may not delete ManagedClusterSetBinding edge"))
			Expect(revoke(ctx, author, ns, `{"spec": {"clusterSet": null}}`)).NotTo(Succeed())
			Expect(revoke(ctx, author, ns, owners)).To(refused)
			Expect(revoke(ctx, author, ns, `{"metadata": {"labels": {"a": "b"}}}`)).To(Succeed())
			for _, user := range []client.Client{approver, hub} {
				Expect(user.Delete(ctx, pl.DeepCopy(), client.DryRunAll)).To(Succeed())
				Expect(user.Patch(ctx, binding.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(owners)), client.DryRunAll)).To(Succeed())
				Expect(user.Delete(ctx, binding.DeepCopy(), client.DryRunAll)).To(Succeed())
			}
		},
		Entry("approval", berthv1alpha1.DisruptionPolicySpec{Approval: berthv1alpha1.ApprovalRequired}, " requires approval"),
		Entry("suspend", berthv1alpha1.DisruptionPolicySpec{Suspend: true}, " suspends changes"),
		Entry("minAvailable", berthv1alpha1.DisruptionPolicySpec{MinAvailable: new(intstr.FromInt32(1))}, " has minAvailable"),
		Entry("minAvailable in percent", berthv1alpha1.DisruptionPolicySpec{MinAvailable: new(intstr.FromString("1%"))}, " has minAvailable"),
	)

	It("ends with the policy, and with the namespace", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		binding, author := fixture.Binding(ns, "edge"), hub.Author(ctx, ns)
		Expect(hub.Create(ctx, binding)).To(Succeed())
		Eventually(func() error { return author.Delete(ctx, binding.DeepCopy(), client.DryRunAll) }).Should(Succeed())
		slow := byLabels(nil)
		slow.MinAvailable = new(intstr.FromInt32(0))
		protect(ctx, ns, slow)
		Consistently(func() error { return author.Delete(ctx, binding.DeepCopy(), client.DryRunAll) }).Should(Succeed())
		policy := require(ctx, ns, byLabels(map[string]string{"tier": "other"}))
		Eventually(func() error { return author.Delete(ctx, binding.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete"))
		Expect(author.Delete(ctx, policy.DeepCopy(), client.DryRunAll)).To(forbidden("disruptionpolicies"))
		Expect(hub.Delete(ctx, policy)).To(Succeed())
		Eventually(func() error { return author.Delete(ctx, binding.DeepCopy(), client.DryRunAll) }).Should(Succeed())

		require(ctx, ns, byLabels(nil))
		Eventually(func() error { return author.Delete(ctx, binding.DeepCopy(), client.DryRunAll) }).Should(forbidden("may not delete"))
		Expect(hub.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())
		Eventually(func() error { return hub.Get(ctx, client.ObjectKeyFromObject(binding), binding) }).Should(WithTransform(apierrors.IsNotFound, BeTrue()))
	})
})

var _ = Describe("The size of a Placement", func() {
	labelled := func(ns string, n int) *v1alpha1.Placement {
		pl := fixture.Placement(ns, "large").Obj()
		pl.Labels = map[string]string{}
		for i := range n {
			pl.Labels[fmt.Sprint("label-", i)] = ""
		}
		return pl
	}
	// newAuthor waits until the API server knows the permissions.
	newAuthor := func(ctx SpecContext, ns string) client.Client {
		author := hub.Author(ctx, ns)
		Eventually(func() error { return author.Create(ctx, fixture.Placement(ns, "small").Obj(), client.DryRunAll) }).Should(Succeed())
		return author
	}
	// large has n bytes of CEL that repeat the text.
	large := func(ns, text string, n int) *v1alpha1.Placement {
		return fixture.Placement(ns, "large").Predicate(fixture.MatchCEL(strings.Repeat(text, n/len(text)))).Obj()
	}

	It("is at most 100 labels", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		author := newAuthor(ctx, ns)
		Expect(author.Create(ctx, labelled(ns, 101))).To(MatchError(ContainSubstring("metadata.labels: Too many: 101: must have at most 100 items")))
		pl := labelled(ns, 100)
		Expect(author.Create(ctx, pl)).To(Succeed())
		Expect(edit(ctx, author, pl, `{"metadata": {"labels": {"more": ""}}}`)).To(MatchError(ContainSubstring("Too many: 101")))
		Expect(edit(ctx, author, pl, `{"metadata": {"labels": {"label-1": null, "more": ""}}}`)).To(Succeed())
	})

	DescribeTable("is at most 1 MiB as JSON", func(ctx SpecContext, text string, fits, tooMuch int) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		author := newAuthor(ctx, ns)
		Expect(author.Create(ctx, large(ns, text, tooMuch))).To(MatchError(ContainSubstring(" bytes without its status: must have at most 1048576")))
		pl := large(ns, text, fits)
		Expect(author.Create(ctx, pl)).To(Succeed())
		for i := range 10 {
			pl.Status.Conditions = append(pl.Status.Conditions, metav1.Condition{
				Type: fmt.Sprint("Condition", i), Status: metav1.ConditionTrue, Reason: "Large", Message: strings.Repeat("<", v1alpha1.MaxMessageLength),
				LastTransitionTime: metav1.Now(),
			})
		}
		Expect(hub.Status().Update(ctx, pl.DeepCopy())).To(Succeed())
		more := `{"metadata": {"annotations": {"more": "` + strings.Repeat("m", 100_000) + `"}}}`
		Expect(edit(ctx, author, pl, more)).To(MatchError(ContainSubstring("must have at most 1048576")))
		// It has fewer characters, and more bytes.
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), pl)).To(Succeed())
		pl.Spec = large(ns, "<", 180_000).Spec
		Expect(author.Update(ctx, pl, client.DryRunAll)).To(MatchError(ContainSubstring("must have at most 1048576")))
	},
		Entry("of letters", "a", 1_040_000, 1_050_000),
		Entry("of letters of several bytes", "ß", 1_040_000, 1_050_000),
		Entry("of characters that JSON escapes with a byte", "\"", 520_000, 530_000),
		Entry("of characters that JSON escapes with five bytes", "<", 170_000, 180_000),
		Entry("of control characters", "\x01", 110_000, 180_000),
		Entry("of bells", "\a", 140_000, 180_000),
		Entry("of line separators", "\u2028", 500_000, 530_000),
		Entry("much larger", "ab", 1_000_000, 3_000_000),
	)

	It("is known if fields of the metadata are empty", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		author := newAuthor(ctx, ns)
		protect(ctx, ns, berthv1alpha1.DisruptionPolicySpec{PlacementSelector: &metav1.LabelSelector{}, Suspend: true})
		probe := decided(ctx, ns, "probe")
		Eventually(func() error { return edit(ctx, author, probe, owners) }).Should(Not(Succeed()))
		for _, metadata := range []string{
			`"labels": {"a": "b"}, "annotations": {"a": "b"}, `, `"labels": {}, "annotations": {}, "ownerReferences": [], "finalizers": [], `, ``,
		} {
			applied := func(version, kind, spec string) client.Patch {
				return client.RawPatch(types.ApplyPatchType, []byte(`{"apiVersion": "`+version+`", "kind": "`+kind+`", "metadata": {`+metadata+`"name": "web"}, "spec": {`+spec+`}}`))
			}
			placement := applied(v1alpha1.GroupVersionV1Beta1.String(), "Placement", "")
			Expect(author.Patch(ctx, fixture.Placement(ns, "web").Obj(), placement, client.FieldOwner("test"))).To(Succeed(), metadata)
			binding := applied("cluster.open-cluster-management.io/v1beta2", "ManagedClusterSetBinding", `"clusterSet": "web"`)
			Expect(hub.Patch(ctx, fixture.Binding(ns, "web"), binding, client.FieldOwner("test"))).To(Succeed(), metadata)
		}
	})

	It("counts the fields that many managers own", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		var annotations []string
		for i := range 200 {
			annotations = append(annotations, fmt.Sprintf("%q: \"\"", fmt.Sprintf("%s.example.com/%d", strings.Repeat(strings.Repeat("d", 60)+".", 3)+"d", i)))
		}
		object := []byte(`{"apiVersion": "` + v1alpha1.GroupVersionV1Beta1.String() + `", "kind": "Placement", "metadata": {"name": "large", "annotations": {` + strings.Join(annotations, ", ") + `}}, "spec": {"numberOfClusters": 1}}`)
		author, refused := newAuthor(ctx, ns), error(nil)
		for i := 0; i < 50 && refused == nil; i++ {
			refused = author.Patch(ctx, fixture.Placement(ns, "large").Obj(), client.RawPatch(types.ApplyPatchType, object), client.FieldOwner(fmt.Sprint("manager-", i)))
		}
		Expect(refused).To(MatchError(ContainSubstring("must have at most 1048576")))
	})
})
