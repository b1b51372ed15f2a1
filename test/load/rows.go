package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// measureColdStarts starts the controller on an undecided hub several times and leaves the last one
// running. The floor is measured before each start.
func (r *run) measureColdStarts(ctx context.Context) error {
	starts := r.repeats
	if !slices.Contains(r.rows, "cold") {
		starts = 1
	}
	var durations, floors, lists []time.Duration
	var spent effort
	for i := range starts {
		r.printStep("cold start %d of %d: the floor, and Placements", i+1, starts)
		if i > 0 {
			if err := r.removeDecisions(ctx); err != nil {
				return err
			}
		}
		three, one, err := r.floor.measureMany(ctx, r.Placements)
		if err != nil {
			return err
		}
		floors, r.pageFloors = append(floors, three), append(r.pageFloors, one)
		if err := r.fleet.place(ctx); err != nil {
			return err
		}
		list, err := r.floor.measureLists(ctx)
		if err != nil {
			return err
		}
		lists = append(lists, list)
		r.printStep("cold start %d of %d", i+1, starts)
		elapsed, e, err := r.coldStart(ctx)
		if err != nil {
			return err
		}
		durations = append(durations, elapsed)
		spent.cpu, spent.cycles, spent.counted = spent.cpu+e.cpu, spent.cycles+e.cycles, e.counted
		spent.writes = spent.plus(e.writes)
	}
	if slices.Contains(r.rows, "cold") {
		// Each start has its own ratio, because the load of the machine differs between starts.
		ratios, ofBoth := make([]float64, starts), make([]float64, starts)
		for i := range ratios {
			ratios[i] = durations[i].Seconds() / floors[i].Seconds()
			ofBoth[i] = durations[i].Seconds() / (floors[i] + lists[i]).Seconds()
		}
		slices.Sort(ratios)
		slices.Sort(ofBoth)
		cold := result{
			Row: "cold", Work: "cold start, of a plain client's lists and writes", Value: ofBoth[len(ofBoth)/2], Unit: times, Target: 1.5,
			Samples: starts, Took: ms(quantile(durations, 0.5)), Floor: ms(quantile(floors, 0.5) + quantile(lists, 0.5)),
		}
		r.add(cold, spent, starts)
		cold.Row, cold.Work, cold.Value, cold.Target = "cold-writes", "cold start, of the writes alone", ratios[len(ratios)/2], 0
		cold.Floor = ms(quantile(floors, 0.5))
		r.add(cold, spent, starts)
	}
	return nil
}

// coldStart measures the time from the start of the process until a watch has shown the last
// decision and status.
func (r *run) coldStart(ctx context.Context) (time.Duration, effort, error) {
	w := r.observer.expect(r.fleet.keys(), func(v *view) bool {
		return v.satisfied && int(v.selected) == r.per && v.clusters() == r.per
	})
	before := r.observer.counted()
	begin := time.Now()
	var err error
	if r.process, err = startProcess(r.options, r.hub.kubeconfig, r.dir); err != nil {
		return 0, effort{}, err
	}
	at, err := r.wait(ctx, w)
	if err != nil {
		return 0, effort{}, err
	}
	if err := r.waitUntilIdle(ctx); err != nil {
		return 0, effort{}, err
	}
	e, err := r.effort()
	e.writes = e.minus(before)
	return at.Sub(begin), e, err
}

// removeDecisions stops the controller and deletes its decisions.
func (r *run) removeDecisions(ctx context.Context) error {
	r.process.stop()
	if err := r.hub.removeAll(ctx, namespace, &v1alpha1.Placement{}, &v1alpha1.PlacementDecision{}); err != nil {
		return err
	}
	w := r.observer.expect(r.fleet.keys(), func(v *view) bool { return !v.exists && len(v.pages) == 0 })
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(patience):
		return errors.New("deleted Placements or pages are still there")
	}
}

