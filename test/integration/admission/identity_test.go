package admission

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

const (
	eves      = `{"user":"eve","groups":["ops"]}`
	annStamp  = `{"user":"ann","username":"ann","groups":["dev","system:authenticated"]}`
	forbidden = "is not allowed to set user annotation"
	unchanged = "user info annotation change is not allowed"
	gardener  = "system:serviceaccount:kube-system:gardener"
	robot     = "system:serviceaccount:argocd:robot"
)

var versions = []string{"v1alpha1", "v1beta1"}

func other(version string) string {
	if version == versions[0] {
		return versions[1]
	}
	return versions[0]
}

// refused is an answer of Berth's in these words.
func refused(words string) OmegaMatcher {
	return And(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(ContainSubstring(words)), MatchError(ContainSubstring("placements.berth.dev")))
}

var _ = Describe("The submitter of a Placement", func() {
	for _, version := range versions {
		Context("in "+version, func() { describeVersion(version) })
	}
})

func describeVersion(version string) {
	It("is stamped on a new Placement, and nothing else in it changes", func(ctx SpecContext) {
		object := placement(version, "plain")
		Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
		found := stored(ctx, object, other(version))
		Expect(found.GetAnnotations()).To(Equal(map[string]string{userInfo: annStamp}))
		Expect(found.Object["spec"]).To(HaveKeyWithValue("numberOfClusters", BeNumerically("==", 3)))

		more := placement(version, "")
		more.SetGenerateName("generated-")
		more.SetAnnotations(map[string]string{"a/b": "c"})
		Expect(hub.As("ann", "dev").Create(ctx, labelled(more, userLabel, "eve"))).To(Succeed())
		Expect(stored(ctx, more, version).GetAnnotations()).To(Equal(map[string]string{userInfo: annStamp, "a/b": "c"}))
	})

	It("can be a service account with its groups, also a trusted one", func(ctx SpecContext) {
		for i, user := range []string{robot, gardener} {
			object := placement(version, fmt.Sprintf("account-%d", i))
			Expect(hub.As(user).Create(ctx, object)).To(Succeed())
			stamped, err := identity.Parse(stored(ctx, object, version).GetAnnotations()[userInfo])
			Expect(err).NotTo(HaveOccurred())
			Expect(stamped.User).To(Equal(user))
			Expect(stamped.Groups).To(ContainElement("system:serviceaccounts"))
		}
	})

	It("cannot set the user annotation, for another user or for itself", func(ctx SpecContext) {
		for _, text := range []string{eves, annStamp, ""} {
			Expect(hub.As("ann", "dev").Create(ctx, annotated(placement(version, "forged"), text))).To(refused(forbidden))
		}
		Expect(hub.As(robot).Create(ctx, annotated(placement(version, "forged"), eves))).To(refused(forbidden))
		Expect(hub.As("root", "system:masters").Create(ctx, annotated(placement(version, "forged"), eves))).To(refused(forbidden))
		applied := client.ApplyConfigurationFromUnstructured(annotated(placement(version, "forged"), eves))
		Expect(hub.As("ann", "dev").Apply(ctx, applied, client.FieldOwner("ann"))).To(refused(forbidden))
	})

	It("can be set by a trusted user, if the annotation is valid", func(ctx SpecContext) {
		object := annotated(placement(version, "carried"), eves)
		Expect(hub.As(gardener).Create(ctx, object)).To(Succeed())
		Expect(stored(ctx, object, version).GetAnnotations()).To(HaveKeyWithValue(userInfo, eves))
		for _, text := range []string{"xyzxyz", "{}", "", `{"user":"a","username":"b"}`} {
			Expect(hub.As(gardener).Create(ctx, annotated(placement(version, "unreadable"), text))).To(refused("invalid"))
		}

		configure(map[string]string{"trustControllers": "false", "externalUsers": "^portal$", "externalGroups": "^brokers$"})
		Expect(hub.As(gardener).Create(ctx, annotated(placement(version, "distrusted"), eves))).To(refused(forbidden))
		Expect(hub.As("portal").Create(ctx, annotated(placement(version, "portal"), eves))).To(Succeed())
		Expect(hub.As("ann", "brokers").Create(ctx, annotated(placement(version, "broker"), eves))).To(Succeed())
		Expect(hub.As("ann", "dev").Create(ctx, annotated(placement(version, "neither"), eves))).To(refused(forbidden))
	})

	It("stays the same for every user and every kind of write", func(ctx SpecContext) {
		object := placement(version, "kept")
		Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
		configure(map[string]string{"bypassAuth": "true", "externalUsers": ".*"})
		for _, user := range []client.Client{hub.As("ann", "dev"), hub.As("eve"), hub.As(gardener), hub.As("root", "system:masters")} {
			for _, through := range versions {
				current := stored(ctx, object, through)
				Expect(user.Update(ctx, annotated(current.DeepCopy(), eves))).To(refused(unchanged))
				removed := current.DeepCopy()
				removed.SetAnnotations(nil)
				Expect(user.Update(ctx, removed)).To(refused(unchanged))
				for patchType, patch := range map[types.PatchType]string{
					types.MergePatchType: fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, userInfo),
					types.JSONPatchType:  `[{"op":"replace","path":"/metadata/annotations/yunikorn.apache.org~1user.info","value":""}]`,
				} {
					Expect(user.Patch(ctx, current.DeepCopy(), client.RawPatch(patchType, []byte(patch)))).To(refused(unchanged))
				}
				applied := client.ApplyConfigurationFromUnstructured(annotated(placement(through, "kept"), eves))
				Expect(user.Apply(ctx, applied, client.FieldOwner("forger"), client.ForceOwnership)).To(refused(unchanged))
			}
		}
		Expect(stored(ctx, object, version).GetAnnotations()).To(Equal(map[string]string{userInfo: annStamp}))
	})

	It("stays the same when the status is written", func(ctx SpecContext) {
		object := placement(version, "status")
		Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
		forged := annotated(stored(ctx, object, version), eves)
		Expect(unstructured.SetNestedField(forged.Object, int64(2), "status", "numberOfSelectedClusters")).To(Succeed())
		Expect(hub.As("eve").Status().Update(ctx, forged)).To(Succeed())
		found := stored(ctx, object, version)
		Expect(found.Object["status"]).To(HaveKeyWithValue("numberOfSelectedClusters", BeNumerically("==", 2)))
		Expect(found.GetAnnotations()).To(Equal(map[string]string{userInfo: annStamp}))
	})

	It("does not block other edits, by any user", func(ctx SpecContext) {
		object := placement(version, "edited")
		Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
		for i, user := range []client.Client{hub.As("ann", "dev"), hub.As("eve"), hub.As(gardener)} {
			current := labelled(stored(ctx, object, version), "edit", fmt.Sprint(i))
			Expect(unstructured.SetNestedField(current.Object, int64(i+5), "spec", "numberOfClusters")).To(Succeed())
			Expect(user.Update(ctx, current)).To(Succeed())
		}
		Expect(stored(ctx, object, version).GetAnnotations()).To(Equal(map[string]string{userInfo: annStamp}))
	})

	It("can edit and delete a Placement of as many groups as its status can have", func(ctx SpecContext) {
		object := placement(version, "groups")
		Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
		group := map[string]any{"decisionGroupIndex": int64(0), "decisionGroupName": strings.Repeat("g", 63), "decisions": []any{strings.Repeat("p", 63)}, "clustersCount": int64(1)}
		object = stored(ctx, object, version)
		Expect(unstructured.SetNestedSlice(object.Object, slices.Repeat([]any{group}, 7000), "status", "decisionGroups")).To(Succeed())
		Expect(hub.Status().Update(ctx, object)).To(Succeed())
		Expect(unstructured.SetNestedField(object.Object, int64(5), "spec", "numberOfClusters")).To(Succeed())
		Expect(hub.As("ann", "dev").Update(ctx, annotated(object, annStamp))).To(Succeed())
		object.SetFinalizers([]string{"example.com/stay"})
		Expect(hub.As("ann", "dev").Update(ctx, object)).To(Succeed())
		Expect(hub.Delete(ctx, object)).To(Succeed())
		Expect(hub.As("ann", "dev").Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))).To(Succeed())
	})

	It("can apply the same manifest again without the stamp", func(ctx SpecContext) {
		for i, user := range []string{"ann", "ann", "eve"} {
			object := placement(version, "applied")
			Expect(unstructured.SetNestedField(object.Object, int64(i), "spec", "numberOfClusters")).To(Succeed())
			Expect(hub.As(user, "dev").Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("gitops"))).To(Succeed())
			found := stored(ctx, object, version)
			Expect(found.GetAnnotations()).To(Equal(map[string]string{userInfo: annStamp}))
			Expect(found.Object["spec"]).To(HaveKeyWithValue("numberOfClusters", BeNumerically("==", i)))
		}
	})

	It("can be added later by a trusted user if the Placement has no stamp", func(ctx SpecContext) {
		configure(map[string]string{"bypassAuth": "true"})
		object := labelled(placement(version, "migrated"), userLabel, "ann")
		Expect(hub.As("eve").Create(ctx, object)).To(Succeed())
		Expect(stored(ctx, object, version).GetAnnotations()).To(BeEmpty())

		configure(map[string]string{})
		Expect(hub.As("eve").Update(ctx, labelled(stored(ctx, object, version), "edit", "1"))).To(Succeed())
		Expect(hub.As("eve").Update(ctx, annotated(stored(ctx, object, version), eves))).To(refused(forbidden))
		Expect(hub.As(gardener).Update(ctx, annotated(stored(ctx, object, version), "{}"))).To(refused("invalid"))
		Expect(hub.As(gardener).Update(ctx, annotated(stored(ctx, object, version), eves))).To(Succeed())
		Expect(hub.As(gardener).Update(ctx, annotated(stored(ctx, object, version), annStamp))).To(refused(unchanged))
	})

	It("is read from its label under bypassAuth, and the label is immutable", func(ctx SpecContext) {
		configure(map[string]string{"bypassAuth": "true"})
		Expect(hub.As("eve").Create(ctx, annotated(placement(version, "unstamped"), annStamp))).To(Succeed())
		Expect(hub.As("eve").Create(ctx, annotated(placement(version, "unreadable"), "{}"))).To(refused("invalid"))
		bare := placement(version, "bare")
		Expect(hub.As("ann", "dev").Create(ctx, bare)).To(Succeed())
		Expect(stored(ctx, bare, version).GetAnnotations()).To(HaveKeyWithValue(userInfo, annStamp))

		object := labelled(placement(version, "named"), userLabel, "ann")
		Expect(hub.As("eve").Create(ctx, object)).To(Succeed())
		Expect(stored(ctx, object, version).GetAnnotations()).To(BeEmpty())
		Expect(hub.As("eve").Update(ctx, labelled(stored(ctx, object, version), userLabel, "eve"))).To(refused("label"))
		removed := stored(ctx, object, version)
		removed.SetLabels(nil)
		Expect(hub.As("root", "system:masters").Update(ctx, removed)).To(refused("label"))
	})

	It("can request another queue; only administrators of the queue can do so, too", func(ctx SpecContext) {
		object := labelled(placement(version, "queued"), queue, "root.a")
		Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
		move := func(to string) *unstructured.Unstructured { return labelled(stored(ctx, object, version), queue, to) }
		Expect(hub.As("eve").Update(ctx, move("root.b"))).To(refused("may not change the requested queue"))
		Expect(hub.As(gardener).Update(ctx, move("root.b"))).To(refused("may not change the requested queue"))
		Expect(hub.As("ann", "other").Update(ctx, move("root.b"))).To(Succeed())
		Expect(hub.As("eve").Update(ctx, move("ROOT.B"))).To(Succeed())

		eve := "eve"
		administrator.Store(&eve)
		DeferCleanup(administrator.Store, (*string)(nil))
		Expect(hub.As("eve").Update(ctx, move("root.c"))).To(Succeed())
		Expect(hub.As("bob").Update(ctx, move("root.d"))).To(refused("may not change the requested queue"))
	})

	It("can change a tag that rules read; only administrators of the queue can do so, too", func(ctx SpecContext) {
		object := labelled(placement(version, "tagged"), "team", "web")
		Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
		tag := func(to string) *unstructured.Unstructured { return labelled(stored(ctx, object, version), "team", to) }
		Expect(hub.As("eve").Update(ctx, tag("db"))).To(refused(`may not change tag team, which queue rules read, from "web" to "db"`))
		Expect(hub.As("eve").Update(ctx, labelled(stored(ctx, object, version), "TEAM", "db"))).To(refused("may not change tag team"))
		Expect(hub.As(gardener).Update(ctx, tag("db"))).To(refused("may not change tag team"))
		Expect(hub.As("eve").Update(ctx, labelled(stored(ctx, object, version), "other", "x"))).To(Succeed())
		removed := stored(ctx, object, version)
		removed.SetLabels(nil)
		Expect(hub.As("eve").Update(ctx, removed)).To(refused(`from "web" to ""`))
		Expect(hub.As("ann", "other").Update(ctx, tag("db"))).To(Succeed())

		eve := "eve"
		administrator.Store(&eve)
		DeferCleanup(administrator.Store, (*string)(nil))
		Expect(hub.As("eve").Update(ctx, tag("ops"))).To(Succeed())
	})

	It("is validated after all other webhooks", func(ctx SpecContext) {
		for how, words := range map[string]string{"replace": forbidden, "remove": "missing"} {
			Expect(hub.As("ann", "dev").Create(ctx, labelled(placement(version, "tampered"), "tamper", how))).To(refused(words))
			object := placement(version, "later-"+how)
			Expect(hub.As("ann", "dev").Create(ctx, object)).To(Succeed())
			Expect(hub.As("ann", "dev").Update(ctx, labelled(stored(ctx, object, version), "tamper", how))).To(refused(unchanged))
		}
	})
}

