package property

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
)

func tierMin(t *berthv1alpha1.SelectionTier, pl *v1alpha1.Placement) int {
	switch {
	case t.MinClusters != nil:
		return int(*t.MinClusters)
	case pl.Spec.NumberOfClusters != nil:
		return max(int(*pl.Spec.NumberOfClusters), 1)
	}
	return 1
}

// tierFor returns the only tier that is used, or -1 if tiers are filled in order, and the clusters
// that are then taken last. It stores since when tiers are sufficient, and which clusters left.
func (w *selectionWorld) tierFor(
	policy *berthv1alpha1.SelectionPolicy, pl *v1alpha1.Placement, feasible []*v1alpha1.ManagedCluster, incumbents []string,
) (tier int, delayed []string) {
	spec, before := &policy.Spec, w.tiers[string(policy.UID)]
	permits := w.failbackOf(policy)
	next, first, usable := map[string]tierMemory{}, -1, -1
	for i := range spec.Tiers {
		t := &spec.Tiers[i]
		m, least := tierMemory{}, tierMin(t, pl)
		for _, c := range feasible {
			if tierOf(spec, c) == i {
				m.qualifying++
			}
		}
		last, known := before[t.Name]
		if m.qualifying >= least {
			if known && last.qualifying < least {
				m.since = w.now
			} else if known {
				m.since = last.since
			}
			if (last.used || permits(m.since)) && usable < 0 {
				usable = i
			}
			if first < 0 {
				first = i
			}
		}
		next[t.Name] = m
	}
	w.tiers[string(policy.UID)] = next
	switch {
	case spec.TierMode == berthv1alpha1.TierOverflow:
		return -1, w.decideLeft(spec, before, next, feasible, incumbents, permits)
	case first < 0:
		return -1, nil
	case usable >= 0:
		if usable > first {
			w.stats["waiting tiers"]++
		}
		return usable, nil
	}
	return first, nil
}

// failbackOf returns whether a policy permits the use of what is sufficient, or qualifies, since a
// time.
func (w *selectionWorld) failbackOf(policy *berthv1alpha1.SelectionPolicy) func(since time.Time) bool {
	after := int64(berthv1alpha1.DefaultFailbackAfterSeconds)
	if s := policy.Spec.FailbackAfterSeconds; s != nil {
		after = *s
	}
	requested, _ := time.Parse(time.RFC3339, policy.Annotations[berthv1alpha1.FailbackRequestedAnnotation])
	return func(since time.Time) bool {
		return since.IsZero() || after == 0 || after > 0 && !w.now.Before(since.Add(time.Duration(after)*time.Second)) || requested.After(since)
	}
}

// decideLeft stores in next which clusters left their tiers, and returns those that are taken
// last. A cluster that the Placement has and that does not qualify leaves; it has left until the
// Placement has it again.
func (w *selectionWorld) decideLeft(
	spec *berthv1alpha1.SelectionPolicySpec, before, next map[string]tierMemory, feasible []*v1alpha1.ManagedCluster, incumbents []string,
	permits func(time.Time) bool,
) (delayed []string) {
	put := func(name, tier string, since time.Time) {
		c, exists := w.objects[idOf(&v1alpha1.ManagedCluster{ObjectMeta: objectMeta("", name)})].(*v1alpha1.ManagedCluster)
		if !exists {
			return
		}
		if i := tierOf(spec, c); i >= 0 && c.Labels[v1alpha1.ClusterSetLabel] == "s1" {
			tier = spec.Tiers[i].Name
		}
		if m, known := next[tier]; !known || tier == spec.Tiers[len(spec.Tiers)-1].Name {
			return
		} else if m.left == nil {
			m.left = map[string]time.Time{}
			next[tier] = m
		}
		switch qualifies := slices.ContainsFunc(feasible, func(f *v1alpha1.ManagedCluster) bool { return f.Name == name }); {
		case !qualifies:
			since = time.Time{}
		case since.IsZero():
			since = w.now
		}
		next[tier].left[name] = since
		if !permits(since) {
			w.stats["delayed clusters"]++
			delayed = append(delayed, name)
		}
	}
	for tier, m := range before {
		for name, since := range m.left {
			if _, known := next[tier]; known && !slices.Contains(incumbents, name) {
				put(name, tier, since)
			}
		}
	}
	for _, name := range incumbents {
		if !slices.ContainsFunc(feasible, func(c *v1alpha1.ManagedCluster) bool { return c.Name == name }) {
			put(name, spec.Tiers[0].Name, time.Time{})
		}
	}
	return delayed
}

// incumbentsOf are the clusters that the Placement had before an attempt.
func incumbentsOf(a *scheduler.Attempt) (names []string) {
	for i := range a.Snapshot.Subject.Incumbents.All {
		if c := a.Snapshot.Clusters.Get(i); c != nil {
			names = append(names, c.Name)
		}
	}
	return names
}

