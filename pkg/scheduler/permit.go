package scheduler

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Pending is a change that may not be published, or not yet.
type Pending struct {
	// Reason is one of the DecisionPending condition: only Held and Waiting may still come to pass by themselves.
	Reason string
	// Message says it in words.
	Message string
	// Hold is what is to be kept while the change waits; nil where nothing is, or nothing any more.
	Hold *framework.Hold
	// fresh says that the condition does not say so yet: what is stored is cleared only once it does, so that a crash in between
	// cannot begin the hold anew.
	fresh bool
}

// awaitInterval is how soon a change is tried again that a plugin answers with Pending, unless it asks for another time.
const awaitInterval = 10 * time.Second

// maxNamed is how many clusters a message names each way.
const maxNamed = 10

// identify gives the change its token, where plugins may hold it, and says what became of it
// before. What the process remembers of a hold counts more than what its pages say: others may have
// edited them.
func (a *Attempt) identify(waiting *Waiting) {
	if len(a.profile.Permit) == 0 {
		return
	}
	p, subject := a.Proposal, a.Snapshot.Subject
	p.Token = tokenOf(a.Snapshot, p)
	if subject.Held != nil && subject.Held.Token == p.Token {
		p.HeldBy = subject.Held.Deadlines
	}
	if deadlines := waiting.deadlines(subject.Placement.UID, p.Token); deadlines != nil {
		p.HeldBy = deadlines
	}
	if p.Ended = endedAs(subject.Placement, p.Token); p.Ended {
		p.EndedBy = endedBy(pendingCondition(subject.Placement).Message)
	}
}

// permit asks for leave. A nil Status with a.Pending nil means that the Proposal passes.
func (s *Scheduler) permit(ctx context.Context, a *Attempt) *framework.Status {
	if a.Pending != nil {
		return nil
	}
	defer s.begin(a.Result, "Permit")()
	pl := a.Snapshot.Subject.Placement
	waits, reasons := map[string]time.Time{}, map[string]string{}
	for _, plugin := range a.profile.Permit {
		status, timeout := plugin.Permit(ctx, a.State, pl, a.Proposal)
		if late := a.timeout("Permit", plugin.Name()); late != nil {
			return late
		}
		switch status.Code() {
		case framework.Success:
		case framework.Wait:
			waits[plugin.Name()], reasons[plugin.Name()] = a.Snapshot.Now.Add(timeout), status.Reason()
		case framework.Unschedulable, framework.UnschedulableAndUnresolvable:
			a.deny(status.WithPlugin(plugin.Name()))
			return nil
		case framework.Pending:
			a.await(status.WithPlugin(plugin.Name()))
			return nil
		default:
			return unexpected(plugin, "Permit", status)
		}
	}
	allowed, rejected := s.waiting.said(pl.UID, a.Proposal.Token)
	if pl.Annotations[v1alpha1.RejectAnnotation] == a.Proposal.Token {
		rejected = "the annotation " + v1alpha1.RejectAnnotation
	}
	for plugin := range allowed {
		delete(waits, plugin)
	}
	a.leave(waits, reasons, rejected)
	return nil
}

// leave says what becomes of the change, now that all plugins have answered.
func (a *Attempt) leave(waits map[string]time.Time, reasons map[string]string, rejected string) {
	pl := a.Snapshot.Subject.Placement
	switch approved := pl.Annotations[v1alpha1.ApproveAnnotation] == a.Proposal.Token; {
	case len(waits) == 0 && !approved && a.Proposal.Ended && wasRejected(pl):
		// What somebody refused passes by approval only, whatever plugins say by now.
		a.stayEnded()
	case len(waits) == 0 && !approved && rejected != "":
		a.end(v1alpha1.ReasonRejected, "was rejected by "+rejected)
	case len(waits) > 0:
		a.hold(waits, reasons, rejected)
	}
}

// wasRejected says whether the last hold of a change of the Placement ended with a rejection.
func wasRejected(pl *v1alpha1.Placement) bool {
	c := pendingCondition(pl)
	return c != nil && c.Reason == v1alpha1.ReasonRejected
}

// Foresee says what Permit would answer to the Proposal of a Result: nothing is reserved, stored or remembered. Of the Attempt only
// Pending and the conditions are of use.
func (s *Scheduler) Foresee(ctx context.Context, r *Result, p *framework.Proposal) (*Attempt, *framework.Status) {
	s.cycle.Lock()
	defer s.cycle.Unlock()
	a := &Attempt{Result: r, Proposal: p}
	if len(p.Added) == 0 && len(p.Removed) == 0 {
		return a, nil
	}
	a.identify(nil)
	return a, s.permit(ctx, a)
}

