package plugin

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// Exit codes of status: a change is open, and a Placement is short.
const (
	open  = differs
	short = 5
)

var _ = Describe("TYPE/NAME, -A and status", func() {
	It("TYPE/NAME names a Placement directly, by a change and by a page", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		leaveAlone(ctx, pl)
		recorded(ctx, pl, 2, "a", "b", berthv1alpha1.PhasePublished)
		recorded(ctx, pl, 3, "b", "c", berthv1alpha1.PhaseHeld)
		n := []string{"-n", string(t)}
		for _, name := range []string{"web", "placement/web", "pl/web", "placement.cluster.open-cluster-management.io/web", "pch/web-2", "pd/web-decision-1"} {
			got := run(ctx, "", append([]string{"status", name}, n...)...)
			Expect(got.code).To(Equal(open), got.err)
			Expect(got.out).To(HavePrefix("Placement "+string(t)+"/web: 1 cluster selected, 1 wanted\n"), name)
		}
		Expect(run(ctx, "", append([]string{"history", "placementchange/web-2"}, n...)...).out).To(HavePrefix("Placement " + string(t) + "/web, change 2: Published\n"))
		Expect(run(ctx, "", append([]string{"approve", "pch/web-2", "-y"}, n...)...).err).To(ContainSubstring("change 2 of Placement " + string(t) + "/web is Published"))
		Expect(run(ctx, "", append([]string{"approve", "pch/web-3", "-y"}, n...)...).code).To(Equal(same))
		Expect(run(ctx, "", append([]string{"history", "pch/web-9"}, n...)...).err).To(Equal("kubectl placement: there is no PlacementChange " + string(t) + "/web-9\n"))
	})

	It("-A and no name stand for several Placements", func(ctx SpecContext) {
		one, two := newTeam(ctx), newTeam(ctx)
		for _, t := range []team{one, two} {
			t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		}
		both := func(text string) string {
			return strings.NewReplacer(string(one), "ONE", string(two), "TWO").Replace(text)
		}
		got := run(ctx, "", "status", "-A")
		Expect(got.code).To(Equal(same), got.err)
		Expect(both(got.out)).To(MatchRegexp(`^NAMESPACE +PLACEMENT +STATE +WANTED +SELECTED +REASON .*\nONE +web +satisfied +1 +1 .*\nTWO +web +satisfied +1 +1 .*\n$`))
		Expect(both(run(ctx, "", "status", "-n", string(two)).out)).NotTo(ContainSubstring("ONE"))
		Expect(both(run(ctx, "", "explain", "-A").out)).To(And(ContainSubstring("Placement ONE/web: 1 of 3 clusters selected\n"),
			ContainSubstring("\n\nPlacement TWO/web: 1 of 3 clusters selected\n"), ContainSubstring("  2          qualified, not selected\n"), Not(ContainSubstring("RANK"))))
		Eventually(func() string { return both(run(ctx, "", "history", "-A").out) }).Should(
			MatchRegexp(`^NAMESPACE +PLACEMENT +REVISION .*\nONE +web +1 .*\nTWO +web +1 .*\n$`))
		shown := struct{ Placements, Results []struct{ Placement string } }{}
		for _, verb := range []string{"status", "history", "explain"} {
			Expect(json.Unmarshal([]byte(run(ctx, "", verb, "-A", "-o", "json").out), &shown)).To(Succeed())
		}
		Expect(append(shown.Placements, shown.Results...)).To(HaveLen(4))
		Expect(run(ctx, "", "status", "-n", "nowhere").err).To(Equal("kubectl placement: there are no Placements in namespace nowhere\n"))
	})

	It("approve -A approves each held change, and status follows it", func(ctx SpecContext) {
		one, two := newTeam(ctx), newTeam(ctx)
		for _, t := range []team{one, two} {
			pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
			require(ctx, pl)
			number(ctx, pl, 3)
			held(ctx, pl, 2)
		}
		got := run(ctx, "", "status", "web", "-n", string(one))
		Expect(got.code).To(Equal(short), got.err)
		Expect(got.out).To(And(ContainSubstring("  Held by:  Approval"), ContainSubstring("  Added:    2: "+one.name(2)+" "+one.name(3)+"\n")))
		Expect(run(ctx, "", "status", "-A").out).To(MatchRegexp(`web +short,held +3 +1 +DecisionPending +Held +2 +0 +\d+s\n`))
		got = run(ctx, "", "approve", "-A", "--yes")
		Expect(got.code).To(Equal(same), got.err)
		Expect(strings.Count(got.out, " approved\n")).To(Equal(2))
		got = run(ctx, "", "status", "web", "-n", string(two), "--watch")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(HaveSuffix("  No change is open.\n"))
		Eventually(func() string { return run(ctx, "", "approve", "-A", "--yes").err }).Should(Equal("kubectl placement: nothing to approve: no change is held in any namespace\n"))
	})
})
