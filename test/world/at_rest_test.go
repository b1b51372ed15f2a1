package world

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
	"github.com/berth-dev/berth/test/world/server"
)

// decided returns the Placements about which a decision is made: not those that are disabled,
// invalid or not admitted.
func (w *world) decided(ctx context.Context) (decided []*v1alpha1.Placement) {
	list := &v1alpha1.PlacementList{}
	if err := w.hub.List(ctx, list); err != nil {
		w.laws.breaks("%v", err)
	}
	for i := range list.Items {
		pl := &list.Items[i]
		satisfied := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
		admitted := !meta.IsStatusConditionFalse(pl.Status.Conditions, v1alpha1.PlacementConditionQueueAdmitted)
		if !pl.IsDisabled() && satisfied != nil && !framework.SaysUndecided(satisfied) && admitted {
			decided = append(decided, pl)
		}
	}
	return decided
}

// checkSatisfied: PlacementSatisfied is True only if as many clusters are published as the spec
// asks for.
func (l *laws) checkSatisfied(pl *v1alpha1.Placement) {
	satisfied := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
	clusters, _ := l.controlled(pl.Name)
	if n := pl.Spec.NumberOfClusters; n != nil && satisfied.Status == metav1.ConditionTrue && satisfied.ObservedGeneration == pl.Generation && len(clusters) != int(*n) {
		l.breaks("law 5: Placement %s asks for %d clusters and is satisfied with %d", pl.Name, *n, len(clusters))
	}
}

// onGroups remembers that groups were edited last, before a cluster left its group: no name then
// has more groups than its clusters need.
func (l *laws) onGroups(w *server.Write) {
	switch w.Kind {
	case "Placement":
		pl := decode[v1alpha1.Placement](w.Object)
		switch {
		case w.Older == nil || w.Type == "DELETED" || pl.IsDisabled():
			delete(l.grouped, pl.Name)
		case decode[v1alpha1.Placement](w.Older).Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup != pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup:
			l.grouped[pl.Name] = true
		}
	case "ManagedCluster":
		if w.Older == nil || !maps.Equal(decode[v1alpha1.ManagedCluster](w.Older).Labels, decode[v1alpha1.ManagedCluster](w.Object).Labels) {
			clear(l.grouped)
		}
	}
}

// checkGroupsOf: groups follow the spec, each has the clusters that its selector selects, and after
// an edit of their length no name has more groups than it needs.
func (l *laws) checkGroupsOf(pl *v1alpha1.Placement, clusters map[string]*v1alpha1.ManagedCluster) {
	strategy := &pl.Spec.DecisionStrategy.GroupStrategy
	nameOf := func(c *v1alpha1.ManagedCluster) string {
		for _, g := range strategy.DecisionGroups {
			if labels.Set(g.ClusterSelector.LabelSelector.MatchLabels).AsSelector().Matches(labels.Set(c.Labels)) {
				return g.GroupName
			}
		}
		return ""
	}
	names, members, groups := map[string]string{}, map[string]int{}, map[string]int{}
	for _, page := range l.pages[pl.Name] {
		index, name := page.Labels[v1alpha1.DecisionGroupIndexLabel], page.Labels[v1alpha1.DecisionGroupNameLabel]
		if _, known := names[index]; !known {
			groups[name]++
		}
		names[index] = name
		members[name] += len(page.Status.Decisions)
		for _, d := range page.Status.Decisions {
			if c := clusters[d.ClusterName]; c != nil && nameOf(c) != name {
				l.breaks("readers 2: cluster %s is in group %q of %s, not in %q", c.Name, name, pl.Name, nameOf(c))
			}
		}
	}
	indexes := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	for i := 1; i < len(indexes); i++ {
		if names[indexes[i-1]] == "" && names[indexes[i]] != "" {
			l.breaks("readers 2: group %s of %s, %q, is behind the rest", indexes[i], pl.Name, names[indexes[i]])
		}
	}
	length := strategy.ClustersPerDecisionGroup.IntValue()
	for name, n := range groups {
		if l.grouped[pl.Name] && strategy.ClustersPerDecisionGroup.Type == intstr.Int && n > max(1, (members[name]+length-1)/length) {
			l.breaks("readers 2: %d clusters of %s are in %d groups %q of at most %d", members[name], pl.Name, n, name, length)
		}
	}
}

// checkDecided checks what is published for the Placements about which a decision is made.
func (w *world) checkDecided(ctx context.Context) {
	list := &v1alpha1.ManagedClusterList{}
	if err := w.hub.List(ctx, list); err != nil {
		w.laws.breaks("%v", err)
	}
	clusters := map[string]*v1alpha1.ManagedCluster{}
	for i := range list.Items {
		clusters[list.Items[i].Name] = &list.Items[i]
	}
	for _, pl := range w.decided(ctx) {
		w.laws.checkSatisfied(pl)
		w.laws.checkGroupsOf(pl, clusters)
	}
}

