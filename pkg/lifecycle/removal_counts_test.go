package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// counting is a BlastRadius with a window of an hour and these limits.
func counting(maxRemoved string, fleetMaxRemoved int) *BlastRadius {
	b := &BlastRadius{removalCounter: &removalCounter{counts: &removalCounts{}, window: time.Hour}}
	b.args.Window.Duration, b.args.Timeout.Duration, b.args.MinRemoved, b.args.FleetMaxRemoved = time.Hour, time.Minute, 1, &fleetMaxRemoved
	if maxRemoved != "" {
		b.args.MaxRemoved = new(intstr.Parse(maxRemoved))
	}
	return b
}

func placementOf(uid string) *v1alpha1.Placement {
	pl := fixture.Placement("n", uid).Obj()
	pl.UID = types.UID(uid)
	return pl
}

var cmpCounts = cmp.Options{cmp.AllowUnexported(removalCounts{}, removal{}, openRemoval{}, progressing{}), cmpopts.EquateEmpty()}

// TestRecountFromRecords: whatever the order of the records, removals are counted in the order of
// their times, and the input stays as it is.
func TestRecountFromRecords(t *testing.T) {
	record := func(uid string, revision int64, edited bool, phase berthv1alpha1.ChangePhase, minute int, removed ...string) *berthv1alpha1.PlacementChange {
		c := changes.NewChange(removed, nil)
		c.Edited = edited
		r := changes.NewRecord(placementOf(uid), 0, revision, c)
		at := metav1.NewTime(fixture.Now.Add(time.Duration(minute) * time.Minute))
		r.Status = berthv1alpha1.PlacementChangeStatus{Phase: phase, PermittedTime: &at, CompletionTime: &at}
		return r
	}
	stray := record("p", 1, false, "Published", 0, "x", "y")
	stray.OwnerReferences = nil
	progress := record("q", 2, false, "Progressing", 2, "c", "d", "e")
	progress.Status.CompletionTime, progress.Status.Remaining = nil, &berthv1alpha1.RemainingClusters{Removed: 2}
	superseded := record("q", 1, false, "Superseded", 5, "a", "b", "c")
	superseded.Status.Remaining = &berthv1alpha1.RemainingClusters{Removed: 1}
	held := record("p", 4, false, "Held", 6, "c")
	held.Status.PermittedTime = nil
	permitted := record("r", 1, true, "Held", 6, "c", "d")
	permitted.Status.CompletionTime = nil
	merged := record("s", 9, false, "Published", 8)
	merged.Spec.FirstRevision = 7
	merged.Spec.Removals = []berthv1alpha1.MergedRemoval{
		{Time: metav1.NewTime(fixture.Now.Add(7 * time.Minute)), Clusters: 3, Edited: true}, {Time: metav1.NewTime(fixture.Now.Add(8 * time.Minute)), Clusters: 1},
	}
	byOthers := record("q", 3, false, "Published", 1, "x")
	byOthers.Spec.Cause = changes.CauseDisabled
	before, newest := record("t", 1, false, "Progressing", 9, "a", "b"), record("t", 2, false, "Progressing", 9, "b", "c")
	before.Status.CompletionTime, before.Status.Remaining, newest.Status.CompletionTime = nil, &berthv1alpha1.RemainingClusters{Removed: 1}, nil
	created := record("t", 3, false, "", 9, "c")
	created.Status.PermittedTime, created.Status.CompletionTime = nil, nil
	records := []*berthv1alpha1.PlacementChange{
		created, newest, before, progress, record("p", 3, true, "Published", 4, "b"), superseded, record("p", 2, false, "Published", 3, "a"), stray, held, permitted, merged,
		record("p", 5, false, "Published", 1), record("p", 6, false, "Rejected", 6, "c"), byOthers,
	}
	input := slices.Clone(records)
	b := counting("", 100)
	b.Recount(records)
	// Records have whole seconds: they count until the end of the second.
	at := func(minute int) time.Time { return fixture.Now.Add(time.Duration(minute)*time.Minute + time.Second) }
	want := &removalCounts{
		Removals: []removal{
			{Placement: "q", Namespace: "n", Revision: 2, At: at(2), Clusters: 3}, {Placement: "p", Namespace: "n", Revision: 2, At: at(3), Clusters: 1},
			{Placement: "p", Namespace: "n", Revision: 3, At: at(4), Clusters: 1, Edited: true}, {Placement: "q", Namespace: "n", Revision: 1, At: at(5), Clusters: 2},
			{Placement: "r", Namespace: "n", Revision: 1, At: at(6), Clusters: 2, Edited: true},
			{Placement: "s", Namespace: "n", Revision: 9, At: at(7), Clusters: 3, Edited: true}, {Placement: "s", Namespace: "n", Revision: 9, At: at(8), Clusters: 1},
			{Placement: "t", Namespace: "n", Revision: 1, At: at(9), Clusters: 1}, {Placement: "t", Namespace: "n", Revision: 2, At: at(9), Clusters: 2},
		},
		Progress: map[types.UID]progressing{"q": {Revision: 2, Counted: at(2), Left: 2}, "r": {Revision: 1, Counted: at(6), Left: 2}, "t": {Revision: 2, Counted: at(9), Left: 2}},
	}
	if diff := cmp.Diff(want, b.counts, cmpCounts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Equal(input, records) {
		t.Error("the input is sorted")
	}
	b.Recount(nil)
	if diff := cmp.Diff(want, b.counts, cmpCounts); diff != "" {
		t.Errorf("counted again (-want +got):\n%s", diff)
	}
}

// TestNeedsRecords: the instances of all profiles need the longest window; one that is off counts
// nothing.
func TestNeedsRecords(t *testing.T) {
	handle := &framework.Handle{}
	all := map[string]*BlastRadius{}
	for _, args := range []string{`{"maxRemoved": 1, "window": "1m"}`, `{"maxRemoved": 1, "window": "5m"}`, ""} {
		plugin, err := NewBlastRadius(t.Context(), json.RawMessage(args), handle)
		if err != nil {
			t.Fatal(err)
		}
		all[args] = plugin.(*BlastRadius)
	}
	for args, b := range all {
		want := 5 * time.Minute
		if args == "" {
			want = 0
		}
		if got := b.NeedsRecords(); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}

// TestReplacedChangesGiveBack: what a change reserved, or counted and did not remove, does not
// count when another change, or none, takes its place.
func TestReplacedChangesGiveBack(t *testing.T) {
	pl := placementOf("p")
	state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: &framework.Subject{Placement: pl}})
	first := &framework.Proposal{Revision: 2, Removed: []string{"a", "b"}}
	step := &framework.Proposal{Revision: 2, Removed: []string{"a"}, Partial: true}
	for name, tc := range map[string]struct {
		do   func(b *BlastRadius)
		want int
	}{
		"in progress": {do: func(b *BlastRadius) { b.PostBind(t.Context(), state, pl, step) }, want: 2},
		"its later step": {do: func(b *BlastRadius) {
			b.PostBind(t.Context(), state, pl, step)
			b.Unreserve(t.Context(), state, pl, step)
		}, want: 2},
		"no change any more": {do: func(b *BlastRadius) {
			b.PostBind(t.Context(), state, pl, step)
			b.Unreserve(t.Context(), state, pl, &framework.Proposal{})
		}, want: 1},
		"a later step failed after a write, and no change any more": {do: func(b *BlastRadius) {
			b.PostBind(t.Context(), state, pl, step)
			b.Unreserve(t.Context(), state, pl, &framework.Proposal{Revision: 2, Removed: []string{"b"}, Writes: make([]framework.PageWrite, 1)})
			b.Unreserve(t.Context(), state, pl, &framework.Proposal{})
		}, want: 2},
		"a change without removals, before a step": {do: func(b *BlastRadius) {
			next := &framework.Proposal{Revision: 3, Added: []string{"x"}}
			b.Reserve(t.Context(), state, pl, next)
			b.PostBind(t.Context(), state, pl, next)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := counting("", 10)
			b.Reserve(t.Context(), state, pl, first)
			tc.do(b)
			if _, namespace, _ := b.count(b.counts, placementOf("q"), fixture.Now); namespace.all != tc.want {
				t.Errorf("%d removals count, want %d", namespace.all, tc.want)
			}
		})
	}
}

