package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// placement returns the details of a Placement, without its events and actions.
func (w *world) placement(name string, a answer) (*PlacementDetails, error) {
	subject, err := w.subject(name)
	if err != nil {
		return nil, err
	}
	row, _ := w.placementRow(subject.Key())
	pl := subject.Placement
	d := &PlacementDetails{
		PlacementRow: row, Labels: pl.Labels, Generation: pl.Generation,
		Conditions: conditionsInWords(pl.Status.Conditions), Groups: groupsOf(subject), History: []ChangeRow{}, Events: []Event{}, Policies: policiesOf(subject),
	}
	for _, record := range slices.Backward(subject.Records) {
		d.History = append(d.History, changeRow(record))
		if changes.IsOpen(record) && len(d.History) == 1 {
			for _, hold := range record.Status.Holds {
				shown := Hold{Plugin: hold.Plugin, Reason: hold.Reason}
				if hold.Until != nil {
					shown.Until = hold.Until.Time
				}
				d.Holds = append(d.Holds, shown)
			}
		}
	}
	report := a.report
	d.Pending = w.pending(subject, report)
	switch {
	case a.err != nil:
		d.Note = a.err.Error()
	case report.Answer == nil:
		d.Note = "The Placement is not decided: it is " + report.Skipped + "."
	default:
		d.Intents = report.Intents
		for _, c := range report.Counts {
			d.Counts = append(d.Counts, ReasonCount{Text: berthv1alpha1.CountText(c.Reason), Count: int(c.Clusters)})
		}
	}
	return d, nil
}

// yaml returns an object as kubectl get -o yaml prints it.
func (w *world) yaml(kindName, name string) (*ObjectYAML, error) {
	kind, known := kinds.Named(kindName)
	if !known {
		return nil, fmt.Errorf("kind: %w: %q is not one of %s", errInvalid, kindName, strings.Join(kinds.Names(), ", "))
	}
	key := types.NamespacedName{Name: name}
	if kind.Namespaced {
		key = keyOf(name)
	}
	for _, object := range objectsOf(w.inventory) {
		if of, _ := kinds.Of(object); of.Name != kind.Name || client.ObjectKeyFromObject(object) != key {
			continue
		}
		object = object.DeepCopyObject().(client.Object)
		object.GetObjectKind().SetGroupVersionKind(kind.GroupVersion.WithKind(kind.Name))
		object.SetManagedFields(nil)
		return &ObjectYAML{Text: yamlOf(object)}, nil
	}
	return nil, fmt.Errorf("the %s %q: %w", kind.Name, name, errUnknown)
}

func yamlOf(object any) string {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// groupsOf returns the published pages by decision group, in the order of the groups.
func groupsOf(subject *framework.Subject) []Group {
	groups := []Group{}
	for _, page := range subject.OwnPages() {
		name, index := page.Labels[v1alpha1.DecisionGroupNameLabel], page.Labels[v1alpha1.DecisionGroupIndexLabel]
		shown := Page{Name: page.Name, Revision: page.Annotations[berthv1alpha1.RevisionAnnotation], Clusters: []string{}}
		for _, decision := range page.Status.Decisions {
			shown.Clusters = append(shown.Clusters, decision.ClusterName)
		}
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == name && g.Index == index })
		if i < 0 {
			i = len(groups)
			groups = append(groups, Group{Name: name, Index: index})
		}
		groups[i].Pages = append(groups[i].Pages, shown)
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		// Indexes are numbers: a shorter one is smaller.
		if len(a.Index) != len(b.Index) {
			return len(a.Index) - len(b.Index)
		}
		return strings.Compare(a.Index, b.Index)
	})
	return groups
}

func policiesOf(subject *framework.Subject) []Policy {
	policies := []Policy{}
	for _, p := range subject.DisruptionPolicies {
		policies = append(policies, Policy{Kind: "DisruptionPolicy", Name: p.Name, Spec: yamlOf(p.Spec), Conditions: conditionsInWords(p.Status.Conditions)})
	}
	for _, p := range subject.SelectionPolicies {
		policies = append(policies, Policy{Kind: "SelectionPolicy", Name: p.Name, Spec: yamlOf(p.Spec), Conditions: conditionsInWords(p.Status.Conditions)})
	}
	return policies
}

