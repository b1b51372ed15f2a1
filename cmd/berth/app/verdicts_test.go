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
	if err := printReport(&out, report, wide); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestScoresOfAWideReport(t *testing.T) {
	got := reported(t, fixture.Placement("ns", "p").Number(1).Prioritizer("ResourceAllocatableCPU", 3), 2, true)
	_, got, _ = strings.Cut(got, "p-decision-1: ")
	want := `c002
  CLUSTER   SELECTED   SCORE   SCORES                                           RANK   CUT    WHY                       WOULD BE SELECTED WITH
  c001      false      -200    Balance=100 ResourceAllocatableCPU=-100×3 Steady=0   2      -600   rank 2 of 2, 1 selected   +600 score
  c002      true       400     Balance=100 ResourceAllocatableCPU=100×3 Steady=0    1      +600   rank 1 of 2               -
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
		"too many left out to be told what would let them in": {
			placement: fixture.Placement("ns", "p").Number(10), want: []string{"\n  More than 100 clusters were not selected. explain --cluster NAME shows the change with which one would be selected.\n"},
		},
		"an invalid expression has line and column": {
			placement: fixture.Placement("ns", "p").Predicate(fixture.MatchCEL(`managedCluster.`)),
			want:      []string{"celExpressions[0]: Invalid value: \"managedCluster.\": compilation failed: 1:16: Syntax error: no viable alternative at input '.'\n"},
		},
		"what is held is told from what is published": {
			placement: fixture.Placement("ns", "p"), others: []client.Object{fixture.ApprovalPolicy("ns", "careful")},
			want: []string{"  The clusters above are the published ones; the table shows the pending change.\n"},
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
