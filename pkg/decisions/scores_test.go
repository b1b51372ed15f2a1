package decisions

import (
	"testing"
	"time"

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