// checkGaps: each missing record was deleted, or may have been lost when a replica ended.
func (l *laws) checkGaps(pl *v1alpha1.Placement, history changes.History) {
	since := l.w.ended.Add(settled)
	all := maps.Clone(l.deleted)
	maps.Copy(all, l.records)
	missing := changes.HistoryOf(pl, slices.Collect(maps.Values(all))).Gaps()
	for _, revision := range history.Gaps() {
		i := slices.IndexFunc(history, func(r *berthv1alpha1.PlacementChange) bool { return r.Spec.Revision == revision })
		if before, after := history[i-1], history[i]; before.CreationTimestamp.After(since) && slices.Contains(missing, revision) {
			l.breaks("no record of Placement %s says how %s, which leads to %s, became %s, from which %s begins", pl.Name, before.Name, before.Spec.To, after.Spec.From, after.Name)
		}
	}
}

// delegation is what was published when scheduling was disabled.
type delegation struct {
	at     time.Time
	digest string
}

// onDelegation remembers what other writers published while scheduling was disabled.
func (l *laws) onDelegation(w *server.Write) {
	if w.Kind != "Placement" {
		return
	}
	pl := decode[v1alpha1.Placement](w.Object)
	digest := berthv1alpha1.Digest(slices.Sorted(maps.Keys(l.union(pl.Name))))
	was, delegated := l.delegated[pl.Name]
	switch {
	case w.Type != "MODIFIED":
		delete(l.delegated, pl.Name)
		delete(l.adopted, pl.Name)
	case pl.IsDisabled() && !delegated:
		l.delegated[pl.Name] = delegation{time.Now(), digest}
		delete(l.adopted, pl.Name)
	case delegated && !pl.IsDisabled():
		if delete(l.delegated, pl.Name); was.digest != digest && pl.SaysDisabled() && l.w.ended.Before(was.at) {
			l.adopted[pl.Name] = digest
		}
	}
}

// checkAdopted: what other writers published while scheduling was disabled is kept, and gets a
// record.
func (l *laws) checkAdopted() {
	for _, placement := range slices.Sorted(maps.Keys(l.adopted)) {
		l.breaks("no record leads to what another writer published for %s", placement)
	}
}

// checkAdoptedOnce: what other writers published while scheduling was disabled gets one record,
// also if a request is lost.
func (l *laws) checkAdoptedOnce(record *berthv1alpha1.PlacementChange) {
	for _, before := range l.records {
		a, b := &before.Spec, &record.Spec
		same := equality.Semantic.DeepEqual(before.OwnerReferences, record.OwnerReferences) && a.Cause == b.Cause && a.From == b.From && a.To == b.To
		if same && b.Cause == changes.CauseDisabled && a.Revision == b.Revision-1 {
			l.breaks("%s is the same change as %s, which other writers made", record.Name, before.Name)
		}
	}
}

// checkHeld: while a change waits for approval, the Placement is not satisfied.
func (w *world) checkHeld(ctx context.Context) {
	policy := disruptionPolicy()
	_ = client.IgnoreNotFound(w.hub.Delete(ctx, policy))
	policy = disruptionPolicy()
	policy.Spec.PlacementSelector, policy.Spec.Approval = &metav1.LabelSelector{}, berthv1alpha1.ApprovalRequired
	w.create(ctx, policy)
	time.Sleep(time.Minute)
	for _, pl := range w.decided(ctx) {
		clusters, _ := w.laws.controlled(pl.Name)
		pl.Spec.NumberOfClusters = new(int32(max(1, len(clusters)-1)))
		w.say("Placement %s, with %d clusters, asks for %d: %v", pl.Name, len(clusters), *pl.Spec.NumberOfClusters, w.hub.Update(ctx, pl))
	}
	time.Sleep(time.Minute)
	w.checkDecided(ctx)
}

// balance lets Balance decide most, one Placement after the other, so that later decisions make
// those before differ from what a start without the published ones would decide.
func (w *world) balance(ctx context.Context) {
	for _, pl := range w.decided(ctx) {
		pl.Spec.PrioritizerPolicy = fixture.Placement("", "").Prioritizer(v1alpha1.PrioritizerBalance, 3).Obj().Spec.PrioritizerPolicy
		w.say("Balance counts three times for %s: %v", pl.Name, w.hub.Update(ctx, pl))
		time.Sleep(time.Minute)
	}
	time.Sleep(startTime)
}

// checkCompact: longer groups replace the shorter ones.
func (w *world) checkCompact(ctx context.Context) {
	for _, length := range []int32{1, 100} {
		for _, pl := range w.decided(ctx) {
			pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(length)
			w.say("groups of %s have at most %d clusters: %v", pl.Name, length, w.hub.Update(ctx, pl))
		}
		time.Sleep(time.Minute)
	}
	w.checkDecided(ctx)
}

