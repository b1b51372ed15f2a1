package decide

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/selection"
)

// pin is a revision to which a Placement is pinned, with its clusters, sorted.
type pin struct {
	revision int64
	names    []string
}

func (p *pin) has(name string) bool { return changes.Contains(p.names, name) }

// PinnedRevision returns the revision to which the Placement is pinned; 0 if it is not.
func (r *Decision) PinnedRevision() int64 {
	if r.pin == nil {
		return 0
	}
	return r.pin.revision
}

// MayPin reports whether the pin of the Placement, if it has one, contains a cluster.
func (r *Decision) MayPin(name string) bool { return r.pin == nil || r.pin.has(name) }

// pinField is the path of the annotation in messages.
var pinField = field.NewPath("metadata", "annotations").Key(berthv1alpha1.PinnedRevisionAnnotation)

// validatePin returns the mistake in the annotation that pins a Placement.
func validatePin(pl *v1alpha1.Placement) *field.Error {
	if _, err := changes.PinnedRevision(pl); err != nil {
		return field.Invalid(pinField, pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation], err.Error())
	}
	return nil
}

// readPlacement checks the lists of a Placement and reads its pin.
func (r *Decision) readPlacement(pl *v1alpha1.Placement) *framework.Status {
	if mistake := checkBounds(pl); mistake != nil {
		return misconfigured(mistake)
	}
	return r.readPin()
}

// readPin sets pin. It returns the Status for a revision that cannot be computed.
func (r *Decision) readPin() *framework.Status {
	subject := r.Snapshot.Subject
	pl := subject.Placement
	revision, err := changes.PinnedRevision(pl)
	if err != nil {
		return misconfigured(validatePin(pl))
	}
	if revision == 0 {
		return nil
	}
	history := changes.History(subject.Records)
	names, err := history.At(revision, subject.LastNames())
	switch last := subject.Last; {
	case err == nil:
		r.pin = &pin{revision, names}
		return nil
	case last != nil && last.RecordDue && last.Revision > history.Last():
		// The record of the last published change is written soon.
		r.State.RequeueAt(r.Snapshot.Now.Add(WaitingInterval))
		return framework.Unfinished(fmt.Sprintf("the record of revision %d is not written yet", last.Revision))
	}
	return misconfigured(field.Invalid(pinField, pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation], fmt.Sprintf(
		"the clusters of revision %d are not known: %v; possible revisions are %s", revision, err, changes.RevisionList(history.Computable(subject.LastNames())))))
}

// selectPinned selects the clusters of the pinned revision that still qualify, at most as many as
// wanted, best first.
func (r *Decision) selectPinned() {
	var members []int
	for i, c := range r.Feasible {
		if r.pin.has(c.Name) {
			members = append(members, i)
		}
	}
	c := selection.Candidates{Totals: make([]int64, len(members)), ByName: func(a, b int) int { return r.byName(members[a], members[b]) }}
	for i, member := range members {
		c.Totals[i] = r.Totals[member]
	}
	if demoted := r.demoted(); demoted != nil {
		c.Demoted = func(i int) bool { return demoted(members[i]) }
	}
	// The pin comes before spread constraints, tiers and groups.
	demand := selection.Demand{Number: r.Demand.Wanted(len(r.pin.names)), Limit: r.Demand.Limit}
	chosen, shortfall, _ := selection.Select(&c, &demand, r.Deadline.Passed)
	r.Shortfall = shortfall
	r.Selected = make([]framework.SelectedCluster, len(chosen))
	for i, j := range chosen {
		r.Selected[i] = framework.SelectedCluster{Cluster: r.Feasible[members[j]], Score: c.Totals[j]}
	}
}
