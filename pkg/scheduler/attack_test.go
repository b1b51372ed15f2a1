package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// whole renders the published pages with labels, owners, scores and reasons.
func (d *desk) whole() string {
	d.pages.mu.Lock()
	defer d.pages.mu.Unlock()
	var all []string
	for _, page := range d.pages.pages {
		if page.Labels[v1alpha1.PlacementLabel] == "" {
			continue
		}
		text := fmt.Sprintf("%s %v", page.Name, page.Labels)
		for _, owner := range page.OwnerReferences {
			text += fmt.Sprintf(" owner %s", owner.UID)
		}
		for _, e := range page.Status.Decisions {
			text += fmt.Sprintf(" %s/%s", e.ClusterName, e.Reason)
			if e.Score != nil {
				text += fmt.Sprint("=", *e.Score)
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// unbind takes the namespace's set away.
func (d *desk) unbind() {
	d.unbound = true
	d.inv.Delete(fixture.Binding("ns", "s1"))
}

// TestPublishedPagesAreRepairedWhileAChangeIsPending: damage to published pages is reverted,
// without asking Permit, whatever became of the change that is pending.
func TestPublishedPagesAreRepairedWhileAChangeIsPending(t *testing.T) {
	damages := map[string]func(*v1alpha1.PlacementDecision){
		"the group index": func(page *v1alpha1.PlacementDecision) { page.Labels[v1alpha1.DecisionGroupIndexLabel] = "7" },
		"the group name":  func(page *v1alpha1.PlacementDecision) { page.Labels[v1alpha1.DecisionGroupNameLabel] = "canary" },
		"a label is gone": func(page *v1alpha1.PlacementDecision) { delete(page.Labels, v1alpha1.DecisionGroupIndexLabel) },
		"the owner":       func(page *v1alpha1.PlacementDecision) { page.OwnerReferences = nil },
		"a reason":        func(page *v1alpha1.PlacementDecision) { page.Status.Decisions[0].Reason = "because" },
		"a score":         func(page *v1alpha1.PlacementDecision) { page.Status.Decisions[0].Score = new(int64(1)) },
		"an entry twice": func(page *v1alpha1.PlacementDecision) {
			page.Status.Decisions = append(page.Status.Decisions, page.Status.Decisions[0])
		},
		"what is held": func(page *v1alpha1.PlacementDecision) {
			page.Status.Decisions = append(page.Status.Decisions, v1alpha1.ClusterDecision{ClusterName: "c2"})
		},
	}
	for name, damage := range damages {
		for pending, then := range map[string]func(d *desk){
			"held":     func(*desk) {},
			"rejected": func(d *desk) { d.reject("x") },
			"expired":  func(d *desk) { d.now = d.now.Add(time.Hour) },
			"denied":   func(d *desk) { d.y.answer = refuses },
			"waiting":  func(d *desk) { d.y.answer = awaits },
		} {
			t.Run(name+", "+pending, func(t *testing.T) {
				d := holding(t)
				then(d)
				d.attemptUntilStable()
				before, condition := d.whole(), d.pending()
				d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool { damage(page); return true })
				d.attemptUntilStable()
				if diff := cmp.Diff(before+"\n"+condition, d.whole()+"\n"+d.pending()); diff != "" {
					t.Errorf("pages and condition (-before +after):\n%s", diff)
				}
				d.pages.writes = nil
				d.attemptUntilStable()
				if len(d.pages.writes) > 0 {
					t.Errorf("repaired pages were written again: %q", d.pages.writes)
				}
			})
		}
	}
}

// TestDamageThatReadsAlike: entries that say the same as those published if one reads their fields
// in a row are damage, too.
func TestDamageThatReadsAlike(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.placement.Spec.SortBy = v1alpha1.SortByScore
	d.restart()
	d.attemptUntilStable()
	d.x.answer = holds
	d.add("c3")
	d.attemptUntilStable()
	before := d.whole()
	d.meddle("p-decision-1", func(page *v1alpha1.PlacementDecision) bool {
		e := page.Status.Decisions
		page.Status.Decisions = []v1alpha1.ClusterDecision{
			{ClusterName: e[0].ClusterName}, {ClusterName: fmt.Sprint(*e[0].Score), Reason: e[1].ClusterName}, {Reason: fmt.Sprint(*e[1].Score)},
		}
		return true
	})
	d.attemptUntilStable()
	if diff := cmp.Diff(before, d.whole()); diff != "" {
		t.Errorf("pages (-before +after):\n%s", diff)
	}
}

// TestPagesThatAreRightAreNotWrittenWhileHeld: new scores and labels of clusters move nothing while
// a change is held.
func TestPagesThatAreRightAreNotWrittenWhileHeld(t *testing.T) {
	p := ask().Obj()
	p.Spec.SortBy = v1alpha1.SortByScore
	d := newDesk(t, ask(), "c1")
	d.placement.Spec = p.Spec
	d.restart()
	d.attemptUntilStable()
	d.x.answer = holds
	d.add("c2")
	d.attemptUntilStable()
	before := d.whole()
	d.clusters["c1"].Labels["color"] = "blue"
	d.inv.Update(d.clusters["c1"].DeepCopy())
	d.now = d.now.Add(10 * time.Minute)
	d.attemptUntilStable()
	if diff := cmp.Diff(before, d.whole()); diff != "" {
		t.Errorf("pages (-before +after):\n%s", diff)
	}
}

// TestLostSetIsObeyed: clusters of a set that is no longer bound leave although a change is
// pending.
func TestLostSetIsObeyed(t *testing.T) {
	tests := map[string]struct {
		approval, limit string
		then            func(d *desk)
		lose            func(d *desk)
		want            string
	}{
		"held by its approval":     {approval: "required", lose: (*desk).unbind, want: "p-decision-1: |  | "},
		"held, and rejected":       {approval: "required", then: (*desk).refuseIt, lose: (*desk).unbind, want: "p-decision-1: |  | "},
		"held, then expired":       {approval: "required", then: func(d *desk) { d.now = d.now.Add(8 * 24 * time.Hour) }, lose: (*desk).unbind, want: "p-decision-1: |  | "},
		"the set is deleted":       {approval: "required", lose: func(d *desk) { d.inv.Delete(fixture.Set("s1")); d.unbound = true }, want: "p-decision-1: |  | "},
		"a cluster leaves its set": {approval: "required", lose: func(d *desk) { d.leaveSet("c1") }, want: "p-decision-1: c2 | [c2 c3] | True/Held"},
		"but the rest waits": {approval: "required", lose: func(d *desk) { d.leaveSet("c1"); d.leaveSet("c3") },
			want: "p-decision-1: c2 |  | "},
		"a set that the author no longer wants is not lost": {approval: "required", lose: func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.ClusterSets = []string{"s3"} })
		}, want: "p-decision-1: c1 c2 | [] | True/Held"},
		"the Placement is misconfigured": {lose: func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 |  | ")
			d.leaveSet("c1")
		}, want: "p-decision-1: c2 |  | "},
		"its decision groups are misconfigured": {lose: func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) {
				pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromString("many")
			})
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 |  | ")
			d.unbind()
		}, want: "p-decision-1: |  | "},
		"its profile does not exist": {lose: func(d *desk) {
			d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{v1alpha1.ProfileAnnotation: "none"} })
			d.leaveSet("c1")
		}, want: "p-decision-1: c2 |  | "},
		"a limit of the fleet still counts": {limit: `{"maxRemoved": 1, "settle": "0s"}`, lose: (*desk).unbind,
			want: "p-decision-1: c1 c2 | [] | True/Held"},
		"a limit that it keeps does not matter": {approval: "required", limit: `{"maxRemoved": 1, "settle": "0s"}`, lose: func(d *desk) { d.leaveSet("c1") },
			want: "p-decision-1: c2 | [c2 c3] | True/Held"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			if tc.limit != "" {
				d.arguments = map[string]string{"BlastRadius": tc.limit}
				d.restart()
			}
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 |  | ")
			if tc.approval != "" {
				d.require()
				d.add("c3")
				d.attemptUntilStable()
				d.expect("p-decision-1: c1 c2 | [c1 c2 c3] | True/Held")
			}
			if tc.then != nil {
				tc.then(d)
				d.attemptUntilStable()
			}
			tc.lose(d)
			d.attemptUntilStable()
			d.expect(tc.want)
			d.restart()
			d.attemptUntilStable()
			d.expect(tc.want)
		})
	}
}