// remember stores which tiers are used.
func (w *selectionWorld) remember(policy *berthv1alpha1.SelectionPolicy, chosen []string, feasible map[string]*v1alpha1.ManagedCluster) {
	memory := w.tiers[string(policy.UID)]
	if len(policy.Spec.Tiers) == 0 {
		w.tiers[string(policy.UID)] = map[string]tierMemory{}
		return
	}
	for _, name := range chosen {
		tier := policy.Spec.Tiers[tierOf(&policy.Spec, feasible[name])].Name
		m := memory[tier]
		m.used = true
		delete(m.left, name)
		memory[tier] = m
	}
}

// checkStatus compares the status of a policy with the model.
func (w *selectionWorld) checkStatus(policy *berthv1alpha1.SelectionPolicy, a *scheduler.Attempt) {
	key := inventory.Key{Namespace: policy.Namespace, Name: policy.Spec.Placement}
	ready := conditionOf(policy.Status.Conditions, berthv1alpha1.SelectionReady)
	if a.Failure != nil {
		want := conditionOf(a.Snapshot.Subject.SelectionPolicies[0].Status.Conditions, berthv1alpha1.SelectionReady)
		if a.Misconfigured() && a.Failure.Plugin() != "Predicate" {
			want = "False/Invalid"
		}
		if len(a.Snapshot.Subject.SelectionPolicies) == 1 && ready != want {
			w.fail("%s: Ready is %q, want %q", key, ready, want)
		}
		return
	}
	if ready != "True/Applied" {
		w.fail("%s: Ready is %s", key, ready)
	}
	memory, sufficient := w.tiers[string(policy.UID)], false
	if len(memory) != len(policy.Status.Tiers) {
		w.fail("%s: the status has tiers %s, want %v", key, text(policy.Status.Tiers), memory)
	}
	for i, t := range policy.Status.Tiers {
		got, want := memoryOf(policy)[t.Name], memory[t.Name]
		sufficient = sufficient || want.qualifying >= tierMin(&policy.Spec.Tiers[i], w.placement(key))
		if got.qualifying != want.qualifying || got.used != want.used || !got.since.Equal(want.since) || !maps.EqualFunc(got.left, want.left, time.Time.Equal) {
			w.fail("%s: the status of tier %s is %v, want %v", key, t.Name, got, want)
		}
	}
	want := ""
	if len(memory) > 0 {
		if want = "False/NoTierSufficient"; sufficient {
			want = "True/Sufficient"
		}
	}
	if got := conditionOf(policy.Status.Conditions, berthv1alpha1.SelectionTierSufficient); got != want {
		w.fail("%s: TierSufficient is %q, want %q", key, got, want)
	}
	w.checkUnmet(policy, a)
}

// hasCandidates reports whether the set that all use has a cluster: without one, that is the
// reason.
func (w *selectionWorld) hasCandidates() bool {
	return slices.ContainsFunc(w.all(), func(o client.Object) bool {
		c, ok := o.(*v1alpha1.ManagedCluster)
		return ok && c.Labels[v1alpha1.ClusterSetLabel] == "s1"
	})
}

// checkUnmet compares the rest of the status with the model.
func (w *selectionWorld) checkUnmet(policy *berthv1alpha1.SelectionPolicy, a *scheduler.Attempt) {
	if len(policy.Status.Unmet) != len(a.Shortfall.Unmet)+len(a.Shortfall.Full) {
		w.fail("the status of %s has unmet %s, want %v", policy.Name, text(policy.Status.Unmet), a.Shortfall.Unmet)
	}
	satisfied := meta.FindStatusCondition(a.Conditions(), v1alpha1.PlacementConditionSatisfied)
	short := a.Shortfall
	if number := a.Demand.Number; len(short.Unmet) > 0 && number != 0 && w.hasCandidates() && (short.BlockedBy == "") != (satisfied.Reason == v1alpha1.ReasonGroupUnsatisfiable) {
		w.fail("%s: PlacementSatisfied is %s", policy.Name, satisfied.Reason)
	}
	var unknown []string
	for _, name := range slices.Concat(policy.Spec.ClusterNames.Include, policy.Spec.ClusterNames.Exclude) {
		c, exists := w.objects[idOf(&v1alpha1.ManagedCluster{ObjectMeta: objectMeta("", name)})].(*v1alpha1.ManagedCluster)
		if candidate := exists && c.Labels[v1alpha1.ClusterSetLabel] == "s1"; !candidate && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	if !slices.Equal(unknown, policy.Status.UnknownNames) {
		w.fail("%s: unknown names are %v, want %v", policy.Name, policy.Status.UnknownNames, unknown)
	}
}