// measureHot changes the allocatable memory of one cluster, so that the first Placement has to
// select it, and then back again, so that the next rows do not see the change. Every Placement can
// use the cluster; only the first one changes. Floor and changes alternate, twenty of each.
func (r *run) measureHot(ctx context.Context, row string, s shape) error {
	const batch = 20
	samples := r.samples - r.samples%2
	r.printStep("%s: preparing", row)
	if err := r.fleet.setShape(ctx, s); err != nil {
		return err
	}
	if err := r.waitUntilIdle(ctx); err != nil {
		return err
	}
	r.printStep("%s: up to %d changes", row, samples)
	var durations, floors []time.Duration
	var spent effort
	end := time.Now().Add(r.budget)
	for len(durations) < samples && (len(durations) == 0 || time.Now().Before(end)) {
		for range batch {
			two, err := r.floor.measureOne(ctx)
			if err != nil {
				return err
			}
			floors = append(floors, two)
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
		err := r.spend(&spent, func() error {
			for range min(batch, samples-len(durations)) {
				elapsed, err := r.change(ctx, len(durations), r.fleet.mover(s))
				if err != nil {
					return err
				}
				durations = append(durations, elapsed)
				if len(durations)%2 == 0 && time.Now().After(end) {
					break
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	r.hot.cpu, r.hot.recording = r.hot.cpu+spent.cpu, r.hot.recording+spent.recording
	r.addHot(row, durations, quantile(floors, 0.5), spent)
	return nil
}

// hotWork describes the hot rows.
var hotWork = map[string]string{
	"hot": "hot one", "hot-predicate": "hot one, label predicates", "hot-read": "hot one, all weigh memory", "hot-last": "hot one, all weigh memory, last in line",
}

// addHot adds the results of a hot row, whose floor is the time of two writes.
func (r *run) addHot(row string, durations []time.Duration, two time.Duration, spent effort) {
	p50 := result{
		Row: row, Work: hotWork[row] + ", p50", Value: float64(quantile(durations, 0.5)) / float64(two), Unit: times, Target: 4,
		Samples: len(durations), Took: ms(quantile(durations, 0.5)), Floor: ms(two),
	}
	p99 := p50
	p99.Row, p99.Work, p99.Target, p99.Took = row+"-p99", hotWork[row]+", p99", 20, ms(quantile(durations, 0.99))
	p99.Value = float64(quantile(durations, 0.99)) / float64(two)
	r.add(p50, spent, len(durations))
	r.add(p99, spent, len(durations))
	if row == "hot-read" {
		r.add(result{
			Row: "hot-read-cpu", Work: "hot one, all weigh memory", Value: ms(spent.cpu) / float64(len(durations)), Unit: "ms CPU", Target: 15, Samples: len(durations),
		}, spent, len(durations))
	}
}

// measureRead changes the memory of clusters, which all Placements weigh, so that no answer
// changes.
func (r *run) measureRead(ctx context.Context) error {
	if err := r.fleet.setShape(ctx, steady); err != nil {
		return err
	}
	report := func(i int) error {
		return r.fleet.setMemory(ctx, r.per+i%(r.Clusters-r.per), []string{"15Gi", ordinary}[i/(r.Clusters-r.per)%2])
	}
	// The first change after the Placements were edited starts an attempt for each.
	for i := range 3 {
		if err := report(i); err != nil {
			return err
		}
		if err := r.waitUntilIdle(ctx); err != nil {
			return err
		}
	}
	r.printStep("read: %d changes", r.samples)
	var spent effort
	err := r.spend(&spent, func() error {
		if err := each(r.samples, func(i int) error { return report(3 + i) }); err != nil {
			return err
		}
		return r.waitUntilIdle(ctx)
	})
	if err != nil {
		return err
	}
	r.add(result{
		Row: "read", Work: "a change that all weigh and that moves none, for each Placement", Value: 1000 * ms(spent.cpu) / float64(r.samples*r.Placements), Unit: "µs CPU",
		Target: 5, Samples: r.samples,
	}, spent, r.samples)
	return nil
}

// change is the n-th change of a hot row, in which one Placement moves: the even ones increase the
// memory of a cluster, the odd ones revert that.
func (r *run) change(ctx context.Context, n, mover int) (time.Duration, error) {
	i := r.per + n/2*7%(r.Clusters-r.per)
	amount, up := leaping, n%2 == 0
	if !up {
		amount = ordinary
	}
	name, moves := clusterName(i), r.fleet.keys()[mover:mover+1]
	w := r.observer.expect(moves, func(v *view) bool { return v.lists(name) == up && v.clusters() == r.per })
	if err := r.fleet.setMemory(ctx, i, amount); err != nil {
		return 0, err
	}
	begin := time.Now()
	at, err := r.wait(ctx, w)
	if err != nil {
		return 0, err
	}
	// The watch may be faster than the response to the patch.
	return max(at.Sub(begin), 0), r.pause(ctx)
}

// measureHotAll changes a cluster so that every Placement changes, and back.
func (r *run) measureHotAll(ctx context.Context) error {
	changes := 2 * r.repeats
	r.printStep("hot-all: preparing")
	if err := r.fleet.setShape(ctx, memory); err != nil {
		return err
	}
	var durations []time.Duration
	var spent effort
	last := r.Clusters - 1
	r.printStep("hot-all: %d changes", changes)
	for n := range changes {
		if err := r.waitUntilIdle(ctx); err != nil {
			return err
		}
		amount, up := leaping, n%2 == 0
		if !up {
			amount = ordinary
		}
		err := r.spend(&spent, func() error {
			w := r.observer.expect(r.fleet.keys(), func(v *view) bool { return v.lists(clusterName(last)) == up && v.clusters() == r.per })
			if err := r.fleet.setMemory(ctx, last, amount); err != nil {
				return err
			}
			begin := time.Now()
			at, err := r.wait(ctx, w)
			if err != nil {
				return err
			}
			durations = append(durations, at.Sub(begin))
			return r.waitUntilIdle(ctx)
		})
		if err != nil {
			return err
		}
	}
	r.hot.cpu, r.hot.recording = r.hot.cpu+spent.cpu, r.hot.recording+spent.recording
	elapsed, floor := quantile(durations, 0.5), quantile(r.pageFloors, 0.5)
	r.add(result{
		Row: "hot-all", Work: "hot all, until the last decision", Value: elapsed.Seconds() / floor.Seconds(), Unit: times, Target: 1.5,
		Samples: changes, Took: ms(elapsed), Floor: ms(floor),
	}, spent, changes)
	return nil
}

// heartbeat renews a condition of clusters, which no Placement reads.
func (r *run) heartbeat(ctx context.Context) error {
	if err := r.waitUntilIdle(ctx); err != nil {
		return err
	}
	r.printStep("heartbeat: %d of them", r.heartbeats)
	plain, err := startInformers(r.hub.kubeconfig, r.dir)
	if err != nil {
		return err
	}
	defer plain.stop()
	if err := r.waitUntilIdle(ctx); err != nil {
		return err
	}
	var spent effort
	before, err := plain.cpu()
	if err != nil {
		return err
	}
	err = r.spend(&spent, func() error {
		err := each(r.heartbeats, func(i int) error {
			var conditions []string
			for _, kind := range []string{"HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"} {
				conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":"True","reason":"Heartbeat","message":"%d","lastTransitionTime":%q}`,
					kind, i, time.Now().UTC().Format(time.RFC3339)))
			}
			return r.fleet.report(ctx, i%r.Clusters, `{"conditions":[`+strings.Join(conditions, ",")+`]}`)
		})
		if err != nil {
			return err
		}
		return r.waitUntilIdle(ctx)
	})
	if err != nil {
		return err
	}
	after, err := plain.cpu()
	if err != nil {
		return err
	}
	r.add(result{
		Row: "heartbeat", Work: "heartbeat, of a program with the same informers", Value: spent.cpu.Seconds() / max(after-before, 10*time.Millisecond).Seconds(),
		Unit: "× informers", Target: 1.3, Samples: r.heartbeats, Floor: ms(after-before) / float64(r.heartbeats),
	}, spent, r.heartbeats)
	return nil
}

// memory reports the peak of resident memory in the rows before it.
func (r *run) memory(context.Context) error {
	peak, err := r.process.peak()
	r.results = append(r.results, result{Row: "memory", Work: "peak resident memory", Value: peak, Unit: "MB", Target: 110, Samples: 1})
	return err
}

// measureChurn adds a cluster to a Placement of all clusters of a set, and counts the written
// pages. The name of the cluster sorts in the middle.
func (r *run) measureChurn(ctx context.Context) error {
	joins := r.repeats
	r.printStep("churn: %d clusters", r.churn)
	member := func(i int) *v1alpha1.ManagedCluster {
		return fixture.Cluster(fmt.Sprintf("churn-%05d", i)).Set(churnNamespace).Obj()
	}
	joiner := member(r.churn / 2)
	err := each(r.churn, func(i int) error {
		if i == r.churn/2 {
			return nil
		}
		return r.hub.Create(ctx, member(i))
	})
	if err != nil {
		return fmt.Errorf("creating clusters: %w", err)
	}
	pl := fixture.Placement(churnNamespace, "churn").Obj()
	pl.UID, pl.Generation = "", 0
	if err := r.hub.Create(ctx, pl); err != nil {
		return fmt.Errorf("creating the Placement: %w", err)
	}
	key := client.ObjectKeyFromObject(pl)
	until := func(n int) error {
		w := r.observer.expect([]client.ObjectKey{key}, func(v *view) bool { return v.clusters() == n })
		if _, err := r.wait(ctx, w); err != nil {
			return err
		}
		return r.waitUntilIdle(ctx)
	}
	if err := until(r.churn - 1); err != nil {
		return err
	}
	r.printStep("churn: %d joins", joins)
	most := 0
	var spent effort
	for range joins {
		var once effort
		err := r.spend(&once, func() error {
			if err := r.hub.Create(ctx, joiner.DeepCopy()); err != nil {
				return fmt.Errorf("joining: %w", err)
			}
			return until(r.churn)
		})
		if err != nil {
			return err
		}
		most = max(most, once.pages)
		spent.cpu, spent.cycles, spent.counted = spent.cpu+once.cpu, spent.cycles+once.cycles, once.counted
		spent.writes = spent.plus(once.writes)
		if err := r.hub.Delete(ctx, joiner.DeepCopy()); err != nil {
			return fmt.Errorf("leaving: %w", err)
		}
		if err := until(r.churn - 1); err != nil {
			return err
		}
	}
	r.add(result{
		Row: "churn", Work: fmt.Sprintf("one cluster joins a Placement of %d", r.churn-1), Value: float64(most), Unit: "page writes", Target: 1, Samples: joins,
	}, spent, joins)
	return nil
}
