package changes

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("An approval", func() {
	It("names the requesting user, for an approval, a rejection, and an approval after a rejection", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		record := held(ctx, fixture.Placement(ns, "web").Obj())
		ann, bob := approver(ctx, ns), hub.As("bob")
		testhub.Grant(ctx, hub, ns, "bob", "berth-approver")
		me := "approver-of-" + ns
		for _, decision := range []string{"Approved", "Rejected"} {
			Expect(answer(ctx, ann, record, decision, "bob")).To(forbidden("spec.approval.by is bob, but the user who makes the request is " + me))
			Expect(answer(ctx, hub, record, decision, me)).To(forbidden("spec.approval.by is "+me), "the administrator too")
		}
		Expect(answer(ctx, ann, record, "Rejected", me)).To(Succeed())
		Expect(answer(ctx, bob, record, "Approved", me)).To(forbidden("spec.approval.by is " + me))
		Expect(answer(ctx, bob, record, "Approved", "bob")).To(Succeed())
	})

	It("is checked when a record is created with an approval", func(ctx SpecContext) {
		record := &berthv1alpha1.PlacementChange{}
		record.Namespace, record.Name = testhub.CreateNamespace(ctx, hub, "team-"), "web-1"
		record.Spec = berthv1alpha1.PlacementChangeSpec{
			Placement: "web", Revision: 1, From: berthv1alpha1.Digest(nil), To: berthv1alpha1.Digest(nil), Cause: "start",
			Approval: &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Approved, By: "ann"},
		}
		Expect(hub.Create(ctx, record)).To(forbidden("spec.approval.by is ann"))
		record.Spec.Approval = nil
		Expect(hub.Create(ctx, record)).To(Succeed())
	})

	It("does not block other edits of the approved record by other users", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		record := held(ctx, fixture.Placement(ns, "web").Obj())
		Expect(answer(ctx, approver(ctx, ns), record, "Approved", "approver-of-"+ns)).To(Succeed())
		Expect(testhub.Patch(ctx, hub, record, `{"metadata": {"labels": {"a": "b"}}}`)).To(Succeed())
		record.Status.Phase = berthv1alpha1.PhasePublished
		Expect(hub.Status().Update(ctx, record)).To(Succeed())
	})

	It("is the only field that an approver can write", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		record := held(ctx, fixture.Placement(ns, "web").Obj())
		ann := approver(ctx, ns)
		for _, metadata := range []string{
			`{"finalizers": ["a.io/b"]}`, `{"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]}`, `{"labels": {"a": "b"}}`, `{"annotations": {"a": "b"}}`,
		} {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": `+metadata+`}`))
			Expect(ann.Patch(ctx, record.DeepCopy(), patch)).To(forbidden("may write only spec.approval"), metadata)
		}
	})

	It("needs a permission that an author does not have, as do creating and deleting a record and writing its status", func(ctx SpecContext) {
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		record := held(ctx, fixture.Placement(ns, "web").Obj())
		author := hub.Author(ctx, ns)
		Expect(author.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
		Expect(answer(ctx, author, record, "Approved", "author-of-"+ns)).To(forbidden("cannot patch resource"))
		for name, user := range map[string]client.Client{"author": author, "approver": approver(ctx, ns)} {
			forged := record.DeepCopy()
			forged.Name, forged.ResourceVersion = "forged", ""
			Expect(user.Create(ctx, forged)).To(forbidden("cannot create resource"), name)
			Expect(user.Delete(ctx, record.DeepCopy())).To(forbidden("cannot delete resource"), name)
			Expect(user.Status().Update(ctx, record.DeepCopy())).To(forbidden("cannot update resource"), name)
			Expect(user.Create(ctx, &berthv1alpha1.DisruptionPolicy{})).NotTo(Succeed(), name)
		}
		testhub.Grant(ctx, hub, ns, "owner", "berth-disruption-policy-editor")
		policy := &berthv1alpha1.DisruptionPolicy{Spec: berthv1alpha1.DisruptionPolicySpec{Placements: []string{"web"}}}
		policy.Namespace, policy.Name = ns, "owned"
		Expect(author.Create(ctx, policy.DeepCopy())).To(forbidden("cannot create resource"))
		Expect(hub.As("owner").Create(ctx, policy)).To(Succeed())
	})
})
