package actions

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// ReadState returns a Placement with what its states depend on. Policies that the user may not list
// are left out. Without PlacementChanges on the hub, it returns ErrNoRecords, too.
func ReadState(ctx context.Context, hub client.Reader, key types.NamespacedName) (changes.StateInput, error) {
	pl, history, noRecords := ReadHistory(ctx, hub, key)
	if noRecords != nil && !errors.Is(noRecords, ErrNoRecords) {
		return changes.StateInput{}, noRecords
	}
	policies, err := readPolicies(ctx, hub, key.Namespace)
	if err != nil {
		return changes.StateInput{}, err
	}
	return policies.with(changes.StateInput{Placement: pl, History: history}), noRecords
}

// ReadStates is ReadState for all Placements of a namespace, or with "" of all namespaces, in order
// of namespace and name. It lists each kind once.
func ReadStates(ctx context.Context, hub client.Reader, namespace string) ([]changes.StateInput, error) {
	var placements v1alpha1.PlacementList
	if err := hub.List(ctx, &placements, client.InNamespace(namespace)); err != nil {
		return nil, ListFailed(err, namespace)
	}
	records, noRecords := readRecords(ctx, hub, namespace)
	if noRecords != nil && !errors.Is(noRecords, ErrNoRecords) {
		return nil, noRecords
	}
	policies, err := readPolicies(ctx, hub, namespace)
	if err != nil {
		return nil, err
	}
	all := make([]changes.StateInput, len(placements.Items))
	for i := range placements.Items {
		pl := &placements.Items[i]
		all[i] = policies.with(changes.StateInput{Placement: pl, History: changes.HistoryOf(pl, records[client.ObjectKeyFromObject(pl)])})
	}
	return all, noRecords
}

// ListFailed is the error for a list of Placements that failed.
func ListFailed(err error, namespace string) error {
	if apierrors.IsForbidden(err) && namespace == "" {
		return fmt.Errorf("reading the Placements of all namespaces needs permission to list them there; -n NAMESPACE shows one namespace: %w", err)
	}
	return fmt.Errorf("reading the Placements: %w", err)
}

// readRecords returns the records by the Placement of their label.
func readRecords(ctx context.Context, hub client.Reader, namespace string) (map[types.NamespacedName][]*berthv1alpha1.PlacementChange, error) {
	var list berthv1alpha1.PlacementChangeList
	err := hub.List(ctx, &list, client.InNamespace(namespace))
	switch {
	case err == nil:
	case notServed(err):
		return nil, ErrNoRecords
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("reading the changes needs permission to list placementchanges: %w", err)
	default:
		return nil, fmt.Errorf("reading the changes: %w", err)
	}
	records := map[types.NamespacedName][]*berthv1alpha1.PlacementChange{}
	for i := range list.Items {
		record := &list.Items[i]
		key := types.NamespacedName{Namespace: record.Namespace, Name: record.Labels[v1alpha1.PlacementLabel]}
		records[key] = append(records[key], record)
	}
	return records, nil
}

func notServed(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// policies are those of one namespace or of all.
type policies struct {
	disruption []*berthv1alpha1.DisruptionPolicy
	selects    []func(*v1alpha1.Placement) bool
	selection  map[types.NamespacedName][]*berthv1alpha1.SelectionPolicy
}

func readPolicies(ctx context.Context, hub client.Reader, namespace string) (policies, error) {
	p := policies{selection: map[types.NamespacedName][]*berthv1alpha1.SelectionPolicy{}}
	var disruption berthv1alpha1.DisruptionPolicyList
	var selection berthv1alpha1.SelectionPolicyList
	for _, list := range []client.ObjectList{&disruption, &selection} {
		if err := hub.List(ctx, list, client.InNamespace(namespace)); err != nil && !notServed(err) && !apierrors.IsForbidden(err) {
			return p, fmt.Errorf("reading the policies: %w", err)
		}
	}
	for i := range disruption.Items {
		selects, _ := changes.Selects(&disruption.Items[i]) // an invalid selector selects nothing
		p.disruption, p.selects = append(p.disruption, &disruption.Items[i]), append(p.selects, selects)
	}
	for i := range selection.Items {
		policy := &selection.Items[i]
		key := types.NamespacedName{Namespace: policy.Namespace, Name: policy.Spec.Placement}
		p.selection[key] = append(p.selection[key], policy)
	}
	return p, nil
}

// with adds the policies of a Placement.
func (p policies) with(in changes.StateInput) changes.StateInput {
	in.SelectionPolicies = p.selection[client.ObjectKeyFromObject(in.Placement)]
	for i, policy := range p.disruption {
		if p.selects[i](in.Placement) {
			in.DisruptionPolicies = append(in.DisruptionPolicies, policy)
		}
	}
	return in
}
