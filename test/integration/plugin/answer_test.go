package plugin

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/fixture"
)

var _ = Describe("top, explain and completion", func() {
	It("top counts published decisions, and reports a missing permission", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.place(ctx, fixture.Placement(string(t), "all"), 3)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1).Predicate(fixture.MatchLabel("gpu", "true")), 1)
		require(ctx, pl)
		number(ctx, pl, 2)
		held(ctx, pl, 1)
		got := run(ctx, "", "top")
		Expect(got.code).To(Equal(same), got.err)
		Expect(strings.ReplaceAll(got.out, string(t), "T")).To(MatchRegexp(`^CLUSTER +AVAILABLE +DECISIONS .*\n` +
			`T-1 +True +2 .* 2: T/all T/web\nT-2 +True +1 .* 1: T/all\nT-3 +True +1 .* 1: T/all\n$`))
		Expect(run(ctx, "", "top", "-l", "gpu=false").out).To(Equal("No clusters found.\n"))
		Expect(run(ctx, "", "top", "--sort-by", "name", "-o", "yaml").out).To(ContainSubstring("name: " + t.name(1)))

		got = run(ctx, "", "top", "--as", "nobody")
		Expect(got.code).To(Equal(failed))
		Expect(got.err).To(HavePrefix(`kubectl placement: reading the hub: managedclusters.cluster.open-cluster-management.io is forbidden: User "nobody" cannot list`))
		Expect(run(ctx, "", "top", "-l", "a=(").code).To(Equal(misused))
	})

	It("explain prints the output of berth explain, and reports a missing permission", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.place(ctx, fixture.Placement(string(t), "all"), 3)
		Expect(run(ctx, "", "explain", "all", "-n", string(t)).out).To(HavePrefix("Placement " + string(t) + "/all: 3 of 3 clusters selected\n"))
		Expect(run(ctx, "", "explain", "all", "-n", string(t), "--context", "nowhere").err).To(ContainSubstring(`context "nowhere" does not exist`))
		got := run(ctx, "", "explain", "all", "-n", string(t), "--as", "nobody")
		Expect(got.code).To(Equal(failed))
		Expect(got.err).To(ContainSubstring(`User "nobody" cannot list`))
	})

	It("explain reports unknown Placements, and clusters that are not candidates", func(ctx SpecContext) {
		t, other := newTeam(ctx), newTeam(ctx)
		t.place(ctx, fixture.Placement(string(t), "all"), 3)
		for words, want := range map[string]string{
			"explain none -n " + string(t):                       "kubectl placement: there is no Placement " + string(t) + "/none\n",
			"explain all -n " + string(t) + " --cluster nowhere": "kubectl placement: there is no ManagedCluster nowhere\n",
			"approve none -n " + string(t):                       "kubectl placement: there is no Placement " + string(t) + "/none\n",
		} {
			Expect(run(ctx, "", strings.Fields(words)...)).To(Equal(result{failed, "", want}), words)
		}
		got := run(ctx, "", "explain", "all", "-n", string(t), "--cluster", other.name(1))
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(HaveSuffix("  " + other.name(1) + " is no candidate: it is in none of the cluster sets that the Placement may use.\n"))
		got = run(ctx, "", "explain", "all", "-n", string(t), "-o", "wide")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(ContainSubstring("Balance=100 Steady=100"))
		for words, want := range map[string]string{
			"approve":        "kubectl placement: kubectl placement approve needs the name of a Placement, or -A for all (see kubectl placement approve --help)\n",
			"explain web -A": "kubectl placement: kubectl placement explain takes names or -A, not both (see kubectl placement explain --help)\n",
			"status a/b/c":   `kubectl placement: "a/b/c" is neither NAME, TYPE/NAME nor NAMESPACE/NAME; the types are placement, placementchange and placementdecision (see kubectl placement status --help)` + "\n",
			"diff a.yaml":    "kubectl placement: kubectl placement diff takes flags only, not \"a.yaml\" (see kubectl placement diff --help)\n",
		} {
			Expect(run(ctx, "", strings.Fields(words)...)).To(Equal(result{misused, "", want}), words)
		}
	})

	It("completion lists objects of the hub", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.place(ctx, fixture.Placement(string(t), "all"), 3)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		require(ctx, pl)
		number(ctx, pl, 2)
		held(ctx, pl, 1)
		for _, tc := range []struct {
			words []string
			want  string
		}{
			{[]string{"explain", "-n", string(t), ""}, "all\nweb\n:4\n"},
			{[]string{"approve", "-n", string(t), ""}, "web\n:4\n"},
			{[]string{"explain", "all", "--cluster", ""}, t.name(1) + "\n" + t.name(2) + "\n" + t.name(3) + "\n:4\n"},
			{[]string{"top", "--sort-by", ""}, "cpu\ndecisions\nmemory\nname\n:4\n"},
			{[]string{"top", "--as", "nobody", ""}, ":4\n"},
			{[]string{"approve", "--as", "nobody", ""}, ":1\n"},
			{[]string{"explain", "-n", ""}, string(t) + "\n:4\n"},
			{[]string{"diff", "--taint", ""}, t.name(1) + ":\n" + t.name(2) + ":\n" + t.name(3) + ":\n:6\n"},
			{[]string{"diff", "--label", t.name(1) + ":"}, ":4\n"},
		} {
			Expect(runAs(ctx, completionName, "", tc.words...).out).To(Equal(tc.want), "%v", tc.words)
		}
	})
})
