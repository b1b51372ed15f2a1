package assignment_test

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/pkg/tenancy/assignment"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/test/fixture"
)

// BenchmarkAdmit asks for one of as many Placements as the name says: its cost must not grow with
// their number, whether they are admitted, wait or cannot be resolved.
func BenchmarkAdmit(b *testing.B) {
	const limits = "\nlimits: [{users: ['*'], maxresources: {clusters: 9}}, {groups: [ops, '*'], maxresources: {clusters: 90000}}]"
	for reason, config := range map[string]string{
		assignment.ReasonPlaced:         fixture.Partition("queues: []\nplacementrules: [{name: user, create: true}]" + limits),
		assignment.ReasonQuotaExceeded:  fixture.Partition("queues: [{name: a, maxapplications: 1}]\nplacementrules: [{name: fixed, value: root.a}]" + limits),
		assignment.ReasonUserUnresolved: fixture.Partition("queues: []\nplacementrules: [{name: user, create: true}]\nusergroupresolver: {type: test}"),
	} {
		for _, n := range []int{100, 10000} {
			b.Run(fmt.Sprintf("%s/%d", reason, n), func(b *testing.B) {
				d := newTestQueues(config)
				for i := range n {
					d.prepare(fmt.Sprint(i), "", "", 1, annotated(identity.UserInfoAnnotation, fmt.Sprintf(`{"user":"u%d"}`, i)))
				}
				key := d.placements["7"].Key
				if got := d.admission.Admit(key, 1).Reason; got != reason {
					b.Fatalf("want %s, got %s", reason, got)
				}
				for b.Loop() {
					d.admission.Admit(key, 1)
				}
			})
		}
	}
}

// BenchmarkTurnover changes one of as many Placements as the name says: it comes, takes clusters,
// gives some back and goes.
func BenchmarkTurnover(b *testing.B) {
	for _, n := range []int{100, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := newTestQueues(fixture.Partition("queues: [{name: a, resources: {max: {clusters: 90000}}}]\nplacementrules: [{name: fixed, value: root.a}]"))
			for i := range n {
				d.prepare(fmt.Sprint(i), fmt.Sprint("u", i), "", 1)
			}
			d.decideAffected()
			p := d.placements["7"]
			for b.Loop() {
				d.admission.Withdraw(p.Key)
				d.admission.Submit(p.Submission)
				d.admission.Admit(p.Key, 5)
				d.admission.SetClusters(p.Key, 5)
				d.admission.SetClusters(p.Key, 1)
			}
		})
	}
}
