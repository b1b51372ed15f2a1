package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// failback is a Placement with the tiers eu and us whose tier eu fails and comes back.
type failback struct {
	t      *testing.T
	inv    *inventory.Inventory
	s      *scheduler.Scheduler
	policy *berthv1alpha1.SelectionPolicy
	now    time.Time
	// restart drops what is only in memory. published are the clusters on the page.
	restart   func()
	published []string
}

func newFailback(t *testing.T, after *int64) *failback {
	f := &failback{t: t, policy: policyFor("p", selectionSpec{Tiers: inTiers("eu", "us"), FailbackAfterSeconds: after}), now: fixture.Now}
	f.restart = func() {
		f.s, f.inv = newScheduler(f.t), fleet(fixture.Placement("ns", "p").Number(1), inRegion("c1", "eu"), inRegion("c2", "us"))
		f.inv.Update(f.policy)
	}
	f.restart()
	f.expect("c1", 0)
	f.fail("c1")
	f.expect("c2", 0)
	f.now = f.now.Add(time.Minute)
	f.recover("c1")
	return f
}

func (f *failback) cluster(name string) fixture.ClusterBuilder {
	region := "us"
	if name == "c1" || name == "c2" && f.policy.Spec.TierMode == berthv1alpha1.TierOverflow {
		region = "eu"
	}
	return inRegion(name, region).Set("s1")
}

func (f *failback) fail(name string) {
	f.inv.Update(f.cluster(name).Taint("t", "", v1alpha1.TaintEffectNoSelect).Obj())
}

func (f *failback) recover(name string) { f.inv.Update(f.cluster(name).Obj()) }

// publish makes clusters those that Berth published last.
func (f *failback) publish(names ...string) {
	f.published = names
	f.inv.SetPublished(f.inv.Subject(key), framework.PublishedOn(nil))
	if len(names) > 0 {
		f.inv.SetPublished(f.inv.Subject(key), &framework.Published{Names: names, Digest: framework.DigestOf(names)})
	}
}

func (f *failback) attempt() *scheduler.Attempt {
	return f.s.Attempt(context.Background(), key.Namespace, func() *framework.Snapshot { return f.inv.Snapshot(key, f.now, nil) })
}

// expect decides, writes the status and the page, and expects clusters and the time of the next
// attempt.
func (f *failback) expect(clusters string, next time.Duration) {
	f.t.Helper()
	a := f.attempt()
	f.policy = f.policy.DeepCopy()
	f.policy.Status = *a.SelectionStatus(f.policy)
	f.inv.Update(f.policy)
	if f.policy.Spec.TierMode == berthv1alpha1.TierOverflow {
		f.publish(selected(a.Decision)...)
	}
	if diff := cmp.Diff(strings.Fields(clusters), selected(a.Decision)); diff != "" {
		f.t.Errorf("selected at %s (-want +got):\n%s", f.now, diff)
	}
	at := a.State.NextAttempt()
	if got := at.Sub(f.now); next == 0 != at.IsZero() || next != 0 && got != next {
		f.t.Errorf("the next attempt is at %s, want in %s", at, next)
	}
}

// request permits the failback as of a time.
func (f *failback) request(at time.Time) {
	f.policy = f.policy.DeepCopy()
	f.policy.Annotations = map[string]string{berthv1alpha1.FailbackRequestedAnnotation: at.Format(time.RFC3339)}
	f.inv.Update(f.policy)
}

