package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
)

// Outcome says what an attempt planned for its change. That nothing was decided is said by Failure:
// clusters may leave all the same. If step 9 fails, Done.Err says so.
type Outcome string

// The outcomes of attempts.
const (
	// Unchanged: the selected clusters are those published last.
	Unchanged Outcome = "Unchanged"
	// Undecided: no clusters were selected, and the published decision stays; without one, an empty
	// page is published.
	Undecided Outcome = "Undecided"
	// Permitted: the change may begin. It is only that of a Verdict.
	Permitted Outcome = "Permitted"
	// Published: the change was permitted, and all of it is published now. The change may be a
	// removal alone; Target is not published then.
	Published Outcome = "Published"
	// Progressing: the change was permitted and is published in steps, or its rest before another
	// change, also whole: Target is not published then.
	Progressing Outcome = "Progressing"
	// Held: a Permit plugin returned Wait.
	Held Outcome = v1alpha1.ReasonHeld
	// Waiting: a Reserve or Permit plugin returned Pending. The attempt is repeated soon.
	Waiting Outcome = v1alpha1.ReasonWaiting
	// Denied: a plugin denies the change. The plugin is asked again in the next attempt.
	Denied Outcome = v1alpha1.ReasonDenied
	// Rejected: a user or a plugin rejected the change.
	Rejected Outcome = v1alpha1.ReasonRejected
	// Expired: the change was not approved in time.
	Expired Outcome = v1alpha1.ReasonExpired
	// Failed: step 6, 7 or 8 failed; the attempt is repeated with backoff.
	Failed Outcome = "Failed"
)

// Effects are what an outcome means for the Placement and for the record of the change.
type Effects struct {
	// DecisionPending is the status of the condition; its reason is the outcome. Empty removes it.
	DecisionPending metav1.ConditionStatus
	// Keep leaves the condition and the open record as they are, until the record ends (Ends).
	Keep bool
	// Event is the reason of a Warning event; empty if there is none.
	Event string
	// Phase is that of the change's record; empty if the change gets none.
	Phase berthv1alpha1.ChangePhase
	// EndsOthers is true if the open records of other changes end, EndsOwn if that of this one
	// does.
	EndsOthers, EndsOwn bool
	// RetryAfter is when the attempt is repeated, unless a plugin asked for another time; 0 if an
	// event, a plugin or the backoff of a failure says when.
	RetryAfter time.Duration
}

// effects maps each outcome to its effects. The outcome is also a metric label.
var effects = map[Outcome]Effects{
	Unchanged:   {EndsOthers: true, EndsOwn: true},
	Undecided:   {Keep: true},
	Published:   {Phase: berthv1alpha1.PhasePublished, EndsOthers: true},
	Progressing: {Phase: berthv1alpha1.PhaseProgressing, EndsOthers: true},
	Held:        {DecisionPending: metav1.ConditionTrue, Event: "DecisionHeld", Phase: berthv1alpha1.PhaseHeld, EndsOthers: true},
	Waiting:     {DecisionPending: metav1.ConditionTrue, RetryAfter: decide.WaitingInterval, EndsOthers: true},
	Denied:      {DecisionPending: metav1.ConditionFalse, Event: "DecisionDenied", EndsOthers: true, EndsOwn: true},
	Rejected:    {DecisionPending: metav1.ConditionFalse, Event: "DecisionRejected", Phase: berthv1alpha1.PhaseRejected, EndsOthers: true},
	Expired:     {DecisionPending: metav1.ConditionFalse, Event: "DecisionExpired", Phase: berthv1alpha1.PhaseExpired, EndsOthers: true},
	Failed:      {Keep: true},
}

// Effects are those of the attempt's outcome.
func (p *Plan) Effects() Effects { return effects[p.Outcome] }

// DiffersFromTarget reports whether the published clusters differ from the selected ones.
func (p *Plan) DiffersFromTarget() bool {
	return p.Effects().DecisionPending != "" || p.Publication() == ForcedOnly || p.Progress != nil
}

// maxNamed is the maximum number of added, and of removed, clusters that a message names.
const maxNamed = 10

// describe returns the revision of the change and the clusters that it adds and removes.
func (p *Plan) describe() string {
	revision := p.Change.Revision
	if p.endedBefore {
		revision = p.Change.ended.Spec.Revision
	}
	return fmt.Sprintf("Change %d (%s, %s)", revision, named(p.Change.Added, "added"), named(p.Change.Removed, "removed"))
}

