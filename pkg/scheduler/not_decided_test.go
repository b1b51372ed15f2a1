package scheduler_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestUndecidedPlacementTakesNothing: what a held change reserved is free once its Placement is not
// decided any more, also after a restart, and reserved again when it is.
func TestUndecidedPlacementTakesNothing(t *testing.T) {
	disable := func(pl *v1alpha1.Placement) {
		pl.Annotations = map[string]string{v1alpha1.PlacementDisableAnnotation: "true"}
	}
	for name, stop := range map[string]func(pl *v1alpha1.Placement){
		"disabled": disable,
		"terminating": func(pl *v1alpha1.Placement) {
			pl.DeletionTimestamp, pl.Finalizers = &metav1.Time{Time: fixture.Now}, []string{"x/y"}
		},
	} {
		for _, taken := range []string{"quota", "capacity"} {
			for _, restart := range []bool{false, true} {
				t.Run(strings.Join([]string{name, taken, map[bool]string{true: "restart"}[restart]}, " "), func(t *testing.T) {
					f := newFleetAtRest(t, taken == "quota", framework.NewStatus(framework.Wait, "not yet"), nil)
					if taken == "capacity" {
						f.store(dependencies["requests"]("p0", ""))
						f.store(dependencies["requests"]("p1", ""))
					}
					first := fixture.Placement("ns", "p0").Obj()
					first.UID = "p0"
					f.store(first)
					f.run(60)
					f.gate.answer = nil
					f.store(fixture.Placement("ns", "p1").Number(1).Obj())
					f.clock.Step(time.Minute)
					if f.run(60); strings.Contains(f.pages.listed(), " c") {
						t.Fatalf("what is reserved is given away: %s", f.pages.listed())
					}
					next := first.DeepCopy()
					stop(next)
					f.store(next)
					if restart {
						f.start()
					}
					f.run(60)
					f.clock.Step(time.Minute)
					f.run(60)
					if got := f.pages.listed(); !strings.Contains(got, "p1-decision-1: c") {
						t.Errorf("published: %s", got)
					}
				})
			}
		}
	}
}
