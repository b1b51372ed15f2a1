package app

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// reported is what is printed about the Placement ns/p among so many clusters.
func reported(t *testing.T, p fixture.PlacementBuilder, clusters int, wide bool, others ...client.Object) string {
	t.Helper()
	o := simulator.Objects{fixture.Set("s"), fixture.Binding("ns", "s"), p.Obj()}
	o = append(o, others...)
	for i := range clusters {
		o = append(o, fixture.Cluster(fmt.Sprintf("c%03d", i+1)).Set("s").Allocatable("cpu", fmt.Sprint(i+1)).Obj())
	}
	s, err := simulator.New(context.Background(), o, time.Now(), simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := s.Decide(context.Background(), types.NamespacedName{Namespace: "ns", Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printReport(&out, report, nearestRows, wide); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestScoresOfAWideReport(t *testing.T) {
	got := reported(t, fixture.Placement("ns", "p").Number(1).Prioritizer("ResourceAllocatableCPU", 3).AddOn("price", "dollars", -1), 2, true)
	_, got, _ = strings.Cut(got, "qualified, not selected\n")
	want := `
  CLUSTER   SELECTED   SCORE   SCORES                                           RANK   CUT    WHY                       WOULD BE SELECTED WITH
  c002      true       400     AddOn/price/dollars=(no score) Balance=100 ResourceAllocatableCPU=100×3 Steady=0    1      +600   rank 1 of 2               -
  c001      false      -200    AddOn/price/dollars=(no score) Balance=100 ResourceAllocatableCPU=-100×3 Steady=0   2      -600   rank 2 of 2, 1 selected   +600 score
`
	words := func(text string) []string { return strings.Fields(text) }
	if diff := cmp.Diff(words(want), words(got)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, got)
	}
}

// TestLongReport holds a report of many clusters to what a person can read.
func TestLongReport(t *testing.T) {
	for name, tc := range map[string]struct {
		placement     fixture.PlacementBuilder
		others        []client.Object
		wide          bool
		want, without []string
	}{
		"pages name their first clusters": {
			placement: fixture.Placement("ns", "p"), want: []string{"  p-decision-1: c001 c002 c003 c004 c005 c006 c007 c008 c009 c010 … 90 more\n", "  p-decision-2: c101 "},
		},
		"wide, all of them": {placement: fixture.Placement("ns", "p"), wide: true, want: []string{" c010 c011 c012 "}, without: []string{"…"}},
		"few left out": {
			placement: fixture.Placement("ns", "p").Number(20), want: []string{"+1 score"}, without: []string{"--cluster"},
		},
		"too many not selected to compute the change that would select them": {
			placement: fixture.Placement("ns", "p").Number(10), want: []string{"\n  More than 100 clusters were not selected. explain --cluster NAME shows the change with which one would be selected.\n"},
		},
		"an invalid expression has line and column": {
			placement: fixture.Placement("ns", "p").Predicate(fixture.MatchCEL(`managedCluster.`)),
			want:      []string{"celExpressions[0]: Invalid value: \"managedCluster.\": compilation failed: 1:16: Syntax error: no viable alternative at input '.'\n"},
		},
		"the held change is shown beside the published decision": {
			placement: fixture.Placement("ns", "p"), others: []client.Object{fixture.ApprovalPolicy("ns", "careful")},
			want: []string{"  The clusters above are the published ones; the tables show the pending change.\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := reported(t, tc.placement, 120, tc.wide, tc.others...)
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in:\n%s", want, got)
				}
			}
			for _, without := range tc.without {
				if strings.Contains(got, without) {
					t.Errorf("%q is in:\n%s", without, got)
				}
			}
		})
	}
}

// TestRowsByRank: the table has the clusters by rank, then the excluded ones, and of many only
// those around the cut.
func TestRowsByRank(t *testing.T) {
	clusters := func(got string) string {
		var names []string
		for line := range strings.Lines(got) {
			if words := strings.Fields(line); len(words) > 1 && (words[1] == "true" || words[1] == "false") {
				names = append(names, words[0])
			}
		}
		return strings.Join(names, " ")
	}
	few := reported(t, fixture.Placement("ns", "p").Number(2).Prioritizer("ResourceAllocatableCPU", 3), 4, false)
	if got := clusters(few); got != "c004 c003 c002 c001" {
		t.Errorf("the order is %s in\n%s", got, few)
	}
	many := reported(t, fixture.Placement("ns", "p").Number(12), 40, false)
	if got := clusters(many); got != "c003 c004 c005 c006 c007 c008 c009 c010 c011 c012 c013 c014 c015 c016 c017" {
		t.Errorf("listed are %s in\n%s", got, many)
	}
	for _, want := range []string{"\n  CLUSTERS   WHY\n  12         selected\n  28         qualified, not selected\n", "\n  25 of 40 clusters are not listed: --all lists them.\n"} {
		if !strings.Contains(many, want) {
			t.Errorf("%q is not in:\n%s", want, many)
		}
	}
}

// TestExcludedOrder lists excluded clusters that passed more filters, or need fewer changes, first.
func TestExcludedOrder(t *testing.T) {
	r := &simulator.Report{Answer: &simulator.Answer{
		Counts: []berthv1alpha1.ReasonCount{{Reason: "First", Clusters: 3}, {Reason: "Last", Clusters: 1}},
		Verdicts: []framework.ClusterVerdict{
			{Cluster: "a", Plugin: "First"}, {Cluster: "b", Plugin: "First", SelectedWith: "x and y"}, {Cluster: "c", Plugin: "First", SelectedWith: "x"}, {Cluster: "d", Plugin: "Last"},
		},
	}}
	got := ""
	for _, v := range byRank(r) {
		got += v.Cluster
	}
	if got != "dcba" {
		t.Errorf("the order is %s, want dcba", got)
	}
}

// TestReasonTable counts reasons one by one, the most frequent of a filter first, and folds rare
// ones.
func TestReasonTable(t *testing.T) {
	r := &simulator.Report{Answer: &simulator.Answer{Counts: []berthv1alpha1.ReasonCount{
		{Reason: berthv1alpha1.CountSelected, Clusters: 1}, {Reason: "Predicate", Clusters: 9},
	}}}
	for i, reason := range strings.Fields("selected a b b c c c d e f") {
		v := framework.ClusterVerdict{Cluster: fmt.Sprint(i), Selected: i == 0, Reason: reason}
		if i > 0 {
			v.Plugin = "Predicate"
		}
		r.Verdicts = append(r.Verdicts, v)
	}
	for candidates, want := range map[int]string{
		10: "CLUSTERS WHY 1 selected 3 Predicate: c 2 Predicate: b 1 Predicate: a 1 Predicate: d 1 Predicate: e 1 Predicate: 1 other reason",
		11: "CLUSTERS WHY 1 selected 9 excluded by Predicate",
	} {
		var out bytes.Buffer
		if err := reasonTable(r, candidates).print(&out, false); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(out.String()), " "); got != want {
			t.Errorf("of %d candidates: got %q, want %q", candidates, got, want)
		}
	}
}
