package inventory

import (
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Input is one change of the contents of an inventory. An inventory to which the same inputs are
// applied in the same order returns the same Snapshots. Events that change nothing that a Snapshot
// contains, such as heartbeats, are no inputs.
type Input struct {
	Kind InputKind
	// Number counts the inputs of an inventory from 1.
	Number int64
	// Object is the object after the change; of a deletion, the last known state.
	Object client.Object
	// TaintTimes are the times at which the taints of a ManagedCluster count as added; nil if only
	// their timeAdded counts.
	TaintTimes []time.Time
	// Placement is the one whose published decision or clusters change.
	Placement Key
	// Published is the last published decision, Before the one before it. Each may be nil.
	Published, Before *framework.Published
	// Clusters are those that are reserved (InputReserved), or that may be on a page that is being
	// written (InputLanded), or are not (InputMissed). InputPublished ends InputLanded, and
	// the time in which other writers own the pages if the decision is FromPages, unless
	// KeepsLanded.
	Clusters    []string
	KeepsLanded bool
	// Unpermitted is true if Clusters are those of a change that may still be rejected.
	Unpermitted bool
	// Readiness is a change of a readiness source.
	Readiness *ReadinessInput
}

// InputKind says what an Input changes.
type InputKind string

// The kinds of inputs.
const (
	// InputObject adds or changes an object, InputDeleted deletes one.
	InputObject  InputKind = "object"
	InputDeleted InputKind = "deleted"
	// InputPublished sets the decision that Berth published last for a Placement.
	InputPublished InputKind = "published"
	// InputReserved sets the clusters that are reserved for a Placement.
	InputReserved InputKind = "reserved"
	// InputLanded adds clusters of a Placement that may be on a page that is being written.
	InputLanded InputKind = "landed"
	// InputMissed ends that for clusters that turned out to be on no page.
	InputMissed InputKind = "missed"
	// InputReadiness changes a readiness source.
	InputReadiness InputKind = "readiness"
	// InputStarted ends the initial listing.
	InputStarted InputKind = "started"
)

// ReadinessInput is one change of a readiness source.
type ReadinessInput struct {
	Source string `json:"source"`
	// Replaces is true if Failures are all that is known of the source from now on. Objects are
	// changed objects, all for the Placements of one namespace.
	Replaces bool          `json:"replaces,omitempty"`
	Objects  []ReadyObject `json:"objects,omitempty"`
	// Failures are why the objects for single namespaces are not kept, Failure why the source
	// cannot be read.
	Failures map[string]string `json:"failures,omitempty"`
	Failure  string            `json:"failure,omitempty"`
	// Deleted is an object that was deleted. Forgotten is true if no policy uses the source.
	Deleted   *Key `json:"deleted,omitempty"`
	Forgotten bool `json:"forgotten,omitempty"`
}

// addInput numbers an input and passes it to OnInput. The inventory is locked.
func (inv *Inventory) addInput(in Input) {
	if inv.options.OnInput == nil {
		return
	}
	inv.inputs++
	in.Number = inv.inputs
	inv.options.OnInput(in)
}

func (inv *Inventory) addObject(object client.Object) {
	inv.addInput(Input{Kind: InputObject, Object: object})
}

func (inv *Inventory) addDeleted(object client.Object) {
	inv.addInput(Input{Kind: InputDeleted, Object: object})
}

// clusterInput is the input of a changed ManagedCluster.
func (inv *Inventory) clusterInput(c *framework.Cluster) Input {
	in := Input{Kind: InputObject, Object: c.ManagedCluster}
	if inv.options.FirstSeen != nil {
		in.TaintTimes = c.TaintTimes
	}
	return in
}

// sameVersion reports whether both are the same state of an object on the API server. The watch
// reports the state that a write has returned once more.
func sameVersion(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion()
}

// Apply applies an input of another inventory. It returns the affected Placements, sorted. Apply
// inputs in their order, and nothing else.
func (inv *Inventory) Apply(in Input) []Key {
	return inv.process(in.Object, func(e *event) { inv.dispatch(in, e) })
}

// dispatch applies an input and logs it, unless it changes nothing that a Snapshot contains.
func (inv *Inventory) dispatch(in Input, e *event) {
	switch in.Kind {
	case InputObject, InputDeleted:
		kind, _ := kinds.Of(in.Object)
		if h, ok := handlers[kind.Name]; ok && in.Kind == InputObject {
			e.changed, e.taintTimes = "changed", in.TaintTimes
			h.update(inv, in.Object, e)
		} else if ok {
			e.changed = "deleted"
			h.remove(inv, in.Object, e)
		}
		return
	case InputReadiness:
		inv.updateReadiness(in, e)
		return
	}
	inv.addInput(in)
	p := inv.placements[in.Placement]
	switch {
	case in.Kind == InputStarted:
		inv.starting = true
		inv.updateHoldings()
		inv.starting, inv.started = false, true
	case p == nil:
	case in.Kind == InputPublished:
		inv.setPublished(p, in.Published, in.KeepsLanded)
	case in.Kind == InputReserved:
		inv.setReserved(p, in.Clusters, in.Unpermitted)
	case in.Kind == InputLanded:
		inv.addLanded(p, in.Clusters)
	case in.Kind == InputMissed:
		inv.removeLanded(p, in.Clusters)
	}
}

// Contents calls emit with inputs that lead an empty inventory to the current contents, and with
// the number of the last input, which they have, too. No other input is added before emit returns;
// emit must not call the inventory.
func (inv *Inventory) Contents(emit func(number int64, contents []Input)) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	all := inv.objects()
	add := func(in Input) { all = append(all, in) }
	for _, name := range sortedKeys(inv.readiness) {
		inv.readiness[name].contents(name, add)
	}
	for _, key := range sortedPlacements(inv.placements) {
		p := inv.placements[key]
		if p.last != nil {
			add(Input{Kind: InputPublished, Placement: key, Published: p.last, KeepsLanded: true})
		}
		if p.claim.landed.Len() > 0 {
			add(Input{Kind: InputLanded, Placement: key, Clusters: inv.names.of(p.claim.landed)})
		}
		if p.claim.reserved.Len() > 0 {
			add(Input{Kind: InputReserved, Placement: key, Clusters: inv.names.of(p.claim.reserved), Unpermitted: p.claim.unpermitted})
		}
	}
	if inv.started {
		add(Input{Kind: InputStarted})
	}
	for i := range all {
		all[i].Number = inv.inputs
	}
	emit(inv.inputs, all)
}

