package scheduler_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// holds is an answer of a gate.
var (
	holds   = framework.NewStatus(framework.Wait, "not yet")
	refuses = framework.NewStatus(framework.Unschedulable, "never")
	awaits  = framework.NewStatus(framework.Pending, "a fact")
)

// holding is a desk where c1 is published and gate x holds the addition of c2.
func holding(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.add("c2")
	d.x.answer = holds
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [c1 c2] | True/Held")
	return d
}

func (d *desk) add(names ...string) {
	for _, name := range names {
		d.clusters[name] = fixture.Cluster(name).Set("s1").Obj()
		d.inv.Update(d.clusters[name].DeepCopy())
	}
}

func (d *desk) remove(name string) {
	d.inv.Delete(d.clusters[name])
	delete(d.clusters, name)
}

// terminate marks a cluster as being deleted.
func (d *desk) terminate(name string) {
	now := metav1.NewTime(d.now)
	d.clusters[name].DeletionTimestamp = &now
	d.inv.Update(d.clusters[name].DeepCopy())
}

// expect compares what readers see: published pages | held pages | condition.
func (d *desk) expect(want string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.state()); diff != "" {
		d.t.Fatalf("published | held | pending (-want +got):\n%s", diff)
	}
}

func (d *desk) message() string {
	return d.condition(v1alpha1.PlacementConditionDecisionPending).Message
}

func TestHold(t *testing.T) {
	const open = "p-decision-1: c1 | [c1 c2] | True/Held"
	const passed = "p-decision-1: c1 c2 |  | "
	const dropped = "p-decision-1: c1 |  | False/Expired"
	tests := map[string]struct {
		then func(d *desk)
		want string
		// wantToken says what happens to the token: "same", "new", or "" when nothing is pending.
		wantToken string
	}{
		"it stays":                              {func(d *desk) { d.attemptUntilStable() }, open, "same"},
		"it outlives restarts":                  {func(d *desk) { d.restart(); d.attemptUntilStable(); d.restart(); d.attemptUntilStable() }, open, "same"},
		"the plugin lets it pass":               {func(d *desk) { d.x.answer = nil }, passed, ""},
		"an edit, though it changes no cluster": {func(d *desk) { d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(2)) }) }, open, "new"},
		"a newer answer supersedes it":          {func(d *desk) { d.add("c3") }, "p-decision-1: c1 | [c1 c2 c3] | True/Held", "new"},
		"what is published is the answer again": {func(d *desk) { d.remove("c2") }, "p-decision-1: c1 |  | ", ""},
		"the same again later is another hold": {func(d *desk) {
			d.remove("c2")
			d.attemptUntilStable()
			d.now = d.now.Add(time.Minute)
			d.add("c2")
		}, open, "new"},
		"superseded and back is another hold": {func(d *desk) {
			d.add("c3")
			d.now = d.now.Add(time.Minute)
			d.attemptUntilStable()
			d.remove("c3")
		}, open, "new"},
		"published, taken back, and again: another hold": {func(d *desk) {
			d.x.answer = nil
			d.attemptUntilStable()
			d.remove("c2")
			d.attemptUntilStable()
			d.now = d.now.Add(time.Minute)
			d.x.answer = holds
			d.add("c2")
		}, open, "new"},
		"just before its deadline":    {func(d *desk) { d.now = d.now.Add(time.Hour - time.Nanosecond) }, open, "same"},
		"at its deadline":             {func(d *desk) { d.now = d.now.Add(time.Hour) }, dropped, "same"},
		"long after, by a new leader": {func(d *desk) { d.now = d.now.Add(24 * time.Hour); d.restart() }, dropped, "same"},
		"expired, it is not held again": {func(d *desk) {
			d.now = d.now.Add(time.Hour)
			d.attemptUntilStable()
			d.now = d.now.Add(time.Hour)
			d.restart()
		}, dropped, "same"},
		"expired, then an edit: held again": {func(d *desk) {
			d.now = d.now.Add(time.Hour)
			d.attemptUntilStable()
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(2)) })
		}, open, "new"},
		"expired, and edited before the held pages are cleared: held again": {func(d *desk) {
			d.now = d.now.Add(time.Hour)
			d.attempt()
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(2)) })
		}, open, "new"},
		"expired, then the fleet changes: another hold": {func(d *desk) {
			d.now = d.now.Add(time.Hour)
			d.attemptUntilStable()
			d.add("c3")
		}, "p-decision-1: c1 | [c1 c2 c3] | True/Held", "new"},
		"expired, then a plugin awaits a fact, then not": {func(d *desk) {
			d.now = d.now.Add(time.Hour)
			d.attemptUntilStable()
			d.y.answer = awaits
			d.attemptUntilStable()
			d.y.answer = nil
		}, dropped, "same"},
		"expired, then a plugin refuses, then not": {func(d *desk) {
			d.now = d.now.Add(time.Hour)
			d.attemptUntilStable()
			d.y.answer = refuses
			d.attemptUntilStable()
			d.y.answer = nil
		}, dropped, "same"},
		"expired, then there is no room, then there is": {func(d *desk) {
			d.now = d.now.Add(time.Hour)
			d.attemptUntilStable()
			d.fore.answer = refuses
			d.attemptUntilStable()
			d.fore.answer = nil
		}, dropped, "same"},
		"a plugin refuses it":            {func(d *desk) { d.y.answer = refuses }, "p-decision-1: c1 |  | False/Denied", ""},
		"a plugin awaits a fact":         {func(d *desk) { d.y.answer = awaits }, "p-decision-1: c1 | [c1 c2] | True/Waiting", "same"},
		"a Reserve plugin awaits a fact": {func(d *desk) { d.fore.answer = awaits }, "p-decision-1: c1 | [c1 c2] | True/Waiting", "same"},
		"a fact that comes does not prolong it": {func(d *desk) {
			d.now = d.now.Add(50 * time.Minute)
			d.y.answer = awaits
			d.attemptUntilStable()
			d.y.answer = nil
			d.now = d.now.Add(10 * time.Minute)
		}, dropped, "same"},
		"its record is lost": {func(d *desk) {
			record := d.newest()
			delete(d.records, record.Name)
			d.inv.Delete(record)
		}, open, "same"},
		"nothing is decided any more": {func(d *desk) { d.pin("no") }, open, "same"},
		"edited, and nothing is decided any more": {func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
		}, "p-decision-1: c1 |  | ", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			before := d.revision()
			tc.then(d)
			d.attemptUntilStable()
			d.expect(tc.want)
			if tc.wantToken == "" {
				return
			}
			if (d.revision() == before) != (tc.wantToken == "same") {
				t.Errorf("the token was %s and is %s, want a %s one", before, d.revision(), tc.wantToken)
			}
			if to := d.newest().Spec.To; to != d.x.seen.Digest {
				t.Errorf("the record leads to %s, not to the digest %s", to, d.x.seen.Digest)
			}
		})
	}
}

