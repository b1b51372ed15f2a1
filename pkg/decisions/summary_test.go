package decisions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestPlanSummary(t *testing.T) {
	p := NewPlan(testPlacement(), nil, nil, grouping(0, "a:"+span(1, 101), ":x"))
	want := []v1alpha1.DecisionGroupStatus{
		{DecisionGroupIndex: 0, DecisionGroupName: "a", Decisions: []string{"p-decision-1", "p-decision-2"}, ClusterCount: 101},
		{DecisionGroupIndex: 1, Decisions: []string{"p-decision-3"}, ClusterCount: 1},
	}
	if d := cmp.Diff(want, p.GroupStatus()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(strings.Fields(span(1, 101)+" x"), p.Selected()); d != "" {
		t.Error(d)
	}
}

func TestPagesAreInOrderOfGroupAndNumber(t *testing.T) {
	for name, tc := range map[string]struct {
		published pages
		grouping  Grouping
		want      []string
	}{
		"a new group comes after the others": {
			published: pages{page("p-decision-1", "a", "0", "1"), page("p-decision-2", "b", "1", "2"), page("p-decision-3", "c", "2", "3")},
			grouping:  grouping(0, "a:1", "c:3", "d:4"), want: []string{"p-decision-1 a/0: 1", "p-decision-3 c/1: 3", "p-decision-2 d/2: 4"},
		},
		"a new page has a lower number": {
			published: pages{page("p-decision-2", "a", "0", span(1, 100))}, grouping: grouping(0, "a:"+span(1, 101)),
			want: []string{"p-decision-1 a/0: c101", "p-decision-2 a/0: " + span(1, 100)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, showPages(NewPlan(testPlacement(), tc.published, nil, tc.grouping).Pages)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