// TestFailedRemovalOfALostSet: a plugin that fails for the removal of revoked clusters fails the
// attempt; the published decision and the condition stay, and the next attempt removes the
// clusters.
func TestFailedRemovalOfALostSet(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.require()
	d.add("c3")
	d.attemptUntilStable()
	const held = "p-decision-1: c1 c2 | [c1 c2 c3] | True/Held"
	d.expect(held)
	d.x.ofRevoked = framework.AsStatus(errHubDown)
	d.leaveSet("c1")
	a, failure := d.try()
	if a.Outcome != plan.Failed || failure.Plugin() != "x" || a.Step != nil {
		t.Errorf("outcome %s, failure %v, step %v", a.Outcome, failure.Err(), a.Step)
	}
	d.expect(held)
	d.x.ofRevoked = nil
	// The removal does not end the condition of the change that is still pending.
	d.attempt()
	if d.published() != "p-decision-1: c2" || d.pending() != "True/Held" {
		t.Errorf("published %s, pending %s", d.published(), d.pending())
	}
	d.attemptUntilStable()
	d.expect("p-decision-1: c2 | [c2 c3] | True/Held")
}

// TestHeldRemovalOfALostSet: if nothing can be decided, the outcome is that of the removal alone.
func TestHeldRemovalOfALostSet(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2")
	d.attemptUntilStable()
	d.edit(func(pl *v1alpha1.Placement) { pl.Spec.PrioritizerPolicy.Mode = "Fuzzy" })
	d.x.answer = holds
	d.leaveSet("c1")
	a := d.attemptUntilStable()
	if a.Outcome != plan.Held || len(a.Holds) != 1 || a.Holds[0].Plugin != "x" || a.Change == nil || !slices.Equal(a.Change.Removed, []string{"c1"}) {
		t.Errorf("outcome %s, holds %v, change %+v", a.Outcome, a.Holds, a.Change)
	}
	d.expect("p-decision-1: c1 c2 | [c2] | True/Held")
}

