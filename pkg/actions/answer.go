package actions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// answer is one of the two answers to a change.
type answer struct {
	verb, done, doing string
	value             berthv1alpha1.ApprovalDecision
	// reasons are the reasons of DecisionPending for which a Placement has a change to answer.
	reasons []string
}

var answers = map[string]answer{
	Approve: {Approve, "approved", "approving", berthv1alpha1.Approved,
		[]string{v1alpha1.ReasonHeld, v1alpha1.ReasonRejected, v1alpha1.ReasonExpired}},
	Reject: {Reject, "rejected", "rejecting", berthv1alpha1.Rejected, []string{v1alpha1.ReasonHeld}},
}

// Answerable reports whether a Placement's condition reports a change to approve or to reject.
func Answerable(verb string, pl *v1alpha1.Placement) bool {
	pending := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
	progressing := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionProgressing)
	return pending != nil && slices.Contains(answers[verb].reasons, pending.Reason) ||
		verb == Approve && progressing != nil && progressing.Reason == v1alpha1.ReasonMinAvailable
}

// ToAnswer returns the record that Approve or Reject would answer; nil if there is none. published
// are the clusters that are published.
func ToAnswer(verb string, pl *v1alpha1.Placement, history changes.History, published []string) *berthv1alpha1.PlacementChange {
	record, err := answers[verb].findRecord(pl, history, 0, func() (string, error) { return berthv1alpha1.Digest(published), nil })
	if err != nil {
		return nil
	}
	return record
}

// answer prepares Approve and Reject.
func (p *Prepared) answer(ctx context.Context, hub client.Client) error {
	a, key := answers[p.Verb], p.Placement
	pl, history, err := ReadHistory(ctx, hub, key)
	if err != nil {
		return err
	}
	published := func() (string, error) {
		names, err := publishedClusters(ctx, hub, pl)
		return berthv1alpha1.Digest(names), err
	}
	record, err := a.findRecord(pl, history, p.Revision, published)
	if err == nil {
		err = seen(history, record, p.Change, key)
	}
	if err != nil {
		return fmt.Errorf("nothing to %s: %w", p.Verb, err)
	}
	p.Record = record
	change := fmt.Sprintf("change %d of Placement %s", record.Spec.Revision, key)
	p.Question = fmt.Sprintf("%s %s?", strings.ToUpper(p.Verb[:1])+p.Verb[1:], change)
	p.Declined = fmt.Sprintf("%s was not %s", change, a.done)
	p.Done = fmt.Sprintf("placementchange.%s/%s %s", berthv1alpha1.GroupName, record.Name, a.done)
	p.write = func(ctx context.Context) (client.Object, error) {
		return a.write(ctx, hub, key, record, p.Comment)
	}
	return nil
}

// seen returns an error unless the record to answer is the one that the user saw.
func seen(history changes.History, record *berthv1alpha1.PlacementChange, name string, key types.NamespacedName) error {
	if name == "" || name == record.Name {
		return nil
	}
	for _, old := range history {
		if old.Name == name {
			return fmt.Errorf("change %d of Placement %s is not the newest any more: look at change %d", old.Spec.Revision, key, record.Spec.Revision)
		}
	}
	return fmt.Errorf("the PlacementChange %s of Placement %s does not exist any more: look at change %d", name, key, record.Spec.Revision)
}

// findRecord returns the record to answer: the open one or, without one, the newest Rejected or
// Expired one that can still be approved. A revision must be that of the record to answer.
func (a answer) findRecord(
	pl *v1alpha1.Placement, history changes.History, revision int64, published func() (string, error),
) (*berthv1alpha1.PlacementChange, error) {
	key, open := client.ObjectKeyFromObject(pl), history.Open()
	if revision > 0 {
		record, err := RecordOf(history, key, revision)
		switch {
		case err != nil:
			return nil, err
		case open != nil && open != record:
			return nil, fmt.Errorf("change %d of Placement %s is %s, and change %d is open now: look at it with kubectl placement history placementchange/%s -n %s",
				revision, key, cmp.Or(string(record.Status.Phase), "not reported yet"), open.Spec.Revision, open.Name, key.Namespace)
		}
		return record, a.answerable(pl, record, published)
	}
	if open != nil {
		return open, a.answerable(pl, open, published)
	}
	var why error
	for _, record := range slices.Backward(history) {
		err := a.answerable(pl, record, published)
		if err == nil {
			return record, nil
		}
		if why == nil && ended(record) {
			why = err
		}
	}
	if why != nil {
		return nil, why
	}
	if c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending); c != nil {
		return nil, fmt.Errorf("no change of Placement %s is held; its condition %s is %s: %s", key, c.Type, c.Reason, c.Message)
	}
	return nil, fmt.Errorf("no change of Placement %s is held", key)
}