// cluster returns the details of a cluster, without its actions.
func (w *world) cluster(name string) (*ClusterDetails, error) {
	if _, ok := slices.BinarySearch(w.names, name); !ok {
		return nil, fmt.Errorf("the cluster %q: %w", name, errUnknown)
	}
	fleet, sets := w.inventory.View()
	d := &ClusterDetails{ClusterRow: w.clusterRow(fleet, sets, name), SelectedBy: []string{}}
	w.addUses(d, name)
	c := fleet.Cluster(name)
	if c == nil {
		d.Note = "Only its name is known: it is in a published decision, and there is no such ManagedCluster, or you may not list ManagedClusters."
		return d, nil
	}
	for _, claim := range slices.Sorted(maps.Keys(c.Claims)) {
		d.Claims = append(d.Claims, Claim{claim, c.Claims[claim]})
	}
	for i, t := range c.Spec.Taints {
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		shown := Taint{Text: text + ":" + string(t.Effect), Since: t.TimeAdded.Time}
		if shown.Since.IsZero() && i < len(c.TaintTimes) && c.TaintTimes[i].Year() > 1 {
			shown.Since = c.TaintTimes[i]
		}
		d.TaintList = append(d.TaintList, shown)
	}
	d.Conditions = conditionsInWords(c.Status.Conditions)
	for _, name := range resourceNames(c) {
		d.Resources = append(d.Resources, resourceOf(fleet, c, name))
	}
	return d, nil
}

// addUses adds the Placements that have, get or lose a cluster, and its evictions.
func (w *world) addUses(d *ClusterDetails, name string) {
	for _, key := range w.inventory.Placements() {
		subject := w.inventory.Subject(key)
		if subject == nil {
			continue
		}
		if slices.Contains(published(subject), name) {
			d.SelectedBy = append(d.SelectedBy, key.String())
		}
		if p := recordedChange(subject); p != nil && (slices.Contains(p.Added, name) || slices.Contains(p.Removed, name)) {
			d.OpenChanges = append(d.OpenChanges, ClusterMove{Placement: key.String(), Added: slices.Contains(p.Added, name), State: p.Reason})
		}
		for _, e := range subject.Evictions {
			if e.Cluster == name {
				d.Evictions = append(d.Evictions, EvictionInfo{Placement: key.String(), Name: e.Name, Text: evictionText(&e, w.now())})
			}
		}
	}
}

func evictionText(e *framework.Eviction, now time.Time) string {
	switch {
	case e.Until.IsZero():
		return "to be removed"
	case e.Until.After(now):
		return "removed, and not selected again until " + e.Until.UTC().Format(time.RFC3339)
	}
	return "removed"
}

// resourceNames returns the names of the resources that a cluster reports, sorted.
func resourceNames(c *framework.Cluster) []v1alpha1.ResourceName {
	names := maps.Clone(c.Status.Capacity)
	if names == nil {
		names = v1alpha1.ResourceList{}
	}
	maps.Copy(names, c.Status.Allocatable)
	return slices.Sorted(maps.Keys(names))
}

// resourceOf returns a resource of a cluster with what is requested of it.
func resourceOf(fleet *framework.Fleet, c *framework.Cluster, name v1alpha1.ResourceName) Resource {
	r := Resource{Name: string(name), Requested: requestedOf(fleet, c.Index, name)}
	if q, ok := c.Status.Capacity[name]; ok {
		r.Capacity = q.String()
	}
	if q, ok := c.Status.Allocatable[name]; ok {
		r.Allocatable = q.String()
	}
	return r
}

// keyOf reads NAMESPACE/NAME.
func keyOf(placement string) types.NamespacedName {
	namespace, name, _ := strings.Cut(placement, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// requestedOf is what Placements request of a resource of a cluster; empty if nothing.
func requestedOf(fleet *framework.Fleet, index int, name v1alpha1.ResourceName) string {
	var sum int64
	for _, request := range fleet.CapacityRequests.Get(index) {
		sum = framework.AddUnits(sum, request.Amounts[name])
	}
	switch {
	case sum == 0:
		return ""
	case name == v1alpha1.ResourceCPU:
		return resource.NewMilliQuantity(sum, resource.DecimalSI).String()
	case name == v1alpha1.ResourceMemory:
		return resource.NewQuantity(sum, resource.BinarySI).String()
	}
	return resource.NewQuantity(sum, resource.DecimalSI).String()
}
