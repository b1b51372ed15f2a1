package inventory

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// clusterSource is the readiness source that reads the ManagedClusters themselves.
const clusterSource = "cluster"

// ReadyObject is what is kept of one object of a readiness source.
type ReadyObject struct {
	Key
	Labels map[string]string
	// Cluster is empty if the object belongs to no cluster.
	Cluster string
	Ready   bool
}

// readinessSource has the objects of one readiness source. Objects without a cluster are not kept.
type readinessSource struct {
	inClusterNamespace bool
	// failure is why the source cannot be read; empty if it can.
	failure string
	objects map[Key]*readyObject
	// byCluster are the same objects, by their namespace and cluster.
	byCluster map[Key][]*readyObject
}

// readyObject is a ReadyObject in little memory: there may be one for each application of each
// cluster.
type readyObject struct {
	name   Key
	labels labelText
	// tooManyLabels is true if the labels are not kept. Then the object matches every selector, and
	// it is not ready.
	tooManyLabels bool
	cluster       string
	ready         bool
}

// Bounds of what is kept of an object, because users of other namespaces write them.
const (
	maxLabelBytes  = 4096
	maxClusterName = 253
)

func newReadyObject(o ReadyObject) *readyObject {
	size := 0
	for key, value := range o.Labels {
		size += len(key) + len(value)
	}
	if size > maxLabelBytes {
		return &readyObject{name: o.Key, labels: textOfLabels(nil), tooManyLabels: true, cluster: o.Cluster}
	}
	return &readyObject{name: o.Key, labels: textOfLabels(o.Labels), cluster: o.Cluster, ready: o.Ready}
}

func (o *readyObject) matches(p *placement, r *changes.Readiness) bool {
	return o.tooManyLabels || r.Matches(p.key.Name, o.labels)
}

// labelText has labels as one text: each key and each value, followed by a line feed. Objects with
// equal labels share it. It implements labels.Labels.
type labelText struct{ unique.Handle[string] }

func textOfLabels(set map[string]string) labelText {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(set)) {
		b.WriteString(key + "\n" + set[key] + "\n")
	}
	return labelText{unique.Make(b.String())}
}

// Lookup implements labels.Labels.
func (t labelText) Lookup(label string) (string, bool) {
	for rest := t.Value(); rest != ""; {
		var key, value string
		key, rest, _ = strings.Cut(rest, "\n")
		value, rest, _ = strings.Cut(rest, "\n")
		if key == label {
			return value, true
		}
	}
	return "", false
}

// Has implements labels.Labels.
func (t labelText) Has(label string) bool { _, has := t.Lookup(label); return has }

// Get implements labels.Labels.
func (t labelText) Get(label string) string { value, _ := t.Lookup(label); return value }

func newReadinessSource(inClusterNamespace bool) *readinessSource {
	return &readinessSource{inClusterNamespace: inClusterNamespace, objects: map[Key]*readyObject{}, byCluster: map[Key][]*readyObject{}}
}

func (o *readyObject) scope() Key { return Key{Namespace: o.name.Namespace, Name: o.cluster} }

func (s *readinessSource) set(object ReadyObject) (before, after *readyObject) {
	before = s.remove(object.Key)
	if object.Cluster == "" || len(object.Cluster) > maxClusterName {
		return before, nil
	}
	after = newReadyObject(object)
	s.objects[object.Key] = after
	s.byCluster[after.scope()] = append(s.byCluster[after.scope()], after)
	return before, after
}

func (s *readinessSource) remove(key Key) *readyObject {
	object := s.objects[key]
	if object == nil {
		return nil
	}
	delete(s.objects, key)
	scope := object.scope()
	others := make([]*readyObject, 0, len(s.byCluster[scope]))
	for _, o := range s.byCluster[scope] {
		if o != object {
			others = append(others, o)
		}
	}
	if s.byCluster[scope] = others; len(others) == 0 {
		delete(s.byCluster, scope)
	}
	return object
}

// ReplaceReadiness stores all objects of a readiness source after they were listed. It returns the
// affected Placements: those with a change in progress that use the source.
func (inv *Inventory) ReplaceReadiness(source string, inClusterNamespace bool, objects []ReadyObject) []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	s := newReadinessSource(inClusterNamespace)
	for _, object := range objects {
		s.set(object)
	}
	inv.readiness[source] = s
	return inv.waitingFor(source, nil)
}

// FailReadiness stores why a readiness source cannot be read: none of its clusters is ready until
// ReplaceReadiness. It returns the affected Placements.
func (inv *Inventory) FailReadiness(source, why string) []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.readiness[source] = &readinessSource{failure: why}
	return inv.waitingFor(source, nil)
}

// ForgetReadiness drops a readiness source that no policy uses any more.
func (inv *Inventory) ForgetReadiness(source string) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	delete(inv.readiness, source)
}

// SetReadiness stores an object of a listed source. It returns the affected Placements.
func (inv *Inventory) SetReadiness(source string, object ReadyObject) []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	s := inv.readiness[source]
	if s == nil || s.failure != "" {
		return nil
	}
	before, after := s.set(object)
	if before != nil && after != nil && before.cluster == after.cluster && before.ready == after.ready && before.labels == after.labels && before.tooManyLabels == after.tooManyLabels {
		return nil
	}
	return inv.waitingFor(source, []*readyObject{before, after})
}

// DeleteReadiness removes an object of a source. It returns the affected Placements.
func (inv *Inventory) DeleteReadiness(source string, object Key) []Key {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	s := inv.readiness[source]
	if s == nil || s.failure != "" {
		return nil
	}
	return inv.waitingFor(source, []*readyObject{s.remove(object)})
}

