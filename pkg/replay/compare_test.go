package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
)

const balanced = `
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles:
- name: default
`

// noPredicate selects other clusters: those that do not match the predicates, too.
const noPredicate = `
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
profiles:
- name: default
  plugins:
    preFilter:
      disabled:
      - name: Predicate
    filter:
      disabled:
      - name: Predicate
`

func TestCompare(t *testing.T) {
	dir := record(t, "", nil, 6)
	for name, tc := range map[string]struct {
		config           string
		since            time.Time
		placements       int
		decisions        int
		moves, realMoves int
		onlyHere         string
	}{
		"the same configuration":  {balanced, time.Time{}, 0, 6, 12, 12, ""},
		"without predicates":      {noPredicate, time.Time{}, 1, 6, 2, 12, "paris"},
		"only the last decisions": {noPredicate, fixture.Now.Add(330 * time.Second), 1, 1, 0, 2, "paris"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load([]byte(tc.config))
			if err != nil {
				t.Fatal(err)
			}
			r, err := recording.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := replay.Compare(t.Context(), r, nil, c, tc.since, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Placements) != tc.placements || got.Decisions != tc.decisions || got.Moves != tc.moves || got.RealMoves != tc.realMoves {
				t.Fatalf("%+v; want %+v", got, tc)
			}
			if tc.placements > 0 && strings.Join(got.Placements[0].OnlyHere, " ") != tc.onlyHere {
				t.Errorf("%+v; want %s", got.Placements[0], tc.onlyHere)
			}
		})
	}
}
