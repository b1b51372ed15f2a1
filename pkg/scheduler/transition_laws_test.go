package scheduler_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// outsideReader checks every published step against what it sees on the hub alone.
type outsideReader struct {
	*desk
	rt          *rapid.T
	recordsDown bool
	// readyApps are the clusters with a ready application.
	readyApps map[string]bool
	// readySince has the attempt since which a cluster has been published and ready.
	readySince map[string]time.Time
	// evicted are the clusters with a valid eviction.
	evicted map[string]bool
	// original are the clusters that were published when a change was last completed, or no longer
	// needed.
	original []string
}

// keeps reports whether the Placement can keep a cluster until its replacement is published.
func (r *outsideReader) keeps(name string) bool {
	c := r.clusters[name]
	return c != nil && c.DeletionTimestamp.IsZero() && c.Labels[v1alpha1.ClusterSetLabel] == "s1" &&
		!slices.ContainsFunc(c.Spec.Taints, func(t v1alpha1.Taint) bool { return t.Key != v1alpha1.DrainTaint })
}

// drained counts the drained and evicted clusters that would qualify otherwise.
func (r *outsideReader) drained() int {
	n := 0
	for name, c := range r.clusters {
		if r.keeps(name) && c.Labels["tier"] == "gold" && (len(c.Spec.Taints) > 0 || r.evicted[name]) {
			n++
		}
	}
	return n
}

// openTarget returns the target of the change in progress; nil if there is none.
func (r *outsideReader) openTarget(published []string) []string {
	for _, record := range r.records {
		if record.Status.Phase == berthv1alpha1.PhaseProgressing {
			if target, err := changes.Target(record, published); err == nil {
				return append([]string{}, target...)
			}
		}
	}
	return nil
}

// permitted returns the newest two records of permitted changes, newest first; nil for none.
func (r *outsideReader) permitted() (newest, second *berthv1alpha1.PlacementChange) {
	for _, record := range r.records {
		switch {
		case record.Status.PermittedTime == nil:
		case newest == nil || record.Spec.Revision > newest.Spec.Revision:
			newest, second = record, newest
		case second == nil || record.Spec.Revision > second.Spec.Revision:
			second = record
		}
	}
	return newest, second
}

// setOriginal keeps the clusters that were published when a change was last completed, or no longer
// needed, because the selected clusters were published again.
func (r *outsideReader) setOriginal(a *scheduler.Attempt, before, after []string) {
	switch newest, second := r.permitted(); {
	case r.recordsDown:
		r.original = []string{} // Unknown: nothing is checked until a change is completed.
	case newest == nil || newest.Status.Phase == berthv1alpha1.PhasePublished || a.Target != nil && slices.Equal(a.Target.Clusters, after):
		r.original = after
	case newest.Spec.From == berthv1alpha1.Digest(before) && (second == nil || second.Status.Phase == berthv1alpha1.PhasePublished):
		r.original = before
	}
}

// isReady reports whether a cluster counts as ready for the policy.
func (r *outsideReader) isReady(name string) bool {
	return r.policy.Spec.Readiness == nil || r.readyApps[name]
}

// anyReady reports whether a published cluster is ready for minReadySeconds: others may leave.
func (r *outsideReader) anyReady(published []string) bool {
	return slices.ContainsFunc(published, func(name string) bool {
		since, ok := r.readySince[name]
		return ok && r.now.Sub(since) >= time.Duration(r.policy.Spec.MinReadySeconds)*time.Second && r.isReady(name)
	})
}

// observe keeps since when the clusters that are published after an attempt have been ready.
func (r *outsideReader) observe(published []string) {
	for name := range r.readySince {
		if !slices.Contains(published, name) || !r.isReady(name) {
			delete(r.readySince, name)
		}
	}
	for _, name := range published {
		if _, ok := r.readySince[name]; !ok && r.isReady(name) {
			r.readySince[name] = r.now
		}
	}
}

func (r *outsideReader) countReady(names []string) int {
	return len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !r.isReady(name) }))
}

// listApps lists the applications, as after a restart.
func (r *outsideReader) listApps() {
	r.ready(strings.Join(slices.Sorted(maps.Keys(r.readyApps)), " "), "")
}

// names are the published clusters.
func (r *outsideReader) names() []string {
	_, text, _ := strings.Cut(r.published(), ": ")
	return changes.Sorted(strings.Fields(text))
}

