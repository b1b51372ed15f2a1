package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

// archive is a desk whose records are written later, merged, and deleted as the controller does.
type archive struct {
	*desk
	// unwritten is the published change without a record; nil if there is none.
	unwritten       *changes.Change
	first, revision int64
	at              time.Time
	// unready are the clusters without a ready application.
	unready map[string]bool
	// addedAt is when the published clusters were published.
	addedAt map[string]time.Time
}

// newArchive has one record at most that is only for users, and three removals in a minute.
func newArchive(t *testing.T, change func(spec *berthv1alpha1.DisruptionPolicySpec)) *archive {
	d := governed(t, 3, func(spec *berthv1alpha1.DisruptionPolicySpec) {
		spec.HistoryLimit = 1
		change(spec)
	})
	d.arguments = map[string]string{"BlastRadius": `{"maxRemoved": 3, "minRemoved": 1, "settle": "0s", "window": "1m"}`}
	a := &archive{desk: d, unready: map[string]bool{}, addedAt: map[string]time.Time{"a": {}, "b": {}, "c": {}}}
	a.restart()
	return a
}

// restart stops the controller, which writes all records, and starts another one.
func (d *archive) restart() {
	d.flush()
	d.desk.restart()
	d.scheduler.WriteRecordsBefore = func(ctx context.Context, a *scheduler.Attempt) error {
		if len(a.Records.Before) == 0 {
			return nil
		}
		d.flush()
		return d.recordFirst(ctx, a)
	}
	d.apps()
}

// apps lists the applications: each cluster has one.
func (d *archive) apps() {
	var ready []string
	for name := range d.clusters {
		if !d.unready[name] {
			ready = append(ready, name)
		}
	}
	d.ready(strings.Join(ready, " "), strings.Join(slices.Sorted(maps.Keys(d.unready)), " "))
}

// flush writes the record of the changes that have none, and deletes the surplus.
func (d *archive) flush() {
	d.t.Helper()
	if d.unwritten == nil {
		return
	}
	record := changes.NewRecord(d.placement, d.first, d.revision, *d.unwritten)
	at := metav1.NewTime(d.at.Truncate(time.Second))
	record.Status = berthv1alpha1.PlacementChangeStatus{Phase: berthv1alpha1.PhasePublished, StartTime: &at, PermittedTime: &at, LastProgressTime: &at, CompletionTime: &at}
	d.unwritten = nil
	if err := d.write(record); err != nil {
		d.t.Fatal(err)
	}
	d.prune()
}

func (d *archive) prune() {
	subject := d.inv.Subject(key)
	needs := changes.NeedsOf(subject.Placement, subject.DisruptionPolicies, subject.LastNames(), d.scheduler.NeedsRecords(), d.now)
	for _, record := range changes.History(subject.Records).Surplus(&needs) {
		delete(d.records, record.Name)
		d.inv.Delete(record.DeepCopy())
	}
}

// run is one attempt.
func (d *archive) run() *scheduler.Attempt {
	d.t.Helper()
	a := d.scheduler.Attempt(context.Background(), key.Namespace, d.snapshot)
	if !a.Err.IsSuccess() {
		d.t.Fatal(a.Err.Err())
	}
	writes := a.RecordsAfter()
	for _, record := range writes {
		if err := d.write(record); err != nil {
			d.t.Fatal(err)
		}
	}
	if len(writes) > 0 || a.Recorded() {
		d.prune()
	}
	if revision, change, ok := a.History(); ok {
		if d.unwritten == nil {
			d.first = revision
		} else {
			change = changes.Merge(*d.unwritten, change)
		}
		d.unwritten, d.revision, d.at = &change, revision, d.now
	}
	report.SetConditions(a, &d.placement.Status.Conditions)
	d.inv.Update(d.placement.DeepCopy())
	listed := d.names()
	for _, name := range listed {
		if _, known := d.addedAt[name]; !known {
			d.addedAt[name] = d.now
		}
	}
	maps.DeleteFunc(d.addedAt, func(name string, _ time.Time) bool { return !slices.Contains(listed, name) })
	return a
}

// runUntilStable runs attempts as long as one is due.
func (d *archive) runUntilStable() {
	d.t.Helper()
	for range 30 {
		if at := d.run().State.Requeue(); at.IsZero() || at.After(d.now) {
			return
		}
	}
	d.t.Fatal("attempts do not end")
}

// names are the published clusters, sorted.
func (d *archive) names() []string {
	_, text, _ := strings.Cut(d.published(), ": ")
	return changes.Sorted(strings.Fields(text))
}

// counted is a removal as BlastRadius counts it.
type counted struct {
	At       time.Time
	Clusters int
	Edited   bool
}

