package decisions

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/test/fixture"
)

func TestScoresDue(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: fixture.Now.Add(d)} }
	tests := map[string]struct {
		last       *metav1.Time
		remembered time.Time
		limit      string
		want       time.Time
	}{
		"never published":             {limit: "1h"},
		"a limit after the last time": {last: at(-time.Minute), limit: "1h", want: fixture.Now.Add(59 * time.Minute)},
		"a minute by default":         {last: at(0), limit: "soon", want: fixture.Now.Add(time.Minute)},
		"rounded up":                  {last: at(time.Second), limit: "10s", want: fixture.Now.Add(11 * time.Second)},
		"remembered, and not stored":  {remembered: fixture.Now.Add(-time.Minute), limit: "1h", want: fixture.Now.Add(59 * time.Minute)},
		"stored after it":             {remembered: fixture.Now.Add(-time.Minute), last: at(0), limit: "1h", want: fixture.Now.Add(time.Hour)},
		"the clock was set back":      {last: at(time.Hour), limit: "1h"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pl := fixture.Placement("ns", "p").Obj()
			pl.Spec.ScoreRateLimit, pl.Status.LastScoreUpdateTime = tc.limit, tc.last
			if got := ScoresDue(pl, tc.remembered, fixture.Now); !got.Equal(tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestScoresAreHeld(t *testing.T) {
	w := newWorld()
	publish := func(a Grouping) Plan {
		p := w.plan(a)
		for _, write := range p.Writes {
			if err := w.apply(write); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	publish(grouping(0, ":a=2 b=1"))
	if p := publish(held(grouping(0, ":b=3 a=2"))); len(p.Writes) != 0 || !p.ScoresDeferred || p.ScoresWritten {
		t.Errorf("held: %v", showWrites(p.Writes))
	}
	if p := publish(grouping(0, ":b=3 a=2")); len(p.Writes) != 1 || p.ScoresDeferred || !p.ScoresWritten || p.Changed {
		t.Errorf("due: %v", showWrites(p.Writes))
	}
	if p := publish(held(grouping(0, ":b=4 a=2 c=1"))); len(p.Writes) != 1 || p.ScoresDeferred || p.ScoresWritten || !p.Changed {
		t.Errorf("another selection: %v", showWrites(p.Writes))
	}
	if p := publish(held(grouping(0, ":b=4 a=2 d=1"))); len(p.Writes) != 1 || p.ScoresDeferred || p.ScoresWritten || !p.Changed {
		t.Errorf("as many clusters, but others: %v", showWrites(p.Writes))
	}
	want := []string{"p-decision-1 /0: b=4 a=2 d=1"}
	if d := cmp.Diff(want, showPages(w.plan(grouping(0, ":b=4 a=2 d=1")).Pages)); d != "" {
		t.Error(d)
	}
}