// TestRemovalSettles: a removal that stays the same is checked when its settle time is over.
func TestRemovalSettles(t *testing.T) {
	d := newDesk(t, ask(), "c1", "c2", "c3")
	d.arguments = map[string]string{"BlastRadius": `{"maxRemoved": 1, "settle": "10s"}`}
	d.restart()
	d.attemptUntilStable()
	for _, name := range []string{"c1", "c2"} {
		d.remove(name)
	}
	d.attempt()
	d.expect("p-decision-1: c1 c2 c3 |  | True/Waiting")
	d.now = d.now.Add(9 * time.Second)
	d.attempt()
	d.expect("p-decision-1: c1 c2 c3 |  | True/Waiting")
	d.now = d.now.Add(time.Second)
	d.attempt()
	d.expect("p-decision-1: c1 c2 c3 | [c3] | True/Held")
}

// refuseIt is an approver's rejection.
func (d *desk) refuseIt() {
	d.answer(d.revision(), berthv1alpha1.Rejected)
}

// leaveSet moves a cluster to a set that is not bound.
func (d *desk) leaveSet(name string) {
	d.clusters[name].Labels[v1alpha1.ClusterSetLabel] = "s2"
	d.inv.Update(d.clusters[name].DeepCopy())
}

// TestRemovalCountsOnce: a removal that takes several attempts, because writes of pages fail, is
// one removal.
func TestRemovalCountsOnce(t *testing.T) {
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	d := newDesk(t, ask().Predicate(fixture.MatchLabel("pool", "in")), names...)
	for _, c := range d.clusters {
		c.Labels["pool"] = "in"
	}
	d.arguments = map[string]string{"BlastRadius": `{"maxRemoved": "20%", "settle": "0s"}`}
	d.restart()
	d.attemptUntilStable()
	for i := range 40 {
		name := names[i*6]
		d.clusters[name].Labels["pool"] = "out"
		d.inv.Update(d.clusters[name].DeepCopy())
	}
	failures := 0
	d.pages.refuse = func(write string) error {
		if strings.HasSuffix(write, "-2") && failures < 3 {
			failures++
			return errRefused
		}
		return nil
	}
	for range 10 {
		if _, failure := d.try(); failure.IsSuccess() {
			break
		}
	}
	d.attemptUntilStable()
	if failures != 3 || d.pending() != "" || len(strings.Fields(d.published()))-3 != 210 {
		t.Errorf("after %d failures %q is pending, and published is %s", failures, d.pending(), d.published())
	}
	leave := func(n int) { // so many more leave
		for _, name := range slices.Sorted(maps.Keys(d.clusters)) {
			if c := d.clusters[name]; n > 0 && c.Labels["pool"] == "in" {
				n--
				c.Labels["pool"] = "out"
				d.inv.Update(c.DeepCopy())
			}
		}
		d.attemptUntilStable()
	}
	leave(10)
	if d.pending() != "" {
		t.Errorf("50 of 250 are held: %s", d.message())
	}
	leave(1)
	if d.pending() != "True/Held" || !strings.Contains(d.message(), "51 of 250 clusters") {
		t.Errorf("51 of 250: %q", d.pending())
	}
}

