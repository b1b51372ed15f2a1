package replay

import (
	"context"
	"time"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// Verification is the result of Verify.
type Verification struct {
	// Decisions were recorded; Same were the same when they were made again, Differ were not.
	Decisions int `json:"decisions"`
	Same      int `json:"same"`
	Differ    int `json:"differ"`
	// EndedEarly ended because of their time limit, and Failed because of an error of a plugin.
	// Both depend on more than the recording.
	EndedEarly int `json:"endedEarly"`
	Failed     int `json:"failed"`
	// Skipped are the numbers of decisions that could not be made again, by the reason.
	Skipped map[string]int `json:"skipped,omitempty"`
	// Lost is the number of entries in gaps of the recording.
	Lost        int64     `json:"lost"`
	First, Last time.Time `json:"-"`
}

// Mismatch is a decision that was not the same when it was made again. Again refers to the engine's
// buffers until the function to which it was passed returns.
type Mismatch struct {
	Recorded   *recording.Decision
	Difference string
	Again      *scheduler.Attempt
	Engine     *scheduler.Scheduler
}

// Verify makes all recorded decisions again and compares them. It calls differs for each that is
// not the same, and progress now and then, if they are not nil.
func Verify(ctx context.Context, r *recording.Reader, plugins framework.Registry, differs func(Mismatch) error, progress func(*Verification)) (*Verification, error) {
	v := &Verification{Skipped: map[string]int{}}
	player := &Player{Plugins: plugins}
	player.OnEntry = func(e *recording.Entry) {
		if e.Gap != nil {
			v.Lost += e.Gap.Lost
		}
	}
	player.Visit = func(ctx context.Context, d *recording.Decision, engine *scheduler.Scheduler, snapshot *framework.Snapshot, why string) error {
		if v.count(d, why); snapshot == nil || d.EndedEarly {
			return nil
		}
		if progress != nil && v.Decisions%100 == 0 {
			progress(v)
		}
		again := engine.Decide(ctx, snapshot)
		defer engine.Release(again.Decision)
		if plan.Outcome(d.Outcome) == plan.Failed {
			v.Failed++
			return nil
		}
		difference := Difference(d, DecisionOf(again.Plan))
		if difference == "" {
			v.Same++
			return nil
		}
		v.Differ++
		if differs == nil {
			return nil
		}
		return differs(Mismatch{Recorded: d, Difference: difference, Again: again, Engine: engine})
	}
	return v, player.Play(ctx, r)
}

func (v *Verification) count(d *recording.Decision, why string) {
	v.Decisions++
	if v.First.IsZero() {
		v.First = d.Now
	}
	v.Last = d.Now
	switch {
	case why != "":
		v.Skipped[why]++
	case d.EndedEarly:
		v.EndedEarly++
	}
}