// checkStarts: a start writes no page, unless one was damaged while no replica ran (law 3). With
// another clock, it may find that an eviction has ended.
func (w *world) checkStarts(ctx context.Context) {
	for _, name := range []string{"one", "two"} {
		w.setClock(name, 0)
	}
	time.Sleep(startTime)
	for w.evictionEnds(ctx, startTime) {
		time.Sleep(startTime)
	}
	before := w.laws.pageWrites
	w.restart(ctx, "one", true)
	w.restart(ctx, "two", false)
	time.Sleep(startTime)
	if n := w.laws.pageWrites - before; n > 0 {
		w.laws.breaks("law 3: %d pages are written after a start at rest", n)
	}
	damaged := w.damagePages(ctx, w.laws.isRecorded)
	for _, name := range []string{"one", "two"} {
		w.replicas[name].cancel()
	}
	time.Sleep(time.Minute)
	for _, name := range []string{"one", "two"} {
		w.start(ctx, name)
		time.Sleep(time.Millisecond)
	}
	w.checkRestored(damaged)
}

// evictionEnds reports whether a cluster may be selected again within a time.
func (w *world) evictionEnds(ctx context.Context, within time.Duration) bool {
	all := &berthv1alpha1.PlacementEvictionList{}
	if err := w.hub.List(ctx, all); err != nil {
		w.laws.breaks("%v", err)
	}
	return slices.ContainsFunc(all.Items, func(e berthv1alpha1.PlacementEviction) bool {
		until, excludes := changes.EvictionEnd(&e)
		return excludes && time.Until(until) > 0 && time.Until(until) <= within
	})
}

// startTime is how long a start takes at most, with the lease of the replica before.
const startTime = 3 * time.Minute

// isRecorded reports whether the newest record of a Placement leads to what it has published, so
// that a start knows that.
func (l *laws) isRecorded(pl *v1alpha1.Placement, published []string) bool {
	newest := changes.HistoryOf(pl, slices.Collect(maps.Values(l.records)))
	if len(newest) == 0 {
		return false
	}
	last := newest[len(newest)-1]
	if _, named := newest.Clusters(nil); !named {
		return false // A record is missing.
	}
	return last.Status.Phase == berthv1alpha1.PhasePublished && last.Spec.To == berthv1alpha1.Digest(published) && last.Spec.Revision == l.revision(pl.Name)
}

// damagePages deletes or edits a page by hand of each Placement for which may says that it can be
// restored, and returns the clusters on all of its pages before. Placements that an attempt would
// move, because others have moved, are left out.
func (w *world) damagePages(ctx context.Context, may func(pl *v1alpha1.Placement, published []string) bool) map[string]map[string]bool {
	s, _, err := w.simulator(ctx, time.Now())
	if err != nil {
		w.laws.breaks("%v", err)
		return nil
	}
	before := map[string]map[string]bool{}
	for _, pl := range w.decided(ctx) {
		report, err := s.Decide(ctx, client.ObjectKeyFromObject(pl))
		clusters, _ := w.laws.controlled(pl.Name)
		published := slices.Sorted(maps.Keys(clusters))
		if err != nil || report.Pending != nil || len(clusters) == 0 || !slices.Equal(clustersOf(report), published) || !may(pl, published) || w.evictionEnds(ctx, 2*startTime) {
			continue
		}
		pages := w.laws.pages[pl.Name]
		page := pages[slices.Sorted(maps.Keys(pages))[0]].DeepCopy()
		w.laws.damage(page)
		if before[pl.Name] = clusters; len(clusters)%2 == 0 || len(page.Status.Decisions) == 0 {
			err = w.hub.Delete(ctx, page)
		} else {
			page.Status.Decisions = page.Status.Decisions[1:]
			err = w.hub.Status().Update(ctx, page)
		}
		w.say("page %s is damaged at rest: %v", page.Name, err)
	}
	return before
}

// clustersOf returns the clusters that a simulation publishes, sorted.
func clustersOf(report *simulator.Report) (clusters []string) {
	for _, d := range report.Decisions {
		clusters = append(clusters, d.Clusters...)
	}
	return changes.Sorted(clusters)
}

// checkRestored: damaged pages are restored as they were.
func (w *world) checkRestored(damaged map[string]map[string]bool) {
	time.Sleep(startTime)
	for _, placement := range slices.Sorted(maps.Keys(damaged)) {
		if after, _ := w.laws.controlled(placement); !maps.Equal(damaged[placement], after) {
			w.laws.breaks("law 2: damage to a page of %s moves it from %v to %v", placement, slices.Sorted(maps.Keys(damaged[placement])), slices.Sorted(maps.Keys(after)))
		}
	}
}

// maxAttempts are the most attempts in a minute, for five minutes or longer.
const maxAttempts = 400

// overruns reports whether attempts run without end (law 10). It looks every five minutes.
func (w *world) overruns() bool {
	before, at := w.attempts, w.at
	if time.Since(at) < 5*time.Minute {
		return false
	}
	w.attempts, w.at = testhub.Metric(testhub.AttemptsMetric), time.Now()
	if n := w.attempts - before; !at.IsZero() && n > maxAttempts*time.Since(at).Minutes() {
		w.laws.breaks("law 10: %v attempts in %s", n, time.Since(at))
		return true
	}
	return false
}
