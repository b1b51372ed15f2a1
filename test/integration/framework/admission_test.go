package framework

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// fresh is a name that no Placement has.
const fresh = "fresh"

// Ways to give a Placement an annotation. Nothing is stored.
var ways = map[string]func(ctx context.Context, user client.Client, pl *unstructured.Unstructured, key, value string) error{
	"update": func(ctx context.Context, user client.Client, pl *unstructured.Unstructured, key, value string) error {
		if err := user.Get(ctx, client.ObjectKeyFromObject(pl), pl); err != nil {
			return err
		}
		annotations := pl.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
		pl.SetAnnotations(annotations)
		return user.Update(ctx, pl, client.DryRunAll)
	},
	"patch": func(ctx context.Context, user client.Client, pl *unstructured.Unstructured, key, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, quoted(value))
		return user.Patch(ctx, pl, client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
	},
	"server-side apply": func(ctx context.Context, user client.Client, pl *unstructured.Unstructured, key, value string) error {
		pl.SetAnnotations(map[string]string{key: value})
		return user.Apply(ctx, client.ApplyConfigurationFromUnstructured(pl), client.FieldOwner("editor"), client.ForceOwnership, client.DryRunAll)
	},
}

var _ = Describe("Who may edit a Placement may not thereby approve", Ordered, ContinueOnFailure, func() {
	var t team
	var editor, approver client.Client
	var decided, undecided, free *v1alpha1.Placement
	BeforeAll(func(ctx SpecContext) {
		runBerth(0)
		t = newTeam(ctx)
		t.clusters(ctx, 2)
		editor = t.user(ctx, "editor", "get", "create", "update", "patch", "delete")
		approver = t.user(ctx, "approver", "get", "create", "update", "patch", "delete", "approve")
		decided = t.place(ctx, t.placement("decided"), 2)
		require(ctx, decided, patient)
		free = t.place(ctx, t.placement("free"), 2)
		// Nobody decides for it.
		undecided = t.placement("undecided").Annotation(v1alpha1.PlacementDisableAnnotation, "true").
			Annotation(v1alpha1.ApprovalAnnotation, v1alpha1.ApprovalRequired).Obj()
		Expect(hub.Create(ctx, undecided)).To(Succeed())
		// A new policy takes a moment to be enforced.
		Eventually(func() error {
			return ways["patch"](ctx, editor, as("v1beta1", decided), v1alpha1.ApproveAnnotation, "x")
		}).Should(forbidden("may not set"))
	})

	DescribeTable("in any served version, in any way", func(ctx SpecContext, version string) {
		for way, annotate := range ways {
			for _, c := range []struct{ key, value, refusal string }{
				{v1alpha1.ApproveAnnotation, "0123456789abcdef9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c2-t0", "may not set the annotation berth.dev/approve"},
				{v1alpha1.ApprovalAnnotation, "", "may not set or end the annotation berth.dev/approval=required"},
				{v1alpha1.ApprovalAnnotation, "no", "may not set or end the annotation berth.dev/approval=required"},
				{v1alpha1.PlacementDisableAnnotation, "true", "may not set or end the annotation " + v1alpha1.PlacementDisableAnnotation},
				{v1alpha1.ProfileAnnotation, "", "may not change the annotation berth.dev/profile"},
				{v1alpha1.ProfileAnnotation, careful, "may not change the annotation berth.dev/profile"},
			} {
				By(fmt.Sprintf("%s of %s=%s", way, c.key, c.value))
				Expect(annotate(ctx, editor, as(version, decided), c.key, c.value)).To(forbidden("user editor " + c.refusal))
				Expect(annotate(ctx, approver, as(version, decided), c.key, c.value)).To(Succeed())
				if c.key == v1alpha1.ProfileAnnotation {
					Expect(annotate(ctx, editor, as(version, undecided), c.key, c.value)).To(Succeed(), "before anything is decided")
				}
			}
			for key, value := range map[string]string{v1alpha1.ApprovalAnnotation: "", v1alpha1.PlacementDisableAnnotation: "no"} {
				Expect(annotate(ctx, editor, as(version, undecided), key, value)).To(forbidden("user editor may not set or end"))
				Expect(annotate(ctx, approver, as(version, undecided), key, value)).To(Succeed())
			}
			Expect(annotate(ctx, editor, as(version, free), v1alpha1.ApprovalAnnotation, v1alpha1.ApprovalRequired)).To(forbidden("user editor may not set or end"))
			Expect(annotate(ctx, approver, as(version, free), v1alpha1.ApprovalAnnotation, v1alpha1.ApprovalRequired)).To(Succeed())
			Expect(annotate(ctx, editor, as(version, free), v1alpha1.ApprovalAnnotation, "no")).To(Succeed(), "requiring nothing")
			Expect(annotate(ctx, editor, as(version, decided), "example.com/note", "mine")).To(Succeed())
			Expect(annotate(ctx, editor, as(version, decided), v1alpha1.ApproveAnnotation, "")).To(Succeed(), "approving nothing")
			Expect(annotate(ctx, editor, as(version, undecided), v1alpha1.ApproveAnnotation, "x")).To(forbidden("user editor may not set"))
		}
		By("creating one")
		create := func(user client.Client, key, value string) error {
			pl := as(version, t.placement(fresh).Obj())
			pl.SetAnnotations(map[string]string{key: value})
			return user.Create(ctx, pl, client.DryRunAll)
		}
		Expect(create(editor, v1alpha1.ApproveAnnotation, "x")).To(forbidden("user editor may not set"))
		Expect(create(approver, v1alpha1.ApproveAnnotation, "x")).To(Succeed())
		for key, value := range map[string]string{v1alpha1.ApprovalAnnotation: v1alpha1.ApprovalRequired, v1alpha1.PlacementDisableAnnotation: "true"} {
			Expect(create(editor, key, value)).To(forbidden("user editor may not set or end"))
			Expect(create(approver, key, value)).To(Succeed())
		}
		Expect(create(editor, v1alpha1.ProfileAnnotation, careful)).To(Succeed())
		pl := as(version, t.placement(fresh).Obj())
		Expect(ways["server-side apply"](ctx, editor, pl, v1alpha1.ApproveAnnotation, "x")).To(forbidden("user editor may not set"))
	}, Entry("v1alpha1", "v1alpha1"), Entry("v1beta1", "v1beta1"))

	It("not by a right in another namespace", func(ctx SpecContext) {
		other := newTeam(ctx)
		other.grant(ctx, "editor", "approve")
		Expect(ways["patch"](ctx, editor, as("v1beta1", decided), v1alpha1.ApproveAnnotation, "x")).To(forbidden("user editor may not set"))
	})

	It("and may not delete what needs approval, as that takes the clusters away, unless the namespace goes", func(ctx SpecContext) {
		dryRun := &client.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		Expect(editor.Delete(ctx, decided.DeepCopy(), dryRun)).To(forbidden("user editor may not delete"))
		Expect(approver.Delete(ctx, decided.DeepCopy(), dryRun)).To(Succeed())
		Expect(editor.Delete(ctx, undecided.DeepCopy(), dryRun)).To(forbidden("user editor may not delete"))
		Expect(editor.Delete(ctx, free.DeepCopy(), dryRun)).To(Succeed())

		leaving := newTeam(ctx)
		leaving.clusters(ctx, 1)
		user := leaving.user(ctx, "editor", "get", "delete")
		pl := leaving.place(ctx, leaving.placement("decided"), 1)
		require(ctx, pl, patient)
		Expect(user.Delete(ctx, pl.DeepCopy(), dryRun)).To(forbidden("user editor may not delete"))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pl.Namespace}}
		Expect(hub.Delete(ctx, namespace)).To(Succeed())
		Eventually(func() error { return user.Delete(ctx, pl.DeepCopy(), dryRun) }).Should(Succeed())
	})

	It("and may not add finalizers, but remove them, and delete in every way", func(ctx SpecContext) {
		const finalizer = "example.com/stay"
		finalizers := func(user client.Client, pl *v1alpha1.Placement, patch string) error {
			return user.Patch(ctx, fixture.Placement(pl.Namespace, pl.Name).Obj(), client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":`+patch+`}}`)))
		}
		Expect(finalizers(editor, free, `["`+finalizer+`"]`)).To(forbidden("user editor may not add finalizers"))
		Expect(finalizers(approver, free, `["`+finalizer+`"]`)).To(Succeed())
		Expect(finalizers(editor, free, `["`+finalizer+`","example.com/more"]`)).To(forbidden("user editor may not add finalizers"))
		Expect(annotation(ctx, editor, free, "example.com/note", "mine")).To(Succeed(), "with the finalizer of somebody else")
		Expect(finalizers(editor, free, `null`)).To(Succeed())
		pl := t.placement(fresh).Obj()
		pl.Finalizers = []string{finalizer}
		Expect(editor.Create(ctx, pl.DeepCopy(), client.DryRunAll)).To(forbidden("user editor may not add finalizers"))
		Expect(approver.Create(ctx, pl.DeepCopy(), client.DryRunAll)).To(Succeed())

		for policy, added := range map[metav1.DeletionPropagation]string{
			metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents, metav1.DeletePropagationOrphan: metav1.FinalizerOrphanDependents,
			metav1.DeletePropagationBackground: "",
		} {
			pl := t.place(ctx, t.placement("gone-"+strings.ToLower(string(policy))), 2)
			deletes := editor
			if policy == metav1.DeletePropagationOrphan {
				// Its decisions would stay for ever.
				keeps := forbidden("user editor may not delete a Placement and keep its decisions")
				Expect(editor.Delete(ctx, pl.DeepCopy(), client.PropagationPolicy(policy))).To(keeps)
				deprecated := &metav1.DeleteOptions{OrphanDependents: new(true)} //nolint:staticcheck // The API server still obeys it.
				Expect(editor.Delete(ctx, pl.DeepCopy(), &client.DeleteOptions{Raw: deprecated})).To(keeps)
				deletes = approver
			}
			Expect(deletes.Delete(ctx, pl.DeepCopy(), client.PropagationPolicy(policy))).To(Succeed())
			if added == "" {
				continue
			}
			Expect(get(ctx, pl).Finalizers).To(ConsistOf(added))
			// What the garbage collector does, with rights that do not include approving.
			Expect(finalizers(editor, pl, `null`)).To(Succeed())
			Eventually(func() error { return hub.Get(ctx, client.ObjectKeyFromObject(pl), pl) }).Should(WithTransform(apierrors.IsNotFound, BeTrue()))
		}
	})

	It("and may not give what needs approval an owner that is not there, which has it collected", func(ctx SpecContext) {
		owners := func(user client.Client, pl *v1alpha1.Placement, uid string) error {
			return user.Patch(ctx, fixture.Placement(pl.Namespace, pl.Name).Obj(), client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"ghost","uid":"`+uid+`"}]}}`)))
		}
		Expect(owners(editor, decided, "1")).To(forbidden("user editor may not add owners"))
		Expect(owners(editor, undecided, "1")).To(forbidden("user editor may not add owners"))
		Expect(owners(approver, decided, "1")).To(Succeed())
		Expect(owners(editor, decided, "2")).To(forbidden("user editor may not add owners"), "nor change the one that is there")
		Expect(annotation(ctx, editor, decided, "example.com/note", "owned")).To(Succeed())
		Expect(mergePatch(ctx, editor, fixture.Placement(decided.Namespace, decided.Name).Obj(), `{"metadata":{"ownerReferences":null}}`)).To(Succeed())
		Expect(owners(editor, free, "1")).To(Succeed(), "where nothing needs approval")
		Expect(mergePatch(ctx, editor, fixture.Placement(free.Namespace, free.Name).Obj(), `{"metadata":{"ownerReferences":null}}`)).To(Succeed())
	})

	It("so that a held change waits for one who may", func(ctx SpecContext) {
		consumer := observe(ctx, decided)
		Expect(mergePatch(ctx, editor, fixture.Placement(decided.Namespace, decided.Name).Obj(), `{"spec":{"numberOfClusters":1}}`)).To(Succeed())
		token := tokenOf(ctx, decided, held(0, 1))
		Expect(annotation(ctx, editor, decided, v1alpha1.ApproveAnnotation, token)).To(forbidden("user editor may not set"))
		Expect(annotation(ctx, editor, decided, v1alpha1.ApprovalAnnotation, "")).To(forbidden("user editor may not set or end"))
		Expect(annotation(ctx, editor, decided, v1alpha1.ProfileAnnotation, always)).To(forbidden("user editor may not change"))
		Consistently(pending(ctx, decided)).Should(held(0, 1))
		consumer.sawNoChange(ctx)
		waiting := heldClusters(ctx, decided)()
		Expect(annotation(ctx, approver, decided, v1alpha1.ApproveAnnotation, token)).To(Succeed())
		published(ctx, decided, waiting)
	})
})

// user is somebody with rights to the team's Placements.
func (t team) user(ctx context.Context, name string, verbs ...string) client.Client {
	GinkgoHelper()
	t.grant(ctx, name, verbs...)
	impersonating := rest.CopyConfig(config)
	impersonating.Impersonate.UserName = name
	user, err := client.New(impersonating, client.Options{Scheme: hub.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return user
}

func (t team) grant(ctx context.Context, user string, verbs ...string) {
	GinkgoHelper()
	name := metav1.ObjectMeta{Namespace: string(t), Name: user}
	Expect(hub.Create(ctx, &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"placements"}, Verbs: verbs},
	}})).To(Succeed())
	Expect(hub.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}

// as is a Placement in a served version, by name only.
func as(version string, pl *v1alpha1.Placement) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupName + "/" + version, "kind": "Placement",
		"metadata": map[string]any{"namespace": pl.Namespace, "name": pl.Name}, "spec": map[string]any{},
	}}
}

// forbidden matches a refusal.
func forbidden(why string) OmegaMatcher {
	return And(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring(why)))
}
