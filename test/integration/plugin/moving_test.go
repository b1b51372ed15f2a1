package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("drain and undrain", func() {
	It("remove a cluster from decisions and let it be selected again", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		has := func() string {
			users := run(ctx, "", "top", "-o", "wide").out
			for line := range strings.SplitSeq(users, "\n") {
				if strings.Contains(line, string(t)+"/web") {
					return strings.Fields(line)[0]
				}
			}
			return ""
		}
		Eventually(has).ShouldNot(BeEmpty())
		first := has()
		Expect(run(ctx, "", "drain", first).err).To(ContainSubstring("there is no terminal to ask on"))
		got := run(ctx, "", "drain", "managedcluster/"+first, "--wait", "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(MatchRegexp(`(?s)^NAMESPACE +PLACEMENT\n%s +web\n.*managedcluster.cluster.open-cluster-management.io/%s drained\n$`, t, first))
		Eventually(has).ShouldNot(Or(BeEmpty(), Equal(first)))

		By("undraining it")
		got = run(ctx, "", "undrain", first, "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(HaveSuffix("/" + first + " undrained\n"))
		cluster := &v1alpha1.ManagedCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: first}, cluster)).To(Succeed())
		Expect(cluster.Spec.Taints).To(BeEmpty())
		Expect(run(ctx, "", "undrain", first, "--yes").err).To(ContainSubstring("ManagedCluster " + first + " is not drained"))
		Expect(run(ctx, "", "drain", "nobody", "--yes").err).To(ContainSubstring(`reading ManagedCluster nobody: `))
	})
})

var _ = Describe("evict", func() {
	It("shows the change, removes the cluster and reports that", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		evict := func(words ...string) result {
			return run(ctx, "", append([]string{"evict", "web", "-n", string(t), "--cluster"}, words...)...)
		}
		first := clustersOf(ctx, pl)[0]
		got := evict(first)
		Expect(got.code).To(Equal(misused))
		Expect(got.out).To(MatchRegexp(`^NAMESPACE +PLACEMENT +CHANGE +BEFORE +AFTER +ADDED +REMOVED +PAGES +CONDITIONS
%s +web +Updated +1 +1 +1: \S+ +1: %s +1 `, t, first))
		Expect(got.err).To(ContainSubstring("there is no terminal to ask on"))
		// The way back names a revision, once that has a record.
		Eventually(func() string { return run(ctx, "", "history", "web", "-n", string(t)).out }).Should(ContainSubstring("Published"))
		got = evict("managedcluster/"+first, "--yes", "--exclude-for", "2h")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(MatchRegexp(`(?s)placementeviction.berth.dev/web-\w+ created
To see what it waits for: kubectl placement status web -n \S+
.*placementeviction.berth.dev/web-\w+ executed
To go back:
  kubectl delete placementeviction web-\w+ -n \S+
  kubectl placement pin web -n \S+ --revision 1
  kubectl placement unpin web -n \S+
$`))
		Expect(clustersOf(ctx, pl)).To(And(HaveLen(1), Not(ContainElement(first))))
		evictions := &berthv1alpha1.PlacementEvictionList{}
		Expect(hub.List(ctx, evictions, client.InNamespace(string(t)))).To(Succeed())
		Expect(evictions.Items).To(HaveExactElements(HaveField("Spec.ExcludeForSeconds", BeEquivalentTo(7200))))
		explained := run(ctx, "", "explain", "web", "-n", string(t), "--cluster", first)
		Expect(explained.out).To(ContainSubstring("Eviction: evicted by PlacementEviction " + evictions.Items[0].Name + " until "))

		By("refusing what cannot be evicted")
		Expect(evict(first, "--yes").err).To(Equal("kubectl placement: nothing to evict: the published decision of Placement " + string(t) + "/web does not have cluster " + first + "\n"))
		Expect(evict(first, "--exclude-for", "1.5s").code).To(Equal(misused))
		Expect(run(ctx, "", "evict", "web", "-n", string(t)).err).To(ContainSubstring("--cluster is required"))
		Expect(run(ctx, "", "evict", "none", "-n", string(t), "--cluster", first).err).To(ContainSubstring("there is no Placement " + string(t) + "/none"))
	})

	It("needs only rights in the namespace", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		testhub.Grant(ctx, hub, string(t), "viewer", "berth-viewer")
		testhub.Grant(ctx, hub, string(t), "evictor", "berth-viewer")
		testhub.Grant(ctx, hub, string(t), "evictor", "berth-evictor")
		words := []string{"evict", "web", "-n", string(t), "--cluster", clustersOf(ctx, pl)[0], "--yes", "--as"}
		got := run(ctx, "", append(words, "viewer")...)
		Expect(got.code).To(Equal(failed))
		Expect(got.out).To(HavePrefix("The change is not shown: "))
		Expect(got.err).To(ContainSubstring(`User "viewer" cannot create resource "placementevictions"`))
		got = run(ctx, "", append(words, "evictor")...)
		Expect(got.code).To(Equal(same), got.err)
	})
})

