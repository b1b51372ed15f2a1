package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestPublished: what a step leaves published. Before, generation 1 of the default profile had
// published a page with cluster a.
func TestPublished(t *testing.T) {
	listsA, listsB := fixture.Page("ns", "p-decision-1").Of("p").Lists("a").Obj(), fixture.Page("ns", "p-decision-1").Of("p").Lists("b").Obj()
	second := fixture.Page("ns", "p-decision-2").Of("p").Lists("c").Obj()
	hash := framework.ContentHash
	for name, tc := range map[string]struct {
		step   framework.Proposal
		target bool
		pages  []*v1alpha1.PlacementDecision // before the step
		want   framework.Published
	}{
		"the target": {
			step: framework.Proposal{Clusters: []string{"b"}, Revision: 5, Writes: []framework.PageWrite{{Page: listsB}}}, target: true, pages: []*v1alpha1.PlacementDecision{listsA},
			want: framework.Published{Names: []string{"b"}, Generation: 2, Profile: "default", Revision: 5, RecordDue: true, Pages: map[string]uint64{"p-decision-1": hash(listsB)}},
		},
		"a part of the change": {
			step: framework.Proposal{Clusters: []string{"b"}, Revision: 5, Writes: []framework.PageWrite{{Page: listsB}}}, pages: []*v1alpha1.PlacementDecision{listsA},
			want: framework.Published{Names: []string{"b"}, Generation: 1, Profile: "before", Revision: 5, RecordDue: true, Pages: map[string]uint64{"p-decision-1": hash(listsB)}},
		},
		"an edited page that was not written": {
			step: framework.Proposal{Clusters: []string{"a", "c"}, Revision: 5, Writes: []framework.PageWrite{{Page: second, Created: true}}}, pages: []*v1alpha1.PlacementDecision{listsB},
			want: framework.Published{Names: []string{"a", "c"}, Generation: 1, Profile: "before", Revision: 5, RecordDue: true, Pages: map[string]uint64{"p-decision-1": hash(listsA), "p-decision-2": hash(second)}},
		},
		"restored pages": {
			step: framework.Proposal{Clusters: []string{"a"}, Kind: framework.Republication, Writes: []framework.PageWrite{{Page: second, Deleted: true}}}, pages: []*v1alpha1.PlacementDecision{listsB, second},
			want: framework.Published{Names: []string{"a"}, Generation: 1, Profile: "before", Revision: 4, Pages: map[string]uint64{"p-decision-1": hash(listsB)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			last := lastOf("a")
			last.Generation, last.Profile, last.Revision, last.Pages = 1, "before", 4, map[string]uint64{"p-decision-1": hash(listsA)}
			a := attemptOn(last)
			a.Snapshot.Subject.Pages = tc.pages
			tc.step.Digest = framework.DigestOf(tc.step.Clusters)
			if a.Step = &tc.step; tc.target {
				a.Publish = a.Step
			}
			tc.want.Digest = tc.step.Digest
			if diff := cmp.Diff(&tc.want, a.published()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPublishedAsBefore: nothing is stored if nothing was written and this process published it.
func TestPublishedAsBefore(t *testing.T) {
	for _, restored := range []bool{false, true} {
		last := lastOf("a")
		last.FromPages = restored
		a := attemptOn(last)
		a.Step = &framework.Proposal{Clusters: []string{"a"}, Digest: last.Digest}
		if got := a.published(); (got != nil) != restored {
			t.Errorf("read from the pages: %t, stored %+v", restored, got)
		}
	}
}

// TestScoresWritten: new pages have scores, too, if the Placement sorts by Score.
func TestScoresWritten(t *testing.T) {
	wrote := []framework.PageWrite{{}}
	for name, tc := range map[string]struct {
		sortBy v1alpha1.DecisionSortBy
		step   framework.Proposal
		want   bool
	}{
		"new pages":                {sortBy: v1alpha1.SortByScore, step: framework.Proposal{Writes: wrote}, want: true},
		"no write":                 {sortBy: v1alpha1.SortByScore},
		"no scores":                {step: framework.Proposal{Writes: wrote}},
		"scores alone":             {sortBy: v1alpha1.SortByScore, step: framework.Proposal{Writes: wrote, Result: framework.BindResult{ScoresWritten: true}}, want: true},
		"scores before a failure":  {step: framework.Proposal{Writes: wrote, Result: framework.BindResult{ScoresWritten: true}}, want: true},
		"scores that nobody wrote": {step: framework.Proposal{Result: framework.BindResult{ScoresWritten: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			pl := a.Snapshot.Subject.Placement.DeepCopy()
			pl.Spec.SortBy = tc.sortBy
			a.Snapshot.Subject.Placement = pl
			a.Step = &tc.step
			if got := a.ScoresWritten(); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestRepublishes: a step that wrote nothing is what was published before. If it is the target, the
// generation and the profile that decided must be the same, too.
func TestRepublishes(t *testing.T) {
	same := framework.Published{Digest: "d", Generation: 2, Profile: "default"}
	tests := map[string]struct {
		writes  []framework.PageWrite
		change  func(*framework.Published)
		partial bool
		want    bool
	}{
		"the same":                        {want: true},
		"pages were written":              {writes: []framework.PageWrite{{}}},
		"other clusters":                  {change: func(p *framework.Published) { p.Digest = "other" }},
		"another generation":              {change: func(p *framework.Published) { p.Generation = 1 }},
		"another profile":                 {change: func(p *framework.Published) { p.Profile = "other" }},
		"another generation, no target":   {change: func(p *framework.Published) { p.Generation = 1 }, partial: true, want: true},
		"other clusters, and no target":   {change: func(p *framework.Published) { p.Digest = "other" }, partial: true},
		"the same, although not a target": {partial: true, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := attemptOn(nil)
			a.Step = &framework.Proposal{Digest: "d", Writes: tc.writes}
			if !tc.partial {
				a.Publish = a.Step
			}
			before := same
			if tc.change != nil {
				tc.change(&before)
			}
			if got := a.keepsPublished(&before); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
