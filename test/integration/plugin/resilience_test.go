package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/test/fixture"
)

// survey runs resilience for all Placements and returns its report.
func survey(ctx context.Context, code int, words ...string) *resilience.Report {
	GinkgoHelper()
	got := run(ctx, "", append([]string{"resilience", "-A", "-o", "json"}, words...)...)
	Expect(got.code).To(Equal(code), got.err)
	report := &resilience.Report{}
	decoder := json.NewDecoder(strings.NewReader(got.out))
	decoder.DisallowUnknownFields()
	Expect(decoder.Decode(report)).To(Succeed())
	return report
}

var _ = Describe("resilience", func() {
	It("shows what the controller decides when clusters are lost", func(ctx SpecContext) {
		t := newTeam(ctx)
		ns := string(t)
		t.place(ctx, fixture.Placement(ns, "all"), 3)
		t.place(ctx, fixture.Placement(ns, "two").Number(2), 2)
		t.place(ctx, fixture.Placement(ns, "gpu").Predicate(fixture.MatchLabel("gpu", "true")).Number(2), 2)
		before := versions(ctx)
		report := survey(ctx, same, "--domains", "label:gpu")
		Expect(versions(ctx)).To(Equal(before), "nothing is written")
		Expect(report.By).To(Equal("label:gpu"))
		byName := map[string]resilience.Placement{}
		for _, p := range report.Placements {
			byName[strings.TrimPrefix(p.Placement, ns+"/")] = p
		}
		Expect(byName).To(HaveLen(3))
		Expect(report.Placements[2].Placement).To(Equal(ns + "/all"))
		Expect(byName["gpu"].Losses).To(Equal([]resilience.Loss{{
			Domain: "true", Clusters: 2, Lost: 2, Missing: 2, Why: "Predicate excludes 1",
		}}))
		Expect(byName["all"].Survived).To(Equal(1))
		Expect(byName["all"].WithoutDomain).To(Equal(1))
		Expect(byName["two"].Losses).To(HaveLen(1))
		survey(ctx, differs, "--domains", "label:gpu", "--fail-below", "1")
		survey(ctx, same, "--domains", "cluster", "--fail-below", "1")

		for i := 1; i <= 2; i++ {
			Expect(hub.Delete(ctx, fixture.Cluster(t.name(i)).Obj())).To(Succeed())
		}
		left := func(name string) int {
			p := byName[name]
			return p.Selected - p.Losses[0].Lost + p.Losses[0].Added
		}
		for name := range byName {
			Eventually(answer(ctx, ns, name)).Should(HaveLen(left(name)), name)
		}
	})

	It("says what is wrong with a fleet before a loss", func(ctx SpecContext) {
		t := newTeam(ctx)
		ns, unbound := string(t), string(t)+"-unbound"
		Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unbound}})).To(Succeed())
		t.place(ctx, fixture.Placement(ns, "many").Number(9), 3)
		t.place(ctx, fixture.Placement(ns, "fine").Number(1), 1)
		t.place(ctx, fixture.Placement(ns, "broken").Predicate(fixture.MatchCEL("managedCluster.nothing")), 0)
		t.place(ctx, fixture.Placement(unbound, "alone"), 0)
		long := fixture.Cluster(t.name(4)).Set(ns).Claim("zone", strings.Repeat("z", 900)).Obj()
		status := long.Status
		Expect(hub.Create(ctx, long)).To(Succeed())
		long.Status = status
		Expect(hub.Status().Update(ctx, long)).To(Succeed())
		Eventually(answer(ctx, ns, "many")).Should(HaveLen(4))

		got := run(ctx, "", "resilience", "-A", "--domains", "claim:zone")
		Expect(got.code).To(Equal(same), got.err)
		lines := strings.Split(got.out, "\n")
		Expect(lines[0]).To(HavePrefix("NAMESPACE"))
		for _, want := range []string{
			"not satisfied before a loss: No valid ManagedClusterSetBindings found in placement namespace",
			"not satisfied before a loss: Predicate:spec.predicates[0]",
			"not satisfied before a loss: 5 cluster decisions unscheduled",
			"1 of 1", "3 not satisfied before a loss",
		} {
			Expect(got.out).To(ContainSubstring(want))
		}
		for _, line := range lines {
			Expect(len(line)).To(BeNumerically("<", 420), line)
		}
		report := survey(ctx, differs, "--domains", "label:nowhere", "--fail-below", "1")
		Expect(report.Placements).To(HaveLen(4))
		for _, p := range report.Placements {
			Expect(p.Domains).To(BeZero())
			Expect(p.Losses).To(BeEmpty())
			Expect(p.Misconfigured).To(Equal(p.Placement == ns+"/broken"))
		}
		Expect(report.Placements[3].Message).To(Equal("no cluster that it may use has the label nowhere"))
		for _, words := range [][]string{{"-A"}, {"-A", "--domains", "region"}, {"-A", "--domains", "label:"}, {"-A", "--domains", "cluster", "--fail-below", "-1"}, {"web", "-A", "--domains", "cluster"}} {
			wrong := run(ctx, "", append([]string{"resilience"}, words...)...)
			Expect(wrong.code).To(Equal(misused), fmt.Sprint(words, wrong.err))
		}
		missing := run(ctx, "", "resilience", "nothing", "-n", ns, "--domains", "cluster")
		Expect(missing.code).To(Equal(failed))
		Expect(missing.err).To(ContainSubstring("there is no Placement " + ns + "/nothing"))
	})
})
