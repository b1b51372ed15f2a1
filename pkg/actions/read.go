package actions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// ErrNoRecords is returned for a hub with only the CRDs of Open Cluster Management.
var ErrNoRecords = errors.New("the hub does not serve PlacementChanges (berth.dev/v1alpha1): the CRDs of Berth's own kinds are not installed")

// ReadPlacement returns a Placement.
func ReadPlacement(ctx context.Context, hub client.Reader, key types.NamespacedName) (*v1alpha1.Placement, error) {
	pl := &v1alpha1.Placement{}
	err := hub.Get(ctx, key, pl)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Placement %s", key)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Placement %s: %w", key, err)
	}
	return pl, nil
}

// ReadHistory returns a Placement and its records, without those of an earlier Placement of the
// same name.
func ReadHistory(ctx context.Context, hub client.Reader, key types.NamespacedName) (*v1alpha1.Placement, changes.History, error) {
	pl, err := ReadPlacement(ctx, hub, key)
	if err != nil {
		return nil, nil, err
	}
	var records berthv1alpha1.PlacementChangeList
	err = hub.List(ctx, &records, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: key.Name})
	switch {
	case err == nil:
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return pl, nil, ErrNoRecords
	case apierrors.IsForbidden(err):
		return nil, nil, fmt.Errorf("reading the changes of Placement %s needs permission to list placementchanges: %w", key, err)
	default:
		return nil, nil, fmt.Errorf("reading the changes of Placement %s: %w", key, err)
	}
	all := make([]*berthv1alpha1.PlacementChange, len(records.Items))
	for i := range records.Items {
		all[i] = &records.Items[i]
	}
	return pl, changes.HistoryOf(pl, all), nil
}

// publishedClusters are the clusters that are published for a Placement, unsorted.
func publishedClusters(ctx context.Context, hub client.Reader, pl *v1alpha1.Placement) ([]string, error) {
	var pages v1alpha1.PlacementDecisionList
	err := hub.List(ctx, &pages, client.InNamespace(pl.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: pl.Name})
	if err != nil {
		return nil, fmt.Errorf("reading the published clusters of Placement %s/%s: %w", pl.Namespace, pl.Name, err)
	}
	var names []string
	for i := range pages.Items {
		if pl.Publishes(&pages.Items[i]) {
			for _, decision := range pages.Items[i].Status.Decisions {
				names = append(names, decision.ClusterName)
			}
		}
	}
	return names, nil
}

// ReadPages returns the pages of a hub that count as published for their Placement.
func ReadPages(ctx context.Context, hub client.Reader) ([]*v1alpha1.PlacementDecision, error) {
	var pages v1alpha1.PlacementDecisionList
	if err := hub.List(ctx, &pages); err != nil {
		return nil, fmt.Errorf("reading the PlacementDecisions: %w", err)
	}
	var placements metav1.PartialObjectMetadataList
	placements.SetGroupVersionKind(v1alpha1.GroupVersionV1Beta1.WithKind("PlacementList"))
	if err := hub.List(ctx, &placements); err != nil {
		return nil, fmt.Errorf("reading the Placements: %w", err)
	}
	byKey := map[types.NamespacedName]*v1alpha1.Placement{}
	for _, pl := range placements.Items {
		byKey[client.ObjectKeyFromObject(&pl)] = &v1alpha1.Placement{ObjectMeta: pl.ObjectMeta}
	}
	var published []*v1alpha1.PlacementDecision
	for i := range pages.Items {
		page := &pages.Items[i]
		if pl := byKey[types.NamespacedName{Namespace: page.Namespace, Name: page.PlacementName()}]; pl != nil && pl.Publishes(page) {
			published = append(published, page)
		}
	}
	return published, nil
}

// UsersOf returns the Placements whose published decisions list one of the clusters, sorted.
func UsersOf(ctx context.Context, hub client.Reader, clusters ...string) ([]string, error) {
	pages, err := ReadPages(ctx, hub)
	if err != nil {
		return nil, err
	}
	var users []string
	named := sets.New(clusters...)
	for _, page := range pages {
		if slices.ContainsFunc(page.Status.Decisions, func(d v1alpha1.ClusterDecision) bool { return named.Has(d.ClusterName) }) {
			users = append(users, page.Namespace+"/"+page.PlacementName())
		}
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// RecordOf returns the record that covers a revision.
func RecordOf(history changes.History, key types.NamespacedName, revision int64) (*berthv1alpha1.PlacementChange, error) {
	var known []string
	for _, record := range history {
		first, last := record.Spec.FirstRevision, record.Spec.Revision
		if revision == last || first > 0 && first <= revision && revision <= last {
			return record, nil
		}
		known = append(known, changes.Revisions(first, last))
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("there is no record of revision %d: Placement %s has no recorded changes", revision, key)
	}
	return nil, fmt.Errorf("there is no record of revision %d of Placement %s; there are %s", revision, key, strings.Join(known, ", "))
}
