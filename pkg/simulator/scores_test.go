package simulator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/test/fixture"
)

// TestScoresBeyondTheBoundDoNotCount: as in the controller, the AddOnPlacementScores of a namespace
// count that are first by name.
func TestScoresBeyondTheBoundDoNotCount(t *testing.T) {
	fleet := func(others int) Objects {
		o := Objects{fixture.Set("s"), fixture.Binding("ns", "s"), fixture.Cluster("a").Set("s").Obj(), fixture.Cluster("b").Set("s").Obj()}
		o = append(o, fixture.Placement("ns", "p").Number(1).AddOn("zz", "free", 1).Obj())
		o = append(o, fixture.Score("a", "zz").Value("free", 50).Obj(), fixture.Score("b", "zz").Value("free", 100).Obj())
		for i := range others {
			o = append(o, fixture.Score("b", fmt.Sprintf("s%03d", i)).Value("free", 1).Obj())
		}
		return o
	}
	for others, want := range map[int]string{caches.MaxScores - 1: "b", caches.MaxScores: "a"} {
		if got := string(decideAll(t, fleet(others))); !strings.Contains(got, `"ranking":["`+want+`"`) {
			t.Errorf("%d others: want %s, got %s", others, want, got)
		}
	}
}
