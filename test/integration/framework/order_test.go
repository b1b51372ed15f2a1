package framework

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("Many Placements at once", func() {
	It("are decided in the order of their priorities, then of their age", func(ctx SpecContext) {
		const many = 300
		priorities := []string{"", "5", "-3", "1000000", "5", "0", "2", "-2147483648"}
		t := newTeam(ctx)
		t.clusters(ctx, 3)
		faults.InParallel(many, func(i int) error {
			b := t.placement(fmt.Sprintf("p-%03d", i)).Number(1)
			if p := priorities[i*7%len(priorities)]; p != "" {
				b = b.Annotation(v1alpha1.PriorityAnnotation, p)
			}
			return hub.Create(ctx, b.Obj())
		})
		list := &v1alpha1.PlacementList{}
		Expect(hub.List(ctx, list, client.InNamespace(string(t)))).To(Succeed())
		slices.SortFunc(list.Items, func(a, b v1alpha1.Placement) int {
			return cmp.Or(cmp.Compare(priority(b), priority(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		var want []string
		for _, pl := range list.Items {
			want = append(want, pl.Name)
		}
		Expect(want).To(HaveLen(many))

		runBerth(1)
		Eventually(func() []string { return firstPublished(ctx, t) }).WithPolling(200 * time.Millisecond).Should(HaveLen(many))
		Expect(firstPublished(ctx, t)).To(Equal(want))
	})

	DescribeTable("that ask for one cluster each get different clusters", func(ctx SpecContext, workers int) {
		const many = 100
		t := newTeam(ctx)
		t.clusters(ctx, many)
		runBerth(workers)
		faults.InParallel(many, func(i int) error { return hub.Create(ctx, t.placement(fmt.Sprintf("p-%03d", i)).Number(1).Obj()) })
		Eventually(func() int { return len(firstPublished(ctx, t)) }).WithPolling(200 * time.Millisecond).Should(Equal(many))
		Expect(slices.Sorted(slices.Values(testhub.ClustersOn(allPages(ctx, t)...)))).To(Equal(t.names(0, many)))
		Consistently(func() []string { return slices.Sorted(slices.Values(testhub.ClustersOn(allPages(ctx, t)...))) }).Should(Equal(t.names(0, many)))
	}, Entry("by one worker", 1), Entry("by four workers", 4), Entry("by thirty-two workers", 32))

	It("that exist before the controller starts get different clusters, too", func(ctx SpecContext) {
		const many = 100
		t := newTeam(ctx)
		t.clusters(ctx, many)
		faults.InParallel(many, func(i int) error { return hub.Create(ctx, t.placement(fmt.Sprintf("p-%03d", i)).Number(1).Obj()) })
		runBerth(32)
		Eventually(func() []string { return slices.Sorted(slices.Values(testhub.ClustersOn(allPages(ctx, t)...))) }).Should(Equal(t.names(0, many)))
	})
})

// priority reads the annotation as documented: an invalid number is 0.
func priority(pl v1alpha1.Placement) int {
	p, err := strconv.Atoi(pl.Annotations[v1alpha1.PriorityAnnotation])
	if err != nil {
		return 0
	}
	return p
}

func allPages(ctx context.Context, t team) []v1alpha1.PlacementDecision {
	GinkgoHelper()
	return testhub.Must(testhub.PagesIn(ctx, hub, client.InNamespace(string(t))))
}

// firstPublished names the Placements with a page, in the order in which the pages were written.
func firstPublished(ctx context.Context, t team) []string {
	GinkgoHelper()
	pages := allPages(ctx, t)
	version := func(page v1alpha1.PlacementDecision) uint64 {
		v, err := strconv.ParseUint(page.ResourceVersion, 10, 64)
		Expect(err).NotTo(HaveOccurred())
		return v
	}
	slices.SortFunc(pages, func(a, b v1alpha1.PlacementDecision) int { return cmp.Compare(version(a), version(b)) })
	var names []string
	for _, page := range pages {
		names = append(names, page.Labels[v1alpha1.PlacementLabel])
	}
	return names
}
