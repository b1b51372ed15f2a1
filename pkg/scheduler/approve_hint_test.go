package scheduler_test

import (
	"strings"
	"testing"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestApproveHint: the message of a held change has the command that approves it if that ends a
// hold, and names the holds that it does not end. Then the command is followed.
func TestApproveHint(t *testing.T) {
	const (
		blast    = `{"maxRemoved": 0, "minRemoved": 1, "settle": "0s"}`
		window   = `{"windows": [{"schedule": "0 22 * * *", "duration": "1h"}]}`
		answered = `{"windows": [{"schedule": "0 22 * * *", "duration": "1h"}], "approvable": true}`
		command  = ". To approve it: kubectl placement approve placementchange/p-2 -n ns"
		but      = ". An approval does not end the hold by "
	)
	for name, tc := range map[string]struct {
		approval, window bool
		plugins          map[string]string
		want             string
	}{
		"approval":                       {approval: true, want: command},
		"BlastRadius":                    {plugins: map[string]string{"BlastRadius": blast}, want: command},
		"approval, BlastRadius":          {approval: true, plugins: map[string]string{"BlastRadius": blast}, want: command},
		"windows":                        {window: true, want: but + "MaintenanceWindow"},
		"approval, windows":              {approval: true, window: true, want: but + "MaintenanceWindow" + command},
		"MaintenanceWindow":              {plugins: map[string]string{"MaintenanceWindow": window}, want: but + "MaintenanceWindow"},
		"MaintenanceWindow, approvable":  {plugins: map[string]string{"MaintenanceWindow": answered}, want: command},
		"BlastRadius, MaintenanceWindow": {plugins: map[string]string{"BlastRadius": blast, "MaintenanceWindow": window}, want: but + "MaintenanceWindow" + command},
		"windows, MaintenanceWindow":     {window: true, plugins: map[string]string{"MaintenanceWindow": window}, want: but + "MaintenanceWindow"},
		"BlastRadius, windows, approvable": {window: true, plugins: map[string]string{"BlastRadius": blast, "MaintenanceWindow": answered},
			want: but + "MaintenanceWindow" + command},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ask(), "c1", "c2")
			d.attemptUntilStable()
			d.arguments = tc.plugins
			d.restart()
			d.require()
			d.govern(func(spec *berthv1alpha1.DisruptionPolicySpec) {
				if !tc.approval {
					spec.Approval = ""
				}
				if tc.window {
					spec.Windows = []berthv1alpha1.RecurringWindow{{Schedule: "0 22 * * *", Duration: "1h"}}
				}
			})
			d.edit(func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
			d.attemptUntilStable()
			d.expect("p-decision-1: c1 c2 | [c1] | True/Held")
			if !strings.HasSuffix(d.message(), tc.want) || strings.Contains(tc.want, but) != strings.Contains(d.message(), but) {
				t.Errorf("got  %s\nwant …%s", d.message(), tc.want)
			}
			d.approve("2")
			d.attemptUntilStable()
			if published := d.pending() == ""; published != (tc.want == command) {
				t.Errorf("approved: published is %t; %s", published, d.message())
			}
			if d.pending() != "" && !strings.HasSuffix(d.message(), ". It is approved") {
				t.Errorf("approved: %s", d.message())
			}
		})
	}
}
