package lifecycle

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func newQueueAdmission(t *testing.T, handle *framework.Handle) *QueueAdmission {
	t.Helper()
	plugin, err := NewQueueAdmission(t.Context(), nil, handle)
	if err != nil {
		t.Fatal(err)
	}
	return plugin.(*QueueAdmission)
}

func TestNewQueueAdmission(t *testing.T) {
	if name := newQueueAdmission(t, nil).Name(); name != "QueueAdmission" {
		t.Errorf("named %s", name)
	}
	if _, err := NewQueueAdmission(t.Context(), json.RawMessage(`{"x": 1}`), nil); err == nil {
		t.Error("an argument was taken")
	}
}

func TestQueueAdmissionPreEnqueue(t *testing.T) {
	retry := fixture.Now.Add(time.Minute)
	tests := map[string]struct {
		queue       *framework.QueueAdmission
		wantCode    framework.Code
		wantReason  string
		wantRequeue time.Time
	}{
		"no queues":    {},
		"admitted":     {queue: &framework.QueueAdmission{Admitted: true, Message: "m", RetryAt: retry}},
		"not admitted": {queue: &framework.QueueAdmission{Message: "m"}, wantCode: framework.Unschedulable, wantReason: "m"},
		"not admitted for a while": {queue: &framework.QueueAdmission{Message: "m", RetryAt: retry},
			wantCode: framework.Unschedulable, wantReason: "m", wantRequeue: retry},
		"rejected": {queue: &framework.QueueAdmission{Message: "m", Rejected: true}, wantCode: framework.UnschedulableAndUnresolvable, wantReason: "m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			state := framework.NewCycleState(&framework.Snapshot{Now: fixture.Now, Queue: tc.queue})
			status := newQueueAdmission(t, nil).PreEnqueue(t.Context(), state, nil)
			if status.Code() != tc.wantCode || status.Reason() != tc.wantReason || !state.Requeue().Equal(tc.wantRequeue) {
				t.Errorf("got %s %q, again at %v", status.Code(), status.Reason(), state.Requeue())
			}
		})
	}
}

// TestQueueAdmissionCounts: the number that the quotas count after Reserve, Unreserve and PostBind;
// "-" is none.
func TestQueueAdmissionCounts(t *testing.T) {
	tests := map[string]struct {
		queue            *framework.QueueAdmission
		selected, writes int
		partial          bool
		want             []string
	}{
		"no queues":                  {selected: 2, want: []string{"-", "-", "-"}},
		"more selected than listed":  {queue: &framework.QueueAdmission{Listed: 1}, selected: 3, want: []string{"ns/p 3", "ns/p 1", "ns/p 3"}},
		"fewer selected than listed": {queue: &framework.QueueAdmission{Listed: 4}, selected: 3, want: []string{"ns/p 4", "ns/p 4", "ns/p 3"}},
		"a step of a larger change":  {queue: &framework.QueueAdmission{Listed: 1}, selected: 3, partial: true, want: []string{"ns/p 3", "ns/p 1", "-"}},
		"a step of a smaller change": {queue: &framework.QueueAdmission{Listed: 4}, selected: 3, partial: true, want: []string{"ns/p 4", "ns/p 4", "-"}},
		"some pages are written":     {queue: &framework.QueueAdmission{Listed: 1}, selected: 3, writes: 1, want: []string{"ns/p 3", "-", "ns/p 3"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			call := "-"
			q := newQueueAdmission(t, &framework.Handle{Quota: func(key types.NamespacedName, n int) { call = fmt.Sprint(key, " ", n) }})
			state := framework.NewCycleState(&framework.Snapshot{Queue: tc.queue})
			pl := fixture.Placement("ns", "p").Obj()
			p := &framework.Proposal{Selected: make([]framework.Selection, tc.selected), Writes: make([]framework.PageWrite, tc.writes), Partial: tc.partial}
			var got []string
			last := func() { got, call = append(got, call), "-" }
			if status := q.Reserve(t.Context(), state, pl, p); !status.IsSuccess() {
				t.Errorf("Reserve: %v", status.Err())
			}
			last()
			q.Unreserve(t.Context(), state, pl, p)
			last()
			q.PostBind(t.Context(), state, pl, p)
			last()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestQueueAdmissionWithoutQuota: a simulation counts nothing.
func TestQueueAdmissionWithoutQuota(t *testing.T) {
	state := framework.NewCycleState(&framework.Snapshot{Queue: &framework.QueueAdmission{}})
	for _, handle := range []*framework.Handle{nil, {}} {
		if status := newQueueAdmission(t, handle).Reserve(t.Context(), state, fixture.Placement("ns", "p").Obj(), &framework.Proposal{}); !status.IsSuccess() {
			t.Errorf("Reserve: %v", status.Err())
		}
	}
}
