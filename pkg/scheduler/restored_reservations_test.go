package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/scheduler/plan"
	"github.com/berth-dev/berth/test/fixture"
)

var p0, p1 = inventory.Key{Namespace: "ns", Name: "p0"}, inventory.Key{Namespace: "ns", Name: "p1"}

// hold stores p0 as it is built, and runs attempts while Permit holds its change.
func (f *fleetAtRest) hold(b fixture.PlacementBuilder) {
	f.gate.answer = framework.NewStatus(framework.Wait, "not yet")
	f.store(b.Obj())
	f.run(20)
	f.gate.answer = nil
	if f.outcomes[p0] != plan.Held {
		f.t.Fatalf("p0 is %s, want Held", f.outcomes[p0])
	}
}

// roll stores a policy with small steps and p0, then replaces its clusters as far as they go.
func (f *fleetAtRest) roll() {
	f.store(&berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "careful"}, Spec: berthv1alpha1.DisruptionPolicySpec{
		PlacementSelector: &metav1.LabelSelector{}, MaxSurge: new(intstr.FromInt32(1)), MinReadySeconds: 600,
	}})
	f.store(fixture.Placement("ns", "p0").Number(2).Predicate(clusters("c0", "c1")).Obj())
	f.run(20)
	// A cluster that is not ready yet would leave at once.
	f.clock.Step(time.Hour)
	f.store(fixture.Placement("ns", "p0").Number(2).Generation(2).Predicate(clusters("c2", "c3")).Obj())
	f.run(20)
	if f.outcomes[p0] != plan.Progressing {
		f.t.Fatalf("p0 is %s, want Progressing", f.outcomes[p0])
	}
}

func clusters(names ...string) fixture.Match {
	return fixture.MatchLabelExpression("name", metav1.LabelSelectorOpIn, names...)
}

// end rejects the held changes.
func (f *fleetAtRest) end() {
	for _, name := range slices.Sorted(maps.Keys(f.records)) {
		if record := f.records[name]; record.Status.Phase == berthv1alpha1.PhaseHeld {
			record = record.DeepCopy()
			record.Spec.Approval = &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Rejected, By: "ann"}
			f.version++
			record.ResourceVersion = fmt.Sprint(f.version)
			f.records[name] = record
			f.enqueue(f.inv.Update(record.DeepCopy()))
		}
	}
}

// TestRestartKeepsReservations: after a restart, the Placement that is decided first sees what was
// reserved for the open changes of others, until they end.
func TestRestartKeepsReservations(t *testing.T) {
	requests := func(name string) *berthv1alpha1.SelectionPolicy { return dependencies["requests"](name, "") }
	grown := func(f *fleetAtRest) {
		f.store(fixture.Placement("ns", "p0").Number(1).Obj())
		f.run(20)
		f.hold(fixture.Placement("ns", "p0").Number(2).Generation(2))
	}
	two := fixture.Placement("ns", "p1").Number(2)
	for name, tc := range map[string]struct {
		queue     bool
		before    func(*fleetAtRest)
		placement fixture.PlacementBuilder
		// want are the clusters of p1, wantLater those after the change of p0 has ended.
		want, wantLater string
	}{
		"quota": {queue: true, before: grown, placement: two, want: "", wantLater: "c1"},
		"quota, before the first publication": {
			queue: true, before: func(f *fleetAtRest) { f.hold(fixture.Placement("ns", "p0").Number(2)) }, placement: two, want: "", wantLater: "c0 c1",
		},
		"decisions that Balance counts": {before: grown, placement: two, want: "c2 c3", wantLater: "c2 c3"},
		"decisions of a change in steps": {
			before: (*fleetAtRest).roll, placement: fixture.Placement("ns", "p1").Number(1).Predicate(clusters("c0", "c3")), want: "c0", wantLater: "c0",
		},
		"requests": {
			before: func(f *fleetAtRest) {
				f.store(requests("p0"))
				f.store(requests("p1"))
				f.hold(fixture.Placement("ns", "p0").Number(3))
			}, placement: two, want: "c3", wantLater: "c0 c3",
		},
		"apartFrom": {
			before: func(f *fleetAtRest) {
				f.store(dependencies["apartFrom"]("p1", "p0"))
				f.hold(fixture.Placement("ns", "p0").Number(3))
			}, placement: two, want: "c3", wantLater: "c0 c3",
		},
		"with, before the first publication": {
			before: func(f *fleetAtRest) {
				f.store(dependencies["with"]("p1", "p0"))
				f.hold(fixture.Placement("ns", "p0").Number(1).Predicate(clusters("c0")))
			}, placement: two, want: "c0", wantLater: "c0 c1",
		},
		"with": {
			before: func(f *fleetAtRest) {
				f.store(dependencies["with"]("p1", "p0"))
				grown(f)
			}, placement: two, want: "c0", wantLater: "c0",
		},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				f := newFleetAtRest(t, tc.queue, nil, nil)
				tc.before(f)
				if restart {
					f.start()
				}
				f.store(tc.placement.Obj())
				f.attempt(p1)
				if got := strings.Join(f.inv.Subject(p1).LastNames(), " "); got != tc.want {
					t.Errorf("p1 is decided first and has %q, want %q", got, tc.want)
				}
				f.end()
				f.run(20)
				if got := strings.Join(f.inv.Subject(p1).LastNames(), " "); got != tc.wantLater {
					t.Errorf("p1 has %q after the change of p0 ended, want %q", got, tc.wantLater)
				}
			})
		}
	}
}