// ReadinessFailure returns why a readiness source cannot be read; empty if it can.
func (inv *Inventory) ReadinessFailure(source string) string {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.readinessFailure(source)
}

func (inv *Inventory) readinessFailure(source string) string {
	switch s := inv.readiness[source]; {
	case source == clusterSource:
		return ""
	case s == nil:
		return "not read yet"
	default:
		return s.failure
	}
}

// ReadinessSources returns the names of the sources that DisruptionPolicies use, except the
// clusters themselves.
func (inv *Inventory) ReadinessSources() map[string]bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	used := map[string]bool{}
	for _, policies := range inv.policies {
		for _, policy := range policies {
			if policy.readiness != nil && policy.readiness.Source != clusterSource {
				used[policy.readiness.Source] = true
			}
		}
	}
	return used
}

// waitingFor returns the Placements with a change in progress whose policies use the source. If
// objects are given, states of one object or nil, one of them must count for the Placement and for
// one of its clusters.
func (inv *Inventory) waitingFor(source string, objects []*readyObject) []Key {
	affected, namespace := affectedSet{}, ""
	for _, o := range objects {
		if o != nil && !inv.readiness[source].inClusterNamespace {
			namespace = o.name.Namespace
		}
	}
	for p := range inv.progressing(namespace) {
		var near []*readyObject
		for _, o := range objects {
			if o != nil && p.lists(o.cluster) {
				near = append(near, o)
			}
		}
		if objects == nil || near != nil {
			inv.addWaiting(p, source, affected, func(r *changes.Readiness) bool {
				return objects == nil || slices.ContainsFunc(near, func(o *readyObject) bool { return o.matches(p, r) })
			})
		}
	}
	inv.setCauseText(affected, "readiness "+source)
	return affected.keys()
}

// progressing iterates over the Placements with a change in progress: those of a namespace, or all
// if it is empty.
func (inv *Inventory) progressing(namespace string) iter.Seq[*placement] {
	namespaces := inv.records.progressing
	if namespace != "" {
		namespaces = map[string]map[string]int{namespace: namespaces[namespace]}
	}
	return func(yield func(*placement) bool) {
		for namespace, names := range namespaces {
			for name := range names {
				if p := inv.placements[Key{Namespace: namespace, Name: name}]; p != nil && !yield(p) {
					return
				}
			}
		}
	}
}

// addWaiting adds a Placement if one of its policies uses the source and is affected.
func (inv *Inventory) addWaiting(p *placement, source string, affected affectedSet, which func(*changes.Readiness) bool) {
	if slices.ContainsFunc(inv.requirementsOf(p), func(r *changes.Readiness) bool { return r.Source == source && which(r) }) {
		affected.add(p.key)
	}
}

// lists reports whether the cluster was published last; true if that is unknown.
func (p *placement) lists(cluster string) bool {
	if p.last == nil {
		return true
	}
	_, listed := slices.BinarySearch(p.last.Names, cluster)
	return listed
}

// requirementsOf returns the readiness of the policies that select the Placement, by the policies'
// names.
func (inv *Inventory) requirementsOf(p *placement) []*changes.Readiness {
	var all []*changes.Readiness
	for _, policy := range inv.policiesOf(p) {
		if r := inv.policies[p.key.Namespace][policy.Name].readiness; r != nil {
			all = append(all, r)
		}
	}
	return all
}

// notReady returns why clusters of a Placement are not ready, by name. Nil if all are.
func (inv *Inventory) notReady(p *placement, names []string) map[string]string {
	var all map[string]string
	for _, r := range inv.requirementsOf(p) {
		failure := inv.readinessFailure(r.Source)
		for _, name := range names {
			if all[name] != "" {
				continue
			}
			why := r.Source + ": " + failure
			if failure == "" {
				why = inv.unready(p, r, name)
			}
			if why != "" {
				if all == nil {
					all = map[string]string{}
				}
				all[name] = why
			}
		}
	}
	return all
}

// unready returns why one cluster is not ready by one requirement; empty if it is.
func (inv *Inventory) unready(p *placement, r *changes.Readiness, cluster string) string {
	objects, ready := 0, 0
	if r.Source == clusterSource {
		if i, known := inv.names.index[cluster]; known {
			if c := inv.clusters.Get(i); c != nil && r.Matches(p.key.Name, labels.Set(c.Labels)) {
				objects = 1
				if available(c) {
					ready = 1
				}
			}
		}
		return r.Unready(objects, ready)
	}
	source := inv.readiness[r.Source]
	scope := Key{Namespace: p.key.Namespace, Name: cluster}
	if source.inClusterNamespace {
		scope.Namespace = cluster
	}
	for _, o := range source.byCluster[scope] {
		if !o.matches(p, r) {
			continue
		}
		if objects++; o.ready {
			ready++
		}
	}
	return r.Unready(objects, ready)
}

func available(c *framework.Cluster) bool {
	return c != nil && meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
}

// addWaitingForCluster adds the Placements with a change in progress for which a cluster became
// ready or unready: its condition Available changed, or labels that a policy selects.
func (inv *Inventory) addWaitingForCluster(old, cluster *framework.Cluster, affected affectedSet) {
	was, is := available(old), available(cluster)
	var before labels.Set
	after := labels.Set(cluster.Labels)
	if old != nil {
		before = old.Labels
	}
	if was == is && (!is || maps.Equal(before, after)) {
		return
	}
	inv.changedPart = "condition Available"
	for p := range inv.progressing("") {
		if p.lists(cluster.Name) {
			inv.addWaiting(p, clusterSource, affected, func(r *changes.Readiness) bool {
				return (was && r.Matches(p.key.Name, before)) != (is && r.Matches(p.key.Name, after))
			})
		}
	}
}
