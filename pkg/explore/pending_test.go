package explore

import (
	"fmt"
	"slices"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

// recordOf returns a record of a Placement.
func recordOf(t *testing.T, pl *v1alpha1.Placement, revision int64, phase berthv1alpha1.ChangePhase, from, to []string) *berthv1alpha1.PlacementChange {
	t.Helper()
	record := changes.NewRecord(pl, 0, revision, changes.NewChange(from, to))
	record.Status.Phase, record.Status.Message = phase, string(phase)
	return record
}

// TestPendingChange: what is shown as not published is the open record without what its pages have
// already, in a world that was filled and in one that follows the hub. Without an open record
// nothing is, whatever the engine of the explorer would decide.
func TestPendingChange(t *testing.T) {
	pl := fixture.Placement("ns", "held").Number(1).Predicate(fixture.MatchLabel("name", "c2")).Obj()
	for name, tc := range map[string]struct {
		records func() []*berthv1alpha1.PlacementChange
		pages   []string
		want    string
	}{
		"no record":           {nil, []string{"c3", "gone"}, "0A21A1, no change"},
		"a published one":     {records(t, pl, berthv1alpha1.PhasePublished), []string{"c3", "gone"}, "0A21A1, no change"},
		"a rejected one":      {records(t, pl, berthv1alpha1.PhaseRejected), []string{"c3", "gone"}, "0A21A1, no change"},
		"held":                {records(t, pl, berthv1alpha1.PhaseHeld), []string{"c3", "gone"}, "0324A4, Held: +[c1] −[c3 gone]"},
		"the second one held": {records(t, pl, berthv1alpha1.PhaseSuperseded, berthv1alpha1.PhaseHeld), []string{"c3", "gone"}, "0324A4, Held: +[c1] −[c3 gone]"},
		"in steps, in part":   {records(t, pl, berthv1alpha1.PhaseProgressing), []string{"c1", "c3"}, "0124A, Progressing: +[] −[c3]"},
	} {
		t.Run(name, func(t *testing.T) {
			page := fixture.Page("ns", "held-decision-1").Of("held").OwnedBy("held").Lists(tc.pages...).Obj()
			var base simulator.Objects
			for _, o := range small() {
				if _, isPage := o.(*v1alpha1.PlacementDecision); !isPage {
					base = append(base, o)
				}
			}
			whole := append(slices.Clone(base), page)
			var all []*berthv1alpha1.PlacementChange
			if tc.records != nil {
				all = tc.records()
			}
			for _, record := range all {
				whole = append(whole, record)
			}
			if got := pendingOfHeld(t, newTestHub(t, whole)); got != tc.want {
				t.Errorf("filled: %s, want %s", got, tc.want)
			}
			hub := newTestHub(t, base)
			hub.update(hub.run, nil, page)
			hub.flush()
			pendingOfHeld(t, hub)
			for _, record := range all {
				hub.update(hub.run, nil, record)
			}
			if got := pendingOfHeld(t, hub); got != tc.want {
				t.Errorf("followed: %s, want %s", got, tc.want)
			}
		})
	}
}

// records returns a function for records of one change from c3 and gone to c1, in these phases.
func records(t *testing.T, pl *v1alpha1.Placement, phases ...berthv1alpha1.ChangePhase) func() []*berthv1alpha1.PlacementChange {
	return func() (all []*berthv1alpha1.PlacementChange) {
		for i, phase := range phases {
			to := []string{"c1"}
			if i < len(phases)-1 {
				to = []string{"c3"}
			}
			all = append(all, recordOf(t, pl, int64(i+1), phase, []string{"c3", "gone"}, to))
		}
		return all
	}
}

// pendingOfHeld returns the cells, and the change that is not published, of ns/held.
func pendingOfHeld(t *testing.T, hub *LiveWorld) string {
	t.Helper()
	s := NewServer(simulator.Options{}, NewViewer(simulator.Options{}, hub, nil, ""))
	var columns Columns
	read(t, get(s, nil, "api/columns?placement=ns/held"), 200, &columns)
	var d PlacementDetails
	read(t, get(s, nil, "api/placement?placement=ns/held"), 200, &d)
	text := columns.Columns[0].Cells + ", "
	if d.Pending == nil {
		return text + "no change"
	}
	for _, name := range append(d.Pending.Added, d.Pending.Removed...) {
		var c Cell
		read(t, get(s, nil, "api/cell?placement=ns/held&cluster="+name), 200, &c)
		if c.Pending == "" {
			t.Errorf("the cell of %s has no pending change", name)
		}
	}
	for _, name := range []string{"c1", "c3"} {
		var c ClusterDetails
		read(t, get(s, nil, "api/cluster?cluster="+name), 200, &c)
		if moves := slices.Contains(append(slices.Clone(d.Pending.Added), d.Pending.Removed...), name); moves != (len(c.OpenChanges) > 0) {
			t.Errorf("open changes of %s: %+v", name, c.OpenChanges)
		}
	}
	return text + fmt.Sprintf("%s: +%v −%v", d.Pending.Reason, d.Pending.Added, d.Pending.Removed)
}

// TestPendingInWhatIf: after the edits of a what-if the change is that of the decision.
func TestPendingInWhatIf(t *testing.T) {
	objects := append(small(), recordOf(t, fixture.Placement("ns", "held").Obj(), 1, berthv1alpha1.PhaseHeld, []string{"c3", "gone"}, []string{"c1"}))
	after, err := simulator.New(t.Context(), objects, fixture.Now, simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWhatIfWorld(after, fixture.Now)
	a := w.answer(t.Context(), question{key: keyOf("ns/held")})
	d, err := w.world.placement("ns/held", a)
	if err != nil {
		t.Fatal(err)
	}
	if d.Pending == nil || fmt.Sprint(d.Pending.Added, d.Pending.Removed) != "[c2] [c3 gone]" {
		t.Errorf("pending %+v, want +c2 −c3 −gone", d.Pending)
	}
}
