package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

const (
	// A field manager is a second writer of a Placement's pages after repeatedEdits reverted edits
	// within editWindow, until it has made none for that long.
	repeatedEdits = 3
	editWindow    = 10 * time.Minute
	// maxManagers bounds the field managers that are remembered for a Placement, maxManagerLabels
	// those that the metric names, and maxManagerLength their names.
	maxManagers      = 5
	maxManagerLabels = 20
	maxManagerLength = 64
)

// pageEdits remembers which field managers made the edits of pages that Berth reverted, by
// Placement.
type pageEdits struct {
	mu     sync.Mutex
	states map[types.NamespacedName]*editState
}

// editState is what is known of one Placement.
type editState struct {
	// times are those of the last repeatedEdits edits, by field manager, repeated the managers that
	// made so many within editWindow.
	times    map[string][]time.Time
	repeated map[string]bool
	// quiet is when the condition ends if no more edits are made.
	quiet time.Time
}

// add adds reverted edits of one field manager.
func (e *pageEdits) add(key types.NamespacedName, manager string, edits int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	state := e.state(key)
	state.quiet = now.Add(editWindow)
	if _, known := state.times[manager]; !known && len(state.times) == maxManagers {
		oldest := slices.MinFunc(slices.Sorted(maps.Keys(state.times)), func(a, b string) int {
			return cmp.Or(state.lastOf(a).Compare(state.lastOf(b)), strings.Compare(a, b))
		})
		delete(state.times, oldest)
		delete(state.repeated, oldest)
	}
	times := state.times[manager]
	for range min(edits, repeatedEdits) {
		times = append(times, now)
	}
	times = times[max(0, len(times)-repeatedEdits):]
	state.times[manager] = times
	if len(times) == repeatedEdits && now.Sub(times[0]) < editWindow {
		state.repeated[manager] = true
	}
}

func (s *editState) lastOf(manager string) time.Time {
	times := s.times[manager]
	return times[len(times)-1]
}

// state returns the state of a Placement, which is new if there is none. The caller has locked.
func (e *pageEdits) state(key types.NamespacedName) *editState {
	if e.states[key] == nil {
		if e.states == nil {
			e.states = map[types.NamespacedName]*editState{}
		}
		e.states[key] = &editState{times: map[string][]time.Time{}, repeated: map[string]bool{}}
	}
	return e.states[key]
}

// forget drops what is known of a Placement.
func (e *pageEdits) forget(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.states, key)
}

// setCondition sets or removes the condition DecisionEdited. It returns when the condition may end;
// zero without it. A condition from before the start stays for editWindow.
func (e *pageEdits) setCondition(pl *v1alpha1.Placement, conditions *[]metav1.Condition, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := client.ObjectKeyFromObject(pl)
	was := meta.FindStatusCondition(*conditions, v1alpha1.PlacementConditionDecisionEdited)
	if was == nil && e.states[key] == nil {
		return time.Time{}
	}
	state := e.state(key)
	if state.quiet.IsZero() {
		state.quiet = now.Add(editWindow)
	}
	if !now.Before(state.quiet) {
		delete(e.states, key)
		meta.RemoveStatusCondition(conditions, v1alpha1.PlacementConditionDecisionEdited)
		return time.Time{}
	}
	managers := slices.Sorted(maps.Keys(state.repeated))
	if len(managers) > 0 {
		v1alpha1.SetCondition(conditions, metav1.Condition{
			Type: v1alpha1.PlacementConditionDecisionEdited, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonEditsReverted, ObservedGeneration: pl.Generation,
			Message: fmt.Sprintf("Another client (field manager %s) edits the PlacementDecisions repeatedly, and Berth reverts each edit: stop it, "+
				"or have it decide alone with the annotation %s: \"true\"", strings.Join(managers, ", "), v1alpha1.PlacementDisableAnnotation),
		})
	}
	if was == nil && len(managers) == 0 {
		return time.Time{}
	}
	return state.quiet
}

// reportEdits reports the edits of pages that the attempt reverted: those of pages that it wrote.
func (r *PlacementReconciler) reportEdits(ctx context.Context, attempt *scheduler.Attempt) {
	subject := attempt.Snapshot.Subject
	if len(subject.Edits) == 0 {
		return
	}
	reverted, seen := map[string][]string{}, map[string]framework.PageEdit{}
	if attempt.Step != nil {
		for _, w := range attempt.Step.Writes {
			if edit, edited := subject.Edits[w.Page.Name]; edited && seen[w.Page.Name] != edit {
				seen[w.Page.Name] = edit
				manager := managerText(edit.Manager)
				reverted[manager] = append(reverted[manager], w.Page.Name)
			}
		}
		if attempt.Err.IsSuccess() {
			seen = subject.Edits
		}
	}
	r.Inventory.ForgetEdits(subject.Key(), seen)
	for _, manager := range slices.Sorted(maps.Keys(reverted)) {
		pages := reverted[manager]
		slices.Sort(pages)
		editsReverted.WithLabelValues(managerLabels.label(manager)).Add(float64(len(pages)))
		r.edits.add(subject.Key(), manager, len(pages), r.Now())
		r.Events.Send(ctx, subject.Placement, []report.Event{{
			Type: corev1.EventTypeWarning, Reason: "DecisionEdited", Action: "EditReverted",
			Note: report.CutNote(fmt.Sprintf("Another client (field manager %s) edited PlacementDecisions %s; Berth reverted that",
				manager, strings.Join(pages, ", "))),
		}})
	}
}

// managerText returns the name of a field manager without characters that cannot be printed, cut to
// maxManagerLength characters. The name is the text of another party.
func managerText(manager string) string {
	text := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, manager))
	if len(text) > maxManagerLength {
		text = append(text[:maxManagerLength-3], []rune("...")...)
	}
	return string(text)
}

// labelSet bounds the values of a label.
type labelSet struct {
	mu    sync.Mutex
	known map[string]bool
}

// managerLabels are the values of the label manager.
var managerLabels = &labelSet{known: map[string]bool{}}

// label returns the value for a name: the name itself for the first maxManagerLabels names, then
// Other.
func (s *labelSet) label(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known[name] {
		if len(s.known) == maxManagerLabels {
			return "Other"
		}
		s.known[name] = true
	}
	return name
}