// TestRecreatedPlacement: a Placement that was deleted and created again inherits nothing from the
// earlier one, even if the deletion was never reported.
func TestRecreatedPlacement(t *testing.T) {
	d := newDesk(t, ask(), "c1")
	d.attemptUntilStable()
	d.require()
	d.add("c2")
	d.attemptUntilStable()
	d.expect("p-decision-1: c1 | [c1 c2] | True/Held")
	d.now = d.now.Add(time.Hour)
	token := d.revision()
	// The page and the hold of the former one stay until they are collected.
	d.placement.UID, d.placement.Generation, d.placement.Status = "another", 1, v1alpha1.PlacementStatus{}
	d.inv.Update(d.placement.DeepCopy())
	d.approve(token)
	d.remove("c2")
	d.attemptUntilStable()
	if d.pending() != "True/Held" || d.revision() != "1" || !strings.Contains(d.message(), "(1 added: c1, 0 removed)") {
		t.Errorf("the first decision is %q: %s", d.pending(), d.message())
	}
	var held []string
	for _, w := range d.heldChanges.List() {
		held = append(held, fmt.Sprint(w.UID, " ", w.Revision))
	}
	if diff := cmp.Diff([]string{"another " + d.revision()}, held); diff != "" {
		t.Errorf("held changes (-want +got):\n%s", diff)
	}
	for _, page := range d.pages.pages {
		if page.Labels[v1alpha1.PlacementLabel] != "" && metav1.GetControllerOf(page).UID == "another" && len(page.Status.Decisions) > 0 {
			t.Errorf("published without approval: %v", page.Status.Decisions)
		}
	}
}

// TestScoreRateLimitSurvivesALostStatus: the time of the last scores counts although the status
// with that time was not written.
func TestScoreRateLimitSurvivesALostStatus(t *testing.T) {
	d := newDesk(t, ask().AddOn("r", "v", 1), "c1", "c2")
	d.placement.Spec.SortBy = v1alpha1.SortByScore
	d.placement.Spec.ScoreRateLimit = "10m"
	score := func(value int32) {
		d.scores["c1"] = fixture.Score("c1", "r").Value("v", value).Obj()
		d.inv.Update(d.scores["c1"].DeepCopy())
	}
	d.restart()
	score(10)
	attempt := func() {
		// As after a conflict: what is published counts, the status is not stored.
		ctx := context.Background()
		a := d.scheduler.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return d.inv.Snapshot(key, d.now, nil) })
		if !a.Err.IsSuccess() {
			t.Fatal(a.Err.Err())
		}
	}
	attempt()
	d.pages.writes = nil
	for i := range 5 {
		d.now = d.now.Add(time.Minute)
		score(int32(20 + i))
		attempt()
	}
	if len(d.pages.writes) > 0 {
		t.Errorf("within the limit: %q", d.pages.writes)
	}
	d.now = d.now.Add(10 * time.Minute)
	attempt()
	if diff := cmp.Diff([]string{"update p-decision-1"}, d.pages.writes); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}

// TestDigest: the whole SHA-256, so that nobody finds two sets of one digest.
func TestDigest(t *testing.T) {
	d := holding(t)
	record := d.newest()
	if want := framework.DigestOf([]string{"c2", "c1"}); record.Spec.To != want || len(want) != 64 {
		t.Errorf("the change leads to %s, want the SHA-256 %s", record.Spec.To, want)
	}
}

// TestLostClustersLeaveThoughAttemptsTimeOut: an author cannot keep clusters of a lost set with a
// Placement that takes too long to decide.
func TestLostClustersLeaveThoughAttemptsTimeOut(t *testing.T) {
	for _, point := range []string{"PreFilter", "Filter", "PreScore", "Score", "Select"} {
		t.Run(point, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 |  | ")
			clock := slowly(d.scheduler, point, 103*time.Millisecond)
			d.leaveSet("c1")
			a, _ := d.try()
			if _, _, late := a.TimedOut(); !late {
				t.Fatalf("it did not time out: %v", a.Failure.Err())
			}
			d.expect("p-decision-1: c2 |  | ")
			clock.Step(time.Minute)
			d.unbind()
			d.try()
			d.expect("p-decision-1: |  | ")
		})
	}
}
