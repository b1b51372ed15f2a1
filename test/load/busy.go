package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Rates of the busy rows, in a second: changes of clusters, a quarter of which make clusters leave
// Placements, and heartbeats.
const (
	busyChanges    = 20
	busyHeartbeats = 170
	// outage is how long a cluster has a taint that no Placement tolerates.
	outage = 10 * time.Second
)

// departures are the clusters that Placements must leave.
type departures struct {
	mu sync.Mutex
	// listing holds the Placements by the clusters on their pages, listed the clusters by
	// Placement.
	listing map[string]map[types.NamespacedName]bool
	listed  map[types.NamespacedName][]string
	// leaving are the clusters that were just tainted.
	leaving map[string]*departure
	// took are the times from the acknowledged change until the last page.
	took []time.Duration
	// least is the number of pages that had to be written.
	least int
}

// departure is one cluster that Placements must leave.
type departure struct {
	since   time.Time
	pending map[types.NamespacedName]bool
}

// show processes the clusters that the pages of a Placement list.
func (d *departures) show(key types.NamespacedName, clusters []string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.listed[key]
	d.listed[key] = clusters
	is := map[string]bool{}
	for _, name := range clusters {
		is[name] = true
		if d.listing[name] == nil {
			d.listing[name] = map[types.NamespacedName]bool{}
		}
		d.listing[name][key] = true
	}
	for _, name := range before {
		if is[name] {
			continue
		}
		delete(d.listing[name], key)
		if left := d.leaving[name]; left != nil && left.pending[key] {
			delete(left.pending, key)
			d.finish(name, left, now)
		}
	}
}

// finish stores the time of a departure that is complete, if its change is acknowledged.
func (d *departures) finish(name string, left *departure, now time.Time) {
	if len(left.pending) == 0 && !left.since.IsZero() {
		// The watch may be faster than the response to the patch.
		d.took = append(d.took, max(now.Sub(left.since), 0))
		delete(d.leaving, name)
	}
}

// begin begins a departure before its change is sent. It returns false for a cluster that no
// Placement has, or that is leaving already.
func (d *departures) begin(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.listing[name]) == 0 || d.leaving[name] != nil {
		return false
	}
	left := &departure{pending: map[types.NamespacedName]bool{}}
	for key := range d.listing[name] {
		left.pending[key] = true
	}
	d.least += len(left.pending)
	d.leaving[name] = left
	return true
}

// acknowledge is called with the response to the change.
func (d *departures) acknowledge(name string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.leaving[name]; left != nil {
		left.since = now
		d.finish(name, left, now)
	}
}

// changeToPage is the controller's histogram of the time from a watch event until the page.
const changeToPage = "berth_change_to_page_duration_seconds"

// busy is one measurement of a busy row.
type busy struct {
	*run
	// apart sends what is measured: outages, and the writes of the floor.
	apart  *hub
	random *rand.Rand
	gone   *departures
	// down are the clusters with the taint, and when they lose it.
	down []downUntil
	// failed has the first error; sent counts changes and heartbeats.
	failed        atomic.Pointer[error]
	changes, sent atomic.Int64
	resident      []float64
	// floors are the times of the two writes of a plain client beside the load, quiet before it.
	floors, quiet []time.Duration
	// before and inside are the controller's own histogram of changes until their pages are
	// written, before and after.
	before, inside histogram
}

type downUntil struct {
	cluster int
	at      time.Time
}

// measureBusy changes clusters at a fixed rate beside heartbeats, and measures how long Placements
// list a cluster that they must leave.
func (r *run) measureBusy(ctx context.Context, row, work string) error {
	r.printStep("%s: preparing", row)
	if err := r.fleet.setShape(ctx, steady); err != nil {
		return err
	}
	if err := r.waitUntilIdle(ctx); err != nil {
		return err
	}
	apart, err := r.hub.apart()
	if err != nil {
		return err
	}
	b := &busy{run: r, apart: apart, random: rand.New(rand.NewPCG(1, 1)), gone: r.observer.follow()}
	defer r.observer.unfollow()
	if err := r.process.resetPeak(); err != nil {
		return fmt.Errorf("resetting the peak of memory: %w", err)
	}
	r.printStep("%s: %s of changes", row, r.length)
	if err := b.measureQuiet(ctx); err != nil {
		return err
	}
	if b.before, err = r.process.histogram(changeToPage, ""); err != nil {
		return err
	}
	var spent effort
	begin := time.Now()
	err = r.spend(&spent, func() error { return b.keepBusy(ctx, begin.Add(r.length)) })
	if err != nil {
		return err
	}
	elapsed := time.Since(begin)
	if b.inside, err = r.process.histogram(changeToPage, ""); err != nil {
		return err
	}
	peak, err := r.process.peak()
	if err != nil {
		return err
	}
	return b.report(row, work, spent, elapsed, peak)
}