// hold decides between a hold, its end, and an end that was reached before. The deadlines of a hold that goes on count, not those
// of this attempt.
func (a *Attempt) hold(waits map[string]time.Time, reasons map[string]string, rejected string) {
	p, now := a.Proposal, a.Snapshot.Now
	for plugin := range waits {
		if deadline, known := p.HeldBy[plugin]; known {
			waits[plugin] = deadline
		}
	}
	if a.stayEnded() {
		return
	}
	if rejected != "" {
		a.end(v1alpha1.ReasonRejected, "was rejected by "+rejected)
		return
	}
	var parts []string
	for _, plugin := range slices.Sorted(maps.Keys(waits)) {
		deadline := waits[plugin].UTC().Truncate(time.Second)
		if !waits[plugin].After(now) {
			a.end(v1alpha1.ReasonExpired, fmt.Sprintf("was not let pass by %s before %s: %s",
				strings.Join(slices.Sorted(maps.Keys(waits)), ", "), deadline.Format(time.RFC3339), reasons[plugin]))
			return
		}
		a.State.RequeueAt(waits[plugin])
		parts = append(parts, fmt.Sprintf("%s until %s: %s", plugin, deadline.Format(time.RFC3339), reasons[plugin]))
	}
	a.Pending = &Pending{
		Reason: v1alpha1.ReasonHeld, Message: a.change() + " is held by " + strings.Join(parts, "; "),
		Hold: &framework.Hold{Token: p.Token, Clusters: p.Clusters, Deadlines: waits},
	}
}

// end ends a hold without letting it pass. The next attempt finds the condition and clears what is stored.
func (a *Attempt) end(reason, why string) {
	a.Pending = &Pending{Reason: reason, Message: a.change() + " " + why + ". The published decision stays", fresh: true}
	a.State.RequeueAt(a.Snapshot.Now)
}

// stayEnded goes on saying that the hold of this change ended, whatever plugins say of it meanwhile: nothing else remembers it.
func (a *Attempt) stayEnded() bool {
	if a.Proposal.Ended {
		reason, message := ended(a.Snapshot.Subject.Placement)
		a.Pending = &Pending{Reason: reason, Message: message}
	}
	return a.Proposal.Ended
}

// What may become of a hold, beside the reasons of the DecisionPending condition.
const (
	holdPublished = "Published"
	holdReplaced  = "Replaced"
)

// HoldOver says when the hold began that is over once the attempt is published, and what became of it: Published, Replaced by another
// answer, or the reason of the DecisionPending condition. It is false while there is none, or it goes on.
func (a *Attempt) HoldOver() (since time.Time, became string, over bool) {
	held := a.Snapshot.Subject.Held
	if held == nil || a.Proposal == nil || a.Failure != nil || a.refused != nil {
		return time.Time{}, "", false
	}
	same := a.Proposal.Token == held.Token
	switch {
	case a.Pending == nil && same:
		became = holdPublished
	case a.Pending == nil:
		became = holdReplaced
	case a.Pending.fresh, a.Pending.Hold != nil && a.Pending.Hold.Token == held.Token:
		return time.Time{}, "", false
	case same:
		became = a.Pending.Reason
	default:
		became = holdReplaced
	}
	return framework.SinceIn(held.Token), became, true
}

// deny parks the change until something is decided anew. That ends a hold of it.
func (a *Attempt) deny(status *framework.Status) {
	if a.stayEnded() {
		return
	}
	a.Pending = &Pending{Reason: v1alpha1.ReasonDenied, Message: a.change() + " is denied by " + status.Err().Error()}
}

// await has the change tried again soon. A hold of it goes on meanwhile, so that its deadlines do.
func (a *Attempt) await(status *framework.Status) {
	if !a.stayEnded() {
		a.Pending = &Pending{Reason: v1alpha1.ReasonWaiting, Message: a.change() + " waits for " + status.Err().Error()}
		if len(a.Proposal.HeldBy) > 0 {
			a.Pending.Hold = &framework.Hold{Token: a.Proposal.Token, Clusters: a.Proposal.Clusters, Deadlines: a.Proposal.HeldBy}
		}
	}
	if a.State.Requeue().IsZero() {
		a.State.RequeueAt(a.Snapshot.Now.Add(awaitInterval))
	}
}

// change names the change: its token, and the clusters it would add and remove.
func (a *Attempt) change() string {
	p := a.Proposal
	token := p.Token
	if token == "" {
		token = p.Digest
	}
	return fmt.Sprintf("Change %s (%s, %s)", token, named(p.Added, "added"), named(p.Removed, "removed"))
}

// named counts names and lists the first of them.
func named(names []string, done string) string {
	switch {
	case len(names) == 0:
		return "0 " + done
	case len(names) > maxNamed:
		return fmt.Sprintf("%d %s: %s and %d more", len(names), done, strings.Join(names[:maxNamed], " "), len(names)-maxNamed)
	}
	return fmt.Sprintf("%d %s: %s", len(names), done, strings.Join(names, " "))
}

var endPattern = regexp.MustCompile(` was not let pass by ([^:]+) before `)

// endedBy reads from a condition's message which plugins held a change until it expired.
func endedBy(message string) []string {
	if m := endPattern.FindStringSubmatch(message); m != nil {
		return strings.Split(m[1], ", ")
	}
	return nil
}

// tokenIn reads the token from a condition's message.
func tokenIn(message string) string {
	rest, _ := strings.CutPrefix(message, "Change ")
	if token, _, found := strings.Cut(rest, " "); found && framework.IsToken(token) {
		return token
	}
	return ""
}

