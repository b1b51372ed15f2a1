package standalone

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const leaseStopped = "Unknown ManagedClusterLeaseUpdateStopped: Registration agent stopped updating its lease."

// makeMember makes a cluster with a lease period of a second, and its namespace.
func (s *server) makeMember(ctx context.Context, name string) *v1alpha1.ManagedCluster {
	GinkgoHelper()
	testhub.CreateNamespace(ctx, s, name)
	c := fixture.Cluster(name).Set("x").Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, metav1.Now()).Obj()
	c.Status.Conditions[0].Reason = "Told"
	c.Spec.LeaseDurationSeconds = 1
	s.make(ctx, c)
	return c
}

// makeSilent makes a member whose lease was renewed that long ago, and returns its name.
func (s *server) makeSilent(ctx context.Context, ago time.Duration) string {
	GinkgoHelper()
	c := s.makeMember(ctx, unique("silent"))
	Expect(s.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Name, Name: v1alpha1.ManagedClusterLeaseName},
		Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(time.Now().Add(ago)))},
	})).To(Succeed())
	return c.Name
}

var _ = Describe("A cluster's lease", func() {
	It("ends also while the controller restarts; a lease that never existed does not", func(ctx SpecContext) {
		silent, never := alone.makeSilent(ctx, 0), alone.makeMember(ctx, unique("never")).Name
		alone.restartBerth("*")
		Eventually(alone.availability(ctx, silent)).Should(Equal(leaseStopped))
		Expect(alone.availability(ctx, never)()).To(HavePrefix("True Told"))
	})

	It("is not read on a hub of Open Cluster Management", func(ctx SpecContext) {
		silent := beside.makeSilent(ctx, -time.Hour)
		Consistently(beside.availability(ctx, silent)).WithTimeout(3 * time.Second).Should(HavePrefix("True Told"))
	})
})