// TestRestoredReservationsEnd: what is reserved again after a restart is given back, however the
// change ends.
func TestRestoredReservationsEnd(t *testing.T) {
	for name, end := range map[string]func(*fleetAtRest){
		"rejected": (*fleetAtRest).end,
		"nothing changes any more": func(f *fleetAtRest) {
			f.store(fixture.Placement("ns", "p0").Number(1).Generation(3).Obj())
		},
		"misconfigured": func(f *fleetAtRest) {
			pl := fixture.Placement("ns", "p0").Number(2).Generation(3).Obj()
			pl.Spec.PrioritizerPolicy.Mode = "Fuzzy"
			f.store(pl)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleetAtRest(t, true, nil, nil)
			f.store(fixture.Placement("ns", "p0").Number(1).Obj())
			f.run(20)
			f.hold(fixture.Placement("ns", "p0").Number(2).Generation(2))
			f.start()
			count := func() int32 {
				s := f.snapshot(p1)
				return s.Counts.ByIndex.Get(s.Cluster("c1").Index)
			}
			f.store(fixture.Placement("ns", "p1").Number(2).Obj())
			if count() != 1 {
				t.Fatal("the held change has no reservation")
			}
			end(f)
			f.attempt(p0)
			if n := count(); n != 0 {
				t.Errorf("c1 counts %d", n)
			}
			f.run(20)
			if got := f.inv.Subject(p1).LastNames(); !slices.Equal(got, []string{"c1"}) {
				t.Errorf("p1 has %q", got)
			}
		})
	}
}

// TestRevokedKeepsTheReservation: the removal of a revoked cluster, while the Placement's own
// attempt must wait, keeps what is reserved for its held change.
func TestRevokedKeepsTheReservation(t *testing.T) {
	for _, revoke := range []bool{false, true} {
		f := newFleetAtRest(t, true, nil, nil)
		f.store(fixture.Placement("ns", "p0").Number(1).Obj())
		f.run(20)
		f.hold(fixture.Placement("ns", "p0").Number(2).Generation(2))
		if revoke {
			f.update(fixture.Cluster("c0").Label("name", "c0").Obj())
		}
		a := f.scheduler.RemoveRevoked(t.Context(), "ns", func() *framework.Snapshot { return f.snapshot(p0) })
		if got := strings.Join(f.inv.Subject(p0).LastNames(), " "); revoke && got != "" || !revoke && got != "c0" {
			t.Fatalf("p0 has %q: %s %v", got, a.Outcome, a.Err.Err())
		}
		f.store(fixture.Placement("ns", "p1").Number(2).Obj())
		f.attempt(p1)
		if got := f.inv.Subject(p1).LastNames(); len(got) > 1 || !revoke && len(got) > 0 {
			t.Errorf("revoke %t: p1 has %q", revoke, got)
		}
	}
}
