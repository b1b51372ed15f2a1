package bench

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/lifecycle"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

// GlobalPlacements is how many Placements choose from the whole fleet, beside those of one set
// each. Their keys come first.
const GlobalPlacements = 10

// Fleet is a hub in memory: clusters in sets, Placements that choose three of one set each by
// label, Balance, Steady and memory, and ten that choose from all clusters.
type Fleet struct {
	Inventory *inventory.Inventory
	scheduler *scheduler.Scheduler
	clusters  []*v1alpha1.ManagedCluster
	sets      int
	random    *rand.Rand
	version   int
	// OnSkipped is called with the number of attempts that an event did not start, OnPublished with
	// the number of pages of a changed decision, if they are not nil.
	OnSkipped, OnPublished func(int)
	placements             int
	// tainted are the clusters with a taint, oldest first.
	tainted []int
	// now is the time of decisions; decided is called with each of them, if it is not nil.
	now     time.Time
	decided func(*plan.Plan)
}

// NewFleet builds one in which nothing is decided; the same numbers give the same fleet.
func NewFleet(clusters, sets, placements int) (*Fleet, error) {
	return newFleetWith(clusters, sets, placements, inventory.Options{})
}

func newFleetWith(clusters, sets, placements int, options inventory.Options) (*Fleet, error) {
	f := &Fleet{
		now: fixture.Now, clusters: make([]*v1alpha1.ManagedCluster, clusters),
		sets: sets, placements: placements, random: rand.New(rand.NewPCG(1, 1)),
	}
	options.OnSettled = func(n int) {
		if f.OnSkipped != nil {
			f.OnSkipped(n)
		}
	}
	f.Inventory = inventory.New(options)
	f.Inventory.Update(fixture.SelectorSet("global", &metav1.LabelSelector{}))
	f.Inventory.Update(fixture.Binding("everywhere", "global"))
	for n := range sets {
		f.Inventory.Update(fixture.Set(setName(n)))
		f.Inventory.Update(fixture.Binding(teamName(n), setName(n)))
		f.Inventory.Update(fixture.Binding(teamName(n), "global"))
	}
	for n := range clusters {
		f.clusters[n] = f.newCluster(n)
		f.Inventory.Update(f.clusters[n])
	}
	for n := range placements {
		f.Inventory.Update(f.placement(n))
	}
	for n := range GlobalPlacements {
		f.Inventory.Update(threeOf("everywhere", fmt.Sprintf("placement-%d", n)).Obj())
	}
	return f, f.Restart()
}

// placement is the n-th Placement of one set, as it is created.
func (f *Fleet) placement(n int) *v1alpha1.Placement {
	return threeOf(teamName(n%f.sets), fmt.Sprintf("placement-%05d", n)).Sets(setName(n % f.sets)).Obj()
}

func setName(n int) string  { return fmt.Sprintf("set-%03d", n) }
func teamName(n int) string { return fmt.Sprintf("team-%03d", n) }

func threeOf(namespace, name string) fixture.PlacementBuilder {
	return fixture.Placement(namespace, name).Number(3).Predicate(fixture.MatchLabel("tier", "gold")).
		Prioritizer(v1alpha1.PrioritizerResourceAllocatableMemory, 1)
}

// newCluster is what a member's agent reports, of random size; one of twenty is not of the tier
// that Placements want.
func (f *Fleet) newCluster(n int) *v1alpha1.ManagedCluster {
	tier := "gold"
	if f.random.IntN(20) == 0 {
		tier = "lead"
	}
	f.version++
	c := fixture.Cluster(fmt.Sprintf("cluster-%06d", n)).Set(setName(n%f.sets)).Label("tier", tier).
		Label("region", fmt.Sprintf("region-%d", f.random.IntN(30))).Label("vendor", "example").
		Claim("id.k8s.io", fmt.Sprintf("id-%d", n)).Claim("kubeversion.example.com", "v1.36.0").
		Allocatable("cpu", strconv.Itoa(4+f.random.IntN(60))).Allocatable("memory", fmt.Sprintf("%dMi", 1000+f.random.IntN(500_000))).
		Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionTrue, fixture.At(0)).Obj()
	c.ResourceVersion = strconv.Itoa(f.version)
	return c
}

// Restart forgets what the scheduler remembers of earlier cycles, as a new process does.
func (f *Fleet) Restart() error {
	profiles, err := builtin.Profiles(context.Background(), nil, builtin.Registry(), &framework.Handle{})
	if err != nil {
		return fmt.Errorf("building profiles: %w", err)
	}
	f.scheduler = scheduler.New(profiles, nil)
	return nil
}

// Change gives one cluster, at random, another size and perhaps another tier; it returns the
// Placements to decide.
func (f *Fleet) Change() []inventory.Key {
	n := f.random.IntN(len(f.clusters))
	f.clusters[n] = f.newCluster(n)
	return f.Inventory.Update(f.clusters[n])
}

// Decide decides Placements one after the other, and publishes what changed into the inventory.
func (f *Fleet) Decide(keys []inventory.Key) error {
	for _, key := range keys {
		if err := f.decide(key); err != nil {
			return fmt.Errorf("deciding %s: %w", key, err)
		}
	}
	return nil
}

func (f *Fleet) decide(key inventory.Key) error {
	r := f.scheduler.Decide(context.Background(), f.Inventory.Snapshot(key, f.now, nil))
	defer f.scheduler.Release(r.Decision)
	if f.decided != nil {
		f.decided(r.Plan)
	}
	if len(r.Selected) != 3 {
		return fmt.Errorf("%d clusters are selected: %w", len(r.Selected), r.Failure.Err())
	}
	plan, err := lifecycle.Plan(r.State, r.Target)
	if err != nil {
		return fmt.Errorf("planning: %w", err)
	}
	for _, w := range plan.Writes {
		write := lifecycle.PageWriteOf(r.Snapshot.Subject.Placement, w)
		f.version++
		write.Page.UID, write.Page.ResourceVersion = types.UID(key.String()), strconv.Itoa(f.version)
		f.Inventory.AssumePage(write.Page, write.Deleted)
	}
	if len(plan.Writes) > 0 && f.OnPublished != nil {
		f.OnPublished(len(plan.Writes))
	}
	if len(plan.Writes) > 0 || r.Snapshot.Subject.Last == nil {
		f.Inventory.SetPublished(r.Snapshot.Subject, &framework.Published{Names: r.Target.Clusters, Digest: r.Target.Digest})
		return nil
	}
	f.Inventory.Settle(r.Snapshot, r.Proof())
	return nil
}

// CPUTime is what the process has used so far, on all cores; unlike a clock it hardly knows what
// else the machine does.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Peak is the peak of resident memory in megabytes; 0 where the kernel does not say.
func Peak() float64 {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer func() { _ = status.Close() }()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		var kilobytes float64
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &kilobytes); err == nil {
				return kilobytes / 1000
			}
		}
	}
	return 0
}
