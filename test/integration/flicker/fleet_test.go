package flicker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// Labels of the fleet's clusters.
const (
	ringLabel = "ring" // which decision group claims the cluster
	poolLabel = "pool" // whether a floater is selectable
)

var rings = []string{"red", "green", "blue", "none"}

// inParallel runs n calls, eight at a time, and fails with the first error.
func inParallel(n int, call func(i int) error) {
	GinkgoHelper()
	const atOnce = 8
	next, errs := make(chan int), make(chan error, atOnce)
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			var first error
			for i := range next {
				if err := call(i); err != nil && first == nil {
					first = err
				}
			}
			errs <- first
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	for range atOnce {
		Expect(<-errs).NotTo(HaveOccurred())
	}
}

// bind creates a namespace that sees the set.
func bind(ctx context.Context, namespace, set string) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	Expect(hub.Create(ctx, fixture.Binding(namespace, set))).To(Succeed())
}

// tidy removes what a spec put into namespaces, and its clusters: a hub without other controllers collects nothing.
func tidy(set string, namespaces ...string) {
	kinds := []client.Object{&v1alpha1.Placement{}, &v1alpha1.PlacementDecision{}}
	DeferCleanup(func(ctx SpecContext) {
		inParallel(len(namespaces)*len(kinds), func(i int) error {
			return hub.DeleteAllOf(ctx, kinds[i%len(kinds)], client.InNamespace(namespaces[i/len(kinds)]))
		})
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.ManagedCluster{}, client.MatchingLabels{v1alpha1.ClusterSetLabel: set})).To(Succeed())
	})
}

// fleet is a changing set of clusters and the Placements that choose from it.
type fleet struct {
	set, namespace string
	random         *rand.Rand
	core           []string
	floaters       map[string]bool // whether it exists
	steps          int
}

const (
	coreSize    = 130
	floaterSize = 40
)

// The fleet's Placements: one divides all selectable clusters into rings, one takes the first so many by name.
const (
	ringed  = "ringed"
	counted = "counted"
)

func newFleet(ctx context.Context, name string, seed uint64) *fleet {
	GinkgoHelper()
	f := &fleet{set: name, namespace: name, random: rand.New(rand.NewPCG(seed, 1)), floaters: map[string]bool{}}
	tidy(f.set, f.namespace)
	Expect(hub.Create(ctx, fixture.Set(f.set))).To(Succeed())
	bind(ctx, f.namespace, f.set)
	var clusters []*v1alpha1.ManagedCluster
	for i := range coreSize {
		f.core = append(f.core, fmt.Sprintf("core-%03d", i))
		clusters = append(clusters, f.cluster(f.core[i]))
	}
	for i := range floaterSize {
		name := fmt.Sprintf("floater-%02d", i)
		f.floaters[name] = true
		clusters = append(clusters, f.cluster(name))
	}
	inParallel(len(clusters), func(i int) error { return hub.Create(ctx, clusters[i]) })
	return f
}

func (f *fleet) cluster(name string) *v1alpha1.ManagedCluster {
	return fixture.Cluster(name).Set(f.set).Label(poolLabel, "in").Label(ringLabel, f.ring()).Obj()
}

func (f *fleet) ring() string { return rings[f.random.IntN(len(rings))] }

// publish creates the Placements. Without prioritizers the order is by name, so that the core always comes first.
func (f *fleet) publish(ctx context.Context) {
	GinkgoHelper()
	inPool := fixture.MatchLabel(poolLabel, "in")
	first := fixture.Placement(f.namespace, ringed).Predicate(inPool).Obj()
	f.regroup(first)
	second := fixture.Placement(f.namespace, counted).Predicate(inPool).Mode(v1alpha1.PrioritizerPolicyModeExact).
		Number(coreSize + floaterSize/2).Obj()
	Expect(hub.Create(ctx, first)).To(Succeed())
	Expect(hub.Create(ctx, second)).To(Succeed())
}

// regroup gives a Placement other groups: which rings, in which order, and how long.
func (f *fleet) regroup(pl *v1alpha1.Placement) {
	strategy := &pl.Spec.DecisionStrategy.GroupStrategy
	strategy.DecisionGroups = nil
	for _, i := range f.random.Perm(3)[:1+f.random.IntN(3)] {
		strategy.DecisionGroups = append(strategy.DecisionGroups, v1alpha1.DecisionGroup{
			GroupName:       rings[i],
			ClusterSelector: v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{ringLabel: rings[i]}}},
		})
	}
	f.resize(pl)
}

// resize changes how long a group may be.
func (f *fleet) resize(pl *v1alpha1.Placement) {
	lengths := []intstr.IntOrString{
		intstr.FromString("100%"), intstr.FromString("30%"), intstr.FromInt32(40), intstr.FromInt32(105),
	}
	pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = lengths[f.random.IntN(len(lengths))]
}

// step changes something: a batch of clusters moves, a floater comes or goes, or a Placement asks for something else.
func (f *fleet) step(ctx context.Context) error {
	f.steps++
	switch n := f.random.IntN(100); {
	case n < 45:
		for range 1 + f.random.IntN(8) {
			if err := setLabel(ctx, f.core[f.random.IntN(len(f.core))], ringLabel, f.ring()); err != nil {
				return err
			}
		}
		return nil
	case n < 75:
		return f.float(ctx)
	case n < 85:
		return f.change(ctx, ringed, f.regroup)
	case n < 92:
		return f.change(ctx, ringed, f.resize)
	default:
		return f.change(ctx, counted, f.recount)
	}
}

// recount asks for another number, other groups or another order within the pages.
func (f *fleet) recount(pl *v1alpha1.Placement) {
	switch f.random.IntN(3) {
	case 0:
		pl.Spec.NumberOfClusters = new(int32(coreSize + f.random.IntN(floaterSize)))
	case 1:
		f.regroup(pl)
	default:
		pl.Spec.SortBy = []v1alpha1.DecisionSortBy{v1alpha1.SortByClusterName, v1alpha1.SortByScore}[f.random.IntN(2)]
	}
}

// float lets floaters join, leave, and become selectable or not.
func (f *fleet) float(ctx context.Context) error {
	name := fmt.Sprintf("floater-%02d", f.random.IntN(floaterSize))
	if !f.floaters[name] {
		f.floaters[name] = true
		return hub.Create(ctx, f.cluster(name))
	}
	if f.random.IntN(2) == 0 {
		f.floaters[name] = false
		return hub.Delete(ctx, fixture.Cluster(name).Obj())
	}
	return setLabel(ctx, name, poolLabel, []string{"in", "out"}[f.random.IntN(2)])
}

func setLabel(ctx context.Context, cluster, key, value string) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))
	return hub.Patch(ctx, fixture.Cluster(cluster).Obj(), patch)
}

// change edits a Placement as a user would, over the controller's status writes.
func (f *fleet) change(ctx context.Context, name string, edit func(*v1alpha1.Placement)) error {
	pl := fixture.Placement(f.namespace, name).Obj()
	if err := hub.Get(ctx, client.ObjectKeyFromObject(pl), pl); err != nil {
		return err
	}
	base := pl.DeepCopy()
	edit(pl)
	return hub.Patch(ctx, pl, client.MergeFrom(base))
}