func TestFailback(t *testing.T) {
	for name, tc := range map[string]struct {
		after *int64
		run   func(*failback)
	}{
		"after the default": {nil, func(f *failback) {
			f.expect("c2", 5*time.Minute)
			f.now = f.now.Add(299 * time.Second)
			f.expect("c2", time.Second)
			f.now = f.now.Add(time.Second)
			f.expect("c1", 0)
		}},
		"at once": {new(int64(0)), func(f *failback) { f.expect("c1", 0) }},
		"never":   {new(int64(-1)), func(f *failback) { f.expect("c2", 0) }},
		"never before a request": {new(int64(-1)), func(f *failback) {
			f.expect("c2", 0)
			f.now = f.now.Add(time.Second)
			f.request(f.now)
			f.expect("c1", 0)
		}},
		"an earlier request": {nil, func(f *failback) {
			f.request(f.now.Add(-time.Second))
			f.expect("c2", 5*time.Minute)
		}},
		"a request in the future": {new(int64(-1)), func(f *failback) {
			f.expect("c2", 0)
			f.request(f.now.Add(time.Hour))
			f.expect("c1", 0)
		}},
		"over a restart": {nil, func(f *failback) {
			f.expect("c2", 5*time.Minute)
			f.now = f.now.Add(100 * time.Second)
			f.restart()
			f.expect("c2", 200*time.Second)
			f.now = f.now.Add(200 * time.Second)
			f.expect("c1", 0)
		}},
		"a break starts the time again": {nil, func(f *failback) {
			f.expect("c2", 5*time.Minute)
			f.now = f.now.Add(time.Minute)
			f.fail("c1")
			f.expect("c2", 0)
			f.recover("c1")
			f.expect("c2", 5*time.Minute)
		}},
	} {
		t.Run(name, func(t *testing.T) { tc.run(newFailback(t, tc.after)) })
	}
}

// newOverflow returns a Placement for two clusters with the tiers eu (c1, c2) and us (c3, c4) that
// are filled in order. Cluster c2 left and comes back a minute later.
func newOverflow(t *testing.T, after *int64) *failback {
	spec := selectionSpec{Tiers: inTiers("eu", "us"), TierMode: berthv1alpha1.TierOverflow, FailbackAfterSeconds: after}
	f := &failback{t: t, policy: policyFor("p", spec), now: fixture.Now}
	f.restart = func() {
		f.s, f.inv = newScheduler(f.t), fleet(fixture.Placement("ns", "p").Number(2), inRegion("c1", "eu"), inRegion("c2", "eu"), inRegion("c3", "us"), inRegion("c4", "us"))
		f.inv.Update(f.policy)
		f.publish(f.published...)
	}
	f.restart()
	f.expect("c1 c2", 0)
	f.fail("c2")
	f.expect("c1 c3", 0)
	f.now = f.now.Add(time.Minute)
	f.recover("c2")
	return f
}

