package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// heldPlan is a Plan for Placement n/<name> with a change that is held by x, under a revision.
func heldPlan(name string, revision int64, since time.Time) *plan.Plan {
	p := attemptOn(nil).Plan
	pl := fixture.Placement("n", name).Generation(7).Obj()
	pl.UID = types.UID("uid-" + name)
	p.Snapshot.Subject.Placement, p.Timers.NextAttemptCause = pl, "timer"
	p.Held.Change = &framework.HeldChange{
		Key: p.Snapshot.Subject.Key(), UID: pl.UID, Revision: revision, Since: since,
		Added: []string{"a"}, Removed: []string{"b"}, Plugins: map[string]time.Time{"x": fixture.Now},
	}
	p.Held.ID = framework.Answers{Revision: revision, From: "f", Digest: "d", Generation: 7}
	return p
}

// TestRemember: what is known of a held change after the next attempt. Before, revision 1 is held.
func TestRemember(t *testing.T) {
	const old, held, none = 1, 2, 0
	for name, tc := range map[string]struct {
		held plan.HeldChange
		want int64
	}{
		"it stays":        {held: plan.HeldChange{Keep: true}, want: old},
		"another is held": {held: heldPlan("p", held, fixture.Now).Held, want: held},
		"none is held":    {want: none},
	} {
		t.Run(name, func(t *testing.T) {
			m, next := NewMemory(), heldPlan("p", old, fixture.Now)
			m.save(heldPlan("p", old, fixture.Now), true)
			next.Held, next.Reserved = tc.held, true
			m.save(next, true)
			key, uid := next.Snapshot.Subject.Key(), next.Snapshot.Subject.Placement.UID
			got := m.of(key)
			if got.uid != uid || got.timers.NextAttemptCause != "timer" || !got.reserved || got.profile != next.Profile {
				t.Errorf("remembered: %+v", got)
			}
			if got := got.answers(); got.Revision != tc.want {
				t.Fatalf("revision %d is held, want %d", got.Revision, tc.want)
			}
			if tc.want != held {
				return
			}
			want := framework.Answers{Revision: held, From: "f", Digest: "d", Generation: 7, Plugins: map[string]time.Time{"x": fixture.Now}}
			if diff := cmp.Diff(want, got.answers()); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			list := []framework.HeldChange{{
				Key: key, UID: uid, Revision: held, Since: fixture.Now,
				Added: []string{"a"}, Removed: []string{"b"}, Plugins: map[string]time.Time{"x": fixture.Now},
			}}
			if diff := cmp.Diff(list, m.List()); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMemoryForgets one Placement's change; the others stay, in the order of their keys.
func TestMemoryForgets(t *testing.T) {
	tests := map[string]struct {
		do   func(*Memory)
		want string
	}{
		"nothing": {do: func(*Memory) {}, want: "[n/a n/b n/c]"},
		"released": {do: func(m *Memory) {
			p := heldPlan("b", 1, fixture.Now)
			p.Held = plan.HeldChange{}
			m.save(p, true)
		}, want: "[n/a n/c]"},
		"gone":     {do: func(m *Memory) { m.forget(types.NamespacedName{Namespace: "n", Name: "a"}) }, want: "[n/b n/c]"},
		"rejected": {do: func(m *Memory) { m.Reject("uid-c", "x", "no") }, want: "[n/a n/b]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := NewMemory()
			for _, name := range []string{"b", "c", "a"} {
				m.save(heldPlan(name, 1, fixture.Now), true)
			}
			tc.do(m)
			keys := []string{}
			for _, h := range m.List() {
				keys = append(keys, h.Key.String())
			}
			if got := fmt.Sprint(keys); got != tc.want {
				t.Errorf("held: %s, want %s", got, tc.want)
			}
		})
	}
}

// TestEmptyMemory: a scheduler that never publishes remembers nothing.
func TestEmptyMemory(t *testing.T) {
	s, key := New(nil, nil), types.NamespacedName{Namespace: "n", Name: "a"}
	s.memory.forget(key)
	held := s.memory.of(key)
	if diff := cmp.Diff(framework.Answers{}, held.answers()); diff != "" || len(s.memory.List()) > 0 {
		t.Errorf("held: %v, answers (-want +got):\n%s", s.memory.List(), diff)
	}
}

// TestSinceOfAHeldChange: the time at which it was first held.
func TestSinceOfAHeldChange(t *testing.T) {
	for revision, want := range map[int64]time.Time{1: fixture.Now, 2: fixture.Now.Add(time.Minute)} {
		m := NewMemory()
		m.save(heldPlan("p", 1, fixture.Now), true)
		m.save(heldPlan("p", revision, fixture.Now.Add(time.Minute)), true)
		if got := m.List()[0].Since; !got.Equal(want) {
			t.Errorf("revision %d is held since %v, want %v", revision, got, want)
		}
	}
}
