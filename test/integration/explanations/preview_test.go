package explanations

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// same runs a command as an administrator, who may list the fleet, and as the author of namespace
// dev, and expects the same output and error, which it returns.
func same(args ...string) (text string, err error) {
	GinkgoHelper()
	want, wantErr := berth(append(args, "-n", "dev")...)
	got, err := berth(append(args, "-n", "dev", "--as", "author-of-dev")...)
	Expect(got).To(Equal(want))
	if wantErr == nil {
		Expect(err).NotTo(HaveOccurred())
	} else {
		Expect(err).To(MatchError(wantErr.Error()))
	}
	return got, err
}

var _ = Describe("A preview of a user with rights in one namespace", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		t := newTeam(ctx, "dev", 4)
		// Two zones: dev-1 and dev-2, dev-3 and dev-4.
		for name, zone := range map[string]string{"dev-1": "a", "dev-2": "a", "dev-3": "b", "dev-4": "b"} {
			cluster := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
			Expect(testhub.Patch(ctx, hub, cluster, `{"metadata":{"labels":{"zone":"`+zone+`"}}}`)).To(Succeed())
		}
		t.place(ctx, fixture.Placement("dev", "web").Number(1).Predicate(fixture.MatchLabel("gpu", "true")), 1)
		other := newTeam(ctx, "dev-other", 2)
		other.place(ctx, fixture.Placement("dev-other", "web"), 2)
	})

	It("compares the Placements that diff edits", func() {
		text, err := berth("diff", "--number", "web=2", "-n", "dev", "--as", "author-of-dev")
		Expect(err).To(MatchError(ContainSubstring("change")))
		Expect(text).To(MatchRegexp(`dev +web +Updated +1 +2 +1: dev-3 +<none> +1 `))

		file := filepath.Join(GinkgoT().TempDir(), "web.yaml")
		Expect(os.WriteFile(file, []byte(`
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: dev}
spec: {numberOfClusters: 4}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: new, namespace: dev}
spec: {numberOfClusters: 1, predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {zone: b}}}}]}
`), 0o600)).To(Succeed())
		text, err = berth("diff", "-f", file, "-n", "dev", "--as", "author-of-dev")
		Expect(err).To(MatchError(ContainSubstring("change")))
		Expect(text).To(MatchRegexp(`dev +web +Updated +1 +4 +3: dev-2 dev-3 dev-4 `))
		Expect(text).To(MatchRegexp(`dev +new +Created +0 +1 `))
	})

	It("shows the loss of clusters for the Placements of the namespace", func() {
		text, err := berth("diff", "--lose", "label:zone=a", "-n", "dev", "--as", "author-of-dev")
		Expect(err).To(MatchError(ContainSubstring("change")))
		Expect(text).To(MatchRegexp(`dev +web +Updated +1 +1 +1: dev-3 +1: dev-1 `))
		Expect(text).To(ContainSubstring("Only the Placements of namespace dev are compared:"))
		Expect(text).NotTo(ContainSubstring("dev-other"))

		By("telling nothing of clusters in other sets")
		got := map[string]string{}
		for _, name := range []string{"dev-other-1", "nowhere"} {
			text, err := berth("diff", "--drain", name, "-n", "dev", "--as", "author-of-dev")
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(ContainSubstring("1 of spec.edits change no cluster that the Placement could use"))
			got[name] = text
		}
		Expect(got["dev-other-1"]).To(Equal(got["nowhere"]))
	})

	It("is that of an administrator for resilience", func() {
		text, err := same("resilience", "web", "--domains", "label:zone")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring("2 of 2 domains of label zone can be lost; weakest is a: 1 of 1 clusters lost, 1 replaced"))
		_, err = same("resilience", "--domains", "cluster", "-o", "wide")
		Expect(err).NotTo(HaveOccurred())
	})

	It("is that of an administrator for pin, undo and evict", func(ctx SpecContext) {
		web := fixture.Placement("dev", "web").Obj()
		records := func(g Gomega, n int) {
			var list berthv1alpha1.PlacementChangeList
			g.Expect(hub.List(ctx, &list, client.InNamespace("dev"))).To(Succeed())
			g.Expect(list.Items).To(HaveLen(n))
			for _, record := range list.Items {
				g.Expect(record.Status.Phase).To(Equal(berthv1alpha1.PhasePublished))
			}
		}
		Eventually(records).WithArguments(1).Should(Succeed())
		testhub.SetNumber(ctx, hub, web, 2)
		Eventually(records).WithArguments(2).Should(Succeed())

		text, err := same("undo", "web", "--dry-run", "--allow-fewer")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(HavePrefix("Spec: numberOfClusters: 2 → 1\n"))
		Expect(text).To(MatchRegexp(`dev +web +Updated +2 +1 +<none> +1: dev-3 `))
		_, err = same("undo", "web", "--dry-run")
		Expect(err).To(MatchError(ContainSubstring("--allow-fewer permits that")))
		text, err = same("pin", "web", "--dry-run")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring("The decision of Placement dev/web does not change."))

		By("refusing what would not have the clusters of the revision")
		cluster := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "dev-1"}}
		Expect(testhub.Patch(ctx, hub, cluster, `{"metadata":{"labels":{"gpu":null}}}`)).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(hub, web).Should(ConsistOf("dev-3"))
		Eventually(records).WithArguments(3).Should(Succeed())
		_, err = same("pin", "web", "--revision", "1", "--dry-run")
		Expect(err).To(MatchError(ContainSubstring("would not have the clusters of revision 1 but 0 of its 1; without dev-1 (Predicate: labels do not match gpu=true)")))
		Expect(testhub.Patch(ctx, hub, cluster, `{"metadata":{"labels":{"gpu":"true"}}}`)).To(Succeed())
		Eventually(ctx, testhub.Clusters).WithArguments(hub, web).Should(ConsistOf("dev-1", "dev-3"))
		Eventually(records).WithArguments(4).Should(Succeed())

		testhub.Grant(ctx, hub, "dev", "author-of-dev", "berth-evictor")
		text, err = same("evict", "web", "--cluster", "dev-1", "--dry-run")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchRegexp(`dev +web +Updated +2 +1 +<none> +1: dev-1 `))
	})

	It("shows a drain for the Placements of the namespace", func(ctx SpecContext) {
		grantDrain(ctx, "author-of-dev")
		text, err := berth("drain", "dev-3", "-n", "dev", "--dry-run", "--as", "author-of-dev")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchRegexp(`dev +web +Updated +2 +1 +<none> +1: dev-3 `))
		Expect(text).To(ContainSubstring("Only the Placements of namespace dev are compared:"))
	})

	It("names the missing role", func(ctx SpecContext) {
		testhub.Grant(ctx, hub, "dev", "viewer-of-dev", "berth-viewer")
		const missing = "without the role berth-fleet-viewer, or berth-explainer in the namespace"
		for _, args := range [][]string{
			{"explain", "web"}, {"diff", "--number", "web=2"}, {"diff", "--lose", "label:zone=a"}, {"resilience", "web", "--domains", "cluster"},
			{"undo", "web", "--dry-run"}, {"pin", "web", "--dry-run"},
		} {
			_, err := berth(append(args, "-n", "dev", "--as", "viewer-of-dev")...)
			Expect(err).To(MatchError(ContainSubstring(missing)), "%v", args)
		}
		_, err := berth("diff", "--remove", "managedclusterset/dev", "-n", "dev", "--as", "author-of-dev")
		Expect(err).To(MatchError(ContainSubstring("role berth-fleet-viewer")))
		grantDrain(ctx, "viewer-of-dev")
		text, err := berth("drain", "dev-3", "-n", "dev", "--dry-run", "--as", "viewer-of-dev")
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(And(ContainSubstring("The change is not shown: "), ContainSubstring(missing)))
	})

	AfterAll(func(ctx SpecContext) {
		var left berthv1alpha1.PlacementExplanationList
		Expect(hub.List(ctx, &left, client.InNamespace("dev"))).To(Succeed())
		Expect(left.Items).To(BeEmpty())
	})
})

// grantDrain permits a user to drain clusters, but not to list them.
func grantDrain(ctx context.Context, user string) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "drain-for-" + user},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"get", "patch"}},
			{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"placements", "placementdecisions"}, Verbs: []string{"list"}},
		},
	}
	Expect(hub.Create(ctx, role)).To(Succeed())
	testhub.DeleteAfterwards(hub, role)
	testhub.Grant(ctx, hub, "", user, role.Name)
}
