package ocm

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// strategy has one named group for each "name=value" of the label ring, in this order.
func strategy(length intstr.IntOrString, groups ...[2]string) clusterv1beta1.GroupStrategy {
	s := clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: length}
	for _, g := range groups {
		s.DecisionGroups = append(s.DecisionGroups, clusterv1beta1.DecisionGroup{
			GroupName:       g[0],
			ClusterSelector: clusterv1beta1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"ring": g[1]}}},
		})
	}
	return s
}

var (
	whole      = intstr.FromString("100%")
	canary     = [2]string{"canary", "canary"}
	production = [2]string{"production", "production"}
	first      = [2]string{"first", "first"}
)

func placement(namespace, name string, groups clusterv1beta1.GroupStrategy) *clusterv1beta1.Placement {
	return &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       clusterv1beta1.PlacementSpec{ClusterSets: []string{"fleet"}, DecisionStrategy: clusterv1beta1.DecisionStrategy{GroupStrategy: groups}},
	}
}

// regroup changes the strategy of a Placement.
func regroup(length intstr.IntOrString, groups ...[2]string) func(context.Context, *clusterv1beta1.Placement) {
	return func(ctx context.Context, pl *clusterv1beta1.Placement) {
		GinkgoHelper()
		before := pl.DeepCopy()
		pl.Spec.DecisionStrategy.GroupStrategy = strategy(length, groups...)
		Expect(hub.Patch(ctx, pl, client.MergeFrom(before))).To(Succeed())
	}
}

// ring changes the label ring of clusters until the spec ends.
func ring(value string, clusters ...int) func(context.Context, *clusterv1beta1.Placement) {
	return func(ctx context.Context, _ *clusterv1beta1.Placement) {
		GinkgoHelper()
		for _, i := range clusters {
			object := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster(i)}}
			Expect(hub.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			patchCluster(ctx, i, fmt.Sprintf(`{"metadata":{"labels":{"ring":%q}}}`, value), fmt.Sprintf(`{"metadata":{"labels":{"ring":%q}}}`, object.Labels["ring"]))
		}
	}
}

// taint makes clusters leave until the spec ends.
func taint(clusters ...int) func(context.Context, *clusterv1beta1.Placement) {
	return func(ctx context.Context, _ *clusterv1beta1.Placement) {
		GinkgoHelper()
		for _, i := range clusters {
			patchCluster(ctx, i, `{"spec":{"taints":[{"key":"maintenance","effect":"NoSelect","timeAdded":"2026-01-01T00:00:00Z"}]}}`, `{"spec":{"taints":null}}`)
		}
	}
}

func untaint(clusters ...int) func(context.Context, *clusterv1beta1.Placement) {
	return func(ctx context.Context, _ *clusterv1beta1.Placement) {
		GinkgoHelper()
		for _, i := range clusters {
			patchCluster(ctx, i, `{"spec":{"taints":null}}`, `{}`)
		}
	}
}

func patchCluster(ctx context.Context, i int, change, back string) {
	GinkgoHelper()
	patch := func(ctx context.Context, text string) error {
		return hub.Patch(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster(i)}}, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	Expect(patch(ctx, change)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(patch(ctx, back)).To(Succeed()) })
}

type change struct {
	prepare []func(context.Context, *clusterv1beta1.Placement) // before the first decision
	before  clusterv1beta1.GroupStrategy
	groups  string // of the first decision
	change  func(context.Context, *clusterv1beta1.Placement)
	want    string
}

var _ = Describe("The readers of Open Cluster Management", func() {
	DescribeTable("lose no cluster that stays, and find the groups in the order of the spec:", func(ctx SpecContext, tc change) {
		for _, prepare := range tc.prepare {
			prepare(ctx, nil)
		}
		pl := placement(newNamespace(ctx), "web", tc.before)
		startBerth() // its first list contains what was prepared
		create(ctx, pl)
		start := follow(ctx, pl)
		Eventually(start.groups).Should(Equal(tc.groups))
		start.stop()
		f := follow(ctx, pl)
		tc.change(ctx, pl)
		Eventually(f.groups).Should(Equal(tc.want))
		Consistently(f.groups).Should(Equal(tc.want))
		Expect(f.read().violations).To(BeEmpty())
	},
		Entry("the only canary cluster leaves", change{
			before: strategy(whole, canary), groups: "canary:1 :239", change: taint(0), want: ":239",
		}),
		Entry("the canary cluster comes back", change{
			prepare: []func(context.Context, *clusterv1beta1.Placement){taint(0)},
			before:  strategy(whole, canary), groups: ":239", change: untaint(0), want: "canary:1 :239",
		}),
		Entry("a cluster becomes canary", change{
			before: strategy(whole, first, canary), groups: "canary:1 :239", change: ring("first", 120), want: "first:1 canary:1 :238",
		}),
		Entry("the canary cluster becomes another", change{
			before: strategy(whole, canary), groups: "canary:1 :239", change: ring("production", 0), want: ":240",
		}),
		Entry("a group is renamed", change{
			before: strategy(whole, canary), groups: "canary:1 :239", change: regroup(whole, [2]string{"ring-0", "canary"}), want: "ring-0:1 :239",
		}),
		Entry("a group of three pages is renamed", change{
			before: strategy(whole, canary, production), groups: "canary:1 production:239",
			change: regroup(whole, canary, [2]string{"ring-1", "production"}), want: "canary:1 ring-1:239",
		}),
		Entry("two groups exchange their names", change{
			before: strategy(whole, canary, production), groups: "canary:1 production:239",
			change: regroup(whole, [2]string{"production", "canary"}, [2]string{"canary", "production"}), want: "production:1 canary:239",
		}),
		Entry("groups are reordered", change{
			before: strategy(whole, canary, production), groups: "canary:1 production:239", change: regroup(whole, production, canary), want: "production:239 canary:1",
		}),
		Entry("groups are added later", change{
			before: strategy(whole), groups: ":240", change: regroup(whole, canary, production), want: "canary:1 production:239",
		}),
		Entry("groups are removed", change{
			before: strategy(whole, canary, production), groups: "canary:1 production:239", change: regroup(whole), want: ":240",
		}),
		Entry("a named group grows beyond its length", change{
			prepare: []func(context.Context, *clusterv1beta1.Placement){ring("canary", sequence(1, 119)...)},
			before:  strategy(intstr.FromInt32(120), canary), groups: "canary:120 :120",
			change: ring("canary", 120), want: "canary:120 canary:1 :119",
		}),
		Entry("groups become longer", change{
			before: strategy(intstr.FromInt32(25), canary), groups: "canary:1 :25 :25 :25 :25 :25 :25 :25 :25 :25 :14",
			change: regroup(intstr.FromInt32(240), canary), want: "canary:1 :239",
		}),
		Entry("groups become shorter", change{
			before: strategy(whole, canary), groups: "canary:1 :239", change: regroup(intstr.FromInt32(80), canary), want: "canary:1 :80 :80 :79",
		}),
	)
})

func sequence(from, to int) []int {
	var all []int
	for i := from; i <= to; i++ {
		all = append(all, i)
	}
	return all
}
