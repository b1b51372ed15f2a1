package selection

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	// perCluster is how many Placements fit on a cluster of the fleet.
	perCluster = 5
	// teams is the number of namespaces with Placements that request capacity.
	teams = 5
)

// clustersOfFleet is the number of clusters of the capacity test.
func clustersOfFleet() int {
	if os.Getenv("BERTH_SELECTION") == "long" {
		return 200
	}
	return 20
}

var _ = Describe("Placements with requests", Ordered, func() {
	BeforeAll(func() {
		controller := hub.StartController(controllers.Options{Log: logr.Discard()})
		DeferCleanup(controller.Stop)
	})

	It("fill a fleet, overcommit no cluster at any moment, and use capacity that is given back", func(ctx SpecContext) {
		clusters := clustersOfFleet()
		placements := clusters * perCluster
		var spaces []string
		for range teams {
			spaces = append(spaces, testhub.CreateTeam(ctx, hub, "team-"))
		}
		pages := observe(ctx, func(o *observer, page []string) string {
			for _, cluster := range page {
				if users := o.users[cluster]; strings.HasPrefix(cluster, spaces[0]) && len(users) > perCluster {
					return fmt.Sprintf("%s has room for %d and is listed for %d: %v", cluster, perCluster, len(users), users)
				}
			}
			return ""
		})
		for _, ns := range spaces[1:] {
			Expect(hub.Create(ctx, fixture.Binding(ns, spaces[0]))).To(Succeed())
		}
		faults.InParallel(clusters, func(i int) error {
			object := fixture.Cluster(fmt.Sprintf("%s-%03d", spaces[0], i)).Set(spaces[0]).Allocatable("cpu", "10").Allocatable("memory", "100Gi").Obj()
			status := object.Status
			if err := hub.Create(ctx, object); err != nil {
				return err
			}
			object.Status = status
			return hub.Status().Update(ctx, object)
		})
		began := time.Now()
		faults.InParallel(placements+1, func(i int) error {
			ns, name := spaces[i%teams], fmt.Sprintf("p%04d", i)
			policy := &berthv1alpha1.SelectionPolicy{}
			policy.Namespace, policy.Name = ns, name
			if err := yaml.UnmarshalStrict([]byte("{placement: "+name+", requests: {cpu: '2', memory: 1Gi}}"), &policy.Spec); err != nil {
				return err
			}
			both := []client.Object{policy, requiring(ns, name).Number(1).Obj()}
			// The order does not matter: the Placement requires the policy.
			return errors.Join(hub.Create(ctx, both[i%2]), hub.Create(ctx, both[1-i%2]))
		})
		created := time.Now()
		full := func() (n int) {
			for cluster, users := range pages.counts() {
				if strings.HasPrefix(cluster, spaces[0]) {
					n += users
				}
			}
			return n
		}
		Eventually(full).WithTimeout(time.Duration(placements) * 200 * time.Millisecond).Should(Equal(placements))
		filled := time.Now()
		Consistently(full).Should(Equal(placements))

		By("deleting a Placement")
		waiting := waitingPlacement(ctx, spaces)
		var victim *v1alpha1.Placement
		for i := range placements + 1 {
			if victim = fixture.Placement(spaces[i%teams], fmt.Sprintf("p%04d", i)).Obj(); keyOf(victim.Namespace, victim.Name) != waiting {
				break
			}
		}
		deleted := time.Now()
		Expect(hub.Delete(ctx, victim)).To(Succeed())
		Eventually(func() int { return len(pages.history(waiting)) }).Should(Equal(1))
		used := time.Since(deleted)
		Eventually(full).Should(Equal(placements))
		Expect(used).To(BeNumerically("<", 10*time.Second))
		Expect(pages.violated()).To(BeEmpty())
		AddReportEntry("capacity", fmt.Sprintf("%d Placements on %d clusters: created in %s, full %s later; capacity that was given back used after %s",
			placements+1, clusters, created.Sub(began).Round(time.Millisecond), filled.Sub(created).Round(time.Millisecond), used.Round(time.Millisecond)))
	})
})

// waitingPlacement returns the one Placement of these namespaces without a cluster.
func waitingPlacement(ctx SpecContext, spaces []string) client.ObjectKey {
	GinkgoHelper()
	var waiting []client.ObjectKey
	for _, ns := range spaces {
		list := &v1alpha1.PlacementList{}
		Expect(hub.List(ctx, list, client.InNamespace(ns))).To(Succeed())
		for i := range list.Items {
			if len(listed(ctx, ns, list.Items[i].Name)) == 0 {
				waiting = append(waiting, keyOf(ns, list.Items[i].Name))
			}
		}
	}
	Expect(waiting).To(HaveLen(1))
	return waiting[0]
}
