package plugin

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
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
	})
})
