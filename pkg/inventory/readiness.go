package inventory

import (
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// clusterSource is the readiness source that reads the ManagedClusters themselves.
const clusterSource = "cluster"

// ReplaceReadiness stores all objects of a readiness source after they were listed. failures are
// why the objects for single namespaces are not kept. It returns the affected Placements: those
// that need readiness and use the source.
func (inv *Inventory) ReplaceReadiness(source string, objects []ReadyObject, failures map[string]string) []Key {
	s := newReadinessSource(&ReadinessInput{Objects: objects, Failures: failures})
	return inv.process(nil, func(e *event) {
		if inv.options.OnInput != nil {
			for _, in := range readinessInputs(source, objects, failures) {
				inv.addInput(Input{Kind: InputReadiness, Readiness: in})
			}
		}
		inv.readiness[source] = s
		inv.addWaitingForAll(source, e.affected)
		inv.setCauseText(e.affected, "readiness "+source)
	})
}

// FailReadiness stores why a readiness source cannot be read: none of its clusters is ready until
// ReplaceReadiness. It returns the affected Placements.
func (inv *Inventory) FailReadiness(source, why string) []Key {
	return inv.applyReadiness(ReadinessInput{Source: source, Failure: why})
}

// FailReadinessNamespace stores why the objects for one namespace are not kept: they count as not
// ready until ReplaceReadiness. It returns the affected Placements.
func (inv *Inventory) FailReadinessNamespace(source, namespace, why string) []Key {
	return inv.applyReadiness(ReadinessInput{Source: source, Failures: map[string]string{namespace: why}})
}

// ForgetReadiness drops a readiness source that no policy uses any more.
func (inv *Inventory) ForgetReadiness(source string) {
	inv.applyReadiness(ReadinessInput{Source: source, Forgotten: true})
}

// SetReadiness stores an object of a listed source. It returns the affected Placements.
func (inv *Inventory) SetReadiness(source string, object ReadyObject) []Key {
	return inv.applyReadiness(ReadinessInput{Source: source, Objects: []ReadyObject{object}})
}

// DeleteReadiness removes an object of a source. It returns the affected Placements.
func (inv *Inventory) DeleteReadiness(source string, object Key) []Key {
	return inv.applyReadiness(ReadinessInput{Source: source, Deleted: &object})
}

func (inv *Inventory) applyReadiness(in ReadinessInput) []Key {
	return inv.Apply(Input{Kind: InputReadiness, Readiness: &in})
}

// updateReadiness applies a change of a readiness source, and logs it if anything differs.
func (inv *Inventory) updateReadiness(input Input, e *event) {
	in := input.Readiness
	s, differs := inv.readiness[in.Source], true
	switch {
	case in.Forgotten:
		differs = s != nil
		delete(inv.readiness, in.Source)
	case in.Replaces || in.Failure != "":
		inv.readiness[in.Source] = newReadinessSource(in)
		inv.addWaitingForAll(in.Source, e.affected)
	case s == nil || s.failure != "":
		return
	default:
		differs = inv.updateReadyObjects(s, in, e.affected)
	}
	if len(e.affected) > 0 {
		inv.setCauseText(e.affected, "readiness "+in.Source)
	}
	if differs {
		inv.addInput(input)
	}
}

// updateReadyObjects applies changes of single objects and namespaces of a source that can be read.
// It returns false if nothing differs.
func (inv *Inventory) updateReadyObjects(s *readinessSource, in *ReadinessInput, affected affectedSet) bool {
	differs := len(in.Failures) > 0
	for namespace, why := range in.Failures {
		s.failNamespace(namespace, why)
		inv.addWaitingForAll(in.Source, affected)
	}
	for _, object := range in.Objects {
		if before, after := s.set(object); !before.equal(after) {
			inv.addWaitingForObjects(in.Source, affected, before, after)
			differs = true
		}
	}
	if in.Deleted != nil {
		before := s.remove(*in.Deleted)
		inv.addWaitingForObjects(in.Source, affected, before)
		differs = differs || before != nil
	}
	return differs
}

// ReadinessFailure returns why a readiness source cannot be read, or not for the policies of the
// namespace; empty if it can.
func (inv *Inventory) ReadinessFailure(source, namespace string) string {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.readinessFailure(source, namespace)
}

func (inv *Inventory) readinessFailure(source, namespace string) string {
	switch s := inv.readiness[source]; {
	case source == clusterSource:
		return ""
	case s == nil:
		return "not read yet"
	case s.failure != "":
		return s.failure
	default:
		return s.failures[namespace]
	}
}

// FailedReadinessNamespaces returns why the objects for single namespaces are not kept.
func (inv *Inventory) FailedReadinessNamespaces(source string) map[string]string {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if s := inv.readiness[source]; s != nil {
		return maps.Clone(s.failures)
	}
	return nil
}

// ReadinessSources returns the names of the sources that DisruptionPolicies use, except the
// clusters themselves.
func (inv *Inventory) ReadinessSources() map[string]bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	used := map[string]bool{}
	for _, policies := range inv.disruptionPolicies {
		for _, policy := range policies {
			if policy.readiness != nil && policy.readiness.Source != clusterSource {
				used[policy.readiness.Source] = true
			}
		}
	}
	return used
}