var _ = Describe("pin and unpin", func() {
	It("keep the clusters of a revision, until it is unpinned", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(3), 3)
		command := func(words ...string) result { return run(ctx, "", append(words, "web", "-n", string(t))...) }
		Eventually(func() string { return command("history").out }).Should(ContainSubstring("1 "))
		Expect(command("unpin", "--yes").err).To(ContainSubstring("nothing to unpin: Placement " + string(t) + "/web is not pinned"))

		By("pinning what is published")
		got := command("pin")
		Expect(got.code).To(Equal(misused))
		Expect(got.out).To(HavePrefix("The decision of Placement " + string(t) + "/web does not change.\n"))
		number(ctx, pl, 1)
		Eventually(clustersOf).WithArguments(ctx, pl).Should(HaveLen(1))
		Eventually(func() string { return command("history").out }).Should(MatchRegexp(`\n2 +\S+ +Published`))
		first := clustersOf(ctx, pl)
		got = command("pin", "--yes", "--revision", "1")
		Expect(got.code).To(Equal(failed))
		Expect(got.err).To(ContainSubstring("would not have the clusters of revision 1 but 1 of its 3; numberOfClusters is 1; without "))
		Expect(now(ctx, pl).Annotations).NotTo(HaveKey(berthv1alpha1.PinnedRevisionAnnotation))
		got = command("pin", "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(HaveSuffix("placement.cluster.open-cluster-management.io/web pinned to revision 2\n"))
		number(ctx, pl, 3)
		Eventually(func() string { return command("status").out }).Should(ContainSubstring("2 cluster decisions unscheduled; pinned to revision 2"))
		Expect(clustersOf(ctx, pl)).To(Equal(first))
		Expect(command("pin", "--yes", "--revision", "9").err).To(ContainSubstring("the clusters of revision 9 of Placement " + string(t) + "/web are not known: it has no record; possible revisions are "))
		Expect(command("pin", "--yes", "--revision", "0").code).To(Equal(misused))
		Expect(command("undo", "--yes").err).To(ContainSubstring("nothing was undone: Placement " + string(t) + "/web is pinned to revision 2"))

		By("unpinning it")
		got = command("unpin", "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(And(MatchRegexp(`web +Updated +1 +3 +2: `), HaveSuffix("/web unpinned\n")))
		Eventually(clustersOf).WithArguments(ctx, pl).Should(HaveLen(3))
	})
})

var _ = Describe("undo", func() {
	It("restores the spec before an edit", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(3), 3)
		before := clustersOf(ctx, pl)
		command := func(words ...string) result { return run(ctx, "", append(words, "web", "-n", string(t))...) }
		Eventually(func() string { return command("history").out }).Should(ContainSubstring("1 "))
		Expect(command("undo", "--yes").err).To(ContainSubstring("nothing to undo: no change of Placement " + string(t) + "/web follows an edit of its spec"))
		number(ctx, pl, 1)
		Eventually(func() string { return command("history").out }).Should(MatchRegexp(`\n2 +\S+ +Published +Placement: numberOfClusters: 3 → 1 `))

		shown := map[string]any{}
		Expect(json.Unmarshal([]byte(run(ctx, "", "history", "-n", string(t), "--since", "1h", "-o", "json").out), &shown)).To(Succeed())
		Expect(shown).To(HaveKeyWithValue("changes", HaveExactElements(
			HaveKeyWithValue("placement", string(t)+"/web"),
			And(HaveKey("by"), HaveKeyWithValue("before", HaveKeyWithValue("numberOfClusters", BeEquivalentTo(3)))))))

		By("undoing it")
		got := command("undo")
		Expect(got.code).To(Equal(misused))
		Expect(got.out).To(MatchRegexp(`^Spec: numberOfClusters: 1 → 3\nNAMESPACE +PLACEMENT +CHANGE .*\n%s +web +Updated +1 +3 +2: `, t))
		got = command("undo", "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(HaveSuffix("placement.cluster.open-cluster-management.io/web has the spec of revision 1\n"))
		Eventually(clustersOf).WithArguments(ctx, pl).Should(Equal(before))
		Expect(now(ctx, pl).Annotations).NotTo(HaveKey(berthv1alpha1.PinnedRevisionAnnotation))

		By("not undoing it again without permission to have fewer")
		Eventually(func() string { return command("history").out }).Should(MatchRegexp(`\n3 +\S+ +Published +Placement: numberOfClusters: 1 → 3 `))
		got = command("undo", "--yes")
		Expect(got.code).To(Equal(failed))
		Expect(got.err).To(ContainSubstring("would have 1 clusters, and 3 are published; --allow-fewer permits that"))
		Expect(clustersOf(ctx, pl)).To(Equal(before))
	})
})

