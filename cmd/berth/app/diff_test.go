package app

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/simulator"
)

// TestChangeTable: BEFORE says how many clusters are published if that is another number, and
// APPROVAL is shown if a change needs one.
func TestChangeTable(t *testing.T) {
	published := simulator.Change{Placement: "shop/web", Operation: simulator.Updated, Before: 3, Published: 3, After: 2, Removed: []string{"c1"}}
	held := simulator.Change{Placement: "shop/api", Operation: simulator.Updated, Before: 3, Published: 15, After: 15, NeedsApproval: true}
	for name, tc := range map[string]struct {
		changes []simulator.Change
		want    string
	}{
		"published": {[]simulator.Change{published}, `
NAMESPACE   PLACEMENT   CHANGE    BEFORE   AFTER   ADDED    REMOVED   PAGES   CONDITIONS
shop        web         Updated   3        2       <none>   1: c1     0       <none>
`},
		"held": {[]simulator.Change{published, held}, `
NAMESPACE   PLACEMENT   CHANGE    BEFORE             AFTER   ADDED    REMOVED   PAGES   CONDITIONS   APPROVAL
shop        web         Updated   3                  2       <none>   1: c1     0       <none>       <none>
shop        api         Updated   3 (15 published)   15      <none>   <none>    0       <none>       required
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := changeTable(&simulator.Comparison{Changes: tc.changes}, false).print(&out, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want[1:], out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