// TestOverflowFailback: a cluster of an earlier tier that left is taken again only after it has
// qualified for the delay.
func TestOverflowFailback(t *testing.T) {
	for name, tc := range map[string]struct {
		after *int64
		run   func(*failback)
	}{
		"after the default": {nil, func(f *failback) {
			f.expect("c1 c3", 5*time.Minute)
			f.now = f.now.Add(299 * time.Second)
			f.expect("c1 c3", time.Second)
			f.now = f.now.Add(time.Second)
			f.expect("c1 c2", 0)
			f.fail("c3")
			f.expect("c1 c2", 0)
		}},
		"at once": {new(int64(0)), func(f *failback) { f.expect("c1 c2", 0) }},
		"never, but on request": {new(int64(-1)), func(f *failback) {
			f.expect("c1 c3", 0)
			f.now = f.now.Add(24 * time.Hour)
			f.expect("c1 c3", 0)
			f.request(f.now)
			f.expect("c1 c2", 0)
		}},
		"an earlier request": {nil, func(f *failback) {
			f.request(f.now.Add(-time.Second))
			f.expect("c1 c3", 5*time.Minute)
		}},
		"a request in the future": {nil, func(f *failback) {
			f.request(f.now.Add(time.Hour))
			f.expect("c1 c2", 0)
		}},
		"over restarts, while it is away and while it waits": {nil, func(f *failback) {
			f.fail("c2")
			f.expect("c1 c3", 0)
			f.restart()
			f.fail("c2")
			f.expect("c1 c3", 0)
			f.recover("c2")
			f.expect("c1 c3", 5*time.Minute)
			f.now = f.now.Add(100 * time.Second)
			f.restart()
			f.expect("c1 c3", 200*time.Second)
			f.now = f.now.Add(200 * time.Second)
			f.restart()
			f.expect("c1 c2", 0)
		}},
		"a break starts the time again": {nil, func(f *failback) {
			f.expect("c1 c3", 5*time.Minute)
			f.now = f.now.Add(4 * time.Minute)
			f.fail("c2")
			f.expect("c1 c3", 0)
			f.recover("c2")
			f.expect("c1 c3", 5*time.Minute)
		}},
		"a delayed cluster is better than none": {nil, func(f *failback) {
			f.expect("c1 c3", 5*time.Minute)
			f.fail("c3")
			f.fail("c4")
			f.expect("c1 c2", 5*time.Minute)
			f.recover("c3")
			f.expect("c1 c2", 0)
		}},
		"a new cluster does not wait": {nil, func(f *failback) {
			f.fail("c2")
			f.expect("c1 c3", 0)
			f.inv.Update(inRegion("c9", "eu").Set("s1").Obj())
			f.expect("c1 c9", 0)
		}},
		"nor one of the last tier": {nil, func(f *failback) {
			f.fail("c2")
			f.fail("c3")
			f.expect("c1 c4", 0)
			f.recover("c3")
			f.fail("c4")
			f.expect("c1 c3", 0)
		}},
		"a cluster that was deleted is new": {nil, func(f *failback) {
			f.fail("c2")
			f.expect("c1 c3", 0)
			f.inv.Delete(inRegion("c2", "eu").Set("s1").Obj())
			f.expect("c1 c3", 0)
			f.recover("c2")
			f.expect("c1 c2", 0)
		}},
		"without an attempt in between, it did not leave": {nil, func(f *failback) {
			f.now = f.now.Add(time.Hour)
			f.expect("c1 c3", 5*time.Minute)
			f.now = f.now.Add(5 * time.Minute)
			f.expect("c1 c2", 0)
			f.fail("c2")
			f.recover("c2")
			f.expect("c1 c2", 0)
		}},
	} {
		t.Run(name, func(t *testing.T) { tc.run(newOverflow(t, tc.after)) })
	}
}

// TestOverflowFailbackIsExplained: the verdict, the status and the condition say when the cluster
// is taken again.
func TestOverflowFailbackIsExplained(t *testing.T) {
	for name, tc := range map[string]struct {
		after           *int64
		verdict, sooner string
	}{
		"by time":    {nil, "qualifies again since 2026-08-01T12:01:00Z and is taken again from 2026-08-01T12:06:00Z", "from 2026-08-01T12:06:00Z"},
		"on request": {new(int64(-1)), "qualifies again since 2026-08-01T12:01:00Z and is taken again on request", "on request"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOverflow(t, tc.after)
			a := f.attempt()
			for _, v := range f.s.Explain(context.Background(), a.Decision, "c2") {
				if !strings.Contains(v.Reason, tc.verdict) {
					t.Errorf("the verdict is %q", v.Reason)
				}
			}
			status := a.SelectionStatus(f.policy)
			c := meta.FindStatusCondition(status.Conditions, berthv1alpha1.SelectionTierSufficient)
			if want := "Tier eu has enough qualifying clusters; clusters that left and qualify again: 1, the first is taken again " + tc.sooner; c.Message != want {
				t.Errorf("the condition is %q, want %q", c.Message, want)
			}
			since := metav1.NewTime(f.now)
			want := []berthv1alpha1.SelectionTierStatus{
				{Name: "eu", Qualifying: 2, SufficientSince: &since, Used: true, Left: []berthv1alpha1.LeftCluster{{Name: "c2", QualifyingSince: &since}}, Clusters: []string{"c1"}},
				{Name: "us", Qualifying: 2, Used: true, Clusters: []string{"c3"}},
			}
			if diff := cmp.Diff(want, status.Tiers); diff != "" {
				t.Errorf("status.tiers (-want +got):\n%s", diff)
			}
		})
	}
}
