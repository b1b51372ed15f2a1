package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// The size of a trial's fleet.
const (
	coreSize    = 40
	floaterSize = 20
)

// quiet is a Placement beside the fleet's that nothing changes but the spec.
const quiet = "quiet"

// trial is one spec's fleet with its controllers and its observer.
type trial struct {
	*faults.Fleet
	observer *faults.Observation
	proxies  []*faults.Proxy
	injected map[string]int
	began    time.Time
	churning chan struct{}
	churned  <-chan error
}

// begin makes the fleet and publishes its Placements; nobody decides yet.
func begin(ctx context.Context, name string) *trial {
	GinkgoHelper()
	t := &trial{injected: map[string]int{}, began: time.Now()}
	t.Fleet = faults.NewFleet(ctx, hub, name, coreSize, floaterSize, uint64(GinkgoRandomSeed()))
	var still []string
	for _, letter := range []string{"a", "b", "c"} {
		still = append(still, name+"-still-"+letter)
		Expect(hub.Create(ctx, fixture.Cluster(name+"-still-"+letter).Set(name).Label(faults.PoolLabel, "still").Obj())).To(Succeed())
	}
	watched := append(t.Watched(), faults.Watched{Namespace: name, Name: quiet, Core: still[:2]})
	t.observer = faults.StartObserver(faults.Orders{
		Kubeconfig: hub.Kubeconfig, Placements: watched, Pollers: 2, PollPause: 10 * time.Millisecond,
	})
	Eventually(func() int { return t.observer.SoFar().Polls }).Should(BeNumerically(">", 0))
	t.Publish(ctx)
	Expect(hub.Create(ctx, fixture.Placement(name, quiet).Predicate(fixture.MatchLabel(faults.PoolLabel, "still")).Obj())).To(Succeed())
	return t
}

// proxy is one controller's way to the hub.
func (t *trial) proxy() *faults.Proxy {
	GinkgoHelper()
	p := faults.StartProxy(hub.Config)
	t.proxies = append(t.proxies, p)
	return p
}

// controller starts berth behind a proxy of its own.
func (t *trial) controller(flags ...string) (*faults.Process, *faults.Proxy) {
	GinkgoHelper()
	p := t.proxy()
	return faults.StartController(p.Kubeconfig(), flags...), p
}

// churn changes the fleet until rest is called. The hub need not answer where it is one of the
// things that break.
func (t *trial) churn(ctx context.Context, breaks bool) {
	t.churning = make(chan struct{})
	t.churned = t.RunSteps(ctx, t.churning, breaks)
	DeferCleanup(t.rest)
}

// rest ends the churn.
func (t *trial) rest() {
	GinkgoHelper()
	if t.churning == nil {
		return
	}
	close(t.churning)
	t.churning = nil
	Expect(<-t.churned).To(Succeed())
}

// writes are the pages that the trial's controllers have written.
func (t *trial) writes() int {
	n := 0
	for _, p := range t.proxies {
		n += p.Writes()
	}
	return n
}

// waitForSimulated ends all faults and all steps of the fleet. It waits until the published
// clusters are those that a simulation of the same objects selects.
func (t *trial) waitForSimulated(ctx context.Context) {
	GinkgoHelper()
	t.rest()
	for _, p := range t.proxies {
		p.EndFaults()
	}
	Eventually(func() (string, error) { return t.Difference(ctx) }).WithPolling(250 * time.Millisecond).Should(BeEmpty())
	Eventually(func() (string, error) { return t.lateStatus(ctx) }).Should(BeEmpty())
}

// lateStatus names a Placement whose status is not about what is published.
func (t *trial) lateStatus(ctx context.Context) (string, error) {
	list := &v1alpha1.PlacementList{}
	if err := hub.List(ctx, list, client.InNamespace(t.Name)); err != nil {
		return "", err
	}
	for i := range list.Items {
		pl := &list.Items[i]
		c := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
		if c == nil || c.ObservedGeneration != pl.Generation {
			return pl.Name + " has no status of its generation", nil
		}
		clusters, err := answer(ctx, pl.Namespace, pl.Name)
		if err != nil || len(clusters) != int(pl.Status.NumberOfSelectedClusters) {
			return fmt.Sprintf("%s counts %d clusters of %d", pl.Name, pl.Status.NumberOfSelectedClusters, len(clusters)), err
		}
	}
	return "", nil
}

// end stops the observer, prints what the spec has shown, and holds it to the laws.
func (t *trial) end(what string, more ...string) {
	GinkgoHelper()
	seen := t.observer.Stop()
	for _, p := range t.proxies {
		for kind, n := range p.Faults() {
			t.injected[kind] += n
		}
	}
	record(what, t.injected, t.writes(), seen, time.Since(t.began), more...)
	Expect(seen.Violations).To(BeZero(), "%v", seen.Examples)
	Expect(seen.States).To(BeNumerically(">", 0))
}

// answer is the clusters on a Placement's pages, each once, by name.
func answer(ctx context.Context, namespace, placement string) ([]string, error) {
	names, err := testhub.Clusters(ctx, hub, fixture.Placement(namespace, placement).Obj())
	slices.Sort(names)
	return slices.Compact(names), err
}

// condition is a Placement's condition as "status reason: message"; empty while there is none of
// its generation.
func condition(ctx context.Context, namespace, placement, kind string) (string, error) {
	return testhub.Condition(ctx, hub, fixture.Placement(namespace, placement).Obj(), kind)
}

// kinds are empty lists of the six kinds.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.ManagedClusterList{}, &v1alpha1.ManagedClusterSetList{}, &v1alpha1.ManagedClusterSetBindingList{},
		&v1alpha1.AddOnPlacementScoreList{}, &v1alpha1.PlacementList{}, &v1alpha1.PlacementDecisionList{},
	}
}

// table is what the suite prints last.
var table []string

// record prints a spec's counts, and adds them to the table.
func record(what string, injected map[string]int, writes int, seen faults.Seen, took time.Duration, more ...string) {
	total := 0
	for _, n := range injected {
		total += n
	}
	row := fmt.Sprintf("| %s | %d | %d | %d | %d | %s |", what, total, writes, seen.States+seen.Statuses, seen.Polls, violations(seen))
	table = append(table, row)
	fmt.Printf("\nobserved: %s: faults %s; %d page writes; %d pages, %d statuses and %d events watched, %d polls; %d violations %v; %s%s\n",
		what, faults.Counts(injected), writes, seen.States, seen.Statuses, seen.Events, seen.Polls, seen.Violations, seen.ByLaw,
		faults.Seconds(took), strings.Join(append([]string{""}, more...), "; "))
}

func violations(seen faults.Seen) string {
	if seen.Violations == 0 {
		return "0"
	}
	return fmt.Sprintf("%d, by law %v", seen.Violations, seen.ByLaw)
}

func printTable() {
	fmt.Println("\nobserved: | what breaks | faults | page writes | writes watched | polls | violations |")
	fmt.Println("observed: |---|---|---|---|---|---|")
	for _, row := range table {
		fmt.Println("observed: " + row)
	}
}
