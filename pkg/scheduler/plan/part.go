package plan

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PartOf returns the Plan of what is published of a step after one of its writes failed: listed are
// the clusters on the pages then, sorted. It returns nil if no cluster came or left. If the change
// has a record, that is in progress from now on, unless all of its clusters are published. Else the
// change ends with the part, and gets a record of that.
func (p *Plan) PartOf(step *framework.Proposal, listed []string) *Plan {
	subject := p.Snapshot.Subject
	last := subject.LastNames()
	left := changes.Minus(changes.Minus(last, listed), step.Clusters)
	came := changes.Minus(changes.Both(listed, step.Clusters), last)
	if p.Change == nil || step.Kind == framework.Republication || len(step.Writes) == 0 || len(left)+len(came) == 0 {
		return nil
	}
	part, next := *step, *p
	next.Publish = &part
	names := changes.Sorted(slices.Concat(changes.Minus(last, left), came))
	if slices.Equal(names, step.Clusters) {
		return &next
	}
	part.Clusters, part.Digest, part.Partial = names, framework.DigestOf(names), true
	part.Added, part.Removed = came, left
	part.Leaves = changes.Minus(names, changes.Minus(step.Clusters, step.Leaves))
	part.Selected = slices.DeleteFunc(slices.Clone(step.Selected), func(s framework.SelectedCluster) bool { return !changes.Contains(names, s.Cluster.Name) })
	for _, name := range changes.Minus(names, step.Clusters) {
		part.Selected = append(part.Selected, framework.SelectedCluster{Cluster: clusterOf(p.Snapshot, name), Score: subject.Last.Scores[name]})
	}
	next.Records.after = slices.Clone(p.Records.after)
	for i, w := range next.Records.after {
		if w.record.Spec.Revision == p.Change.Revision {
			next.Records.after[i].update = func(status *berthv1alpha1.PlacementChangeStatus) {
				recordPart(w.record, status, &part, metav1.Time{Time: p.Snapshot.Now.Truncate(time.Second)})
			}
		}
	}
	return &next
}

// recordPart stores that a part of a change is published.
func recordPart(record *berthv1alpha1.PlacementChange, status *berthv1alpha1.PlacementChangeStatus, part *framework.Proposal, now metav1.Time) {
	left := changes.RemainingOf(record, part.Clusters)
	if left == nil { // The record does not list its clusters.
		before := cmp.Or(status.Remaining, &berthv1alpha1.RemainingClusters{Added: record.Spec.AddedCount, Removed: record.Spec.RemovedCount})
		left = &berthv1alpha1.RemainingClusters{Added: max(0, before.Added-int32(len(part.Added))), Removed: max(0, before.Removed-int32(len(part.Removed)))}
	}
	progress := Progress{Added: int(record.Spec.AddedCount), Removed: int(record.Spec.RemovedCount), LeftAdded: int(left.Added), LeftRemoved: int(left.Removed)}
	status.Phase, status.Holds, status.LastProgressTime, status.Remaining = berthv1alpha1.PhaseProgressing, nil, &now, left
	status.Message = v1alpha1.CutText(progress.String(), maxMessage)
}
