package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Event is an event regarding the Placement.
type Event struct {
	Type, Reason, Action, Note string
	// Related is the page as the write returned it.
	Related *v1alpha1.PlacementDecision
}

// scoreUpdate is the reason of the event with the scores.
const scoreUpdate = "ScoreUpdate"

// Limits of an event's note, in bytes: that of the API, and that of the list of scores.
const (
	maxNote   = 1024
	maxScores = 1000
)

// Events returns one event per successful write, in order, and one event with the scores. It
// returns nil if the same clusters were published before.
func (r *Result) Events(p *framework.Proposal) []Event {
	if !p.Outcome.Changed {
		return nil
	}
	var events []Event
	var changed *v1alpha1.PlacementDecision
	for _, w := range p.Writes {
		if w.Created && !r.isPlaceholder(p, w.Page) {
			events = append(events, r.event("DecisionCreate", "DecisionCreated", "created", w.Page))
		}
		switch {
		case w.Deleted:
			events = append(events, r.event("DecisionDelete", "DecisionDeleted", "deleted", w.Page))
			if changed == nil && w.DecisionsChanged {
				changed = w.Page
			}
		case w.DecisionsChanged && (!w.Created || len(w.Page.Status.Decisions) > 0):
			update := r.event("DecisionUpdate", "DecisionUpdated", "updated", w.Page)
			r.addWarnings(&update)
			events = append(events, update)
			changed = w.Page
		}
	}
	if changed != nil && (len(r.Feasible) > 0 || r.keptScores != "") {
		events = append(events, Event{Type: corev1.EventTypeNormal, Reason: scoreUpdate, Action: "ScoreUpdated", Note: cmp.Or(r.keptScores, r.scoreNote()), Related: changed})
	}
	return events
}

// isPlaceholder is true for the empty page of a Placement that was never decided.
func (r *Result) isPlaceholder(p *framework.Proposal, page *v1alpha1.PlacementDecision) bool {
	return len(page.Status.Decisions) == 0 && r.Snapshot.Subject.Last == nil && (r.Failure != nil || p.Restores)
}

func (r *Result) event(reason, action, done string, page *v1alpha1.PlacementDecision) Event {
	pl := r.Snapshot.Subject.Placement
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Related: page,
		Note: fmt.Sprintf("Decision %s is %s with placement %s in namespace %s", page.Name, done, pl.Name, pl.Namespace)}
}

// addWarnings turns the event into a Warning with the warnings of plugins, if there are any.
func (r *Result) addWarnings(e *Event) {
	warnings := r.State.Warnings()
	if len(warnings) == 0 {
		return
	}
	texts := make([]string, len(warnings))
	for i, w := range warnings {
		texts[i] = fmt.Sprintf("%s in plugin %s", w.Message, w.Plugin)
	}
	e.Type = corev1.EventTypeWarning
	e.Note = CutNote(e.Note + ": " + strings.Join(texts, "; "))
}

// CutNote shortens a note to the API's maximum of 1,024 bytes, at a whole character, and removes
// invalid UTF-8.
func CutNote(note string) string {
	if len(note) <= maxNote {
		return strings.ToValidUTF8(note, "")
	}
	return strings.ToValidUTF8(note[:maxNote-len("......")], "") + "......"
}

// scoreNote lists the totals of the first feasible clusters by name, as many as fit. One pass finds
// them without sorting all clusters.
func (r *Result) scoreNote() string {
	note := make([]byte, 0, maxNote)
	sizeOf := func(i int) int { return len(r.appendScore(note[:0], i)) }
	// listed are the positions of the listed clusters, by name; cut is the first one that does not
	// fit.
	var listed []int
	size, cut := 0, -1
	for i := range r.Feasible {
		if cut >= 0 && r.byName(i, cut) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(listed, i, r.byName)
		listed = slices.Insert(listed, at, i)
		size += sizeOf(i)
		for size > maxScores {
			last := listed[len(listed)-1]
			listed = listed[:len(listed)-1]
			size -= sizeOf(last)
			cut = last
		}
	}
	for _, i := range listed {
		note = r.appendScore(note, i)
	}
	if cut >= 0 {
		note = append(note, "......"...)
	}
	return string(note)
}

func (r *Result) appendScore(note []byte, i int) []byte {
	note = append(append(note, r.Feasible[i].Name...), ':')
	return append(strconv.AppendInt(note, r.Totals[i], 10), ' ')
}
