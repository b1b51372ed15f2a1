package inventory

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/berth-dev/berth/pkg/changes"
)

// ReadyObject is what is kept of one object of a readiness source.
type ReadyObject struct {
	Key    `json:"key"`
	Labels map[string]string `json:"labels,omitempty"`
	// PlacementNamespace is the namespace of the Placements for which the object counts; empty if
	// that is the object's own.
	PlacementNamespace string `json:"placementNamespace,omitempty"`
	// Cluster is empty if the object belongs to no cluster.
	Cluster string `json:"cluster,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
	// TooManyLabels is true if the labels are not kept, because they are too long.
	TooManyLabels bool `json:"tooManyLabels,omitempty"`
}

// readinessSource has the objects of one readiness source. Objects without a cluster are not kept.
type readinessSource struct {
	// failure is why the source cannot be read; empty if it can. failures are why the objects for
	// Placements of single namespaces are not kept.
	failure  string
	failures map[string]string
	// objects are by namespace, then name. scopes are the same objects, by the namespace of the
	// Placements and cluster.
	objects nested[string, string, *readyObject]
	scopes  map[Key]*readinessScope
}

// readinessScope has the objects for the Placements of one namespace on one cluster, and the
// numbers of them that count for Placements. The numbers follow each event, so that a Snapshot need
// not match objects.
type readinessScope struct {
	objects []*readyObject
	counts  map[changes.Requirement]*requirementCounts
	// size is the number of elements in all counts, partial that of those without all objects.
	size, partial int
}

// requirementCounts are by the value of placementLabel, or by the empty string without one. They
// have only values that a Snapshot asked for.
type requirementCounts struct {
	requires *changes.Readiness
	byValue  map[string]*valueCount
}

// valueCount is a count that is made in parts: it has the first objects of the scope. A complete
// one has all.
type valueCount struct {
	readyCount
	first    int
	complete bool
}

// readyCount is a number of objects, and of those that are ready.
type readyCount struct{ objects, ready int }

// maxReadyCounts bounds the counts of a scope. Beyond it they are dropped, and counted again when
// they are needed.
const maxReadyCounts = 1000

// readyObject is a ReadyObject in little memory: there may be one for each application of each
// cluster.
type readyObject struct {
	name Key
	// namespace is that of the Placements for which it counts.
	namespace string
	labels    labelText
	// tooManyLabels is true if the labels are not kept. Then the object matches every selector, and
	// it is not ready.
	tooManyLabels bool
	ready         bool
	cluster       string
	// at is the position in the objects of the scope.
	at int
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
	kept := &readyObject{name: o.Key, namespace: o.scope().Namespace, cluster: o.Cluster}
	if size > maxLabelBytes || o.TooManyLabels {
		kept.labels, kept.tooManyLabels = textOfLabels(nil), true
	} else {
		kept.labels, kept.ready = textOfLabels(o.Labels), o.Ready
	}
	return kept
}

// equal compares what is kept of two objects; either object may be nil.
func (o *readyObject) equal(other *readyObject) bool {
	if o == nil || other == nil {
		return o == other
	}
	a, b := *o, *other
	a.at, b.at = 0, 0
	return a == b
}

func (o *readyObject) matches(p *placement, r *changes.Readiness) bool {
	return o.tooManyLabels || r.Matches(p.key.Name, o.labels)
}

// whole returns what is kept of an object.
func (o *readyObject) whole() ReadyObject {
	all := ReadyObject{Key: o.name, Cluster: o.cluster, Ready: o.ready, TooManyLabels: o.tooManyLabels, Labels: map[string]string{}}
	if o.namespace != o.name.Namespace {
		all.PlacementNamespace = o.namespace
	}
	maps.Insert(all.Labels, o.labels.all)
	return all
}

// labelText has labels as one text: a line feed, then key=value and a line feed for each. No key
// has an equals sign, and neither key nor value a line feed. Objects with equal labels share it. It
// implements labels.Labels.
type labelText struct{ unique.Handle[string] }

func textOfLabels(set map[string]string) labelText {
	var b strings.Builder
	b.WriteString("\n")
	for _, key := range slices.Sorted(maps.Keys(set)) {
		b.WriteString(key + "=" + set[key] + "\n")
	}
	return labelText{unique.Make(b.String())}
}

// all yields the labels.
func (t labelText) all(yield func(key, value string) bool) {
	for line := range strings.Lines(t.Value()[1:]) {
		if key, value, _ := strings.Cut(line[:len(line)-1], "="); !yield(key, value) {
			return
		}
	}
}

// Lookup implements labels.Labels.
func (t labelText) Lookup(label string) (string, bool) {
	_, rest, found := strings.Cut(t.Value(), "\n"+label+"=")
	value, _, _ := strings.Cut(rest, "\n")
	return value, found
}

// Has implements labels.Labels.
func (t labelText) Has(label string) bool { _, has := t.Lookup(label); return has }

// Get implements labels.Labels.
func (t labelText) Get(label string) string { value, _ := t.Lookup(label); return value }

// newReadinessSource returns a source with the objects of an input, without those of namespaces
// that failed.
func newReadinessSource(in *ReadinessInput) *readinessSource {
	s := &readinessSource{failure: in.Failure, failures: map[string]string{}, scopes: map[Key]*readinessScope{}}
	maps.Copy(s.failures, in.Failures)
	for _, object := range in.Objects {
		s.set(object)
	}
	return s
}

func (o *readyObject) scope() Key { return Key{Namespace: o.namespace, Name: o.cluster} }

func (o *ReadyObject) scope() Key {
	return Key{Namespace: cmp.Or(o.PlacementNamespace, o.Namespace), Name: o.Cluster}
}

// set stores an object. after is nil if it is not kept.
func (s *readinessSource) set(object ReadyObject) (before, after *readyObject) {
	before = s.remove(object.Key)
	if object.Cluster == "" || len(object.Cluster) > maxClusterName || s.failures[object.scope().Namespace] != "" {
		return before, nil
	}
	after = newReadyObject(object)
	s.objects.set(object.Namespace, object.Name, after)
	scope := s.scopes[after.scope()]
	if scope == nil {
		scope = &readinessScope{}
		s.scopes[after.scope()] = scope
	}
	scope.add(after)
	return before, after
}

func (s *readinessSource) remove(key Key) *readyObject {
	object := s.objects[key.Namespace][key.Name]
	if object == nil {
		return nil
	}
	s.objects.remove(key.Namespace, key.Name)
	scope := s.scopes[object.scope()]
	if scope.remove(object); len(scope.objects) == 0 {
		delete(s.scopes, object.scope())
	}
	return object
}

// failNamespace drops the objects for the Placements of a namespace and keeps no others of it.
func (s *readinessSource) failNamespace(namespace, why string) {
	for key, scope := range s.scopes {
		if key.Namespace == namespace {
			for _, o := range scope.objects {
				s.objects.remove(o.name.Namespace, o.name.Name)
			}
			delete(s.scopes, key)
		}
	}
	s.failures[namespace] = why
}

func (s *readinessScope) add(o *readyObject) {
	o.at = len(s.objects)
	s.objects = append(s.objects, o)
	for c := range s.countsFor(o) {
		if c.complete {
			c.add(o, 1)
		}
	}
}

// remove moves the last object to the position of the removed one.
func (s *readinessScope) remove(o *readyObject) {
	last := len(s.objects) - 1
	moved := s.objects[last]
	for c := range s.countsFor(o) {
		if c.complete || o.at < c.first {
			c.add(o, -1)
		}
	}
	if s.partial > 0 {
		for c := range s.countsFor(moved) {
			if !c.complete && o.at < c.first {
				c.add(moved, 1)
			}
		}
	}
	s.objects[o.at], moved.at, s.objects[last] = moved, o.at, nil
	s.objects = s.objects[:last]
	if s.partial == 0 {
		return
	}
	for _, counts := range s.counts {
		for _, c := range counts.byValue {
			s.complete(c)
		}
	}
}

// complete marks a count that has all objects.
func (s *readinessScope) complete(c *valueCount) {
	if !c.complete && c.first == len(s.objects) {
		c.complete = true
		s.partial--
	}
}

// countsFor iterates over the counts that an object is in, or belongs to.
func (s *readinessScope) countsFor(o *readyObject) iter.Seq[*valueCount] {
	return func(yield func(*valueCount) bool) {
		for _, c := range s.counts {
			switch {
			case o.tooManyLabels:
				for _, count := range c.byValue {
					if !yield(count) {
						return
					}
				}
			case c.requires.Selects(o.labels):
				if count := c.byValue[c.requires.Value(o.labels)]; count != nil && !yield(count) {
					return
				}
			}
		}
	}
}

func (c *readyCount) add(o *readyObject, n int) {
	if c.objects += n; o.ready {
		c.ready += n
	}
}

// count returns the number of objects that count for a Placement; false if it takes more steps than
// those that are left. Each object is one step, until the count is complete.
func (s *readinessScope) count(p *placement, r *changes.Readiness, steps *int) (readyCount, bool) {
	c := s.countOf(r, r.ValueFor(p.key.Name))
	for ; !c.complete && *steps > 0; s.complete(c) {
		if o := s.objects[c.first]; o.matches(p, r) {
			c.add(o, 1)
		}
		c.first++
		*steps--
	}
	return c.readyCount, c.complete
}

func (s *readinessScope) countOf(r *changes.Readiness, value string) *valueCount {
	known := s.counts[r.Requirement()]
	if known != nil && known.byValue[value] != nil {
		return known.byValue[value]
	}
	if s.size++; s.counts == nil || s.size > maxReadyCounts {
		s.counts, s.size, s.partial, known = map[changes.Requirement]*requirementCounts{}, 1, 0, nil
	}
	if known == nil {
		known = &requirementCounts{r, map[string]*valueCount{}}
		s.counts[r.Requirement()] = known
	}
	s.partial++
	known.byValue[value] = &valueCount{}
	return known.byValue[value]
}
