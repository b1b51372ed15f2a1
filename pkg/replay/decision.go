package replay

import (
	"maps"
	"strings"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// DecisionOf describes a Plan, as recordings store it. It refers to the Plan's data, which
// never changes.
func DecisionOf(a *plan.Plan) *recording.Decision {
	snapshot := a.Snapshot
	key := snapshot.Subject.Key()
	d := &recording.Decision{
		Namespace: key.Namespace, Name: key.Name, UID: snapshot.Subject.Placement.UID, Input: snapshot.Input, Now: snapshot.Now,
		Queue: snapshot.Queue, Timers: snapshot.Timers, Cause: snapshot.Cause, Profile: a.Profile.Name, Outcome: string(a.Outcome),
	}
	if answers := snapshot.Answers; answers.Digest != "" || answers.Rejected != "" {
		answers.Plugins, answers.Allowed = maps.Clone(answers.Plugins), maps.Clone(answers.Allowed)
		d.Answers = &answers
	}
	if f := a.Failure; f != nil {
		// A recording is JSON, which has no other text.
		d.Failure = strings.ToValidUTF8(f.Plugin()+": "+f.Reason(), "\ufffd")
		_, _, timedOut := a.TimedOut()
		d.EndedEarly = timedOut || f.IsUnfinished()
	}
	if a.Target != nil {
		d.Target, d.Selected = a.Target.Digest, len(a.Target.Clusters)
	}
	if a.Publish != nil {
		d.Step = a.Publish.Digest
	}
	if a.Change != nil {
		d.Revision, d.Added, d.Removed = a.Change.Revision, a.Change.Added, a.Change.Removed
	}
	return d
}

// Difference says in which part a decision made again differs from the recorded one; empty if it is
// the same.
func Difference(recorded, again *recording.Decision) string {
	switch {
	case recorded.Outcome != again.Outcome:
		return "outcome " + recorded.Outcome + " was recorded, replay has " + again.Outcome
	case recorded.Target != again.Target:
		return "other clusters are selected"
	case recorded.Step != again.Step:
		return "other clusters are published"
	case recorded.Failure != again.Failure:
		return "the failure " + recorded.Failure + " was recorded, replay has " + again.Failure
	}
	return ""
}
