package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// PartOf returns the Plan that publishes only a part of a step, after its other writes failed:
// listed are the clusters on the pages then, before those on the pages that the step began with,
// both sorted. It returns nil if no cluster came or left. If the change has a record, that is in
// progress from now on; else it ends with the part, and gets a record of that.
func (p *Plan) PartOf(step *framework.Proposal, before, listed []string) *Plan {
	subject := p.Snapshot.Subject
	last := subject.LastNames()
	left := changes.Minus(changes.Minus(before, listed), step.Clusters)
	came := inBothLists(changes.Minus(listed, before), step.Clusters)
	names := changes.Sorted(slices.Concat(changes.Minus(last, left), came))
	if p.Change == nil || step.Kind == framework.Republication || slices.Equal(names, last) {
		return nil
	}
	part := *step
	part.Clusters, part.Digest, part.Partial = names, framework.DigestOf(names), true
	part.Added, part.Removed = changes.Between(last, names)
	part.Leaves = changes.Minus(names, changes.Minus(step.Clusters, step.Leaves))
	part.Selected = slices.DeleteFunc(slices.Clone(step.Selected), func(s framework.SelectedCluster) bool { return !changes.Contains(names, s.Cluster.Name) })
	for _, name := range changes.Minus(names, step.Clusters) {
		part.Selected = append(part.Selected, framework.SelectedCluster{Cluster: clusterOf(p.Snapshot, name), Score: subject.Last.Scores[name]})
	}
	next := *p
	next.Publish = &part
	next.Records.after = slices.Clone(p.Records.after)
	for i, w := range next.Records.after {
		if w.record.Spec.Revision == p.Change.Revision {
			next.Records.after[i].update = func(status *berthv1alpha1.PlacementChangeStatus) {
				recordPart(w.record, status, names, metav1.Time{Time: p.Snapshot.Now.Truncate(time.Second)})
			}
		}
	}
	return &next
}

// recordPart stores that a part of a change is published, which leads to names.
func recordPart(record *berthv1alpha1.PlacementChange, status *berthv1alpha1.PlacementChangeStatus, names []string, now metav1.Time) {
	progress := Progress{Added: int(record.Spec.AddedCount), Removed: int(record.Spec.RemovedCount)}
	if status.Remaining = changes.RemainingOf(record, names); status.Remaining != nil {
		progress.LeftAdded, progress.LeftRemoved = int(status.Remaining.Added), int(status.Remaining.Removed)
	}
	status.Phase, status.Holds, status.LastProgressTime = berthv1alpha1.PhaseProgressing, nil, &now
	status.Message = v1alpha1.CutText(progress.String(), maxMessage)
}
