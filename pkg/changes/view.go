package changes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// View is a record as it is shown to people and programs. Its JSON form is a public interface.
type View struct {
	Placement     string    `json:"placement"`
	Revision      int64     `json:"revision"`
	FirstRevision int64     `json:"firstRevision,omitempty"`
	Time          time.Time `json:"time"`
	Phase         string    `json:"phase,omitempty"`
	Cause         string    `json:"cause"`
	// By is who edited the Placement, and Before the changed fields of its spec as they were, if an
	// edit caused the change.
	By      string         `json:"by,omitempty"`
	Comment string         `json:"comment,omitempty"`
	Before  map[string]any `json:"before,omitempty"`
	Profile string         `json:"profile,omitempty"`
	// Clusters is the number of selected clusters after the change.
	Clusters     int32                         `json:"clusters"`
	AddedCount   int32                         `json:"addedCount"`
	RemovedCount int32                         `json:"removedCount"`
	Approval     *berthv1alpha1.ChangeApproval `json:"approval,omitempty"`
	Holds        []berthv1alpha1.ChangeHold    `json:"holds,omitempty"`
	Message      string                        `json:"message,omitempty"`
	// Remaining are the numbers of clusters that a change in progress has still to add and remove.
	Remaining *berthv1alpha1.RemainingClusters `json:"remaining,omitempty"`
	// MissingBefore is true if changes before this one have no record.
	MissingBefore bool `json:"missingBefore,omitempty"`

	// Incomplete is the reason why Added and Removed do not list all clusters.
	Incomplete string   `json:"incomplete,omitempty"`
	Added      []string `json:"added,omitempty"`
	Removed    []string `json:"removed,omitempty"`
}

// Began returns when a change began.
func Began(record *berthv1alpha1.PlacementChange) time.Time {
	if record.Status.StartTime != nil {
		return record.Status.StartTime.Time
	}
	return record.CreationTimestamp.Time
}

// ViewOf returns the view of a record without its lists of clusters.
func ViewOf(record *berthv1alpha1.PlacementChange) *View {
	view := &View{
		Placement: record.Namespace + "/" + record.Spec.Placement, Revision: record.Spec.Revision, FirstRevision: record.Spec.FirstRevision,
		Time: Began(record).UTC(), Phase: string(record.Status.Phase), Cause: record.Spec.Cause, By: record.Spec.By, Comment: record.Spec.Comment, Profile: record.Spec.Profile,
		Clusters: record.Spec.Clusters, AddedCount: record.Spec.AddedCount, RemovedCount: record.Spec.RemovedCount,
		Approval: ApprovalOf(record), Holds: record.Status.Holds, Message: record.Status.Message,
	}
	// Only Berth writes the field; what it cannot have written is not shown.
	_ = json.Unmarshal([]byte(record.Spec.Before), &view.Before)
	if record.Status.Phase == berthv1alpha1.PhaseProgressing {
		view.Remaining = record.Status.Remaining
	}
	return view
}

// WithClusters adds the lists of clusters, complete if the record has all of them.
func (v *View) WithClusters(record *berthv1alpha1.PlacementChange) *View {
	var err error
	if v.Added, v.Removed, err = Lists(record); err != nil {
		v.Incomplete, v.Added, v.Removed = err.Error(), record.Spec.Added, record.Spec.Removed
	}
	return v
}

// CauseText is the cause; that of a merged record counts the earlier ones.
func (v *View) CauseText() string {
	if v.FirstRevision == 0 || v.FirstRevision == v.Revision {
		return v.Cause
	}
	return fmt.Sprintf("%s and %d more", v.Cause, v.Revision-v.FirstRevision)
}

// Revisions is the revision, or the range that a merged record covers.
func (v *View) Revisions() string { return Revisions(v.FirstRevision, v.Revision) }

// Revisions is the revision, or the range that a merged record covers.
func Revisions(first, last int64) string {
	if first == 0 || first == last {
		return fmt.Sprint(last)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// NotEndedByApproval begins the sentence of a message that names the plugins whose holds an
// approval does not end.
const NotEndedByApproval = "An approval does not end the hold by "

// HoldText describes a hold in a line. approvalEnds is true if an approval, which is not given yet,
// ends it.
func HoldText(hold berthv1alpha1.ChangeHold, approvalEnds bool) string {
	text := hold.Plugin + ": " + hold.Reason
	if hold.Until == nil {
		return text
	}
	text += " (expires " + hold.Until.UTC().Format(time.RFC3339)
	if approvalEnds {
		text += " if not approved"
	}
	return text + ")"
}

// HoldTexts describes the holds, each in a line.
func (v *View) HoldTexts() []string {
	_, message, _ := strings.Cut(v.Message, NotEndedByApproval)
	names := strings.Fields(message)
	texts := make([]string, len(v.Holds))
	for i, hold := range v.Holds {
		stays := slices.ContainsFunc(names, func(name string) bool { return strings.TrimSuffix(name, ".") == hold.Plugin })
		texts[i] = HoldText(hold, v.Approval == nil && !stays)
	}
	return texts
}