// named returns the number of names and the first of them.
func named(names []string, done string) string {
	switch {
	case len(names) == 0:
		return "0 " + done
	case len(names) > maxNamed:
		return fmt.Sprintf("%d %s: %s and %d more", len(names), done, strings.Join(names[:maxNamed], " "), len(names)-maxNamed)
	}
	return fmt.Sprintf("%d %s: %s", len(names), done, strings.Join(names, " "))
}

// Message describes the outcome, for the condition DecisionPending and the record.
func (p *Plan) Message() string {
	if p.message != "" {
		return p.message
	}
	switch p.Outcome {
	case Progressing:
		return p.describe() + " is published in steps: " + p.Progress.String()
	case Held:
		return p.describe() + " is held by " + p.holdText() + p.heldHint() + p.targetText()
	case Waiting:
		return p.describe() + " waits for " + p.Reason
	case Denied:
		return p.describe() + " is denied by " + p.Reason
	case Rejected:
		return p.describe() + " was rejected by " + p.Reason + p.endedHint()
	case Expired:
		if len(p.Holds) > 0 && len(p.stillHeldBy) == len(p.Holds) {
			return p.describe() + " was not permitted in time" + p.endedHint()
		}
		return p.describe() + " was not approved in time" + p.endedHint()
	}
	return ""
}

// targetText says why the change to Target is not published, while a removal is held instead.
func (p *Plan) targetText() string {
	switch {
	case p.Deferred == nil:
		return ""
	case p.Deferred.Answer == Denied:
		return ". The change to the selected clusters is denied by " + p.Deferred.Reason
	}
	return ". The change to the selected clusters has ended: " + string(p.Deferred.Answer)
}

// heldHint says how to approve a held change, if an approval helps.
func (p *Plan) heldHint() string {
	switch {
	case p.Change.Approved:
		return ". It is approved"
	case !p.NeedsApproval():
		return p.approvalLimits()
	}
	return p.approvalLimits() + ". To approve it: " + p.approveCommand()
}

// NeedsApproval reports whether the change is held, and an approval would end a hold.
func (p *Plan) NeedsApproval() bool {
	return p.Outcome == Held && !p.Change.Approved && len(p.stillHeldBy) < len(p.Holds)
}

// endedHint says how to publish, or to give up, a change that was rejected or has expired.
func (p *Plan) endedHint() string {
	return ". The published decision stays" + p.approvalLimits() + ". To publish the change, approve it: " + p.approveCommand() + p.undoHint()
}

// undoHint says how to give up a change that follows an edit; empty if the edit is not known.
func (p *Plan) undoHint() string {
	pl, before := p.Snapshot.Subject.Placement, ""
	if record := cmp.Or(p.Record(), p.Change.ended); record != nil {
		before = record.Spec.Before
	} else {
		before = p.ChangeOf(p.Change.Proposal).Before
	}
	if before == "" || pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation] != "" {
		return ""
	}
	return ". To give it up, undo the edit: " + changes.UndoCommand(pl.Namespace, pl.Name)
}

// approvalLimits names the plugins that hold the change also after an approval.
func (p *Plan) approvalLimits() string {
	if len(p.stillHeldBy) == 0 {
		return ""
	}
	return ". " + changes.NotEndedByApproval + strings.Join(p.stillHeldBy, " and ")
}

// approveCommand returns the command that approves the change.
func (p *Plan) approveCommand() string {
	pl := p.Snapshot.Subject.Placement
	name := changes.Name(pl.Name, p.Change.Revision)
	if record := cmp.Or(p.Record(), p.Change.ended); record != nil {
		name = record.Name
	}
	return changes.AnswerCommand("approve", pl.Namespace, name)
}

// holdText describes the holds. Which ones an approval ends is said until it is given.
func (p *Plan) holdText() string {
	return holdText(p.Holds, func(plugin string) bool { return !p.Change.Approved && !slices.Contains(p.stillHeldBy, plugin) })
}

func holdText(holds []berthv1alpha1.ChangeHold, approvalEnds func(plugin string) bool) string {
	parts := make([]string, len(holds))
	for i, h := range holds {
		parts[i] = changes.HoldText(h, approvalEnds(h.Plugin))
	}
	return strings.Join(parts, "; ")
}
