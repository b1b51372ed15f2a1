package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// Labels of the fleet's clusters.
const (
	RingLabel = "ring" // which decision group claims the cluster
	PoolLabel = "pool" // whether a temporary cluster is selectable
)

var rings = []string{"red", "green", "blue", "none"}

// NewScheme has all kinds that the suites read and write, in the versions of consumers.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme, apiextensionsv1.AddToScheme, coordinationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two types under one name: a mistake in the code
		}
	}
	return scheme
}

// InParallel runs n calls, eight at a time, and fails with the first error.
func InParallel(n int, call func(i int) error) {
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

// Bind creates a namespace and binds the set there.
func Bind(ctx context.Context, hub client.Client, namespace, set string) {
	GinkgoHelper()
	testhub.CreateNamespace(ctx, hub, namespace)
	Expect(hub.Create(ctx, fixture.Binding(namespace, set))).To(Succeed())
}

// CleanUp deletes, after the spec, its objects in the namespaces and the clusters of the set. A hub
// without other controllers does not collect them.
func CleanUp(hub client.Client, set string, namespaces ...string) {
	kinds := []client.Object{&v1alpha1.Placement{}, &v1alpha1.PlacementDecision{}}
	DeferCleanup(func(ctx SpecContext) {
		InParallel(len(namespaces)*len(kinds), func(i int) error {
			return hub.DeleteAllOf(ctx, kinds[i%len(kinds)], client.InNamespace(namespaces[i/len(kinds)]))
		})
		Expect(hub.DeleteAllOf(ctx, &v1alpha1.ManagedCluster{}, client.MatchingLabels{v1alpha1.ClusterSetLabel: set})).To(Succeed())
	})
}

// SetLabel labels a cluster.
func SetLabel(ctx context.Context, hub client.Client, cluster, key, value string) error {
	return testhub.Patch(ctx, hub, fixture.Cluster(cluster).Obj(), fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value))
}

// Fleet is a changing set of clusters and the Placements that select from it.
type Fleet struct {
	Hub client.Client
	// Name is the name of the set and of the namespace.
	Name string
	// Core are the clusters that are in every decision.
	Core []string
	// Steps counts the changes so far.
	Steps int

	random    *rand.Rand
	temporary []bool // whether the temporary cluster exists
}

// The fleet's Placements: one divides all selectable clusters into groups, one takes a number of
// them by name.
const (
	Ringed  = "ringed"
	Counted = "counted"
)

// NewFleet creates core clusters, temporary clusters, their set and a namespace. The spec deletes
// them at its end.
func NewFleet(ctx context.Context, hub client.Client, name string, core, temporary int, seed uint64) *Fleet {
	GinkgoHelper()
	f := &Fleet{Hub: hub, Name: name, random: rand.New(rand.NewPCG(seed, 1)), temporary: make([]bool, temporary)}
	CleanUp(hub, name, name)
	Expect(hub.Create(ctx, fixture.Set(name))).To(Succeed())
	Bind(ctx, hub, name, name)
	var clusters []*v1alpha1.ManagedCluster
	for i := range core {
		f.Core = append(f.Core, fmt.Sprintf("%s-core-%03d", name, i))
		clusters = append(clusters, f.cluster(f.Core[i]))
	}
	for i := range f.temporary {
		f.temporary[i] = true
		clusters = append(clusters, f.cluster(f.temporaryName(i)))
	}
	InParallel(len(clusters), func(i int) error { return hub.Create(ctx, clusters[i]) })
	return f
}

// Watched returns the fleet's Placements for an observer.
func (f *Fleet) Watched() []Watched {
	return []Watched{{f.Name, Ringed, f.Core}, {f.Name, Counted, f.Core}}
}

// The name sorts after every core cluster.
func (f *Fleet) temporaryName(i int) string { return fmt.Sprintf("%s-floater-%02d", f.Name, i) }

func (f *Fleet) cluster(name string) *v1alpha1.ManagedCluster {
	return fixture.Cluster(name).Set(f.Name).Label(PoolLabel, "in").Label(RingLabel, f.randomRing()).Obj()
}

func (f *Fleet) randomRing() string { return rings[f.random.IntN(len(rings))] }