// operations are what the engine does with a change.
type operations struct {
	reserve, unreserve func(*framework.Proposal, ...*berthv1alpha1.PlacementChange)
	publish            func(*framework.Proposal)
}

// TestContinuationsCountOnce: the rest of a change goes on under a later revision, and one cluster
// leaves beside it.
func TestContinuationsCountOnce(t *testing.T) {
	pl := placementOf("p")
	record := func(revision int64, phase berthv1alpha1.ChangePhase, removed ...string) *berthv1alpha1.PlacementChange {
		r := changes.NewRecord(pl, 0, revision, changes.NewChange(removed, nil))
		r.Status.Phase, r.Status.PermittedTime = phase, new(metav1.NewTime(fixture.Now))
		return r
	}
	first := record(2, berthv1alpha1.PhaseProgressing, "a", "b")
	superseded := []*berthv1alpha1.PlacementChange{record(2, berthv1alpha1.PhaseSuperseded, "a", "b"), record(3, berthv1alpha1.PhaseProgressing, "a", "b", "c")}
	change := &framework.Proposal{Revision: 2, Removed: []string{"a", "b"}}
	begin := &framework.Proposal{Revision: 2, Partial: true}
	rest := &framework.Proposal{Kind: framework.Continuation, Revision: 3, Removed: []string{"a", "b", "c"}}
	step := func(removed ...string) *framework.Proposal {
		return &framework.Proposal{Kind: framework.Continuation, Revision: 3, Removed: removed, Partial: true}
	}
	wrote := step("c")
	wrote.Writes = make([]framework.PageWrite, 1)
	for name, tc := range map[string]struct {
		// do is what happens after Reserve of the first change; want are the removals that count
		// then, ended those that count when no change is left.
		do          func(o operations)
		want, ended int
	}{
		"before it began": {do: func(o operations) {
			o.reserve(rest, first)
		}, want: 3},
		"before it began, and fails": {do: func(o operations) {
			o.reserve(rest, first)
			o.unreserve(rest, first)
		}, want: 2},
		"permitted, and waits": {do: func(o operations) { o.unreserve(change, first) }, want: 2},
		"fails after a write, then permitted": {do: func(o operations) {
			o.unreserve(&framework.Proposal{Revision: 2, Removed: []string{"a", "b"}, Writes: make([]framework.PageWrite, 1)})
			o.reserve(change, first)
		}, want: 2, ended: 2},
		"of which one left, after another change that waits": {do: func(o operations) {
			o.publish(&framework.Proposal{Revision: 2, Removed: []string{"a"}, Partial: true})
			next := &framework.Proposal{Revision: 3, Removed: []string{"x"}}
			o.reserve(next, first)
			o.unreserve(next, first)
			o.reserve(&framework.Proposal{Revision: 2, Removed: []string{"b"}}, first)
		}, want: 2, ended: 1},
		"after another change that waits": {do: func(o operations) {
			o.publish(begin)
			next := &framework.Proposal{Revision: 3, Removed: []string{"x"}}
			o.reserve(next, first)
			o.unreserve(next, first)
			o.reserve(rest, first)
			o.publish(step("c"))
			o.publish(step("a"))
		}, want: 3, ended: 2},
		"goes on with its own record, after a failed write": {do: func(o operations) {
			o.unreserve(&framework.Proposal{Revision: 2, Removed: []string{"a", "b"}, Writes: make([]framework.PageWrite, 1)})
			o.reserve(&framework.Proposal{Revision: 3, Removed: []string{"a", "b"}}, superseded...)
		}, want: 3, ended: 2},
		"after two of them": {do: func(o operations) {
			o.publish(begin)
			next := &framework.Proposal{Revision: 3, Removed: []string{"x"}}
			for range 2 {
				o.reserve(next, first)
				o.unreserve(next, first)
				o.reserve(change, first)
			}
		}, want: 2},
		"fails after a write": {do: func(o operations) {
			o.publish(begin)
			o.reserve(rest, first)
			o.unreserve(wrote, first)
		}, want: 3, ended: 1},
		"is repeated with its own record": {do: func(o operations) {
			o.publish(begin)
			o.reserve(rest, first)
			o.unreserve(rest, first)
			o.reserve(rest, superseded...)
		}, want: 3},
		"goes on": {do: func(o operations) {
			o.publish(begin)
			o.reserve(rest, first)
			o.publish(step("c"))
			o.reserve(rest, superseded...)
			o.publish(step("a"))
		}, want: 3, ended: 2},
		"removes what came back": {do: func(o operations) {
			o.publish(begin)
			o.publish(&framework.Proposal{Revision: 2, Removed: []string{"a", "b"}, Partial: true})
			o.publish(&framework.Proposal{Revision: 2, Removed: []string{"a"}, Partial: true})
		}, want: 2, ended: 2},
	} {
		t.Run(name, func(t *testing.T) {
			b, published := counting("", 10), []string{"a", "b", "c"}
			state := func(records ...*berthv1alpha1.PlacementChange) *framework.CycleState {
				return framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: &framework.Subject{
					Placement: pl, Records: records, Last: &framework.Published{Names: published},
				}})
			}
			o := operations{
				reserve: func(p *framework.Proposal, records ...*berthv1alpha1.PlacementChange) {
					b.Reserve(t.Context(), state(records...), pl, p)
				},
				unreserve: func(p *framework.Proposal, records ...*berthv1alpha1.PlacementChange) {
					b.Unreserve(t.Context(), state(records...), pl, p)
				},
				publish: func(p *framework.Proposal) {
					b.PostBind(t.Context(), state(), pl, p)
					published = changes.Minus(published, p.Removed)
				},
			}
			check := func(want int) {
				t.Helper()
				if _, namespace, _ := b.count(b.counts, placementOf("q"), fixture.Now); namespace.all != want {
					t.Errorf("%d removals count, want %d: %+v", namespace.all, want, b.counts)
				}
				if slices.ContainsFunc(b.counts.Removals, func(r removal) bool { return r.Clusters < 0 }) {
					t.Errorf("less than none: %+v", b.counts)
				}
			}
			o.reserve(change)
			tc.do(o)
			check(tc.want)
			o.unreserve(&framework.Proposal{})
			check(tc.ended)
		})
	}
}

