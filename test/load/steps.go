package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// stepRows are the rows of changes in steps. They need Berth's DisruptionPolicies.
var stepRows = []string{"steps", "evictions", "drain", "busy", "busy-policies"}

// observedKinds returns the kinds to watch. Records and evictions are watched only for the rows
// that count them, because each watch costs the API server time.
func (r *run) observedKinds() []client.Object {
	kinds := []client.Object{&v1alpha1.PlacementDecision{}, &v1alpha1.Placement{}}
	if slices.ContainsFunc(stepRows, func(row string) bool { return slices.Contains(r.rows, row) }) {
		kinds = append(kinds, &berthv1alpha1.PlacementChange{}, &berthv1alpha1.PlacementEviction{})
	}
	return kinds
}

// stepSample is one sample of a row of changes in steps.
type stepSample struct {
	// keys are the Placements that change, and done is true for one whose change is complete.
	keys []types.NamespacedName
	done func(*view) bool
	// trigger makes the change, and undo reverts it, unmeasured.
	trigger, undo func() error
}

// stepRow is a row of changes in steps: its floor is the time of a plain client for the least page
// writes of a sample.
type stepRow struct {
	row, work  string
	leastPages int
	floor      time.Duration
	prepare    func(n int) (stepSample, error)
}

// measureStepRow measures the samples of a row: from the acknowledged trigger until a watch has
// shown the last page and status, and the work until the controller is idle.
func (r *run) measureStepRow(ctx context.Context, row stepRow) error {
	var durations []time.Duration
	var spent effort
	peak := 0.0
	for n := range r.repeats {
		sample, err := row.prepare(n)
		if err != nil {
			return err
		}
		// Records of earlier changes are written a second after the last attempt.
		if err := r.idle(ctx, 600*time.Millisecond, 20*time.Millisecond); err != nil {
			return err
		}
		r.printStep("%s: %d of %d", row.row, n+1, r.repeats)
		if err := r.process.resetPeak(); err != nil {
			return fmt.Errorf("resetting the peak of memory: %w", err)
		}
		err = r.spend(&spent, func() error {
			w := r.observer.expect(sample.keys, sample.done)
			begin := time.Now()
			if err := sample.trigger(); err != nil {
				return err
			}
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
		now, err := r.process.peak()
		if err != nil {
			return err
		}
		peak = max(peak, now)
		if err := sample.undo(); err != nil {
			return err
		}
	}
	n, elapsed := float64(r.repeats), quantile(durations, 0.5)
	r.add(result{
		Row: row.row, Work: row.work, Value: elapsed.Seconds() / row.floor.Seconds(), Unit: times, Samples: r.repeats,
		Took: ms(elapsed), Floor: ms(row.floor),
		Steps: &stepsResult{
			LeastPages: float64(row.leastPages), Records: float64(spent.records) / n, Evictions: float64(spent.evictions) / n, Peak: peak,
		},
	}, spent, r.repeats)
	return nil
}

// createPolicy creates a DisruptionPolicy and returns when the controller applies it to the
// Placements that it selects.
func (r *run) createPolicy(ctx context.Context, namespace, name string, surge intstr.IntOrString, selects map[string]string, placements int) (remove func() error, err error) {
	policy := fixture.ApprovalPolicy(namespace, name)
	policy.Spec.Approval, policy.Spec.Placements = "", nil
	policy.Spec.PlacementSelector = &metav1.LabelSelector{MatchLabels: selects}
	policy.Spec.MaxSurge = &surge
	if err := r.hub.Create(ctx, policy); err != nil {
		return nil, fmt.Errorf("creating a DisruptionPolicy: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := r.hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		return int(policy.Status.Placements) == placements, err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for a DisruptionPolicy: %w", err)
	}
	return func() error { return r.hub.Delete(ctx, policy) }, r.waitUntilIdle(ctx)
}

// Colors of the clusters in the steps row: the Placement moves from one half to the other.
const (
	colorLabel = "load.berth.dev/color"
	blue       = "blue"
	green      = "green"
)

// measureSteps replaces all clusters of one Placement in ten steps: a fifth of them is added, then
// as many are removed, and so on.
func (r *run) measureSteps(ctx context.Context) error {
	pl, remove, err := r.createStepsFleet(ctx)
	if err != nil {
		return err
	}
	keys := []types.NamespacedName{client.ObjectKeyFromObject(pl)}
	done := func(first string) func(*view) bool {
		return func(v *view) bool {
			return v.clusters() == r.rollout && v.lists(first) && v.satisfied && !v.progressing && int(v.selected) == r.rollout
		}
	}
	if _, err := r.wait(ctx, r.observer.expect(keys, done("steps-00000"))); err != nil {
		return err
	}
	removePolicy, err := r.createPolicy(ctx, churnNamespace, "steps", intstr.FromString("20%"), pl.Labels, 1)
	if err != nil {
		return err
	}
	perStep := (r.rollout + 4) / 5
	steps := 2 * ((r.rollout + perStep - 1) / perStep)
	pages := steps * ((perStep + v1alpha1.MaxDecisionsPerPage - 1) / v1alpha1.MaxDecisionsPerPage)
	floor, err := r.floor.measurePages(ctx, pages, min(r.rollout, v1alpha1.MaxDecisionsPerPage))
	if err != nil {
		return err
	}
	before, after := blue, green
	err = r.measureStepRow(ctx, stepRow{
		row: "steps", work: fmt.Sprintf("a change of all %d clusters of a Placement in %d steps", r.rollout, steps), leastPages: pages, floor: floor,
		prepare: func(int) (stepSample, error) {
			first := "steps-00001"
			if after == blue {
				first = "steps-00000"
			}
			return stepSample{
				keys: keys, done: done(first),
				trigger: func() error {
					return r.hub.Patch(ctx, r.stepsPlacement(after), client.MergeFrom(r.stepsPlacement(before)))
				},
				undo: func() error { before, after = after, before; return nil },
			}, nil
		},
	})
	if err != nil {
		return err
	}
	if err := removePolicy(); err != nil {
		return err
	}
	return remove()
}

// createStepsFleet creates the clusters of the steps row, half of them blue, and a Placement of the
// blue ones.
func (r *run) createStepsFleet(ctx context.Context) (pl *v1alpha1.Placement, remove func() error, err error) {
	n := 2 * r.rollout
	r.printStep("steps: %d clusters", n)
	member := func(i int) *v1alpha1.ManagedCluster {
		color := blue
		if i%2 == 1 {
			color = green
		}
		return fixture.Cluster(fmt.Sprintf("steps-%05d", i)).Set(churnNamespace).Label(colorLabel, color).Obj()
	}
	if err := each(n, func(i int) error { return r.hub.Create(ctx, member(i)) }); err != nil {
		return nil, nil, fmt.Errorf("creating clusters: %w", err)
	}
	pl = r.stepsPlacement(blue)
	if err := r.hub.Create(ctx, pl); err != nil {
		return nil, nil, fmt.Errorf("creating the Placement: %w", err)
	}
	return pl, func() error {
		if err := r.hub.Delete(ctx, pl); err != nil {
			return err
		}
		return each(n, func(i int) error { return r.hub.Delete(ctx, member(i)) })
	}, nil
}

func (r *run) stepsPlacement(color string) *v1alpha1.Placement {
	pl := fixture.Placement(churnNamespace, "steps").Number(int32(r.rollout)).Predicate(fixture.MatchLabel(colorLabel, color)).Obj()
	pl.UID, pl.Generation, pl.Labels = "", 0, map[string]string{"row": "steps"}
	return pl
}

// measureEvictions creates many PlacementEvictions at once, each for another Placement. With the
// default budget a replacement is added first, so each takes two steps of one page write. Steady
// keeps the replacements: Balance would replace some after other evictions.
func (r *run) measureEvictions(ctx context.Context) error {
	n := min(r.evictions, r.Placements)
	r.printStep("evictions: preparing")
	if err := r.fleet.setShape(ctx, steady); err != nil {
		return err
	}
	removePolicy, err := r.createPolicy(ctx, namespace, "budget", intstr.FromString("25%"), nil, r.Placements)
	if err != nil {
		return err
	}
	keys := r.fleet.keys()[:n]
	err = r.measureStepRow(ctx, stepRow{
		row: "evictions", work: fmt.Sprintf("%d PlacementEvictions at once", n), leastPages: 2 * n, floor: r.pageFloor(2 * n),
		prepare: func(sample int) (stepSample, error) {
			objects := make([]*berthv1alpha1.PlacementEviction, n)
			for i, key := range keys {
				objects[i] = fixture.Eviction(namespace, fmt.Sprintf("eviction-%05d", i), key.Name, r.observer.firstCluster(key)).Obj()
				objects[i].UID, objects[i].CreationTimestamp = "", metav1.Time{}
			}
			return stepSample{
				keys: keys,
				done: func(v *view) bool { return v.executed > sample && v.clusters() == r.per && !v.progressing },
				trigger: func() error {
					return each(n, func(i int) error { return r.hub.Create(ctx, objects[i]) })
				},
				undo: func() error { return r.hub.removeAll(ctx, namespace, &berthv1alpha1.PlacementEviction{}) },
			}, nil
		},
	})
	if err != nil {
		return err
	}
	return removePolicy()
}

// measureDrain drains a cluster that all Placements have.
func (r *run) measureDrain(ctx context.Context) error {
	r.printStep("drain: preparing")
	drained := clusterName(0)
	restored := func(change func() error) error {
		if err := change(); err != nil {
			return err
		}
		_, err := r.wait(ctx, r.observer.expect(r.fleet.keys(), func(v *view) bool {
			return v.lists(drained) && v.clusters() == r.per && !v.progressing
		}))
		return err
	}
	if err := restored(func() error { return r.fleet.setShape(ctx, memory) }); err != nil {
		return err
	}
	removePolicy, err := r.createPolicy(ctx, namespace, "budget", intstr.FromString("25%"), nil, r.Placements)
	if err != nil {
		return err
	}
	taint := func(drains bool) error {
		before, after := r.fleet.cluster(0), r.fleet.cluster(0)
		taints := []v1alpha1.Taint{{Key: v1alpha1.DrainTaint, Effect: v1alpha1.TaintEffectNoSelect}}
		if before.Spec.Taints = taints; drains {
			before.Spec.Taints, after.Spec.Taints = nil, taints
		}
		return r.hub.Patch(ctx, after, client.MergeFrom(before))
	}
	err = r.measureStepRow(ctx, stepRow{
		row: "drain", work: fmt.Sprintf("a drain of a cluster that %d Placements have", r.Placements), leastPages: 2 * r.Placements, floor: r.pageFloor(2 * r.Placements),
		prepare: func(int) (stepSample, error) {
			return stepSample{
				keys:    r.fleet.keys(),
				done:    func(v *view) bool { return !v.lists(drained) && v.clusters() == r.per && !v.progressing },
				trigger: func() error { return taint(true) },
				undo:    func() error { return restored(func() error { return taint(false) }) },
			}, nil
		},
	})
	if err != nil {
		return err
	}
	return removePolicy()
}

// pageFloor returns the time of a plain client for n page writes.
func (r *run) pageFloor(n int) time.Duration {
	return quantile(r.pageFloors, 0.5) * time.Duration(n) / time.Duration(r.Placements)
}
