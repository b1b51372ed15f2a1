package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
)

// TestClaims: what is stored for a change that begins, ends without publication, and is published;
// "-" is nothing.
func TestClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		queue           *framework.QueueAdmission
		selected        int
		partial, beside bool
		want            []string
	}{
		"no queues":                  {selected: 2, want: []string{"[a]", "[]", "-"}},
		"more selected than listed":  {queue: &framework.QueueAdmission{Listed: 1}, selected: 3, want: []string{"[a] 3", "[] 1", "-"}},
		"fewer selected than listed": {queue: &framework.QueueAdmission{Listed: 4}, selected: 3, want: []string{"[a] 4", "[]", "3"}},
		"a step of a larger change":  {queue: &framework.QueueAdmission{Listed: 1}, selected: 3, partial: true, want: []string{"[a] 3", "[] 1", "-"}},
		"a step of a smaller change": {queue: &framework.QueueAdmission{Listed: 4}, selected: 3, partial: true, want: []string{"[a] 4", "[]", "-"}},
		"a removal of its own":       {queue: &framework.QueueAdmission{Listed: 4}, selected: 3, beside: true, want: []string{"[a] 4", "[]", "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			call := ""
			s, subject := New(nil, nil), &framework.Subject{Placement: &v1alpha1.Placement{}}
			s.StoreClaim = func(_ *framework.Subject, clusters []string, _ bool) { call = fmt.Sprint(clusters) }
			s.StoreQuota = func(_ *framework.Subject, clusters int) { call = strings.TrimSpace(fmt.Sprint(call, " ", clusters)) }
			p := &framework.Proposal{
				Added: []string{"a"}, Selected: make([]framework.SelectedCluster, tc.selected), Partial: tc.partial,
			}
			var got []string
			store := func(next, stored plan.Claim) {
				call = ""
				if s.storeClaim(subject, next, stored); call == "" {
					call = "-"
				}
				got = append(got, call)
			}
			begun := plan.ClaimFor(p, tc.queue, true)
			store(begun, plan.KeepClaim)
			store(begun.Released(tc.queue), begun)
			store(begun.Published(tc.queue, p, tc.beside), begun)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