// TestDeadlines: those of a hold that goes on count from its beginning, for each plugin.
func TestDeadlines(t *testing.T) {
	start := fixture.Now
	tests := map[string]struct {
		then func(d *desk)
		want map[string]time.Time
	}{
		"later passes do not move it":  {func(d *desk) { d.now = start.Add(10 * time.Minute) }, map[string]time.Time{"x": start.Add(time.Hour)}},
		"nor do restarts":              {func(d *desk) { d.now = start.Add(10 * time.Minute); d.restart() }, map[string]time.Time{"x": start.Add(time.Hour)}},
		"nor does another timeout":     {func(d *desk) { d.x.timeout = time.Minute }, map[string]time.Time{"x": start.Add(time.Hour)}},
		"who joins later has its own":  {func(d *desk) { d.now = start.Add(10 * time.Minute); d.y.answer = holds }, map[string]time.Time{"x": start.Add(time.Hour), "y": start.Add(130 * time.Minute)}},
		"a superseding change its own": {func(d *desk) { d.now = start.Add(10 * time.Minute); d.add("c3") }, map[string]time.Time{"x": start.Add(70 * time.Minute)}},
		"an interrupted write is no hold": {func(d *desk) {
			d.now = start.Add(10 * time.Minute)
			d.add("c3")
			d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errors.New("hub is down") }
			if _, failure := d.try(); failure.IsSuccess() {
				d.t.Fatal("the hold was written")
			}
			d.refuseRecords = nil
			d.now = start.Add(20 * time.Minute)
			d.restart()
		}, map[string]time.Time{"x": start.Add(80 * time.Minute)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			tc.then(d)
			a := d.attemptUntilStable()
			if a.Outcome != plan.Held {
				t.Fatalf("the outcome is %s", a.Outcome)
			}
			if diff := cmp.Diff(tc.want, untilOf(a.Holds)); diff != "" {
				t.Errorf("deadlines (-want +got):\n%s", diff)
			}
			earliest := time.Time{}
			for _, at := range tc.want {
				if earliest.IsZero() || at.Before(earliest) {
					earliest = at
				}
			}
			if !a.State.Requeue().Equal(earliest) {
				t.Errorf("tried again at %s, want %s", a.State.Requeue(), earliest)
			}
			d.restart()
			if diff := cmp.Diff(tc.want, untilOf(d.newest().Status.Holds)); diff != "" {
				t.Errorf("deadlines on the hub (-want +got):\n%s", diff)
			}
			d.attemptUntilStable()
			if diff := cmp.Diff(tc.want, d.x.seen.HeldBy); diff != "" {
				t.Errorf("deadlines that plugins see (-want +got):\n%s", diff)
			}
		})
	}
}

