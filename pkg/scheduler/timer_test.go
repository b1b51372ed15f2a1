package scheduler_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestTimerHearsOfEachPointOnce(t *testing.T) {
	broken := framework.NewStatus(framework.Error, "broken")
	tests := map[string]struct {
		answers map[string]*framework.Status
		wanted  int32
		want    string
	}{
		"all that fit": {wanted: 2, want: "PreFilter Filter PreScore Score Reserve Permit PreBind Bind PostBind"},
		"too few fit":  {wanted: 3, want: "PreFilter Filter PostFilter PreScore Score Reserve Permit PreBind Bind PostBind"},
		"PreFilter ends, and the Placement is marked as seen": {wanted: 2, answers: map[string]*framework.Status{"PreFilter b": broken}, want: "PreFilter PreBind Bind PostBind"},
		"PreBind ends": {wanted: 2, answers: map[string]*framework.Status{"PreBind a": broken}, want: "PreFilter Filter PreScore Score Reserve Permit PreBind"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s, _, _ := probing(t, "a b", tc.answers)
			var points []string
			open := ""
			s.Timer = func(profile, point string) func() {
				if profile != v1alpha1.DefaultProfile || open != "" {
					t.Errorf("%s of profile %s begins while %q goes on", point, profile, open)
				}
				points, open = append(points, point), point
				return func() { open = "" }
			}
			inv := fleet(ask().Number(tc.wanted), fixture.Cluster("c1"), fixture.Cluster("c2"))
			s.Attempt(ctx, key.Namespace, func() *framework.Snapshot { return inv.Snapshot(key, fixture.Now, nil) })
			if diff := cmp.Diff(tc.want, strings.Join(points, " ")); diff != "" || open != "" {
				t.Errorf("points (-want +got), %q still open:\n%s", open, diff)
			}
		})
	}
}