// TestGiveBack: the removals of one change, not those of other Placements, changes or times.
func TestGiveBack(t *testing.T) {
	later := fixture.Now.Add(time.Minute)
	c := &removalCounts{
		Removals: []removal{
			{Placement: "q", Revision: 2, At: later, Clusters: 5}, {Placement: "p", Revision: 2, At: fixture.Now, Clusters: 5},
			{Placement: "p", Revision: 1, At: later, Clusters: 5}, {Placement: "p", Revision: 2, At: later, Clusters: 5},
		},
		Progress: map[types.UID]progressing{"p": {Revision: 3, CountedAs: 2, Counted: later, Left: 2}, "q": {}},
	}
	c.giveBack("p")
	var got []int
	for _, r := range c.Removals {
		got = append(got, r.Clusters)
	}
	if diff := cmp.Diff([]int{5, 5, 5, 3}, got); diff != "" || len(c.Progress) != 1 {
		t.Errorf("%v (-want +got):\n%s", c.Progress, diff)
	}
}

// TestRecountOfAFullHistory: if records of a Placement may be missing, the removals of its
// namespace are not known until the oldest record that is kept is outside the window.
func TestRecountOfAFullHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		// first is the oldest revision, minute when it was published, kept the number of records.
		first        int64
		minute, kept int
		want         string
	}{
		"complete":                {first: 1, kept: berthv1alpha1.MaxHistoryLimit},
		"some are missing":        {first: 2, kept: berthv1alpha1.MaxHistoryLimit, want: "the removals within 1h0m0s are not known: a Placement had more than 100 changes before a restart"},
		"few are kept":            {first: 2, kept: berthv1alpha1.MaxHistoryLimit - 1},
		"those before the window": {first: 2, kept: berthv1alpha1.MaxHistoryLimit, minute: -61},
	} {
		t.Run(name, func(t *testing.T) {
			var records []*berthv1alpha1.PlacementChange
			for i := range int64(tc.kept) {
				r := changes.NewRecord(placementOf("q"), 0, tc.first+i, changes.NewChange(nil, []string{"a"}))
				at := metav1.NewTime(fixture.Now.Add(time.Duration(tc.minute) * time.Minute))
				r.Status = berthv1alpha1.PlacementChangeStatus{Phase: "Published", PermittedTime: &at, CompletionTime: &at}
				records = append(records, r)
			}
			b := counting("", 1000)
			b.Recount(records)
			if got := b.exceeded(b.counts, &framework.Subject{Placement: placementOf("p")}, &framework.Proposal{Removed: []string{"a"}}, fixture.Now); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCountsAreCut: what is older than the window is dropped, with the changes in progress.
func TestCountsAreCut(t *testing.T) {
	old, recent := fixture.Now.Add(-time.Hour), fixture.Now.Add(-time.Minute)
	b := counting("", 100)
	b.counts = &removalCounts{
		Removals: []removal{{Placement: "p", At: old}, {Placement: "q", At: recent}},
		Open:     map[types.UID]openRemoval{"p": {removal: removal{At: old}}, "q": {removal: removal{At: recent}}},
		Progress: map[types.UID]progressing{"p": {Counted: old}, "q": {Counted: recent}},
	}
	b.update(time.Time{}, func(*removalCounts) {})
	if c := b.counts; len(c.Removals) != 2 || len(c.Open) != 2 || len(c.Progress) != 2 {
		t.Errorf("without a time: %+v", c)
	}
	b.update(fixture.Now, func(*removalCounts) {})
	want := &removalCounts{
		Removals: []removal{{Placement: "q", At: recent}}, Open: map[types.UID]openRemoval{"q": {removal: removal{At: recent}}},
		Progress: map[types.UID]progressing{"q": {Counted: recent}},
	}
	if diff := cmp.Diff(want, b.counts, cmpCounts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExceeded: what counts against the limits of a Placement, its namespace and the fleet.
func TestExceeded(t *testing.T) {
	removals := func(namespace string, clusters int, edited bool) removal {
		return removal{Placement: types.UID("of " + namespace), Namespace: namespace, At: fixture.Now, Clusters: clusters, Edited: edited}
	}
	open := func(uid, namespace string, names ...string) map[types.UID]openRemoval {
		return map[types.UID]openRemoval{types.UID(uid): {removal: removal{Placement: types.UID(uid), Namespace: namespace, At: fixture.Now}, Begun: names}}
	}
	two := []string{"a", "b"}
	for name, tc := range map[string]struct {
		maxRemoved string
		fleet      int
		counts     *removalCounts
		p          framework.Proposal
		want       bool
	}{
		"nothing is counted":                             {fleet: 10, p: framework.Proposal{Removed: two}},
		"two of five, a quarter may":                     {maxRemoved: "25%", fleet: 10, p: framework.Proposal{Clusters: make([]string, 8), Added: make([]string, 5), Removed: two}, want: true},
		"two of eight, a quarter may":                    {maxRemoved: "25%", fleet: 10, p: framework.Proposal{Clusters: make([]string, 6), Removed: two}},
		"of the namespace":                               {fleet: 10, counts: &removalCounts{Removals: []removal{removals("n", 9, true)}}, p: framework.Proposal{Removed: two}, want: true},
		"of the namespace, at the limit":                 {fleet: 11, counts: &removalCounts{Removals: []removal{removals("n", 9, true)}}, p: framework.Proposal{Removed: two}},
		"of others, half the limit":                      {fleet: 10, counts: &removalCounts{Removals: []removal{removals("m", 50, false)}}, p: framework.Proposal{Removed: two}},
		"of others and the namespace":                    {fleet: 10, counts: &removalCounts{Removals: []removal{removals("m", 50, false), removals("n", 4, false)}}, p: framework.Proposal{Removed: two}, want: true},
		"after an edit":                                  {fleet: 10, counts: &removalCounts{Removals: []removal{removals("m", 50, false), removals("n", 4, false)}}, p: framework.Proposal{Removed: two, Edited: true}},
		"edits of others do not count":                   {fleet: 10, counts: &removalCounts{Removals: []removal{removals("m", 50, true), removals("n", 8, true)}}, p: framework.Proposal{Removed: two}},
		"others that remove now":                         {fleet: 3, counts: &removalCounts{Open: open("q", "n", "x", "y")}, p: framework.Proposal{Removed: two}, want: true},
		"its own removal that was begun":                 {fleet: 3, counts: &removalCounts{Open: open("p", "n", "b", "x")}, p: framework.Proposal{Removed: two}},
		"its own removal, and more of it":                {fleet: 3, counts: &removalCounts{Open: open("p", "n", "x", "y")}, p: framework.Proposal{Removed: two}, want: true},
		"a change with the revision of a deleted record": {fleet: 4, counts: &removalCounts{Removals: []removal{removals("n", 4, false)}, Progress: map[types.UID]progressing{"p": {Revision: 2, Counted: fixture.Now}}}, p: framework.Proposal{Removed: two, Revision: 2}, want: true},
		"a change that supersedes another":               {fleet: 4, counts: &removalCounts{Removals: []removal{removals("n", 4, false)}, Progress: map[types.UID]progressing{"p": {Revision: 1, Counted: fixture.Now}}}, p: framework.Proposal{Removed: two, Revision: 2}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.counts == nil {
				tc.counts = &removalCounts{}
			}
			if got := counting(tc.maxRemoved, tc.fleet).exceeded(tc.counts, &framework.Subject{Placement: placementOf("p")}, &tc.p, fixture.Now); (got != "") != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestReserveAndUnreserve: a removal is open until it is published, given up, or partly made.
func TestReserveAndUnreserve(t *testing.T) {
	pl := placementOf("p")
	state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: &framework.Subject{Placement: pl}})
	removes := func(names ...string) *framework.Proposal { return &framework.Proposal{Removed: names, Revision: 2} }
	wrote := &framework.Proposal{Writes: make([]framework.PageWrite, 1)}
	for name, tc := range map[string]struct {
		do   func(*BlastRadius)
		want []string // begun and reserved
	}{
		"reserved":          {do: func(b *BlastRadius) { b.Reserve(t.Context(), state, pl, removes("a")) }, want: []string{"a"}},
		"nothing to remove": {do: func(b *BlastRadius) { b.Reserve(t.Context(), state, pl, removes()) }},
		"given up": {do: func(b *BlastRadius) {
			b.Reserve(t.Context(), state, pl, removes("a"))
			b.Unreserve(t.Context(), state, pl, removes("a"))
		}},
		"given up after a write": {do: func(b *BlastRadius) {
			b.Reserve(t.Context(), state, pl, removes("a"))
			b.Unreserve(t.Context(), state, pl, wrote)
		}, want: []string{"a"}},
		"given up again, and others": {do: func(b *BlastRadius) {
			b.Reserve(t.Context(), state, pl, removes("a"))
			b.Unreserve(t.Context(), state, pl, wrote)
			b.Reserve(t.Context(), state, pl, removes("b"))
			b.Unreserve(t.Context(), state, pl, removes("b"))
		}, want: []string{"a"}},
		"a later step of the change": {do: func(b *BlastRadius) {
			b.counts = &removalCounts{Progress: map[types.UID]progressing{"p": {Revision: 2, Counted: fixture.Now}}}
			record := changes.NewRecord(pl, 0, 2, changes.NewChange([]string{"a"}, nil))
			record.Status.PermittedTime = new(metav1.NewTime(fixture.Now))
			subject := &framework.Subject{Placement: pl, Records: changes.History{record}}
			b.Reserve(t.Context(), framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Subject: subject}), pl, removes("a"))
		}},
		"another change with its revision": {do: func(b *BlastRadius) {
			b.counts = &removalCounts{Progress: map[types.UID]progressing{"p": {Revision: 2, Counted: fixture.Now}}}
			b.Reserve(t.Context(), state, pl, removes("a"))
		}, want: []string{"a"}},
		"another change": {do: func(b *BlastRadius) {
			b.counts = &removalCounts{Progress: map[types.UID]progressing{"p": {Revision: 1, Counted: fixture.Now}}}
			b.Reserve(t.Context(), state, pl, removes("a"))
		}, want: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := counting("", 10)
			tc.do(b)
			r, known := b.counts.Open["p"]
			if got := union(r.Begun, r.Reserved); !slices.Equal(tc.want, got) || known != (len(tc.want) > 0) {
				t.Errorf("open: %v, %t", got, known)
			}
		})
	}
}

// TestSimulationsDoNotWait: they decide only once, so a removal need not stay the same.
func TestSimulationsDoNotWait(t *testing.T) {
	for name, tc := range map[string]struct {
		handle *framework.Handle
		args   string
		want   time.Duration
	}{
		"a controller":    {handle: &framework.Handle{Assume: func(*v1alpha1.PlacementDecision, bool) {}}, args: `{"maxRemoved": 1, "minRemoved": 1}`, want: 5 * time.Second},
		"without a hub":   {args: `{"maxRemoved": 1, "minRemoved": 1}`, want: 5 * time.Second},
		"in a simulation": {handle: &framework.Handle{}, args: `{"maxRemoved": 1, "minRemoved": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewBlastRadius(t.Context(), json.RawMessage(tc.args), tc.handle)
			if err != nil {
				t.Fatal(err)
			}
			if got := plugin.(*BlastRadius).settle; got != tc.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestStabilizationWindowIsBounded(t *testing.T) {
	for n, want := range map[int64]bool{-1: false, 0: true, maxStabilization: true, maxStabilization + 1: false} {
		if _, err := NewStabilization(t.Context(), json.RawMessage(fmt.Sprintf(`{"stabilizationWindowSeconds": %d}`, n)), nil); (err == nil) != want {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestValidateStrategy: DecisionPublisher rejects an invalid group length.
func TestValidateStrategy(t *testing.T) {
	for length, want := range map[string]int{"50%": 0, "half": 1} {
		pl := placementOf("p")
		pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString(length)
		if got := (&DecisionPublisher{}).Validate(t.Context(), pl); len(got) != want {
			t.Errorf("%s: %v", length, got)
		}
	}
}

// TestNextEnd: a held removal of revoked clusters is checked again when a removal that counts for
// its Placement leaves the window.
func TestNextEnd(t *testing.T) {
	pl := fixture.Placement("n", "p").Obj()
	pl.UID = "p"
	at := func(second int) time.Time { return fixture.At(second).Time }
	own := removal{Placement: "p", Namespace: "n", At: at(20), Clusters: 1}
	near := removal{Placement: "q", Namespace: "n", At: at(10), Clusters: 1, Edited: true}
	far := removal{Placement: "r", Namespace: "m", At: at(5), Clusters: 1}
	edited := far
	edited.Edited = true
	none := own
	none.Clusters, none.At = 0, at(1)
	for name, tc := range map[string]struct {
		fleet bool
		all   []removal
		open  map[types.UID]openRemoval
		want  int // seconds; 0 for never
	}{
		"nothing":                 {},
		"of the Placement":        {all: []removal{none, near, far, own}, want: 620},
		"of the namespace":        {fleet: true, all: []removal{none, near, own}, want: 610},
		"of the fleet":            {fleet: true, all: []removal{far, near, own}, want: 605},
		"edits elsewhere":         {fleet: true, all: []removal{edited, near}, want: 610},
		"outside the window":      {fleet: true, all: []removal{{Placement: "p", Namespace: "n", At: at(-600), Clusters: 1}}},
		"of another, not done":    {fleet: true, open: map[types.UID]openRemoval{"q": {removal: near, Reserved: []string{"a"}}}, want: 610},
		"of itself, not done yet": {fleet: true, open: map[types.UID]openRemoval{"p": {removal: own, Reserved: []string{"a"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &BlastRadius{args: BlastRadiusArgs{Window: metav1.Duration{Duration: 10 * time.Minute}}}
			if tc.fleet {
				b.args.FleetMaxRemoved = new(4)
			}
			var want time.Time
			if tc.want > 0 {
				want = at(tc.want)
			}
			if got := b.nextEnd(&removalCounts{Removals: tc.all, Open: tc.open}, pl, at(30)); !got.Equal(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
