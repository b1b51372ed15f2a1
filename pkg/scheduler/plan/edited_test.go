package plan

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestCausedByEdit: a cluster leaves at once because it has changed, not because an edit of the
// Placement made an older state of the cluster a reason. In doubt, it was the edit.
func TestCausedByEdit(t *testing.T) {
	at := func(minute int) time.Time { return fixture.Now.Add(time.Duration(minute) * time.Minute) }
	forcedAt := func(minute int) map[string]time.Time { return map[string]time.Time{"a": at(minute)} }
	since := func(minute int) framework.Forcing { return framework.Forcing{Forces: true, Since: at(minute)} }
	ended := framework.Forcing{Forces: true, Since: at(-10), Ended: true}
	for name, tc := range map[string]struct {
		edits      editState
		decided    time.Time
		generation int64
		forcing    framework.Forcing
		want       bool
	}{
		"no edit":                              {decided: at(-5), forcing: since(-10)},
		"changed before the edit":              {edits: editState{edited: true}, decided: at(-5), forcing: since(-10), want: true},
		"changed when it was decided":          {edits: editState{edited: true}, decided: at(-5), forcing: since(-5), want: true},
		"changed after the edit":               {edits: editState{edited: true}, decided: at(-5), forcing: since(-4)},
		"not decided before":                   {edits: editState{edited: true}, forcing: since(-4), want: true},
		"changed at an unknown time":           {edits: editState{edited: true}, decided: at(-5), forcing: framework.Forcing{Forces: true}, want: true},
		"a record is older":                    {edits: editState{edited: true, begins: at(-20)}, decided: at(-5), forcing: since(-10)},
		"a record is newer":                    {edits: editState{edited: true, begins: at(-2)}, decided: at(-5), forcing: since(-3)},
		"only a record says it":                {edits: editState{edited: true, begins: at(-5)}, forcing: since(-4)},
		"it was a reason before":               {edits: editState{edited: true, forced: forcedAt(-8)}, decided: at(-5), forcing: since(-8)},
		"another state was a reason before":    {edits: editState{edited: true, forced: forcedAt(-8)}, decided: at(-5), forcing: since(-7), want: true},
		"it was kept meanwhile":                {edits: editState{edited: true, forced: forcedAt(-8)}, decided: at(-5), generation: 2, forcing: ended, want: true},
		"kept until now, since the edit":       {edits: editState{}, decided: at(-20), generation: 2, forcing: ended},
		"kept until now, since before":         {edits: editState{}, decided: at(-5), generation: 2, forcing: ended, want: true},
		"kept until now, and never edited":     {edits: editState{}, decided: at(-5), generation: 1, forcing: ended},
		"kept until now, as a record says":     {edits: editState{first: at(-20), begins: at(-1)}, decided: at(-5), generation: 2, forcing: ended},
		"kept until now, and changed no more":  {edits: editState{edited: true, first: at(-20)}, decided: at(-5), generation: 2, forcing: ended, want: true},
		"of another cluster it was the reason": {edits: editState{edited: true, forced: map[string]time.Time{"b": at(-8)}}, decided: at(-5), forcing: since(-10), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := planOf(decisionOn(nil))
			a.Snapshot.Subject.Placement = a.Snapshot.Subject.Placement.DeepCopy()
			a.Snapshot.Subject.Placement.Generation = tc.generation
			a.edits, a.Timers.DecidedSince = &tc.edits, tc.decided
			if got := a.causedByEdit("a", tc.forcing); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