// counted returns what BlastRadius counts for the Placement.
func (d *desk) counted() []counted {
	var text struct {
		Removals []counted
		Open     map[string]struct {
			counted
			Begun, Reserved []string
		}
	}
	if err := json.Unmarshal([]byte(d.scheduler.Counts()["BlastRadius"]), &text); err != nil {
		d.t.Fatal(err)
	}
	for _, open := range text.Open {
		open.Clusters = len(changes.Sorted(slices.Concat(open.Begun, open.Reserved)))
		text.Removals = append(text.Removals, open.counted)
	}
	return text.Removals
}

// after adds up the removals after a time; unedited only those that followed no edit.
func after(at time.Time, all []counted) (clusters, unedited int) {
	for _, c := range all {
		if !c.At.Before(at) {
			if clusters += c.Clusters; !c.Edited {
				unedited += c.Clusters
			}
		}
	}
	return clusters, unedited
}

// TestRestartsRaiseNoBudget: a restart at any moment neither lowers what BlastRadius counts nor
// shortens the measurement of minReadySeconds, whatever is merged and however few records the
// history keeps.
func TestRestartsRaiseNoBudget(t *testing.T) {
	for part := range 3 {
		t.Run(fmt.Sprint(part), rapid.MakeCheck(func(rt *rapid.T) {
			d := newArchive(t, func(spec *berthv1alpha1.DisruptionPolicySpec) {
				apps(spec)
				spec.MinReadySeconds = 5 * rapid.Int32Range(0, 3).Draw(rt, "min ready")
				spec.MaxSurge, spec.MaxUnavailable = new(intstr.FromInt32(rapid.Int32Range(0, 2).Draw(rt, "surge"))), new(intstr.FromInt32(rapid.Int32Range(0, 2).Draw(rt, "unavailable")))
			})
			number := rapid.Int32Range(0, 4).Draw(rt, "number")
			d.edit(func(pl *v1alpha1.Placement) {
				if pl.Spec.NumberOfClusters = &number; number == 0 {
					pl.Spec.NumberOfClusters = nil
				}
			})
			if rapid.Bool().Draw(rt, "no policy") {
				d.inv.Delete(d.policy.DeepCopy())
				d.policy = nil
			}
			for range rapid.IntRange(1, 40).Draw(rt, "events") {
				d.anything(rt)
				d.run()
				if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
					d.restartAndCompare(rt)
				}
			}
		}))
	}
}

// anything changes something that attempts depend on.
func (d *archive) anything(rt *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "x", "y", "z"}).Draw(rt, "cluster")
	switch rapid.SampledFrom([]string{"tier", "tier", "tier", "time", "time", "ready", "edit", "flush"}).Draw(rt, "event") {
	case "tier":
		tier := "gold"
		if c := d.clusters[name]; c != nil && c.Labels["tier"] == tier {
			tier = "silver"
		}
		d.tier(tier, name)
		d.apps()
	case "time":
		d.now = d.now.Add(time.Duration(rapid.IntRange(1, 15_000).Draw(rt, "milliseconds")) * time.Millisecond)
	case "ready":
		if d.unready[name] = !d.unready[name]; !d.unready[name] {
			delete(d.unready, name)
		}
		d.apps()
	case "edit":
		d.edit(func(pl *v1alpha1.Placement) {
			pl.Spec.Tolerations = []v1alpha1.Toleration{{Key: "other-" + strconv.FormatInt(pl.Generation, 10)}}
		})
	case "flush":
		d.flush()
	}
}

// restartAndCompare compares the memory of the controller with that of the next one.
func (d *archive) restartAndCompare(rt *rapid.T) {
	before, since, published := d.counted(), maps.Clone(d.scheduler.ReadySince(key)), d.names()
	d.restart()
	got := d.counted()
	for _, c := range before {
		if d.now.Sub(c.At) >= time.Minute {
			continue
		}
		want, wantUnedited := after(c.At, before)
		if n, unedited := after(c.At, got); n < want || unedited < wantUnedited {
			rt.Fatalf("since %s: %d removals, %d of them unedited; want at least %d and %d\n%v\n%v", c.At.Format(time.TimeOnly), n, unedited, want, wantUnedited, before, got)
		}
	}
	a := d.run()
	minReady := 0
	if d.policy != nil {
		minReady = int(d.policy.Spec.MinReadySeconds)
	}
	for _, name := range published {
		at, measured := since[name]
		if !measured || a.Target == nil || !slices.Contains(a.Target.Clusters, name) {
			continue
		}
		recent := at.IsZero() || d.now.Sub(d.addedAt[name]) < time.Duration(minReady)*time.Second
		if got, known := d.scheduler.ReadySince(key)[name]; recent && (!known || !got.IsZero() && got.Before(at)) {
			rt.Fatalf("%s is ready since %s, measured %t; want %s", name, got.Format(time.TimeOnly), known, at.Format(time.TimeOnly))
		}
	}
}

