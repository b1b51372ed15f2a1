package app

import (
	"context"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
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
	pages, err := actions.ReadPages(ctx, hub)
	if apierrors.IsForbidden(err) {
		return names, nil
	} else if err != nil {
		return nil, err
	}
	published := map[string][]string{}
	for _, page := range pages {
		key := page.Namespace + "/" + page.PlacementName()
		for _, d := range page.Status.Decisions {
			if _, unavailable := slices.BinarySearch(names, d.ClusterName); unavailable {
				published[key] = append(published[key], d.ClusterName)
			}
		}
	}
	for _, s := range statuses {
		s.Unavailable = changes.Sorted(published[s.Placement])
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