// attempt is one attempt, which may fail, and checks what it published.
func (r *outsideReader) attempt() *scheduler.Attempt {
	before := r.names()
	goesOn := r.openTarget(before)
	var a *scheduler.Attempt
	if r.recordsDown {
		// Neither the status nor what became of the record is written, as in a crash.
		a = r.scheduler.Attempt(context.Background(), key.Namespace, r.snapshot)
	} else {
		a, _ = r.try()
	}
	after := r.names()
	added, removed := changes.Between(before, after)
	voluntary := slices.DeleteFunc(slices.Clone(removed), func(name string) bool { return !r.keeps(name) })
	defer r.observe(after)
	if r.original == nil {
		r.original = before
	}
	original := r.original
	r.setOriginal(a, before, after)
	if r.policy == nil || a.Target == nil {
		return a
	}
	policy := changes.PolicyOf([]*berthv1alpha1.DisruptionPolicy{r.policy})
	target := a.Target.Clusters
	if goesOn == nil || a.Outcome != plan.Progressing || a.Deferred == nil {
		goesOn = target
	}
	// Clusters that cannot be kept leave beside the change that goes on.
	goesOn = changes.Minus(goesOn, changes.Minus(removed, voluntary))
	for _, name := range voluntary {
		if slices.Contains(target, name) && slices.Contains(goesOn, name) {
			r.rt.Fatalf("%s is selected and leaves", name)
		}
	}
	for _, name := range added {
		if !slices.Contains(target, name) && !slices.Contains(goesOn, name) {
			r.rt.Fatalf("%s is not selected and comes", name)
		}
	}
	// Without numberOfClusters, drained clusters of the set before the change are desired, too.
	desired, most := min(len(target), len(goesOn)), max(len(target), len(goesOn))+r.drained()
	if n := r.placement.Spec.NumberOfClusters; n != nil {
		desired, most = int(*n), max(int(*n), len(goesOn))
	}
	unavailable, surge := policy.Budget(most)
	stayed := len(changes.Minus(before, removed))
	available, _ := policy.MinAvailable(len(original))
	kept := len(original) - len(changes.Minus(original, after))
	switch {
	case len(changes.Both(voluntary, original)) > 0 && kept < available:
		r.rt.Fatalf("%v leave, and %d of the clusters %v stay, at least %d must", voluntary, kept, original, available)
	case policy.SuspendedBy != "" && len(added)+len(voluntary) > 0:
		r.rt.Fatalf("suspended, and %v come, %v leave", added, voluntary)
	case r.anyReady(voluntary) && r.countReady(changes.Minus(before, removed)) < desired-unavailable:
		r.rt.Fatalf("%v leave, and of the ready clusters fewer than %d stay", voluntary, desired-unavailable)
	case len(voluntary) > 0 && stayed < desired-unavailable:
		r.rt.Fatalf("%v leave, and %d of %d desired clusters stay, at most %d may be missing", voluntary, stayed, desired, unavailable)
	case len(added) > 0 && len(after)+len(voluntary) > most+surge:
		r.rt.Fatalf("%v come, and %d clusters are published, desired are %d, the surge is %d", added, len(after), most, surge)
	}
	return a
}

// TestRollingUpdateHistories: in random histories, with failed writes and restarts in between, no
// step breaks the budget, at most one record is open, and in the end the target is published or the
// status says why not.
func TestRollingUpdateHistories(t *testing.T) {
	names := []string{"c1", "c2", "c3", "c4", "c5", "c6"}
	rapid.Check(t, func(rt *rapid.T) {
		p := ask().Predicate(fixture.MatchLabel("tier", "gold"))
		if n := rapid.Int32Range(0, 4).Draw(rt, "number"); n > 0 {
			p = p.Number(n)
		}
		r := &outsideReader{desk: newDesk(t, p), rt: rt, readyApps: map[string]bool{}, readySince: map[string]time.Time{}, evicted: map[string]bool{}}
		r.listApps()
		r.govern(nothing)
		for _, name := range names {
			r.tier(rapid.SampledFrom([]string{"gold", "silver"}).Draw(rt, name), name)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "events") {
			r.event(rt, names)
			for range rapid.IntRange(0, 2).Draw(rt, "attempts") {
				r.attempt()
			}
			r.now = r.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(rt, "seconds")) * time.Second)
		}
		r.pages.refuse, r.recordsDown = nil, false
		r.pin("")
		for _, name := range names {
			r.readyApps[name] = true
			r.app(name, true)
		}
		r.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = false })
		var last *scheduler.Attempt
		for step := 0; ; step++ {
			last = r.attempt()
			if at := last.State.Requeue(); last.Err.IsSuccess() && at.After(r.now) && at.Sub(r.now) < 10*time.Second {
				// The end of a stabilization window, or of minReadySeconds.
				r.now = at
			} else if last.Err.IsSuccess() && (at.IsZero() || at.After(r.now)) {
				break
			}
			if step > 40 {
				rt.Fatalf("the history does not settle: %s", r.published())
			}
		}
		r.checkEnd(last)
	})
}

