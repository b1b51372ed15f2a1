package explanations

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/test/fixture"
)

// explanations returns how many explanations were counted with a source and a result, and their
// seconds.
func explanations(source, result string) (count uint64, seconds float64) {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "berth_explanation_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); labels[0].GetValue() == result && labels[1].GetValue() == source {
				return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return 0, 0
}

var _ = Describe("berth_explanation_duration_seconds", func() {
	It("counts and times the answers by source and result", func(ctx SpecContext) {
		t := newTeam(ctx, "metered", 2)
		t.place(ctx, fixture.Placement("metered", "web").Number(1), 1)
		author := token(ctx, "metered", "author")
		for source, ask := range map[string]func(name string){
			"PlacementExplanation": func(name string) {
				_, _ = berth("explain", name, "-n", "metered", "--as", "author-of-metered") // the metric is looked at
			},
			"Debugger": func(name string) { request(http.MethodGet, "metered/"+name, author, "") },
		} {
			for name, result := range map[string]string{"web": "Decided", "nosuch": "PlacementNotFound"} {
				before, secondsBefore := explanations(source, result)
				ask(name)
				Eventually(func(g Gomega) {
					count, seconds := explanations(source, result)
					g.Expect(count).To(Equal(before+1), "%s %s", source, result)
					g.Expect(seconds).To(BeNumerically(">", secondsBefore))
				}).Should(Succeed())
			}
		}
	})
})
