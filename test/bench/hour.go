package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
)

// Rates are how often things happen to each object, in an hour.
type Rates struct {
	// Heartbeats of each cluster. Resources is how often its allocatable amounts change, Labels how
	// often its labels do. Outages is how often it gets the taint of an unreachable cluster, which
	// it loses a few minutes later.
	Heartbeats, Resources, Labels, Outages float64
	// Edits is how often the spec of each Placement changes.
	Edits float64
}

// Hour is what happened to a fleet in the time that was simulated.
type Hour struct {
	// Events are the events that changed a cluster or a Placement. Attempts are the cycles that
	// they started, Skipped those that they did not start, because the answer could not change.
	Events, Heartbeats, Attempts, Skipped int
	// Moved are the attempts that changed the answer, Pages the pages that they wrote.
	Moved, Pages int
	// Busy is how long events and cycles took, CPU the processor time of that. Beats is the part of
	// heartbeats in Busy.
	Busy, Beats, CPU time.Duration
	// Latencies are the times from each event until its last Placement was decided, sorted. An
	// event waits for earlier ones. Moves are the same for the Placements that moved.
	Latencies, Moves []time.Duration
}

// At returns a quantile of sorted durations; 0 without any.
func At(sorted []time.Duration, quantile float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(quantile*float64(len(sorted))))]
}

// arrival is one event at a time from the beginning.
type arrival struct {
	at time.Duration
	// next returns the changed object; nil if there is nothing to change.
	next func(f *Fleet) client.Object
}

// Live simulates what happens to the fleet in a time. Heartbeats arrive regularly, changes at
// random times. Each waits until the cycles of those before it are done, as in a controller whose
// cycles are serial. The time that events and cycles take is measured, all else takes none:
// watches, writes of pages. It calls arrived with the time of each change.
func (f *Fleet) Live(length time.Duration, rates Rates, arrived func(at time.Duration)) (*Hour, error) {
	l := &living{Fleet: f}
	h := &l.hour
	f.OnSkipped = func(n int) { h.Skipped += n }
	f.OnPublished = func(pages int) { h.Moved, h.Pages = h.Moved+1, h.Pages+pages }
	defer func() { f.OnSkipped, f.OnPublished = nil, nil }()
	between := time.Duration(float64(time.Hour) / (rates.Heartbeats * float64(len(f.clusters))))
	beat := between
	for _, e := range f.arrivals(length, rates) {
		for ; beat < e.at; beat += between {
			busy := h.Busy
			if err := l.take(beat, f.beat()); err != nil {
				return nil, err
			}
			h.Heartbeats, h.Beats = h.Heartbeats+1, h.Beats+h.Busy-busy
		}
		arrived(e.at)
		moved, object := h.Moved, e.next(f)
		if object == nil {
			continue
		}
		if err := l.take(e.at, object); err != nil {
			return nil, err
		}
		h.Events++
		h.Latencies = append(h.Latencies, l.free-e.at)
		if h.Moved > moved {
			h.Moves = append(h.Moves, l.free-e.at)
		}
	}
	slices.Sort(h.Latencies)
	slices.Sort(h.Moves)
	return h, nil
}

// living is a fleet in the time that is simulated. free is when all cycles until now are done.
type living struct {
	*Fleet
	hour Hour
	free time.Duration
}

// take processes an event that arrives at a time.
func (l *living) take(at time.Duration, object client.Object) error {
	began, used := time.Now(), CPUTime()
	affected := l.Inventory.Update(object)
	if err := l.Decide(affected); err != nil {
		return err
	}
	took := time.Since(began)
	l.free = max(l.free, at) + took
	l.hour.CPU += CPUTime() - used
	l.hour.Busy, l.hour.Attempts = l.hour.Busy+took, l.hour.Attempts+len(affected)
	return nil
}

// arrivals returns the changes of a time, in their order.
func (f *Fleet) arrivals(length time.Duration, rates Rates) []arrival {
	random := rand.New(rand.NewPCG(2, 2))
	var all []arrival
	add := func(objects int, rate float64, next func(f *Fleet) client.Object) {
		for range int(float64(objects) * rate * length.Hours()) {
			all = append(all, arrival{at: time.Duration(random.Int64N(int64(length))), next: next})
		}
	}
	add(len(f.clusters), rates.Resources, (*Fleet).resize)
	add(len(f.clusters), rates.Labels, (*Fleet).label)
	add(len(f.clusters), rates.Outages, (*Fleet).taint)
	add(len(f.clusters), rates.Outages, (*Fleet).untaint)
	add(f.placements, rates.Edits, (*Fleet).edit)
	slices.SortStableFunc(all, func(a, b arrival) int { return int(a.at - b.at) })
	return all
}

// draw returns a copy of a cluster at random, to be changed.
func (f *Fleet) draw() (int, *v1alpha1.ManagedCluster) {
	n := f.random.IntN(len(f.clusters))
	f.version++
	c := f.clusters[n].DeepCopy()
	c.ResourceVersion = strconv.Itoa(f.version)
	return n, c
}

func (f *Fleet) put(n int, c *v1alpha1.ManagedCluster) client.Object {
	f.clusters[n] = c
	return c
}

// beat is a status write that changes nothing.
func (f *Fleet) beat() client.Object { return f.put(f.draw()) }

// resize changes the free memory by up to a tenth, as pods come and go.
func (f *Fleet) resize() client.Object {
	n, c := f.draw()
	memory := c.Status.Allocatable["memory"]
	amount := fmt.Sprintf("%dMi", max(1000, int64(float64(memory.Value()>>20)*(0.9+0.2*f.random.Float64()))))
	sized := fixture.Cluster(c.Name).Allocatable("memory", amount).Obj()
	c.Status.Allocatable["memory"], c.Status.Capacity["memory"] = sized.Status.Allocatable["memory"], sized.Status.Capacity["memory"]
	return f.put(n, c)
}

func (f *Fleet) label() client.Object {
	n, c := f.draw()
	c.Labels["tier"] = []string{"gold", "lead"}[min(1, f.random.IntN(20)/19)]
	return f.put(n, c)
}

// taint adds the taint of an unreachable cluster.
func (f *Fleet) taint() client.Object {
	n, c := f.draw()
	c.Spec.Taints = []v1alpha1.Taint{{Key: v1alpha1.ManagedClusterTaintUnreachable, Effect: v1alpha1.TaintEffectNoSelect, TimeAdded: metav1.NewTime(f.now)}}
	f.tainted = append(f.tainted, n)
	return f.put(n, c)
}

// untaint ends the outage that began first.
func (f *Fleet) untaint() client.Object {
	if len(f.tainted) == 0 {
		return nil
	}
	n := f.tainted[0]
	f.tainted = f.tainted[1:]
	f.version++
	c := f.clusters[n].DeepCopy()
	c.ResourceVersion, c.Spec.Taints = strconv.Itoa(f.version), nil
	return f.put(n, c)
}

// edit changes a weight of a Placement.
func (f *Fleet) edit() client.Object {
	n := f.random.IntN(f.placements)
	pl := f.placement(n).DeepCopy()
	known := f.Inventory.Placement(inventory.Key{Namespace: pl.Namespace, Name: pl.Name})
	pl.Generation = known.Generation + 1
	pl.Spec.PrioritizerPolicy.Configurations[0].Weight = new(int32(1 + f.random.IntN(3)))
	return pl
}
