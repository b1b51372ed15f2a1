package replay

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Moment is the decision about a Placement at a time.
type Moment struct {
	// Recorded is the last decision until then; nil if none was made since the recording, or its
	// last segment, began. Then Again is what the controller would have decided.
	Recorded *recording.Decision
	Again    *scheduler.Attempt
	Engine   *scheduler.Scheduler
}

// At repeats the last decision about a Placement until a time.
func At(ctx context.Context, r *recording.Reader, plugins framework.Registry, key types.NamespacedName, at time.Time, progress func(time.Time)) (*Moment, error) {
	r.Since(at)
	m := &Moment{}
	var last *framework.Snapshot
	var why string
	player := &Player{Plugins: plugins}
	player.OnEntry = func(e *recording.Entry) {
		if progress != nil && e.Decision != nil {
			progress(e.Time)
		}
	}
	player.Until = func(e *recording.Entry) bool { return e.Time.After(at) }
	player.Visit = func(_ context.Context, d *recording.Decision, engine *scheduler.Scheduler, snapshot *framework.Snapshot, reason string) error {
		if d.Key() == key && !d.Now.After(at) {
			m.Recorded, m.Engine, last, why = d, engine, snapshot, reason
		}
		return nil
	}
	if err := player.Play(ctx, r); err != nil {
		return nil, err
	}
	if m.Recorded == nil {
		last, m.Engine, why = player.Snapshot(key, at)
	}
	if last == nil {
		return nil, fmt.Errorf("the decision about Placement %s at %s cannot be made again: %s", key, at.Format(time.RFC3339), why)
	}
	m.Again = m.Engine.Decide(ctx, last)
	return m, nil
}

// Changes calls visit for each recorded decision about a Placement, or about all for an empty key,
// that changed something or could not be made.
func Changes(ctx context.Context, r *recording.Reader, key types.NamespacedName, visit func(*recording.Decision)) error {
	player := &Player{ReadOnly: true}
	player.OnEntry = func(e *recording.Entry) {
		if d := e.Decision; d != nil && (key.Name == "" || d.Key() == key) && (len(d.Added)+len(d.Removed) > 0 || d.Failure != "") {
			visit(d)
		}
	}
	return player.Play(ctx, r)
}

// State is the hub as it was at a time.
type State struct {
	Inventory *inventory.Inventory
	player    *Player
	at        time.Time
}

// StateAt returns the state of the hub after the last entry until a time.
func StateAt(ctx context.Context, r *recording.Reader, plugins framework.Registry, at time.Time) (*State, error) {
	r.Since(at)
	s := &State{player: &Player{Plugins: plugins}, at: at}
	s.player.Until = func(e *recording.Entry) bool { return e.Time.After(at) }
	s.player.Visit = func(context.Context, *recording.Decision, *scheduler.Scheduler, *framework.Snapshot, string) error {
		return nil
	}
	if err := s.player.Play(ctx, r); err != nil {
		return nil, err
	}
	inv, why := s.player.Inventory()
	if inv == nil {
		return nil, fmt.Errorf("the state at %s is not known: %s", at.Format(time.RFC3339), why)
	}
	s.Inventory = inv
	return s, nil
}

// NotRecorded returns why the spec of a Placement is unknown; empty if it is known.
func (s *State) NotRecorded(key types.NamespacedName) string {
	if r, why := s.player.last(); why == "" && r.reduced[object{"Placement", key}] {
		return specNotRecorded
	}
	return ""
}

// Decide decides a Placement on the state. explain must not keep the attempt. skipped says why it
// was not called: the Placement is not decided.
func (s *State) Decide(
	ctx context.Context, key types.NamespacedName, explain func(*scheduler.Attempt, *scheduler.Scheduler) error,
) (skipped string, err error) {
	snapshot, engine, why := s.player.Snapshot(key, s.at)
	if snapshot == nil {
		return "", fmt.Errorf("the Placement %s cannot be decided: %s", key, why)
	}
	if skipped := framework.WhyNotDecided(snapshot.Subject.Placement); skipped != "" {
		return skipped, nil
	}
	attempt := engine.Decide(ctx, snapshot)
	defer engine.Release(attempt.Decision)
	return "", explain(attempt, engine)
}
