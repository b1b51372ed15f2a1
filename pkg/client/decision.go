package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// These errors tell no decision from an empty one. Keep the clusters that you have.
var (
	// ErrUnknown means that the view of the hub is not complete yet.
	ErrUnknown = errors.New("the view of the hub is not complete")
	// ErrNoPlacement means that the Placement does not exist, and has no PlacementDecision.
	ErrNoPlacement = errors.New("the Placement does not exist")
	// ErrNoDecision means that the Placement has no complete decision.
	ErrNoDecision = errors.New("the Placement has no decision yet")
)

// Cluster is one selected cluster.
type Cluster struct {
	// Name is the name of the ManagedCluster.
	Name string
	// Group and GroupIndex are the decision group; the name is empty for a group without one.
	Group      string
	GroupIndex int
	// Revision is the change that last wrote the page of the cluster; 0 if unknown.
	Revision int64
	// Score is the total score. It is nil unless the Placement's sortBy is Score.
	Score *int64
}

// Clusters returns the union of the published pages of a Placement (Placement.PublishedPages), in
// the published order, each cluster once. While a cluster moves to another page it is on both, and
// has the group with the lower index. The error is ErrNoDecision without pages, and for a page
// without content.
func Clusters(pages []*v1alpha1.PlacementDecision) ([]Cluster, error) {
	if len(pages) == 0 {
		return nil, ErrNoDecision
	}
	pages = slices.Clone(pages)
	slices.SortFunc(pages, func(a, b *v1alpha1.PlacementDecision) int {
		_, i, _ := v1alpha1.NumberOfPage(a.Name)
		_, j, _ := v1alpha1.NumberOfPage(b.Name)
		return cmp.Or(cmp.Compare(groupIndex(a), groupIndex(b)), cmp.Compare(i, j), cmp.Compare(a.Name, b.Name))
	})
	clusters := []Cluster{}
	seen := map[string]bool{}
	for _, page := range pages {
		if page.Status.Decisions == nil {
			return nil, fmt.Errorf("%w: PlacementDecision %s has no content", ErrNoDecision, page.Name)
		}
		revision, _ := strconv.ParseInt(page.Annotations[berthv1alpha1.RevisionAnnotation], 10, 64)
		for _, d := range page.Status.Decisions {
			if seen[d.ClusterName] {
				continue
			}
			seen[d.ClusterName] = true
			clusters = append(clusters, Cluster{
				Name: d.ClusterName, Group: page.Labels[v1alpha1.DecisionGroupNameLabel], GroupIndex: groupIndex(page), Revision: revision, Score: d.Score,
			})
		}
	}
	return clusters, nil
}

func groupIndex(page *v1alpha1.PlacementDecision) int {
	index, _ := strconv.Atoi(page.Labels[v1alpha1.DecisionGroupIndexLabel])
	return index
}