// keepBusy sends changes and heartbeats until a time.
func (b *busy) keepBusy(ctx context.Context, end time.Time) error {
	var running sync.WaitGroup
	send := func(call func() error) {
		running.Go(func() {
			if err := call(); err != nil {
				b.failed.CompareAndSwap(nil, &err)
			}
		})
	}
	beats := time.NewTicker(time.Second / busyHeartbeats)
	defer beats.Stop()
	changes := time.NewTicker(time.Second / busyChanges)
	defer changes.Stop()
	samples := time.NewTicker(b.length / 10)
	defer samples.Stop()
	send(func() error { return b.measureFloors(ctx, end) })
	// More requests at once would make the hub slower than the rates ask for.
	free := make(chan struct{}, workers)
	n, beat := 0, 0
	for time.Now().Before(end) && b.failed.Load() == nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beats.C:
			select {
			case free <- struct{}{}:
				beat++
				i := beat % b.Clusters
				send(func() error {
					defer func() { <-free }()
					return b.beat(ctx, i)
				})
			default:
			}
		case <-changes.C:
			n++
			b.change(ctx, n, send)
		case <-samples.C:
			if err := b.sampleMemory(); err != nil {
				return err
			}
		}
	}
	running.Wait()
	if err := b.failed.Load(); err != nil {
		return *err
	}
	for _, d := range b.down {
		if err := b.taint(ctx, d.cluster, false); err != nil {
			return err
		}
	}
	return b.waitUntilIdle(ctx)
}

// measureQuiet measures the two writes of a plain client before the hub is busy.
func (b *busy) measureQuiet(ctx context.Context) error {
	for range 50 {
		two, err := b.floor.measureOne(ctx)
		if err != nil {
			return err
		}
		b.quiet = append(b.quiet, two)
	}
	return b.waitUntilIdle(ctx)
}

// measureFloors measures them beside the load until a time.
func (b *busy) measureFloors(ctx context.Context, end time.Time) error {
	beside := *b.floor
	beside.hub = b.apart
	for time.Now().Before(end) {
		two, err := beside.measureOne(ctx)
		if err != nil {
			return err
		}
		b.floors = append(b.floors, two)
		time.Sleep(500 * time.Millisecond)
	}
	return nil
}

func (b *busy) sampleMemory() error {
	now, err := b.process.resident()
	b.resident = append(b.resident, now)
	return err
}

// change sends the n-th change: a quarter are outages of clusters that Placements have, a quarter
// are their ends, and half are other amounts of memory, which all Placements weigh.
func (b *busy) change(ctx context.Context, n int, send func(func() error)) {
	switch n % 4 {
	case 0:
		for range 100 {
			i := b.random.IntN(b.Clusters)
			if !b.gone.begin(clusterName(i)) {
				continue
			}
			b.down = append(b.down, downUntil{i, time.Now().Add(outage)})
			b.changes.Add(1)
			send(func() error {
				if err := b.taint(ctx, i, true); err != nil {
					return err
				}
				b.gone.acknowledge(clusterName(i), time.Now())
				return nil
			})
			return
		}
		return
	case 2:
		if len(b.down) == 0 || time.Now().Before(b.down[0].at) {
			return
		}
		i := b.down[0].cluster
		b.down = b.down[1:]
		b.changes.Add(1)
		send(func() error { return b.taint(ctx, i, false) })
		return
	}
	i := b.per + b.random.IntN(b.Clusters-b.per)
	amount := fmt.Sprintf("%dMi", 15*1024+b.random.IntN(1024))
	b.changes.Add(1)
	send(func() error { return b.fleet.setMemory(ctx, i, amount) })
}

func (b *busy) beat(ctx context.Context, i int) error {
	b.sent.Add(1)
	return b.fleet.report(ctx, i, fmt.Sprintf(`{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Heartbeat","message":"%d","lastTransitionTime":%q}]}`,
		time.Now().UnixNano(), time.Now().UTC().Format(time.RFC3339)))
}