// tokenOf names the change to the Proposal's clusters: as it was named while it was held, or when
// its hold ended, unless the Placement changed since; else anew.
func tokenOf(snapshot *framework.Snapshot, p *framework.Proposal) string {
	subject := snapshot.Subject
	c := pendingCondition(subject.Placement)
	named := ""
	if c != nil {
		named = tokenIn(c.Message)
	}
	stale := c != nil && c.Status != metav1.ConditionTrue && c.ObservedGeneration != subject.Placement.Generation
	if held := subject.Held; held != nil && slices.Equal(held.Clusters, p.Clusters) && believed(snapshot, held.Token, named) {
		// What is stored may not be cleared yet though it ended.
		if !stale || !endedAs(subject.Placement, held.Token) {
			return held.Token
		}
	}
	if !stale && named != "" && framework.DigestIn(named) == p.Digest {
		return named
	}
	return framework.TokenFor(p.Digest, snapshot.Now)
}

// maxClockSkew is how far in the future a hold may have begun, by the clock of another replica.
const maxClockSkew = time.Hour

// believed says whether the token of held pages may be used again. Others can edit pages: a token
// that an approval or a rejection names counts only if the condition, which only the controller
// writes, names it, too.
func believed(snapshot *framework.Snapshot, token, named string) bool {
	annotations := snapshot.Subject.Placement.Annotations
	answered := token == annotations[v1alpha1.ApproveAnnotation] || token == annotations[v1alpha1.RejectAnnotation]
	return (token == named || !answered) && !framework.SinceIn(token).After(snapshot.Now.Add(maxClockSkew))
}

// ended returns what the condition says of a hold that ended without being let pass.
func ended(pl *v1alpha1.Placement) (reason, message string) {
	c := pendingCondition(pl)
	if c == nil || c.Reason != v1alpha1.ReasonExpired && c.Reason != v1alpha1.ReasonRejected {
		return "", ""
	}
	return c.Reason, c.Message
}

// endedAs says whether the condition tells of the end of the hold with a token.
func endedAs(pl *v1alpha1.Placement, token string) bool {
	_, message := ended(pl)
	return message != "" && tokenIn(message) == token
}

func pendingCondition(pl *v1alpha1.Placement) *metav1.Condition {
	return meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionDecisionPending)
}

// satisfiedMeanwhile is the Satisfied condition while a change is pending: it speaks of what is published.
func (a *Attempt) satisfiedMeanwhile(c metav1.Condition) metav1.Condition {
	missing := len(a.Proposal.Added)
	if n := a.Snapshot.Subject.Placement.Spec.NumberOfClusters; n != nil {
		missing = int(*n) - a.kept()
	}
	if missing <= 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonAllDecisionsScheduled, "All cluster decisions scheduled"
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonNotAllDecisionsScheduled
	c.Message = fmt.Sprintf("%d cluster decisions unscheduled: see condition %s", missing, v1alpha1.PlacementConditionDecisionPending)
	return c
}

// kept counts the clusters that are published while the change is pending.
func (a *Attempt) kept() int {
	switch {
	case a.interim != nil:
		return len(a.interim.Clusters)
	case a.last != nil:
		return len(a.last.names)
	}
	return a.Snapshot.Subject.Published.Len()
}

// SetConditions brings the Placement's conditions up to date.
func (a *Attempt) SetConditions(conditions *[]metav1.Condition) {
	for _, c := range a.Conditions() {
		if c.Type == v1alpha1.PlacementConditionSatisfied && a.Pending != nil {
			c = a.satisfiedMeanwhile(c)
		}
		v1alpha1.SetCondition(conditions, c)
	}
	if a.Snapshot.Queue == nil {
		// Queues were switched off since it was written.
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionQueueAdmitted)
	}
	switch {
	case a.Proposal == nil:
	case a.Pending == nil:
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionDecisionPending)
	default:
		status := metav1.ConditionFalse
		if a.Pending.Reason == v1alpha1.ReasonHeld || a.Pending.Reason == v1alpha1.ReasonWaiting {
			status = metav1.ConditionTrue
		}
		v1alpha1.SetCondition(conditions, metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionPending, Status: status, Reason: a.Pending.Reason, Message: a.Pending.Message,
			ObservedGeneration: a.Snapshot.Subject.Placement.Generation,
		})
	}
}

// PendingEvent tells of a pending change once, and again when what is said about it changes; nil when there is nothing new, or nothing
// for people to do.
func (a *Attempt) PendingEvent() *Event {
	if a.Pending == nil || a.Pending.Reason == v1alpha1.ReasonWaiting {
		return nil
	}
	if c := pendingCondition(a.Snapshot.Subject.Placement); c != nil && c.Reason == a.Pending.Reason && c.Message == v1alpha1.CutMessage(a.Pending.Message) {
		return nil
	}
	return &Event{Type: corev1.EventTypeWarning, Reason: "Decision" + a.Pending.Reason, Action: "DecisionPending", Note: a.Pending.Message}
}