var _ = Describe("The admission handlers while they are down", Ordered, func() {
	var before *unstructured.Unstructured
	BeforeAll(func(ctx SpecContext) {
		before = placement("v1beta1", "before")
		Expect(hub.As("ann", "dev").Create(ctx, before)).To(Succeed())
		stopServing()
		DeferCleanup(func(ctx SpecContext) {
			startServing()
			awaitWebhooks(ctx)
		})
	})

	It("make the API server refuse to create or edit a Placement in every version", func(ctx SpecContext) {
		down := And(MatchError(apierrors.IsInternalError, "IsInternalError"), MatchError(ContainSubstring("placements.berth.dev")))
		for _, version := range versions {
			Expect(hub.As("ann", "dev").Create(ctx, placement(version, "while-down"))).To(down)
			Expect(hub.As("eve").Create(ctx, annotated(placement(version, "while-down"), eves))).To(down)
			Expect(hub.As("eve").Update(ctx, annotated(stored(ctx, before, version), eves))).To(down)
			Expect(hub.As("root", "system:masters").Update(ctx, annotated(stored(ctx, before, version), eves))).To(down)
		}
	})

	It("do not stop the controller, and do not block deletions", func(ctx SpecContext) {
		for _, version := range versions {
			current := stored(ctx, before, version)
			Expect(unstructured.SetNestedField(current.Object, int64(1), "status", "numberOfSelectedClusters")).To(Succeed())
			Expect(hub.As("controller").Status().Update(ctx, current)).To(Succeed())

			page := &unstructured.Unstructured{}
			page.SetAPIVersion(group + "/" + version)
			page.SetKind("PlacementDecision")
			page.SetNamespace(namespace)
			page.SetName("page-" + version)
			Expect(hub.As("controller").Create(ctx, page)).To(Succeed())
			page.SetLabels(map[string]string{"a": "b"})
			Expect(hub.As("controller").Update(ctx, page)).To(Succeed())
			Expect(hub.As("controller").Delete(ctx, page)).To(Succeed())
		}
		Expect(hub.As("ann", "dev").Delete(ctx, before)).To(Succeed())
	})

	It("do not block an update of the queue configuration", func(ctx SpecContext) {
		config := queueConfig("broken")
		Expect(hub.Create(ctx, config)).To(Succeed())
		Expect(hub.Delete(ctx, config)).To(Succeed())
	})
})

var _ = Describe("The queue configuration", func() {
	It("is refused if it is invalid, and other ConfigMaps are never refused", func(ctx SpecContext) {
		Expect(hub.Create(ctx, queueConfig("broken"))).To(MatchError(ContainSubstring("line 1: broken")))
		config := queueConfig("fine")
		Expect(hub.Create(ctx, config)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(hub.Delete(ctx, config)).To(Succeed()) })
		config.Data["queues.yaml"] = "broken"
		Expect(hub.Update(ctx, config.DeepCopy())).To(MatchError(ContainSubstring("line 1: broken")))

		for _, elsewhere := range []metav1.ObjectMeta{{Namespace: "berth-system", Name: "other"}, {Namespace: namespace, Name: "yunikorn-configs"}} {
			other := queueConfig("broken")
			other.ObjectMeta = elsewhere
			Expect(hub.Create(ctx, other)).To(Succeed())
			Expect(hub.Delete(ctx, other)).To(Succeed())
		}
	})
})

func queueConfig(queues string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "yunikorn-configs"},
		Data:       map[string]string{"queues.yaml": queues},
	}
}