// Publish creates the Placements. Without prioritizers the order is by name, so the core clusters
// come first.
func (f *Fleet) Publish(ctx context.Context) {
	GinkgoHelper()
	inPool := fixture.MatchLabel(PoolLabel, "in")
	first := fixture.Placement(f.Name, Ringed).Predicate(inPool).Obj()
	f.changeGroups(first)
	second := fixture.Placement(f.Name, Counted).Predicate(inPool).Mode(v1alpha1.PrioritizerPolicyModeExact).
		Number(int32(len(f.Core) + len(f.temporary)/2)).Obj()
	Expect(f.Hub.Create(ctx, first)).To(Succeed())
	Expect(f.Hub.Create(ctx, second)).To(Succeed())
}

// changeGroups changes the groups of a Placement: which ones, their order and their length.
func (f *Fleet) changeGroups(pl *v1alpha1.Placement) {
	strategy := &pl.Spec.DecisionStrategy.GroupStrategy
	strategy.DecisionGroups = nil
	for _, i := range f.random.Perm(3)[:1+f.random.IntN(3)] {
		strategy.DecisionGroups = append(strategy.DecisionGroups, v1alpha1.DecisionGroup{
			GroupName:       rings[i],
			ClusterSelector: v1alpha1.GroupClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{RingLabel: rings[i]}}},
		})
	}
	f.changeGroupLength(pl)
}

// changeGroupLength changes the maximum length of a group.
func (f *Fleet) changeGroupLength(pl *v1alpha1.Placement) {
	lengths := []intstr.IntOrString{
		intstr.FromString("100%"), intstr.FromString("30%"), intstr.FromInt32(40), intstr.FromInt32(105),
	}
	pl.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = lengths[f.random.IntN(len(lengths))]
}

// Step makes one change: it moves a batch of clusters, adds or removes a temporary cluster, or
// edits a Placement.
func (f *Fleet) Step(ctx context.Context) error {
	f.Steps++
	switch n := f.random.IntN(100); {
	case n < 45:
		for range 1 + f.random.IntN(8) {
			if err := SetLabel(ctx, f.Hub, f.Core[f.random.IntN(len(f.Core))], RingLabel, f.randomRing()); err != nil {
				return err
			}
		}
		return nil
	case n < 75:
		return f.changeTemporary(ctx)
	case n < 85:
		return f.Change(ctx, Ringed, f.changeGroups)
	case n < 92:
		return f.Change(ctx, Ringed, f.changeGroupLength)
	default:
		return f.Change(ctx, Counted, f.editCounted)
	}
}

// editCounted edits the number of clusters, the groups or the order of the pages.
func (f *Fleet) editCounted(pl *v1alpha1.Placement) {
	switch f.random.IntN(3) {
	case 0:
		pl.Spec.NumberOfClusters = new(int32(len(f.Core) + f.random.IntN(len(f.temporary))))
	case 1:
		f.changeGroups(pl)
	default:
		pl.Spec.SortBy = []v1alpha1.DecisionSortBy{v1alpha1.SortByClusterName, v1alpha1.SortByScore}[f.random.IntN(2)]
	}
}

// changeTemporary makes temporary clusters join, leave, and become selectable or not.
func (f *Fleet) changeTemporary(ctx context.Context) error {
	i := f.random.IntN(len(f.temporary))
	if !f.temporary[i] {
		f.temporary[i] = true
		return f.Hub.Create(ctx, f.cluster(f.temporaryName(i)))
	}
	if f.random.IntN(2) == 0 {
		f.temporary[i] = false
		return f.Hub.Delete(ctx, fixture.Cluster(f.temporaryName(i)).Obj())
	}
	return SetLabel(ctx, f.Hub, f.temporaryName(i), PoolLabel, []string{"in", "out"}[f.random.IntN(2)])
}

// Change edits a Placement as a user does, and retries on conflicts with the controller's status
// writes.
func (f *Fleet) Change(ctx context.Context, name string, edit func(*v1alpha1.Placement)) error {
	pl := fixture.Placement(f.Name, name).Obj()
	if err := f.Hub.Get(ctx, client.ObjectKeyFromObject(pl), pl); err != nil {
		return err
	}
	base := pl.DeepCopy()
	edit(pl)
	return f.Hub.Patch(ctx, pl, client.MergeFrom(base))
}

// RunSteps makes a step every 50 ms until done is closed, and then sends the first error, or nil.
// With again, it ignores a step that the hub does not answer: the step may or may not have taken
// effect.
func (f *Fleet) RunSteps(ctx context.Context, done <-chan struct{}, again bool) <-chan error {
	result := make(chan error, 1)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				result <- nil
				return
			case <-tick.C:
				if err := f.Step(ctx); err != nil && !again {
					result <- err
					return
				}
			}
		}
	}()
	return result
}