// TestRemovalsAcrossRestarts: four restarts do not raise the limit of clusters that a Placement may
// lose, although the history keeps one record and changes that follow each other share it.
func TestRemovalsAcrossRestarts(t *testing.T) {
	for name, tc := range map[string]struct {
		// between happens after each loss.
		between func(d *archive)
	}{
		"each change has its record": {func(d *archive) { d.flush() }},
		"changes share a record":     {func(*archive) {}},
		"what left comes back": {func(d *archive) {
			d.tier("gold", "a", "b", "c")
			d.apps()
			d.runUntilStable()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newArchive(t, func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.MaxUnavailable = new(intstr.FromString("100%")) })
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = nil })
			d.runUntilStable()
			for i, name := range []string{"a", "b", "c", "x", "y"} {
				d.tier("gold", "x", "y", "z")
				d.tier("silver", name)
				d.apps()
				d.runUntilStable()
				if lost := !slices.Contains(d.names(), name); lost != (i < 3) {
					t.Fatalf("%s is lost: %t", name, lost)
				}
				tc.between(d)
				d.now = d.now.Add(5 * time.Second)
				d.restart()
			}
		})
	}
}

// TestMinReadyWithAShortHistory: what a change added counts as ready after minReadySeconds, also
// after a restart and if later changes replaced its record.
func TestMinReadyWithAShortHistory(t *testing.T) {
	d := newArchive(t, func(spec *berthv1alpha1.DisruptionPolicySpec) {
		apps(spec)
		spec.MinReadySeconds, spec.MaxUnavailable = 45, new(intstr.FromInt32(2))
	})
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(6)) })
	for _, name := range []string{"x", "y", "z"} {
		d.tier("gold", name)
		d.apps()
		d.runUntilStable()
		d.flush()
	}
	d.later(15)
	d.restart()
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(5)) })
	d.tier("silver", "a")
	d.apps()
	d.runUntilStable()
	d.expect("p-decision-1: a b c x y z | [b c x y z] | ")
	d.later(44)
	d.runUntilStable()
	d.expect("p-decision-1: a b c x y z | [b c x y z] | ")
	d.later(1)
	d.runUntilStable()
	d.expect("p-decision-1: b c x y z |  | ")
}

// TestCrashBeforeTheRecord: a crash between the pages and the status of the record raises no
// budget: what was removed counts.
func TestCrashBeforeTheRecord(t *testing.T) {
	for name, policy := range map[string]func(spec *berthv1alpha1.DisruptionPolicySpec){
		"an approved change in one step": func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Approval, spec.MaxUnavailable = berthv1alpha1.ApprovalRequired, new(intstr.FromString("100%"))
		},
		"a change in steps": func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.MaxSurge, spec.MaxUnavailable = new(intstr.FromInt32(0)), new(intstr.FromInt32(1))
		},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", crash ", crash), func(t *testing.T) {
				d := governed(t, 3, nothing)
				d.govern(policy)
				d.arguments = map[string]string{"BlastRadius": `{"maxRemoved": 2, "minRemoved": 1, "settle": "0s", "window": "1h"}`}
				a := &archive{desk: d, unready: map[string]bool{}}
				d.restart()
				d.attemptUntilStable()
				d.tier("silver", "a", "b")
				d.tier("gold", "x", "y")
				if d.policy.Spec.Approval == berthv1alpha1.ApprovalRequired {
					d.attemptUntilStable()
					d.approve(d.revision())
				}
				if crash {
					if at := d.tryWithoutStatus(); at.Step == nil || len(at.Step.Removed) == 0 {
						t.Fatalf("nothing is removed: %s %+v", at.Outcome, at.Step)
					}
					d.restart()
				}
				d.steps()
				if got := d.names(); got != "c x y" {
					t.Fatalf("published %s", got)
				}
				if n, _ := after(d.now.Add(-1), a.counted()); n != 2 {
					t.Errorf("BlastRadius counts %d removals, want 2: %+v", n, a.counted())
				}
			})
		}
	}
}

// TestUnrecordedRemovalsCount: what is removed although no record can be written counts, also if it
// is merged with a later change.
func TestUnrecordedRemovalsCount(t *testing.T) {
	d := governed(t, 3, nothing)
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errors.New("no") }
	d.remove("a")
	d.tier("silver", "b")
	d.tier("gold", "x", "y")
	a, _ := d.try()
	_, change, ok := a.History()
	if !ok || len(change.Removed) != 1 {
		t.Fatalf("%t %+v", ok, change)
	}
	if len(change.Removals) != 1 || change.Removals[0].Clusters != 1 {
		t.Errorf("removals: %+v", change.Removals)
	}
}