// addWaitingForObjects adds the Placements that need readiness and that one of two states of an
// object affects: it counts for the Placement and for one of its clusters. A state may be nil.
func (inv *Inventory) addWaitingForObjects(source string, affected affectedSet, states ...*readyObject) {
	for _, o := range states {
		if o == nil {
			continue
		}
		for _, p := range inv.needingReadinessOn(o.cluster) {
			if p.key.Namespace == o.namespace {
				inv.addWaiting(p, source, affected, func(r *changes.Readiness) bool { return o.matches(p, r) })
			}
		}
	}
}

// addWaitingForAll adds the Placements that need readiness and whose policies use the source.
func (inv *Inventory) addWaitingForAll(source string, affected affectedSet) {
	for _, p := range inv.placements {
		if p.needsReadiness() {
			inv.addWaiting(p, source, affected, func(*changes.Readiness) bool { return true })
		}
	}
}

// needsReadiness reports whether attempts of the Placement must see each change of readiness: they
// wait for it, or they may measure it.
func (p *placement) needsReadiness() bool {
	return p.settled == nil || p.claim.progressing
}

// needingReadinessOn returns the Placements that need readiness and whose pages list a cluster.
func (inv *Inventory) needingReadinessOn(cluster string) (all []*placement) {
	i, known := inv.names.index[cluster]
	if !known {
		return nil
	}
	for page := range inv.pages.byIndex[i].all {
		if p := inv.placements[page.owner]; p != nil && p.needsReadiness() {
			all = append(all, p)
		}
	}
	return all
}

// addWaiting adds a Placement if one of its policies uses the source and is affected. If its
// policies are not known, an attempt that reads them is due anyway: to find those of many
// Placements would take long.
func (inv *Inventory) addWaiting(p *placement, source string, affected affectedSet, which func(*changes.Readiness) bool) {
	if p.disruption == nil && len(inv.disruptionPolicies[p.key.Namespace]) > berthv1alpha1.MaxPoliciesPerPlacement {
		affected.add(p.key)
		return
	}
	if slices.ContainsFunc(inv.requirementsOf(p), func(r *changes.Readiness) bool { return r.Source == source && which(r) }) {
		affected.add(p.key)
	}
}

// requirementsOf returns the readiness of the policies that select the Placement, by the policies'
// names.
func (inv *Inventory) requirementsOf(p *placement) []*changes.Readiness {
	var all []*changes.Readiness
	for _, policy := range inv.disruptionOf(p).policies {
		if r := inv.disruptionPolicies[p.key.Namespace][policy.Name].readiness; r != nil {
			all = append(all, r)
		}
	}
	return all
}

