package app

import (
	"context"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// readUnavailable returns the unavailable clusters, sorted, and sets those of each Placement. It
// returns none to a user who may not list clusters.
func readUnavailable(ctx context.Context, hub client.Reader, statuses []*placementStatus) ([]string, error) {
	var clusters v1alpha1.ManagedClusterList
	if err := hub.List(ctx, &clusters); apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the clusters: %w", err)
	}
	var names []string
	for i := range clusters.Items {
		if clusters.Items[i].Unavailable() {
			names = append(names, clusters.Items[i].Name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	var pages v1alpha1.PlacementDecisionList
	if err := hub.List(ctx, &pages); apierrors.IsForbidden(err) {
		return names, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the pages: %w", err)
	}
	published := map[string][]string{}
	for i := range pages.Items {
		page := &pages.Items[i]
		owner := metav1.GetControllerOf(page)
		if owner == nil || owner.Kind != "Placement" {
			continue
		}
		key := page.Namespace + "/" + owner.Name
		for _, d := range page.Status.Decisions {
			if _, unavailable := slices.BinarySearch(names, d.ClusterName); unavailable {
				published[key] = append(published[key], d.ClusterName)
			}
		}
	}
	for _, s := range statuses {
		s.Unavailable = published[s.Placement]
		slices.Sort(s.Unavailable)
	}
	return names, nil
}

// printUnavailable names the unavailable clusters above the table of -A.
func (o *statusOptions) printUnavailable(out io.Writer) {
	names := o.unavailable
	switch {
	case len(names) == 0 || o.output != "table":
	case len(names) == 1:
		say(out, "1 cluster is unavailable: %s\n\n", names[0])
	default:
		say(out, "%s are unavailable: %s\n\n", number(len(names), "cluster"), list(names, false, ", "))
	}
}

// selectedCell says how many of the clusters are unavailable.
func (s *placementStatus) selectedCell() cell {
	if len(s.Unavailable) == 0 {
		return cell{text: fmt.Sprint(s.Selected)}
	}
	return cell{fmt.Sprintf("%d (%d unavailable)", s.Selected, len(s.Unavailable)), red}
}