// taint sets or removes the taint of an unreachable cluster.
func (b *busy) taint(ctx context.Context, i int, tainted bool) error {
	return b.setUnreachable(ctx, b.apart, i, tainted)
}

// setUnreachable sets the taint of a cluster without heartbeats, or removes it.
func (r *run) setUnreachable(ctx context.Context, hub *hub, i int, tainted bool) error {
	before, after := r.fleet.cluster(i), r.fleet.cluster(i)
	taints := []v1alpha1.Taint{{Key: v1alpha1.ManagedClusterTaintUnreachable, Effect: v1alpha1.TaintEffectNoSelect}}
	if before.Spec.Taints = taints; tainted {
		before.Spec.Taints, after.Spec.Taints = nil, taints
	}
	if err := hub.Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("changing the taints of %s: %w", clusterName(i), err)
	}
	return nil
}

// report adds the rows.
func (b *busy) report(row, work string, spent effort, elapsed time.Duration, peak float64) error {
	b.gone.mu.Lock()
	defer b.gone.mu.Unlock()
	took := b.gone.took
	if len(took) == 0 || len(b.floors) == 0 || len(b.resident) < 2 {
		return fmt.Errorf("%d departures, %d floors and %d sizes were measured", len(took), len(b.floors), len(b.resident))
	}
	seconds, two := elapsed.Seconds(), quantile(b.floors, 0.5)
	perSecond := int(seconds)
	b.printStep("%s: %.1f changes and %.0f heartbeats a second; %d clusters left; resident memory %.0f MB", row,
		float64(b.changes.Load())/seconds, float64(b.sent.Load())/seconds, len(took), b.resident)
	for _, q := range []struct {
		name       string
		at, target float64
	}{{"p50", 0.5, 2}, {"p99", 0.99, 20}} {
		at := quantile(took, q.at)
		b.add(result{
			Row: row + "-" + q.name, Work: work + ", " + q.name, Value: float64(at) / float64(two), Unit: times, Target: q.target,
			Samples: len(took), Took: ms(at), Floor: ms(two),
		}, spent, perSecond)
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		at, alone := quantile(b.floors, q.at), quantile(b.quiet, q.at)
		b.add(result{
			Row: row + "-floor-" + q.name, Work: work + ", the floor beside it, " + q.name, Value: float64(at) / float64(alone), Unit: "× alone",
			Samples: len(b.floors), Took: ms(at), Floor: ms(alone),
		}, spent, perSecond)
	}
	if inside := b.inside.since(b.before); len(inside.counts) > 0 {
		b.printStep("%s: from the watch event until the page is written, by the controller: p50 ≤ %.3g s, p99 ≤ %.3g s", row, inside.quantile(0.5), inside.quantile(0.99))
	}
	first, last := b.resident[0], b.resident[len(b.resident)-1]
	for _, x := range []result{
		{Row: row, Work: work + ", processors", Value: spent.cpu.Seconds() / seconds, Unit: "cores", Target: 1},
		{Row: row + "-pages", Work: work + ", page writes", Value: float64(spent.pages) / float64(b.gone.least), Unit: "× least"},
		{Row: row + "-history", Work: work + ", record requests", Value: float64(spent.records) / float64(b.gone.least), Unit: "a move"},
		{Row: row + "-memory", Work: work + ", memory at the end", Value: last / first, Unit: "× start"},
		{Row: row + "-peak", Work: work + ", peak resident memory", Value: peak, Unit: "MB"},
	} {
		x.Samples = len(took)
		b.add(x, spent, perSecond)
	}
	return nil
}

// measureBusyWithPolicies is measureBusy with a DisruptionPolicy for every tenth Placement.
func (r *run) measureBusyWithPolicies(ctx context.Context) error {
	tenth := map[string]string{"load.berth.dev/tenth": "yes"}
	n := (r.Placements + 9) / 10
	err := each(n, func(i int) error {
		before, after := r.fleet.placement(10*i, r.fleet.shape), r.fleet.placement(10*i, r.fleet.shape)
		after.Labels = tenth
		return r.hub.Patch(ctx, after, client.MergeFrom(before))
	})
	if err != nil {
		return fmt.Errorf("labelling Placements: %w", err)
	}
	removePolicy, err := r.createPolicy(ctx, namespace, "tenth", intstr.FromString("25%"), tenth, n)
	if err != nil {
		return err
	}
	if err := r.measureBusy(ctx, "busy-policies", "busy hub, a policy for every tenth"); err != nil {
		return err
	}
	return removePolicy()
}
