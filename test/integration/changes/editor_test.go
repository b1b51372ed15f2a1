package changes

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("The editor of a Placement", func() {
	It("is the user of the last request that changed the spec or an annotation of Berth", func(ctx SpecContext) {
		hub.InstallEditorPolicy(ctx)
		ns := testhub.CreateNamespace(ctx, hub, "team-")
		editors := "system:masters"
		ann, bob, eve := hub.As("ann", editors), hub.As("bob smith", editors), hub.As("eve", editors)
		key := client.ObjectKey{Namespace: ns, Name: "web"}
		current := func() *v1alpha1.Placement {
			pl := &v1alpha1.Placement{}
			Expect(hub.Get(ctx, key, pl)).To(Succeed())
			return pl
		}
		stamp := func() string { return current().Annotations[berthv1alpha1.EditedByAnnotation] }
		write := func(user client.Client, patch string) {
			Expect(user.Patch(ctx, fixture.Placement(ns, "web").Obj(), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
		}
		editor := func() string {
			by, _ := framework.Editor(current())
			return by
		}

		By("a creation")
		pl := fixture.Placement(ns, "web").Number(8).Obj()
		pl.UID = ""
		Expect(ann.Create(ctx, pl)).To(Succeed())
		Expect(editor()).To(Equal("ann"))
		at, err := time.Parse(time.RFC3339, stamp()[:len("2026-01-01T12:00:00Z")])
		Expect(err).NotTo(HaveOccurred())
		Expect(at).To(BeTemporally("~", time.Now(), time.Minute))

		By("edits")
		write(bob, `{"spec": {"numberOfClusters": 2}}`)
		Expect(editor()).To(Equal("bob smith"))
		write(ann, `{"metadata": {"annotations": {"`+berthv1alpha1.PinnedRevisionAnnotation+`": "1"}}}`)
		Expect(editor()).To(Equal("ann"))
		write(bob, `{"metadata": {"annotations": {"`+berthv1alpha1.PinnedRevisionAnnotation+`": null}}}`)
		Expect(editor()).To(Equal("bob smith"))

		By("other objects by which people act")
		eviction := fixture.Eviction(ns, "broken", "web", "paris1").Obj()
		eviction.UID, eviction.ResourceVersion = "", ""
		policy := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-suspend"}}
		policy.Spec.Placements, policy.Spec.Suspend = []string{"web"}, true
		for _, object := range []client.Object{eviction, policy} {
			object.SetAnnotations(map[string]string{berthv1alpha1.CommentAnnotation: "disk broken"})
			Expect(bob.Create(ctx, object)).To(Succeed())
			Expect(berthv1alpha1.EditText(object)).To(Equal(" by bob smith (disk broken)"))
			Expect(eve.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"a": "b"}}}`)))).To(Succeed())
			Expect(berthv1alpha1.EditText(object)).To(Equal(" by bob smith (disk broken)"))
		}

		By("what is no edit")
		before := stamp()
		write(eve, `{"metadata": {"labels": {"a": "b"}, "annotations": {"example.com/x": "y"}}}`)
		write(eve, `{"metadata": {"annotations": {"`+berthv1alpha1.EditedByAnnotation+`": "2026-01-01T12:00:00Z ann"}}}`)
		Expect(stamp()).To(Equal(before))
		write(eve, `{"metadata": {"annotations": {"`+berthv1alpha1.EditedByAnnotation+`": null}}}`)
		Expect(stamp()).To(Equal(before))
		write(eve, `{"metadata": {"annotations": null}}`)
		Expect(stamp()).To(Equal(before))

		By("a comment, which goes with the next edit")
		comment := func() string {
			_, comment := framework.Editor(current())
			return comment
		}
		write(ann, `{"spec": {"numberOfClusters": 3}, "metadata": {"annotations": {"`+berthv1alpha1.CommentAnnotation+`": "a sale"}}}`)
		Expect(comment()).To(Equal("a sale"))
		write(eve, `{"metadata": {"labels": {"a": "c"}}}`)
		Expect(comment()).To(Equal("a sale"))
		write(bob, `{"spec": {"numberOfClusters": 2}}`)
		Expect(comment()).To(BeEmpty())
		write(bob, `{"metadata": {"annotations": {"`+berthv1alpha1.CommentAnnotation+`": "alone"}}}`)
		Expect(editor()).To(Equal("bob smith"))
		Expect(comment()).To(Equal("alone"))

		By("a forged edit")
		write(eve, `{"spec": {"numberOfClusters": 0}, "metadata": {"annotations": {"`+berthv1alpha1.EditedByAnnotation+`": "2026-01-01T12:00:00Z ann"}}}`)
		Expect(editor()).To(Equal("eve"))
	})
})
