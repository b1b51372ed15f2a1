package consumers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"

	berthclient "github.com/berth-dev/berth/pkg/client"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// deployed is what a program that follows a Placement has deployed.
type deployed struct {
	*berthclient.Follower

	mu       sync.Mutex
	clusters map[string]bool // nil before the first call
	removed  []string
}

func followPlacement(cfg *rest.Config, namespace, name string) *deployed {
	GinkgoHelper()
	connection, err := berthclient.Connect(cfg)
	Expect(err).NotTo(HaveOccurred())
	d := &deployed{Follower: berthclient.NewFollower(connection, namespace, name)}
	d.OnChange(func(added, removed []berthclient.Cluster) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.clusters == nil {
			d.clusters = map[string]bool{}
		}
		for _, c := range added {
			d.clusters[c.Name] = true
		}
		for _, c := range removed {
			delete(d.clusters, c.Name)
			d.removed = append(d.removed, c.Name)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	DeferCleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		d.Run(ctx)
	}()
	return d
}

// names is "-" before the first call.
func (d *deployed) names() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clusters == nil {
		return "-"
	}
	return strings.Join(slices.Sorted(maps.Keys(d.clusters)), " ")
}

func (d *deployed) everRemoved() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.removed)
}

var _ = Describe("A program that follows a Placement", func() {
	It("learns of every change, and never loses a cluster that only moves", func(ctx SpecContext) {
		team(ctx, "green", 4)
		d := followPlacement(hub.Config, "green", "web")
		Eventually(func() error { _, err := d.Clusters(); return err }).WithContext(ctx).Should(MatchError(berthclient.ErrNoPlacement))
		Expect(d.names()).To(Equal("-"))
		Expect(hub.Create(ctx, fixture.Placement("green", "web").Number(0).Obj())).To(Succeed())
		Eventually(d.names).WithContext(ctx).Should(BeEmpty())
		patch(ctx, "green", `{"spec":{"numberOfClusters":null}}`)
		Eventually(d.names).WithContext(ctx).Should(Equal("green-1 green-2 green-3 green-4"))

		By("moving all clusters between decision groups")
		groups := func(g Gomega) (names []string) {
			clusters, err := d.Clusters()
			g.Expect(err).NotTo(HaveOccurred())
			for _, c := range clusters {
				names = append(names, c.Name+c.Group)
			}
			return names
		}
		for _, region := range []string{"eu", "us", "eu"} {
			patch(ctx, "green", `{"spec":{"decisionStrategy":{"groupStrategy":{"decisionGroups":[{"groupName":"first","groupClusterSelector":{"labelSelector":{"matchLabels":{"region":"`+region+`"}}}}]}}}}`)
			want := []string{"green-1first", "green-2", "green-3first", "green-4"}
			if region == "us" {
				want = []string{"green-1", "green-2first", "green-3", "green-4first"}
			}
			Eventually(groups).WithContext(ctx).Should(ConsistOf(want))
		}
		Expect(d.everRemoved()).To(BeEmpty())

		By("deleting the Placement, and with it its pages")
		Expect(hub.Delete(ctx, fixture.Placement("green", "web").Obj())).To(Succeed())
		Eventually(d.names).WithContext(ctx).Should(BeEmpty())
		Eventually(func() error { _, err := d.Clusters(); return err }).WithContext(ctx).Should(MatchError(berthclient.ErrNoPlacement))
	})

	It("keeps its clusters while the hub is lost, and continues with the newest decision", func(ctx SpecContext) {
		team(ctx, "blue", 4)
		Expect(hub.Create(ctx, fixture.Placement("blue", "web").Number(2).Obj())).To(Succeed())
		proxy := testhub.StartProxy(hub.Config.Host)
		d := followPlacement(proxy.Config(hub.Config), "blue", "web")
		Eventually(d.names).WithContext(ctx).Should(Equal("blue-1 blue-2"))
		proxy.Set(false)
		patch(ctx, "blue", `{"spec":{"predicates":[{"requiredClusterSelector":{"labelSelector":{"matchLabels":{"region":"us"}}}}]}}`)
		here := followPlacement(hub.Config, "blue", "web")
		Eventually(here.names).WithContext(ctx).Should(Equal("blue-2 blue-4"))
		Expect(d.names()).To(Equal("blue-1 blue-2"))
		proxy.Set(true)
		Eventually(d.names).WithContext(ctx).Should(Equal("blue-2 blue-4"))
		Expect(d.everRemoved()).To(Equal([]string{"blue-1"}))
	})
})
