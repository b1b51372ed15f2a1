package explore

import (
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// recordedChange returns the change of the open record, without what the pages have already; nil if
// there is no open record. Only the controller decides what is held or published in steps: the
// engine of the explorer does not know how long clusters have been ready, for example.
func recordedChange(subject *framework.Subject) *simulator.Pending {
	record := changes.History(subject.Records).Open()
	if record == nil {
		return nil
	}
	p := &simulator.Pending{Reason: string(record.Status.Phase), Message: record.Status.Message, Added: []string{}, Removed: []string{}}
	added, removed, err := changes.Lists(record)
	if err != nil {
		p.Message += " " + err.Error() + "."
		return p
	}
	has := published(subject)
	kept := changes.Minus(removed, has)
	p.Added = append(p.Added, changes.Minus(added, has)...)
	p.Removed = append(p.Removed, changes.Minus(removed, kept)...)
	return p
}

// pending returns the change of a Placement that is not published, or not in full; nil if there is
// none. The report adds how far each cluster is. After a what-if, the change is that of the
// decision.
func (w *world) pending(subject *framework.Subject, report *simulator.Report) *simulator.Pending {
	var decided *simulator.Pending
	if report != nil {
		decided = report.Pending
	}
	if w.isWhatIf {
		return decided
	}
	p := recordedChange(subject)
	if p != nil && decided != nil {
		p.Moving = slices.DeleteFunc(slices.Clone(decided.Moving), func(m berthv1alpha1.MovingCluster) bool {
			return !slices.Contains(p.Added, m.Cluster) && !slices.Contains(p.Removed, m.Cluster)
		})
	}
	return p
}

// recordedTarget returns the clusters that a Placement has once its open change is published.
func recordedTarget(subject *framework.Subject) []string {
	has := published(subject)
	if p := recordedChange(subject); p != nil {
		return changes.Sorted(append(changes.Minus(has, p.Removed), p.Added...))
	}
	return has
}

// pendingText returns why a change of a cluster is not published; empty if it does not change.
func pendingText(p *simulator.Pending, cluster string) string {
	switch {
	case p == nil || !slices.Contains(p.Added, cluster) && !slices.Contains(p.Removed, cluster):
		return ""
	case p.StateOf(cluster) != "":
		return p.StateOf(cluster) + ". " + p.Message
	case p.Message != "":
		return p.Message
	}
	return "The change is being published."
}
