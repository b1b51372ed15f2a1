package plan

import (
	"slices"
	"strings"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/decide"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// editState is what is known of the edits of a Placement since its last publication.
type editState struct {
	// edited is true if the published clusters were decided for another generation or profile.
	edited bool
	// forced has the clusters whose removal was forced in a record since the last publication, and
	// when that record was written.
	forced map[string]time.Time
	// first is the first time at which the present generation and profile were decided, as records
	// say, and begins the first time since a change was last completed; zero if no record says it.
	first, begins time.Time
}

// causedByEdit reports whether an edit of the Placement, and not a change of the cluster, made it a
// reason to remove the cluster: what removes it existed before the first decision for the edited
// generation, and the last published generation kept the cluster, at least for some time. What
// cannot be known counts as an edit: nothing leaves early then.
func (a *planner) causedByEdit(name string, forcing framework.Forcing) bool {
	e := a.editsSince()
	recorded := e.begins
	switch {
	case e.edited:
	case forcing.Ended && a.Snapshot.Subject.Placement.Generation > 1: // The first generation is no edit.
		recorded = e.first
	default:
		return false
	}
	if at, was := e.forced[name]; was && !forcing.Ended && !forcing.Since.After(at) {
		return false
	}
	begins := a.Timers.DecidedSince
	if !recorded.IsZero() && (begins.IsZero() || recorded.Before(begins)) {
		begins = recorded
	}
	return begins.IsZero() || !forcing.Since.After(begins)
}

// editsSince returns what is known of the edits since the last publication.
func (a *planner) editsSince() *editState {
	if a.edits == nil {
		a.edits = a.findEdits()
	}
	return a.edits
}

func (a *planner) findEdits() *editState {
	subject := a.Snapshot.Subject
	pl := subject.Placement
	published, profile := subject.PublishedGeneration(), PublishedProfile(subject)
	e := &editState{
		edited: subject.Edited() || profile != "" && profile != decide.ProfileName(pl),
		forced: map[string]time.Time{},
	}
	for _, record := range subject.Records {
		at := changes.Began(record)
		decided := record.Spec.PlacementGeneration == pl.Generation && record.Spec.Profile == decide.ProfileName(pl)
		if decided && e.first.IsZero() {
			e.first = at
		}
		switch {
		case record.Status.Phase == berthv1alpha1.PhasePublished:
			clear(e.forced)
			e.begins = time.Time{}
			continue
		case decided && e.begins.IsZero():
			e.begins = at
		}
		if record.Spec.PublishedGeneration != published {
			// Another generation was published since.
			continue
		}
		for _, name := range changes.ForcedOf(record) {
			e.forced[name] = at.Add(time.Second)
		}
	}
	return e
}

// PublishedProfile returns the profile for which the published clusters were decided; empty if
// unknown. After a start the records say so.
func PublishedProfile(subject *framework.Subject) string {
	if last := subject.Last; last != nil && last.Profile != "" {
		return last.Profile
	}
	if newest := changes.History(subject.Records).Newest(berthv1alpha1.PhasePublished); newest != nil {
		return newest.Spec.Profile
	}
	return ""
}

// updateGeneration stores since when attempts have decided for the Placement's generation and
// profile.
func (a *planner) updateGeneration() {
	pl := a.Snapshot.Subject.Placement
	if a.Failure != nil {
		return
	}
	if profile := decide.ProfileName(pl); a.Timers.DecidedGeneration != pl.Generation || a.Timers.DecidedProfile != profile {
		a.Timers.DecidedGeneration, a.Timers.DecidedProfile, a.Timers.DecidedSince = pl.Generation, profile, a.Snapshot.Now
	}
}

// addEdit adds to a change what is known of the edit of the Placement that it follows: the spec
// before, what changed, and who edited it. Clusters that it cannot keep leave without the edit.
func (p *Plan) addEdit(c *changes.Change) {
	subject := p.Snapshot.Subject
	if c.PublishedGeneration != 0 && c.PublishedGeneration != c.Generation {
		if edit := editOf(subject, c.PublishedGeneration); len(edit.Lines) > 0 {
			c.Before = edit.Before
			what := changes.CausePlacement + edit.String()
			switch c.Cause {
			case changes.CausePlacement + "spec", "start", "retry", "timer":
				c.Cause = what
			default:
				c.Cause += "; " + what
			}
		}
		c.By, c.Comment = framework.Editor(subject.Placement)
	} else if strings.HasPrefix(c.Cause, changes.CausePlacement) && c.Cause != changes.CausePlacement+"labels" {
		c.By, c.Comment = framework.Editor(subject.Placement)
	}
}

// editOf returns the edit from the spec of a generation to the present one; empty if it is not
// known. After a restart the record of the same change has it.
func editOf(subject *framework.Subject, published int64) (edit changes.Edit) {
	pl, before := subject.Placement, (*v1alpha1.PlacementSpec)(nil)
	if b := subject.SpecBefore; b != nil && b.Generation == published {
		before = b.Spec
	}
	for _, record := range slices.Backward(subject.Records) {
		spec := &record.Spec
		if before == nil && spec.Before != "" && spec.PublishedGeneration == published && spec.PlacementGeneration == pl.Generation {
			before, _ = changes.Restore(&pl.Spec, spec.Before) // One that cannot be read is not known.
		}
	}
	if before == nil {
		return changes.Edit{}
	}
	edit, err := changes.EditOf(before, &pl.Spec)
	if err != nil {
		return changes.Edit{}
	}
	return edit
}