// objects returns the inputs for all objects, in the order of the table of kinds.
func (inv *Inventory) objects() []Input {
	var all []Input
	add := func(object client.Object) { all = append(all, Input{Kind: InputObject, Object: object}) }
	for _, name := range sortedKeys(inv.sets) {
		set := &v1alpha1.ManagedClusterSet{Spec: v1alpha1.ManagedClusterSetSpec{ClusterSelector: inv.sets[name].spec}}
		set.Name = name
		add(set)
	}
	for _, namespace := range sortedKeys(inv.bindings) {
		for _, name := range sortedKeys(inv.bindings[namespace]) {
			binding := &v1alpha1.ManagedClusterSetBinding{}
			binding.Namespace, binding.Name, binding.Spec.ClusterSet = namespace, name, name
			add(binding)
		}
	}
	inv.order.merge(&inv.names)
	for _, i := range inv.order.sorted {
		all = append(all, inv.clusterInput(inv.clusters.Get(int(i))))
	}
	for _, name := range sortedKeys(inv.scores) {
		var scores []*v1alpha1.AddOnPlacementScore
		for i := range inv.scores[name].Len() {
			if score := inv.scores[name].Get(i); score != nil {
				scores = append(scores, score)
			}
		}
		slices.SortFunc(scores, func(a, b *v1alpha1.AddOnPlacementScore) int { return strings.Compare(a.Namespace, b.Namespace) })
		for _, score := range scores {
			add(score)
		}
	}
	inv.addPoliciesAndPlacements(add)
	for _, key := range sortedPlacements(inv.pages.byName) {
		add(inv.pages.byName[key].object)
	}
	return all
}

func (inv *Inventory) addPoliciesAndPlacements(add func(client.Object)) {
	for _, namespace := range sortedKeys(inv.disruptionPolicies) {
		for _, name := range sortedKeys(inv.disruptionPolicies[namespace]) {
			add(inv.disruptionPolicies[namespace][name].object)
		}
	}
	for _, key := range sortedPlacements(inv.selections.byName) {
		add(inv.selections.byName[key].object)
	}
	for _, key := range sortedPlacements(inv.placements) {
		inv.placements[key].contents(add)
	}
	for _, key := range sortedPlacements(inv.records.byName) {
		add(inv.records.byName[key].whole())
	}
	for _, key := range sortedPlacements(inv.evictions.byName) {
		add(inv.evictions.byName[key])
	}
}

// contents adds the inputs that lead to the current state of a readiness source.
func (s *readinessSource) contents(name string, add func(Input)) {
	if s.failure != "" {
		add(Input{Kind: InputReadiness, Readiness: &ReadinessInput{Source: name, Failure: s.failure}})
		return
	}
	var all []ReadyObject
	for _, namespace := range sortedKeys(s.objects) {
		for _, object := range sortedKeys(s.objects[namespace]) {
			all = append(all, s.objects[namespace][object].whole())
		}
	}
	for _, in := range readinessInputs(name, all, s.failures) {
		add(Input{Kind: InputReadiness, Readiness: in})
	}
}

// maxReadinessInput is how many objects an input has at most. All are for the Placements of one
// namespace.
const maxReadinessInput = 100

// readinessInputs returns the inputs that replace all that is known of a source.
func readinessInputs(source string, all []ReadyObject, failures map[string]string) []*ReadinessInput {
	inputs := []*ReadinessInput{{Source: source, Replaces: true, Failures: maps.Clone(failures)}}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b ReadyObject) int { return strings.Compare(a.scope().Namespace, b.scope().Namespace) })
	for len(sorted) > 0 {
		n := 1
		for n < min(len(sorted), maxReadinessInput) && sorted[n].scope().Namespace == sorted[0].scope().Namespace {
			n++
		}
		inputs = append(inputs, &ReadinessInput{Source: source, Objects: sorted[:n:n]})
		sorted = sorted[n:]
	}
	return inputs
}
