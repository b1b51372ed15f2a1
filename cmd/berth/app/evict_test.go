package app

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/test/fixture"
)

// TestWayBack: each command has its line, and what alone leads to no way back is not called so.
func TestWayBack(t *testing.T) {
	for before, want := range map[int64]string{
		0: "To permit the cluster again earlier: kubectl delete placementeviction web-x -n shop\n",
		7: "To go back:\n  kubectl delete placementeviction web-x -n shop\n  kubectl placement pin web -n shop --revision 7\n  kubectl placement unpin web -n shop\n",
	} {
		var out strings.Builder
		if err := sayWayBack(&out, fixture.Eviction("shop", "web-x", "web", "edge1").Obj(), before); err != nil || out.String() != want {
			t.Errorf("it says %q, %v; want %q", out.String(), err, want)
		}
	}
}
