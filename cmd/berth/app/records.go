package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
)

// changeView is the shown form of a record. Its json and yaml output is a public interface.
type changeView struct {
	Placement     string    `json:"placement"`
	Revision      int64     `json:"revision"`
	FirstRevision int64     `json:"firstRevision,omitempty"`
	Time          time.Time `json:"time"`
	Phase         string    `json:"phase,omitempty"`
	Cause         string    `json:"cause"`
	// By is who edited the Placement, and Before the changed fields of its spec as they were, if an
	// edit caused the change.
	By      string         `json:"by,omitempty"`
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

// viewOf returns the view of a record without its lists of clusters.
func viewOf(record *berthv1alpha1.PlacementChange) *changeView {
	started := &record.CreationTimestamp
	if record.Status.StartTime != nil {
		started = record.Status.StartTime
	}
	view := &changeView{
		Placement: record.Namespace + "/" + record.Spec.Placement, Revision: record.Spec.Revision, FirstRevision: record.Spec.FirstRevision,
		Time: started.UTC(), Phase: string(record.Status.Phase), Cause: record.Spec.Cause, By: record.Spec.By, Profile: record.Spec.Profile,
		Clusters: record.Spec.Clusters, AddedCount: record.Spec.AddedCount, RemovedCount: record.Spec.RemovedCount,
		Approval: changes.ApprovalOf(record), Holds: record.Status.Holds, Message: record.Status.Message,
	}
	// Only Berth writes the field; what it cannot have written is not shown.
	_ = json.Unmarshal([]byte(record.Spec.Before), &view.Before)
	if record.Status.Phase == berthv1alpha1.PhaseProgressing {
		view.Remaining = record.Status.Remaining
	}
	return view
}

// withClusters adds the lists of clusters, complete if the record has all of them.
func (v *changeView) withClusters(record *berthv1alpha1.PlacementChange) *changeView {
	var err error
	if v.Added, v.Removed, err = changes.Lists(record); err != nil {
		v.Incomplete, v.Added, v.Removed = err.Error(), record.Spec.Added, record.Spec.Removed
	}
	return v
}

// revisions is the revision, or the range that a merged record covers.
func (v *changeView) revisions() string { return actions.Revisions(v.FirstRevision, v.Revision) }

// approver is the user who answered the change.
func (v *changeView) approver() string {
	switch {
	case v.Approval == nil:
		return none
	case v.Approval.Decision == berthv1alpha1.Rejected:
		return v.Approval.By + " (rejected)"
	}
	return v.Approval.By
}

// print shows one change. The wide form lists all added and removed clusters, the normal form only
// the first ones.
func (v *changeView) print(out io.Writer, wide bool) error {
	line := func(name, format string, args ...any) {
		say(out, "  %-10s"+format+"\n", append([]any{name}, args...)...)
	}
	say(out, "Placement %s, change %s: %s\n", v.Placement, v.revisions(), cmp.Or(v.Phase, "no phase yet"))
	line("Time:", "%s", v.Time.Format(time.RFC3339))
	line("Cause:", "%s", v.Cause)
	if v.By != "" {
		line("By:", "%s", v.By)
	}
	for _, hold := range v.Holds {
		until := ""
		if hold.Until != nil {
			until = " until " + hold.Until.UTC().Format(time.RFC3339)
		}
		line("Held by:", "%s%s: %s", hold.Plugin, until, hold.Reason)
	}
	if v.Message != "" && len(v.Holds) == 0 {
		line("Message:", "%s", v.Message)
	}
	if v.Approval != nil {
		line("Approval:", "%s by %s", v.Approval.Decision, v.Approval.By)
		if v.Approval.Comment != "" {
			line("Comment:", "%s", v.Approval.Comment)
		}
	}
	if v.Remaining != nil {
		line("To do:", "%d to add, %d to remove", v.Remaining.Added, v.Remaining.Removed)
	}
	line("Selected:", "%d", v.Clusters)
	line("Added:", "%s", v.listed(v.AddedCount, v.Added, wide))
	line("Removed:", "%s", v.listed(v.RemovedCount, v.Removed, wide))
	if v.Incomplete != "" {
		line("", "Not all clusters are listed: %s", v.Incomplete)
	}
	if !wide || len(v.Added)+len(v.Removed) == 0 {
		return nil
	}
	t := &table{heading: []string{"CHANGE", "CLUSTER"}}
	for _, name := range v.Added {
		t.add(cell{"added", green}, cell{name, plain})
	}
	for _, name := range v.Removed {
		t.add(cell{"removed", red}, cell{name, plain})
	}
	return t.print(out, colourful(out))
}

// maxShownClusters is how many added and how many removed clusters the normal form lists.
const maxShownClusters = 10

// listed returns the count and the first names. The wide form has only the count, because a table
// with all names follows.
func (v *changeView) listed(count int32, names []string, wide bool) string {
	if wide || len(names) == 0 {
		return fmt.Sprint(count)
	}
	shown := strings.Join(names[:min(len(names), maxShownClusters)], " ")
	if int(count) > maxShownClusters {
		shown += " …"
	}
	return fmt.Sprintf("%d: %s", count, shown)
}
