package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// BenchmarkStep decides the first step of the drain of a cluster. The Placement has three of the
// 1,000 clusters of its set, on hubs of different sizes.
func BenchmarkStep(b *testing.B) {
	const members = 1_000
	for _, c := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("clusters=%d", c), func(b *testing.B) {
			inv := inventory.New(inventory.Options{})
			inv.Update(fixture.Binding("ns", "s0"))
			for n := range c {
				set := fmt.Sprintf("s%d", n/members)
				if n%members == 0 {
					inv.Update(fixture.Set(set))
				}
				object := fixture.Cluster(fmt.Sprintf("cluster-%05d", n)).Set(set).Obj()
				if n == 0 {
					object.Spec.Taints = []v1alpha1.Taint{{Key: v1alpha1.DrainTaint, Effect: v1alpha1.TaintEffectNoSelect}}
				}
				inv.Update(object)
			}
			inv.Update(fixture.Placement("ns", "p").Number(3).Obj())
			policy := fixture.ApprovalPolicy("ns", "budget", "p")
			policy.Spec.Approval = ""
			inv.Update(policy)
			names := []string{"cluster-00000", "cluster-00001", "cluster-00002"}
			inv.SetPublished(inv.Subject(key), &framework.Published{Names: names, Digest: framework.DigestOf(names), Revision: 1})
			s := newScheduler(b)
			b.ReportAllocs()
			for b.Loop() {
				a := s.Decide(context.Background(), inv.Snapshot(key, fixture.Now, nil))
				if a.Outcome != plan.Progressing || len(a.Step.Clusters) != 4 {
					b.Fatalf("%s: %+v", a.Outcome, a.Step)
				}
				s.Release(a.Decision)
			}
		})
	}
}
