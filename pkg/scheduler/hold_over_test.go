package scheduler_test

import (
	"testing"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestRecordEnds: what happens to the record of a held change, whichever attempts and restarts lie
// in between.
func TestRecordEnds(t *testing.T) {
	tests := map[string]struct {
		then func(d *desk)
		want berthv1alpha1.ChangePhase
	}{
		"it goes on":               {func(*desk) {}, berthv1alpha1.PhaseHeld},
		"permitted":                {func(d *desk) { d.x.answer = nil }, berthv1alpha1.PhasePublished},
		"after a restart":          {func(d *desk) { d.x.answer = nil; d.restart() }, berthv1alpha1.PhasePublished},
		"expired":                  {func(d *desk) { d.now = d.now.Add(time.Hour) }, berthv1alpha1.PhaseExpired},
		"rejected":                 {func(d *desk) { d.answer(d.revision(), berthv1alpha1.Rejected) }, berthv1alpha1.PhaseRejected},
		"denied":                   {func(d *desk) { d.x.answer = refuses }, berthv1alpha1.PhaseSuperseded},
		"waits for a fact":         {func(d *desk) { d.x.answer = awaits }, berthv1alpha1.PhaseHeld},
		"superseded":               {func(d *desk) { d.add("c3") }, berthv1alpha1.PhaseSuperseded},
		"no change any more":       {func(d *desk) { d.remove("c2") }, berthv1alpha1.PhaseSuperseded},
		"nothing could be decided": {func(d *desk) { d.pin("no") }, berthv1alpha1.PhaseHeld},
		"edited":                   {func(d *desk) { d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(-1)) }) }, berthv1alpha1.PhaseSuperseded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := holding(t)
			d.now = d.now.Add(10 * time.Minute)
			revision := d.revision()
			tc.then(d)
			for range 4 {
				d.attempt()
			}
			if got := d.phase(revision); got != tc.want {
				t.Errorf("the phase is %s, want %s", got, tc.want)
			}
			status := d.records["p-"+revision].Status
			if ended := tc.want != berthv1alpha1.PhaseHeld; (status.CompletionTime != nil) != ended || status.StartTime == nil {
				t.Errorf("started %v, completed %v", status.StartTime, status.CompletionTime)
			}
		})
	}
}
