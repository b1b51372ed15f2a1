package assignment_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/test/fixture"
)

// TestMessagesAndAnnotationsAreBounded has Placements carry as much as annotations can hold, in all
// that rules read and messages quote.
func TestMessagesAndAnnotationsAreBounded(t *testing.T) {
	long := strings.Repeat(".\"é", 20000)
	for name, tc := range map[string]struct {
		config string
		more   func(*placement)
		want   string
	}{
		"request, rejected": {
			config: "queues: []\nplacementrules: [{name: provided}, {name: provided, parent: {name: user}}, {name: tag, value: queue}]",
			more:   annotated("yunikorn.apache.org/queue", long), want: assignment.ReasonNoRuleMatched,
		},
		"request and tag, placed": {
			config: "queues: [{name: a}]\nplacementrules: [{name: provided}, {name: tag, value: team}, {name: fixed, value: root.a}]",
			more: func(p *placement) {
				annotated("yunikorn.apache.org/queue", long)(p)
				annotated("team", long)(p)
			},
			want: assignment.ReasonPlaced,
		},
		"request, waiting": {
			config: "queues: [{name: a, maxapplications: 1}]\nplacementrules: [{name: provided}, {name: fixed, value: root.a}]",
			more:   annotated("yunikorn.apache.org/queue", long), want: assignment.ReasonQuotaExceeded,
		},
		"user, rejected": {
			config: "queues: [{name: a, submitacl: bob}]\nplacementrules: [{name: user}, {name: fixed, value: root.a}, {name: provided, filter: {users: [bob]}}]",
			more:   annotated(identity.UserInfoAnnotation, fmt.Sprintf(`{"user":%q,"groups":[]}`, long)), want: assignment.ReasonNoRuleMatched,
		},
		"user, placed": {
			config: "queues: [{name: a}]\nplacementrules: [{name: fixed, value: root.a}]",
			more:   annotated(identity.UserInfoAnnotation, fmt.Sprintf(`{"user":%q,"groups":[]}`, long)), want: assignment.ReasonPlaced,
		},
		"users that differ": {
			config: "queues: []",
			more:   annotated(identity.UserInfoAnnotation, fmt.Sprintf(`{"user":%q,"username":"x"}`, long)), want: assignment.ReasonUserUnresolved,
		},
		"user whose groups are not found": {
			config: "queues: []\nusergroupresolver: {type: os}",
			more:   annotated(identity.UserInfoAnnotation, fmt.Sprintf(`{"user":%q}`, long)), want: assignment.ReasonUserUnresolved,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestQueues(fixture.Partition(tc.config))
			for i := range 8 {
				d.add(fmt.Sprint("p", i), "", "", 1, tc.more)
			}
			if got := d.admissions["p7"].Reason; got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
			for name, v := range d.admissions {
				if len(v.Message) > tenancy.MaxMessage || len(v.Annotation) > 4096 {
					t.Errorf("%s has a message of %d bytes and an annotation of %d", name, len(v.Message), len(v.Annotation))
				}
			}
			state := d.state()
			d.restart(rand.New(rand.NewPCG(1, 1)))
			if diff := cmp.Diff(state, d.state()); diff != "" {
				t.Errorf("after a restart (-want +got):\n%s", diff)
			}
		})
	}
}