var _ = Describe("A page that does not count as published", func() {
	It("is not read by top, evict, pin and diff", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		command := func(words ...string) result { return run(ctx, "", append(words, "web", "-n", string(t))...) }
		Eventually(func() string { return command("history").out }).Should(MatchRegexp(`\n1 +\S+ +Published`))
		first := clustersOf(ctx, pl)[0]
		decisions := func(cluster string) string {
			row := regexp.MustCompile(`(?m)^` + cluster + ` .*$`).FindString(run(ctx, "", "top").out)
			return strings.Fields(row)[2]
		}

		By("listing another cluster on a page of a ConfigMap")
		other := t.name(1)
		if other == first {
			other = t.name(2)
		}
		keeper := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: string(t), Name: "keeper"}}
		Expect(hub.Create(ctx, keeper)).To(Succeed())
		theirs := fixture.Page(string(t), "theirs").Of("web").ControlledBy("ConfigMap", "keeper").Obj()
		theirs.UID, theirs.OwnerReferences[0].UID = "", keeper.UID
		Expect(hub.Create(ctx, theirs)).To(Succeed())
		theirs.Status.Decisions = []v1alpha1.ClusterDecision{{ClusterName: other}}
		Expect(hub.Status().Update(ctx, theirs)).To(Succeed())
		Expect(decisions(first)).To(Equal("1"))
		Expect(decisions(other)).To(Equal("0"))
		Expect(command("evict", "--yes", "--cluster", other).err).To(ContainSubstring("does not have cluster " + other))

		By("moving to another cluster while the deleted page of the first one remains")
		page := &v1alpha1.PlacementDecision{}
		page.Namespace, page.Name = string(t), "web-decision-1"
		patch(ctx, page, `{"metadata":{"finalizers":["example.com/keep"]}}`)
		DeferCleanup(func(ctx SpecContext) { patch(ctx, page, `{"metadata":{"finalizers":null}}`) })
		Expect(hub.Delete(ctx, page)).To(Succeed())
		got := command("evict", "--yes", "--cluster", first)
		Expect(got.code).To(Equal(same), got.err)
		Eventually(decisions).WithArguments(first).Should(Equal("0"))
		Expect(command("evict", "--yes", "--cluster", first).err).To(ContainSubstring("does not have cluster " + first))
		Eventually(func() string { return command("history").out }).Should(MatchRegexp(`\n2 +\S+ +Published`))
		evictions := &berthv1alpha1.PlacementEviction{}
		Expect(hub.DeleteAllOf(ctx, evictions, client.InNamespace(string(t)))).To(Succeed())
		got = command("pin", "--yes", "--revision", "1")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(HaveSuffix("/web pinned to revision 1\n"))
		Eventually(decisions).WithArguments(first).Should(Equal("1"))
	})
})

// clustersOf are the clusters on the pages of a Placement.
func clustersOf(ctx context.Context, pl *v1alpha1.Placement) (names []string) {
	GinkgoHelper()
	var pages v1alpha1.PlacementDecisionList
	Expect(hub.List(ctx, &pages, client.InNamespace(pl.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: pl.Name})).To(Succeed())
	for i := range pages.Items {
		for _, decision := range pages.Items[i].Status.Decisions {
			names = append(names, decision.ClusterName)
		}
	}
	return names
}

var _ = Describe("suspend and resume", func() {
	It("stop and start the changes of a Placement", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		got := run(ctx, "", "suspend", "web", "-n", string(t), "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(Equal(fmt.Sprintf("No change of Placement %s/web is open.\nplacement.cluster.open-cluster-management.io/web suspended\n", t)))
		Expect(run(ctx, "", "suspend", "web", "-n", string(t), "--yes").err).To(ContainSubstring("is suspended already, by DisruptionPolicy web-suspend"))
		number(ctx, pl, 3)
		Eventually(func() string { return run(ctx, "", "status", "web", "-n", string(t)).out }).
			Should(ContainSubstring("DecisionProgressing=False Suspended: 0 of 2 added, 0 of 0 removed; suspended by DisruptionPolicy web-suspend"))
		got = run(ctx, "", "resume", "web", "-n", string(t), "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(And(ContainSubstring("change 2: Progressing"), ContainSubstring("Added:    2: "), HaveSuffix("web resumed\n")))
		got = run(ctx, "", "status", "web", "-n", string(t), "--watch")
		Expect(got.code).To(Equal(same), got.err)
		Expect(now(ctx, pl).Status.NumberOfSelectedClusters).To(BeEquivalentTo(3))
		Expect(run(ctx, "", "resume", "web", "-n", string(t), "--yes").err).To(ContainSubstring("is not suspended, there is no DisruptionPolicy web-suspend"))

		By("all suspended Placements")
		Expect(run(ctx, "", "suspend", "web", "-n", string(t), "--yes").code).To(Equal(same))
		number(ctx, pl, 2)
		Eventually(func() string { return run(ctx, "", "status", "-A").out }).Should(MatchRegexp(`%s +web .* Suspended +0 +0/1 `, t))
		t.place(ctx, fixture.Placement(string(t), "api").Number(1), 1)
		got = run(ctx, "", "resume", "-A", "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(HaveSuffix("placement.cluster.open-cluster-management.io/web resumed\n"))
		Expect(got.err).To(BeEmpty())
		Expect(run(ctx, "", "resume", "-A", "--yes").out).To(Equal("nothing to resume: no Placement is suspended\n"))
	})
})