// maxReadinessPart is how many objects are matched while the inventory is locked, before attempts.
const maxReadinessPart = 500

// PrepareReadiness counts the objects that the next Snapshot of a Placement reads, in parts, so
// that no event waits for all of them.
func (inv *Inventory) PrepareReadiness(key Key) {
	var names []string
	for _, r := range read(inv, key, func(p *placement) []*changes.Readiness {
		inv.loadLast(p)
		names = inv.subject(p).LastNames()
		return inv.requirementsOf(p)
	}) {
		for at := 0; at < len(names); {
			at = inv.countReady(key, r, names, at)
		}
	}
}

// countReady counts one part of the objects on clusters, beginning with that at a position. It
// returns the position of the cluster with which the next part begins.
func (inv *Inventory) countReady(key Key, r *changes.Readiness, names []string, at int) int {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	p, source := inv.placements[key], inv.readiness[r.Source]
	if p == nil || source == nil {
		return len(names)
	}
	for steps := maxReadinessPart; at < len(names) && steps > 0; at++ {
		steps--
		if scope := source.scopes[Key{Namespace: key.Namespace, Name: names[at]}]; scope != nil {
			if _, complete := scope.count(p, r, &steps); !complete {
				return at
			}
		}
	}
	return at
}

// notReady returns why clusters of a Placement are not ready, by name, and those of which it is not
// known, because a source cannot be read or says nothing of them. Nil if all are ready.
func (inv *Inventory) notReady(p *placement, names []string) (all map[string]string, unknown map[string]bool) {
	for _, r := range inv.requirementsOf(p) {
		for _, name := range names {
			if all[name] != "" && !unknown[name] {
				continue
			}
			why, known := inv.unready(p, r, name)
			if why == "" || !known && unknown[name] {
				continue
			}
			if all == nil {
				all, unknown = map[string]string{}, map[string]bool{}
			}
			if all[name], unknown[name] = why, true; known {
				delete(unknown, name)
			}
		}
	}
	return all, unknown
}

// unready returns why one cluster is not ready by one requirement; empty if it is. known is false
// if the source cannot be read, or has nothing for the cluster.
func (inv *Inventory) unready(p *placement, r *changes.Readiness, cluster string) (why string, known bool) {
	count := readyCount{}
	if r.Source == clusterSource {
		if i, known := inv.names.index[cluster]; known {
			if c := inv.clusters.Get(i); c != nil && r.Matches(p.key.Name, labels.Set(c.Labels)) {
				if meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable) == nil {
					return r.Source + ": it has no condition Available", false
				}
				count.objects = 1
				if available(c) {
					count.ready = 1
				}
			}
		}
		return r.Unready(count.objects, count.ready), count.objects > 0
	}
	if failure := inv.readinessFailure(r.Source, p.key.Namespace); failure != "" {
		return r.Source + ": " + failure, false
	}
	if objects := inv.readiness[r.Source].scopes[Key{Namespace: p.key.Namespace, Name: cluster}]; objects != nil {
		steps := math.MaxInt
		count, _ = objects.count(p, r, &steps)
	}
	return r.Unready(count.objects, count.ready), count.objects > 0
}

func available(c *framework.Cluster) bool {
	return c != nil && meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
}

// addWaitingForCluster adds the Placements that need readiness and for which a cluster became
// ready or unready: its condition Available changed, or labels that a policy selects.
func (inv *Inventory) addWaitingForCluster(old, cluster *framework.Cluster, e *event) {
	was, is := available(old), available(cluster)
	var before labels.Set
	after := labels.Set(cluster.Labels)
	if old != nil {
		before = old.Labels
	}
	if was == is && (!is || maps.Equal(before, after)) {
		return
	}
	e.changed = "condition Available"
	for _, p := range inv.needingReadinessOn(cluster.Name) {
		inv.addWaiting(p, clusterSource, e.affected, func(r *changes.Readiness) bool {
			return (was && r.Matches(p.key.Name, before)) != (is && r.Matches(p.key.Name, after))
		})
	}
}