// TestJitter: as long as a hold lasts, its clusters are incumbents, so that scores do not undo it.
func TestJitter(t *testing.T) {
	score := func(d *desk, cluster string, value int32) {
		d.scores[cluster] = fixture.Score(cluster, "r").Value("v", value).Obj()
		d.inv.Update(d.scores[cluster].DeepCopy())
	}
	d := newDesk(t, ask().Number(1).AddOn("r", "v", 1), "c1", "c2", "c3")
	score(d, "c1", 90)
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | ")
	d.x.answer = holds
	d.remove("c1")
	score(d, "c2", 50)
	score(d, "c3", 49)
	d.attemptUntilStable()
	const want = "p-decision-1: c1 | [c2] | True/Held"
	d.expect(want)
	token := d.revision()
	for _, jitter := range []int32{60, 40, 100} {
		score(d, "c3", jitter)
		d.attemptUntilStable()
		d.restart()
		d.attemptUntilStable()
		d.expect(want)
		if d.revision() != token {
			t.Fatalf("the token was %s and is %s", token, d.revision())
		}
	}
	d.x.answer = nil
	d.attemptUntilStable()
	d.expect("p-decision-1: c2 |  | ")
}

func untilOf(holds []berthv1alpha1.ChangeHold) map[string]time.Time {
	until := map[string]time.Time{}
	for _, hold := range holds {
		until[hold.Plugin] = hold.Until.Time
	}
	return until
}

// TestHoldIsWrittenOnce: a hold that continues costs no write and its end costs one. A crash at any
// point does not restart the hold.
func TestHoldIsWrittenOnce(t *testing.T) {
	d := holding(t)
	version := d.newest().ResourceVersion
	d.attemptUntilStable()
	d.restart()
	d.attemptUntilStable()
	if d.newest().ResourceVersion != version {
		t.Error("a hold that goes on was written again")
	}
	d.now = d.now.Add(time.Hour)
	d.refuseRecords = func(*berthv1alpha1.PlacementChange) error { return errors.New("hub is down") }
	if _, failure := d.try(); failure.IsSuccess() {
		t.Error("the end was written")
	}
	d.refuseRecords = nil
	d.restart()
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | False/Expired")
	// The status that says so may be lost.
	d.placement.Status.Conditions = nil
	d.restart()
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 |  | False/Expired")
}

// TestApprove: only the change that waits can be approved, also after it expired.
func TestApprove(t *testing.T) {
	const passed = "p-decision-1: c1 c2 |  | "
	tests := map[string]struct {
		then func(d *desk, token string)
		want string
	}{
		"in time":         {func(d *desk, token string) { d.approve(token) }, passed},
		"after a restart": {func(d *desk, token string) { d.restart(); d.approve(token) }, passed},
		"after it expired": {func(d *desk, token string) {
			d.now = d.now.Add(8 * 24 * time.Hour)
			d.attemptUntilStable()
			d.restart()
			d.approve(token)
		}, passed},
		"a change that was superseded": {func(d *desk, token string) { d.add("c3"); d.approve(token) }, "p-decision-1: c1 | [c1 c2 c3] | True/Held"},
		"an earlier hold of the same": {func(d *desk, token string) {
			d.remove("c2")
			d.attemptUntilStable()
			d.now = d.now.Add(time.Minute)
			d.add("c2")
			d.approve(token)
		}, "p-decision-1: c1 | [c1 c2] | True/Held"},
		"a change that comes back after it was approved": {func(d *desk, token string) {
			d.approve(token)
			d.attemptUntilStable()
			d.remove("c2")
			d.attemptUntilStable()
			d.now = d.now.Add(time.Minute)
			d.approve(d.revision())
			d.attemptUntilStable()
			d.now = d.now.Add(time.Minute)
			d.add("c2")
			d.approve(token)
		}, "p-decision-1: c1 | [c1 c2] | True/Held"},
		"after it was rejected": {func(d *desk, token string) {
			d.answer(token, berthv1alpha1.Rejected)
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 |  | False/Rejected")
			d.restart()
			d.attemptUntilStable()
			d.approve(token)
		}, passed},
		"rejected, and then another answer": {func(d *desk, token string) {
			d.answer(token, berthv1alpha1.Rejected)
			d.attemptUntilStable()
			d.add("c3")
		}, "p-decision-1: c1 | [c1 c2 c3] | True/Held"},
		"but another plugin holds it":   {func(d *desk, token string) { d.y.answer = holds; d.approve(token) }, "p-decision-1: c1 | [c1 c2] | True/Held"},
		"but another plugin refuses it": {func(d *desk, token string) { d.y.answer = refuses; d.approve(token) }, "p-decision-1: c1 |  | False/Denied"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1")
			d.attemptUntilStable()
			d.require()
			d.add("c2")
			d.attemptUntilStable()
			tc.then(d, d.revision())
			d.attemptUntilStable()
			d.expect(tc.want)
		})
	}
}
