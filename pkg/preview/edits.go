package preview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/simulator"
)

// EditOf returns what an action does as an edit.
func EditOf(p *actions.Prepared) simulator.Edit {
	if !actions.OnPlacement(p.Verb) {
		return simulator.Edit{Kind: simulator.EditDrain, Cluster: p.Cluster, Remove: p.Verb == actions.Undrain}
	}
	return simulator.Edit{Kind: simulator.EditReplace, Object: p.Object}
}

// whatIf is edits as parts of questions.
type whatIf struct {
	// placements are Placements as they would be, evictions are of single Placements.
	placements map[types.NamespacedName]*v1alpha1.Placement
	evictions  map[types.NamespacedName][]berthv1alpha1.ClusterEdit
	clusters   []berthv1alpha1.ClusterEdit
}

func (a *Asker) newWhatIf(ctx context.Context, edits []simulator.Edit) (*whatIf, error) {
	w := &whatIf{placements: map[types.NamespacedName]*v1alpha1.Placement{}, evictions: map[types.NamespacedName][]berthv1alpha1.ClusterEdit{}}
	for i := range edits {
		if err := edits[i].Check(); err != nil {
			return nil, err
		}
		if cluster, ok := edits[i].OfClusters(); ok {
			w.clusters = append(w.clusters, cluster)
		} else if err := a.addObject(ctx, w, &edits[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// addObject adds an edit of a Placement or an eviction. The controller previews no other objects.
func (a *Asker) addObject(ctx context.Context, w *whatIf, edit *simulator.Edit) error {
	replacement := client.Object(nil)
	if edit.Kind == simulator.EditReplace {
		var err error
		if replacement, err = edit.Replacement(); err != nil {
			return err
		}
	}
	switch object := replacement.(type) {
	case *v1alpha1.Placement:
		w.placements[client.ObjectKeyFromObject(object)] = object
		return nil
	case *berthv1alpha1.PlacementEviction:
		key := types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.Placement}
		w.evictions[key] = append(w.evictions[key], berthv1alpha1.ClusterEdit{Kind: simulator.EditEvict, Cluster: object.Spec.Cluster})
		return nil
	}
	if edit.Kind != simulator.EditNumber {
		return fmt.Errorf("%s: without permission to list the fleet (role berth-fleet-viewer), only edits of Placements and clusters are shown: %w", nameOf(edit, replacement), a.Forbidden)
	}
	namespace, name, _ := strings.Cut(edit.Placement, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if w.placements[key] == nil {
		pl, err := actions.ReadPlacement(ctx, a.Hub, key)
		if err != nil {
			return err
		}
		w.placements[key] = pl
	}
	numbered := w.placements[key].DeepCopy()
	numbered.Spec.NumberOfClusters = edit.Number
	w.placements[key] = numbered
	return nil
}

// nameOf names what an edit edits.
func nameOf(edit *simulator.Edit, replacement client.Object) string {
	if replacement == nil {
		return edit.Kind + " " + edit.Type + " " + edit.Name
	}
	kind := replacement.GetObjectKind().GroupVersionKind().Kind
	if known, ok := kinds.Of(replacement); ok {
		kind = known.Name
	}
	return edit.Kind + " " + kind + " " + replacement.GetName()
}

// lastApplied is an annotation that decisions do not depend on and that may be long.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// spec returns the question for a Placement. It asks for one verdict, the least possible.
func (w *whatIf) spec(key types.NamespacedName) berthv1alpha1.PlacementExplanationSpec {
	spec := berthv1alpha1.PlacementExplanationSpec{Placement: key.Name, Limit: 1, Edits: append(slices.Clone(w.clusters), w.evictions[key]...)}
	if pl := w.placements[key]; pl != nil {
		annotations := maps.Clone(pl.Annotations)
		delete(annotations, lastApplied)
		spec.Template = &berthv1alpha1.PlacementTemplate{Metadata: berthv1alpha1.TemplateMetadata{Labels: pl.Labels, Annotations: annotations}, Spec: pl.Spec}
	}
	return spec
}

// affected returns the Placements whose decision the edits may change: those that they name, and
// with an edit of clusters all of the namespace.
func (a *Asker) affected(ctx context.Context, namespace string, w *whatIf) ([]types.NamespacedName, error) {
	affected := map[types.NamespacedName]bool{}
	for key := range w.placements {
		affected[key] = true
	}
	for key := range w.evictions {
		affected[key] = true
	}
	if len(w.clusters) > 0 {
		var list v1alpha1.PlacementList
		if err := a.Hub.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, actions.ListFailed(err, namespace)
		}
		for i := range list.Items {
			affected[client.ObjectKeyFromObject(&list.Items[i])] = true
		}
	}
	return slices.SortedFunc(maps.Keys(affected), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }), nil
}