// event changes the hub, or what it refuses.
func (r *outsideReader) event(rt *rapid.T, names []string) {
	name := rapid.SampledFrom(names).Draw(rt, "cluster")
	switch rapid.SampledFrom([]string{"tier", "tier", "tier", "drain", "evict", "pin", "taint", "delete", "number", "policy", "suspend", "restart", "pages", "records", "readiness", "app", "app", "stabilization"}).Draw(rt, "event") {
	case "tier":
		r.tier(rapid.SampledFrom([]string{"gold", "silver"}).Draw(rt, "tier"), name)
	case "drain":
		r.taint(name, v1alpha1.DrainTaint)
	case "evict":
		if r.evicted[name] = !r.evicted[name]; r.evicted[name] {
			r.evict(name)
		} else {
			r.inv.Delete(fixture.Eviction("ns", "evict-"+name, "p", name).Obj())
		}
	case "pin":
		r.pin(rapid.SampledFrom([]string{"", "1", "2", "3", "4"}).Draw(rt, "revision"))
	case "taint":
		r.taint(name, "broken")
	case "delete":
		if r.clusters[name] != nil {
			r.remove(name)
		}
	case "number":
		n := rapid.Int32Range(1, 4).Draw(rt, "number")
		r.edit(func(pl *v1alpha1.Placement) {
			if pl.Spec.NumberOfClusters != nil {
				pl.Spec.NumberOfClusters = &n
			}
		})
	case "policy":
		r.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.MaxUnavailable = new(intstr.FromInt32(rapid.Int32Range(0, 2).Draw(rt, "unavailable")))
			spec.MaxSurge = new(intstr.FromInt32(rapid.Int32Range(0, 2).Draw(rt, "surge")))
			spec.MinAvailable = rapid.SampledFrom([]*intstr.IntOrString{nil, new(intstr.FromInt32(1)), new(intstr.FromInt32(3)), new(intstr.FromString("50%"))}).Draw(rt, "available")
		})
	case "suspend":
		r.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) { spec.Suspend = !spec.Suspend })
	case "restart":
		r.restart()
		r.listApps()
		clear(r.readySince)
		for name, evicted := range r.evicted {
			if evicted {
				r.evict(name)
			}
		}
	case "readiness":
		r.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.Readiness = nil
			if rapid.Bool().Draw(rt, "readiness") {
				apps(spec)
			}
			spec.MinReadySeconds = rapid.Int32Range(0, 3).Draw(rt, "seconds ready")
		})
	case "stabilization":
		r.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
			spec.StabilizationWindowSeconds = rapid.Int64Range(0, 4).Draw(rt, "window")
		})
	case "app":
		ready := rapid.Bool().Draw(rt, "ready")
		if delete(r.readyApps, name); ready {
			r.readyApps[name] = true
		} else {
			delete(r.readySince, name)
		}
		r.app(name, ready)
	case "pages":
		refuse := rapid.Bool().Draw(rt, "refuse pages")
		r.pages.refuse = func(string) error {
			if refuse {
				return errRefused
			}
			return nil
		}
	case "records":
		r.recordsDown = rapid.Bool().Draw(rt, "refuse records")
		r.refuseRecords = func(*berthv1alpha1.PlacementChange) error {
			if r.recordsDown {
				return errHubDown
			}
			return nil
		}
	}
}

// checkEnd checks that the target is published, or that a change is in progress and says so.
func (r *outsideReader) checkEnd(a *scheduler.Attempt) {
	progressing := r.condition(v1alpha1.PlacementConditionDecisionProgressing)
	open := 0
	for _, name := range slices.Sorted(maps.Keys(r.records)) {
		if changes.IsOpen(r.records[name]) {
			open++
		}
	}
	switch published := slices.Equal(r.names(), a.Target.Clusters); {
	case published && (progressing != nil || open > 0):
		r.rt.Fatalf("the target is published, but the condition is %+v, and %d records are open", progressing, open)
	case !published && (progressing == nil || open != 1):
		r.rt.Fatalf("published %v, selected %v, the condition is %+v, and %d records are open", r.names(), a.Target.Clusters, progressing, open)
	}
}