// ended is true for a change that ended before it was published.
func ended(record *berthv1alpha1.PlacementChange) bool {
	return record.Status.Phase == berthv1alpha1.PhaseRejected || record.Status.Phase == berthv1alpha1.PhaseExpired
}

// answerable returns an error if the change cannot get this answer.
func (a answer) answerable(
	pl *v1alpha1.Placement, record *berthv1alpha1.PlacementChange, published func() (string, error),
) error {
	change := fmt.Sprintf("change %d of Placement %s/%s", record.Spec.Revision, pl.Namespace, pl.Name)
	given := record.Spec.Approval
	switch {
	case given != nil && given.Decision == a.value:
		return fmt.Errorf("%s was %s by %s already", change, a.done, given.By)
	case given != nil && given.Decision == berthv1alpha1.Approved:
		return fmt.Errorf("%s was approved by %s already", change, given.By)
	case record.Status.Phase == berthv1alpha1.PhaseHeld && record.Spec.PlacementGeneration == pl.Generation,
		record.NeedsApproval() && a.value == berthv1alpha1.Approved:
		return nil
	case record.Status.Phase == "":
		return fmt.Errorf("the controller has not reported the phase of %s yet", change)
	case record.Status.Phase != berthv1alpha1.PhaseHeld && (!ended(record) || a.value != berthv1alpha1.Approved):
		return fmt.Errorf("%s is %s%s", change, record.Status.Phase, suspendedText(pl))
	case record.Spec.PlacementGeneration != pl.Generation:
		return fmt.Errorf("%s is %s and does not apply any more: the Placement was edited since", change, record.Status.Phase)
	}
	digest, err := published()
	if err != nil {
		return err
	}
	if record.Spec.From != digest {
		return fmt.Errorf("%s is %s and does not apply any more: other clusters were published since", change, record.Status.Phase)
	}
	return nil
}

// suspendedText says that the change in progress of a Placement is suspended; empty if it is not.
func suspendedText(pl *v1alpha1.Placement) string {
	c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionProgressing)
	if c == nil || c.Reason != v1alpha1.ReasonSuspended {
		return ""
	}
	text := ", and suspended: " + c.Message
	if strings.Contains(c.Message, "DisruptionPolicy "+pl.Name+changes.SuspendSuffix) {
		text += ". To resume: " + Request{Verb: Resume, Placement: client.ObjectKeyFromObject(pl)}.Command()
	}
	return text
}

// write sets spec.approval. The CRD's rules refuse it if the change can no longer be answered. The
// UID prevents an answer to another record of the same name.
func (a answer) write(
	ctx context.Context, hub client.Client, key types.NamespacedName, record *berthv1alpha1.PlacementChange, comment string,
) (client.Object, error) {
	doing := fmt.Sprintf("%s change %d of Placement %s", a.doing, record.Spec.Revision, key)
	review := &authenticationv1.SelfSubjectReview{}
	if err := hub.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("%s: asking the hub for the user's name: %w", doing, err)
	}
	given := map[string]any{"decision": a.value, "by": review.Status.UserInfo.Username, "comment": nil}
	if comment != "" {
		given["comment"] = comment
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": record.UID}, "spec": map[string]any{"approval": given},
	})
	if err != nil {
		return nil, err
	}
	written := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: record.Name}}
	err = hub.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch))
	switch {
	case err == nil:
		return written, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%s needs permission to patch placementchanges: %w", doing, err)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil, fmt.Errorf("%s: its record was deleted meanwhile; nothing was %s", doing, a.done)
	case apierrors.IsInvalid(err):
		return nil, a.refused(ctx, hub, doing, record, err)
	}
	return nil, fmt.Errorf("%s: %w", doing, err)
}

// refused returns why the change can no longer be answered.
func (a answer) refused(
	ctx context.Context, hub client.Client, doing string, record *berthv1alpha1.PlacementChange, cause error,
) error {
	current := &berthv1alpha1.PlacementChange{}
	if err := hub.Get(ctx, client.ObjectKeyFromObject(record), current); err != nil {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	switch given := current.Spec.Approval; {
	case given != nil && (record.Spec.Approval == nil || *given != *record.Spec.Approval):
		return fmt.Errorf("%s: it is %s by %s meanwhile; nothing was %s", doing, strings.ToLower(string(given.Decision)), given.By, a.done)
	case current.Status.Phase != record.Status.Phase:
		return fmt.Errorf("%s: it is %s meanwhile; nothing was %s", doing, current.Status.Phase, a.done)
	}
	return fmt.Errorf("%s: %w", doing, cause)
}
