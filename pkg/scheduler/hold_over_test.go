package scheduler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestHoldOver has every hold end once, with the time it took, whichever attempts and restarts lie in between.
func TestHoldOver(t *testing.T) {
	reject := func(d *desk) {
		token := d.token()
		d.edit(func(pl *v1alpha1.Placement) { pl.Annotations = map[string]string{v1alpha1.RejectAnnotation: token} })
	}
	tests := map[string]struct {
		then func(d *desk)
		want string
	}{
		"it goes on":               {func(*desk) {}, ""},
		"let pass":                 {func(d *desk) { d.x.answer = nil }, "Published after 10m0s"},
		"after a restart":          {func(d *desk) { d.x.answer = nil; d.restart() }, "Published after 10m0s"},
		"expired":                  {func(d *desk) { d.now = d.now.Add(time.Hour) }, "Expired after 1h10m0s"},
		"rejected":                 {reject, "Rejected after 10m0s"},
		"denied":                   {func(d *desk) { d.x.answer = refuses }, "Denied after 10m0s"},
		"waits for a fact":         {func(d *desk) { d.x.answer = awaits }, ""},
		"superseded":               {func(d *desk) { d.add("c3") }, "Replaced after 10m0s"},
		"no change any more":       {func(d *desk) { d.remove("c2") }, "Replaced after 10m0s"},
		"nothing could be decided": {func(d *desk) { d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(-1)) }) }, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			d.now = d.now.Add(10 * time.Minute)
			tc.then(d)
			var ends []string
			for range 4 {
				if since, became, over := d.attempt().HoldOver(); over {
					ends = append(ends, became+" after "+d.now.Sub(since).String())
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(ends, ", ")); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}
